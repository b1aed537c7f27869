//! The HTTP endpoints of an operator: probes, metrics, diagnostics.
//!
//! | path | server | response |
//! |---|---|---|
//! | `/healthz`, `/healthz/<check>` | probes | whether the process is alive |
//! | `/readyz`, `/readyz/<check>` | probes | whether it does its work |
//! | `/metrics` | metrics | metrics as text |
//! | `/debug/windlass` | metrics | the state of every watch, queue and lease as JSON, if [enabled] |
//!
//! A probe responds with `ok`, or with status 500 and its failed checks. `?verbose` lists all
//! checks and the caches that are stale, and `?exclude=<check>` leaves a check out. The reason of a
//! failure is in the log only.
//!
//! Webhooks have a server of their own, see `windlass::webhook`.
//!
//! A server keeps at most 256 connections. One more closes the connection that has been idle for
//! the longest time, so that idle peers cannot keep probes and scrapes out.
//!
//! **Invariant:** request heads are limited in size and time, and only webhooks read request bodies.
//!
//! [enabled]: crate::Manager::serve_diagnostics

mod access;
mod connections;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "serve/no_tls.rs"]
mod tls;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "webhook")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::RwLock;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::manager::Checks;
use crate::metrics::{Format, Metrics};

pub(crate) use access::Access;
#[cfg(feature = "operator")]
pub(crate) use tls::Paths;
#[cfg(feature = "tls")]
pub use tls::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use tls::Tls;

pub(crate) use connections::Busy;
use connections::Connections;

/// How long a peer may take to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// The largest request head in bytes.
const HEAD_MAX: usize = 1 << 20;
/// How long webhooks are served after the manager has stopped.
#[cfg(feature = "webhook")]
const LINGER: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One listener and what it serves.
pub(crate) struct Server {
    name: &'static str,
    address: String,
    tls: Option<Tls>,
    access: Option<Access>,
    pages: Pages,
    bound: Arc<RwLock<Option<SocketAddr>>>,
    /// Whether connections are closed after their next response.
    #[cfg(feature = "webhook")]
    closing: AtomicBool,
    /// How long webhooks are served after the manager has stopped.
    #[cfg(feature = "webhook")]
    linger: Duration,
}

/// The pages of a server.
pub(crate) enum Pages {
    Probes(Checks),
    Metrics {
        metrics: Metrics,
        diagnostics: Option<Diagnostics>,
    },
    #[cfg(feature = "webhook")]
    Webhooks(crate::webhook::Webhooks),
}

/// Returns the content of the diagnostics page.
pub(crate) type Diagnostics = Box<dyn Fn() -> Value + Send + Sync>;

// === impl Server ===

impl Server {
    pub(crate) fn new(name: &'static str, address: &str, pages: Pages) -> Self {
        Self {
            name,
            address: address.into(),
            tls: None,
            access: None,
            pages,
            bound: Arc::default(),
            #[cfg(feature = "webhook")]
            closing: AtomicBool::new(false),
            #[cfg(feature = "webhook")]
            linger: LINGER,
        }
    }

    pub(crate) fn secure(mut self, tls: Option<Tls>, access: Option<Access>) -> Self {
        (self.tls, self.access) = (tls, access);
        self
    }

    /// Ends with the manager: whatever calls the server has been removed before.
    #[cfg(feature = "webhook")]
    pub(crate) fn without_linger(mut self) -> Self {
        self.linger = Duration::ZERO;
        self
    }

    /// Serves `/debug/windlass` next to the metrics.
    pub(crate) fn serve_diagnostics(&mut self, read: Diagnostics) {
        if let Pages::Metrics { diagnostics, .. } = &mut self.pages {
            *diagnostics = Some(read);
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The address the server listens on, once it does.
    pub(crate) fn bound(&self) -> Arc<RwLock<Option<SocketAddr>>> {
        self.bound.clone()
    }

    /// Starts to listen, and returns a function that serves until its token is cancelled.
    pub(crate) async fn listen(
        self,
    ) -> Result<impl FnOnce(CancellationToken) -> BoxFuture<'static, Result<()>>> {
        let listener = bind(&self.address).await.map_err(|e| {
            Error::Other(format!("{} cannot listen on {}: {e}", self.name, self.address).into())
        })?;
        let local = listener.local_addr()?;
        *self.bound.write() = Some(local);
        let secure = self.tls.is_some();
        tracing::info!(name = self.name, address = %local, secure, "starting server");
        Ok(move |stop: CancellationToken| -> BoxFuture<'static, Result<()>> {
            Box::pin(async move {
                let server = Arc::new(self);
                tokio::select! {
                    biased;
                    () = server.stopped(&stop) => {}
                    // Renewal must not depend on connections.
                    never = server.renew() => match never {},
                    never = server.clone().accept(listener) => match never {},
                }
                Ok(())
            })
        })
    }

    /// Waits until the server may end. Webhooks are served for some seconds more, because API servers
    /// learn late that a pod stops; each connection is closed after its next response.
    async fn stopped(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        #[cfg(feature = "webhook")]
        if let Pages::Webhooks(_) = &self.pages {
            self.closing.store(true, Ordering::Relaxed);
            tokio::time::sleep(self.linger).await;
        }
    }

    /// Serves renewed certificates.
    async fn renew(&self) -> Infallible {
        match &self.tls {
            Some(tls) => tls.follow().await,
            None => std::future::pending().await,
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) -> Infallible {
        let mut connections = Connections::default();
        loop {
            let accepted = tokio::select! {
                biased;
                () = connections.ended() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let server = self.clone();
                    connections.add(move |busy| server.connection(stream, busy));
                }
                Err(error) => {
                    // Most likely the process has no file descriptors left.
                    tracing::warn!(name = self.name, %error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection.
    pub(crate) async fn connection<S>(self: Arc<Self>, stream: S, busy: Busy)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(tls) = &self.tls else {
            return self.clone().http(TokioIo::new(stream), busy).await;
        };
        match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.clone().http(TokioIo::new(stream), busy).await,
            Ok(Err(error)) => tracing::debug!(name = self.name, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(name = self.name, "TLS handshake timed out"),
        }
    }

    async fn http<I>(self: Arc<Self>, io: I, busy: Busy)
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let name = self.name;
        let service = service_fn(move |request: Request<Incoming>| {
            let (server, busy) = (self.clone(), busy.clone());
            async move {
                let _guard = busy.begin();
                #[cfg(feature = "webhook")]
                if let Pages::Webhooks(webhooks) = &server.pages {
                    let mut response = webhooks.serve(request).await;
                    if server.closing.load(Ordering::Relaxed) {
                        let close = header::HeaderValue::from_static("close");
                        response.headers_mut().insert(header::CONNECTION, close);
                    }
                    return Ok::<_, Infallible>(response);
                }
                Ok::<_, Infallible>(server.respond(&request).await)
            }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_MAX);
        if let Err(error) = http.serve_connection(io, service).await {
            tracing::debug!(name, %error, "connection ended");
        }
    }

    async fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let plain = "text/plain; charset=utf-8";
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return response(StatusCode::METHOD_NOT_ALLOWED, plain, "only GET\n".into());
        }
        let path = request.uri().path();
        if let Some(access) = &self.access {
            let token = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
            if let Err((status, why)) = access.check(token, path, "get").await {
                return response(status, plain, format!("{why}\n"));
            }
        }
        match (&self.pages, path) {
            (Pages::Probes(checks), path) => {
                let query = request.uri().query().unwrap_or_default();
                let (status, body) = checks.respond(path, query).await;
                response(status, plain, body)
            }
            (Pages::Metrics { metrics, .. }, "/metrics") => {
                let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok());
                let format = Format::accepted(accept);
                response(StatusCode::OK, format.content_type(), metrics.encode_as(format))
            }
            (Pages::Metrics { diagnostics: Some(diagnostics), .. }, "/debug/windlass") => {
                response(StatusCode::OK, "application/json", format!("{:#}\n", diagnostics()))
            }
            _ => response(StatusCode::NOT_FOUND, plain, "404 page not found\n".into()),
        }
    }
}

/// Listens on an address; `:8081` means every IPv4 and IPv6 address.
async fn bind(address: &str) -> std::io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await };
    match bind_both(port) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            // No IPv6 on this machine, or an error that IPv4 reports as well.
            TcpListener::bind(format!("0.0.0.0:{port}")).await
        }
        bound => bound,
    }
}

/// Listens on every IPv4 and IPv6 address, whatever the default of the system is.
fn bind_both(port: &str) -> std::io::Result<TcpListener> {
    let address: SocketAddr = format!("[::]:{port}").parse().map_err(std::io::Error::other)?;
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let value = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    let nosniff = header::HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_port_alone_means_every_address_of_both_families() {
        let listener = bind(":0").await.expect("listens");
        let port = listener.local_addr().expect("has one").port();
        TcpStream::connect(("127.0.0.1", port)).await.expect("IPv4");
        // A machine without IPv6 listens on IPv4 alone.
        if TcpListener::bind("[::1]:0").await.is_ok() {
            TcpStream::connect(("::1", port)).await.expect("IPv6");
        }
        let error = bind(&format!(":{port}")).await.expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn idle_connections_do_not_keep_a_probe_out() {
        let server = Server::new("test", "127.0.0.1:0", Pages::Probes(Checks::default()));
        let bound = server.bound();
        let serve = server.listen().await.expect("listens");
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(stop.clone()));
        let address = bound.read().expect("listens");
        let mut idle = Vec::new();
        for _ in 0..=connections::CONNECTIONS_MAX {
            idle.push(TcpStream::connect(address).await.expect("connects"));
        }
        let probe = async {
            let mut stream = TcpStream::connect(address).await.expect("connects");
            let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("answered");
            answer
        };
        // Far less than an idle connection may last.
        let answer = tokio::time::timeout(HEAD_TIMEOUT / 2, probe).await.expect("in time");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        stop.cancel();
        serving.await.expect("no panic").expect("stops");
    }
}
