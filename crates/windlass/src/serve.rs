//! The HTTP endpoints of an operator: probes, metrics, diagnostics.
//!
//! | path | server | answers |
//! |---|---|---|
//! | `/healthz`, `/healthz/<check>` | probes | the process is alive |
//! | `/readyz`, `/readyz/<check>` | probes | it does its work |
//! | `/metrics` | metrics | text for scrapers |
//! | `/debug/windlass` | metrics | every watch, queue and lease as JSON |
//!
//! Probes answer `ok`, or 500 with the failing checks; `?verbose` lists all checks and `?exclude=`
//! leaves one out. Reasons are withheld, as upstream does; they are in the log.
//!
//! **Invariant:** a request has a bounded head, no body is read, and a silent peer is cut off.

mod access;
mod tls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::RwLock;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::metrics::{Format, Metrics};

pub(crate) use access::Access;
pub use tls::Tls;

/// How long a peer may take to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// The largest request head.
const HEAD_MAX: usize = 1 << 20;
/// Connections served at once; more wait.
const CONNECTIONS_MAX: usize = 256;

/// What a probe asks: `Err` says why the answer is no.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use windlass::serve::{Check, Checks};
/// let check: Check = Arc::new(|| Err("the disk is full".into()));
/// let checks = Checks::default();
/// checks.health("disk", move || check());
/// assert_eq!(checks.answer("/healthz", "").0, 500);
/// ```
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The named checks behind the probes; cheap to clone.
///
/// ```
/// use windlass::serve::Checks;
/// let checks = Checks::default();
/// checks.ready("queue", || Err("too long".into()));
/// let (status, body) = checks.answer("/readyz", "verbose");
/// assert_eq!(status, 500);
/// assert!(body.contains("[-]queue failed: reason withheld"));
/// ```
#[derive(Clone, Default)]
pub struct Checks {
    health: Arc<RwLock<BTreeMap<String, Check>>>,
    ready: Arc<RwLock<BTreeMap<String, Check>>>,
}

/// One listener and what it serves.
pub(crate) struct Server {
    name: &'static str,
    address: String,
    tls: Option<Tls>,
    access: Option<Access>,
    pages: Arc<Pages>,
    bound: Arc<RwLock<Option<SocketAddr>>>,
}

/// What a server answers from.
pub(crate) enum Pages {
    Probes(Checks),
    Metrics { metrics: Metrics, diagnostics: Box<dyn Fn() -> Value + Send + Sync> },
}

// === impl Checks ===

impl Checks {
    /// Adds a liveness check.
    pub fn health(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.health.write().insert(name.into(), Arc::new(check));
    }

    /// Adds a readiness check.
    pub fn ready(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.ready.write().insert(name.into(), Arc::new(check));
    }

    /// Adds a liveness check unless there is one of that name.
    pub(crate) fn usual_health(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.health.write().entry(name.into()).or_insert_with(|| Arc::new(check));
    }

    /// Adds a readiness check unless there is one of that name.
    pub(crate) fn usual_ready(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.ready.write().entry(name.into()).or_insert_with(|| Arc::new(check));
    }

    /// Runs the checks of a path such as `/readyz/cache?verbose`.
    ///
    /// ```
    /// use windlass::serve::Checks;
    /// let checks = Checks::default();
    /// checks.health("ping", || Ok(()));
    /// checks.health("disk", || Err("it is full".into()));
    /// let (status, body) = checks.answer("/healthz/ping", "");
    /// assert_eq!((status.as_u16(), body.as_str()), (200, "ok"));
    /// assert_eq!(checks.answer("/healthz", "exclude=disk").0, 200);
    /// assert_eq!(checks.answer("/healthz/nope", "").0, 404);
    /// ```
    pub fn answer(&self, path: &str, query: &str) -> (StatusCode, String) {
        let (checks, root, rest) = match path.trim_matches('/').split_once('/') {
            Some(("healthz", rest)) => (&self.health, "healthz", rest),
            Some(("readyz", rest)) => (&self.ready, "readyz", rest),
            None if path.trim_matches('/') == "healthz" => (&self.health, "healthz", ""),
            None if path.trim_matches('/') == "readyz" => (&self.ready, "readyz", ""),
            _ => return (StatusCode::NOT_FOUND, "404 page not found\n".into()),
        };
        let mut checks: BTreeMap<String, Check> = checks.read().clone();
        if checks.is_empty() {
            checks.insert("ping".into(), Arc::new(|| Ok(())));
        }
        if !rest.is_empty() {
            return match checks.get(rest) {
                Some(check) => single(root, rest, check),
                None => (StatusCode::NOT_FOUND, "404 page not found\n".into()),
            };
        }
        let excluded: Vec<&str> =
            query.split('&').filter_map(|part| part.strip_prefix("exclude=")).collect();
        let verbose =
            query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        all(root, &checks, &excluded, verbose)
    }
}

fn single(root: &str, name: &str, check: &Check) -> (StatusCode, String) {
    match check() {
        Ok(()) => (StatusCode::OK, "ok".into()),
        Err(reason) => {
            tracing::debug!(root, check = name, reason, "probe failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n".into())
        }
    }
}

fn all(
    root: &str,
    checks: &BTreeMap<String, Check>,
    excluded: &[&str],
    verbose: bool,
) -> (StatusCode, String) {
    let mut lines = String::new();
    let mut failed = false;
    for (name, check) in checks {
        if excluded.contains(&name.as_str()) {
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        match check() {
            Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
            Err(reason) => {
                failed = true;
                tracing::info!(root, check = name, reason, "probe failed");
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
        }
    }
    if failed {
        return (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{root} check failed\n"));
    }
    if verbose {
        return (StatusCode::OK, format!("{lines}{root} check passed\n"));
    }
    (StatusCode::OK, "ok".into())
}

// === impl Server ===

impl Server {
    pub(crate) fn new(name: &'static str, address: &str, pages: Pages) -> Self {
        let bound = Arc::default();
        let pages = Arc::new(pages);
        Self { name, address: address.into(), tls: None, access: None, pages, bound }
    }

    pub(crate) fn secure(mut self, tls: Option<Tls>, access: Option<Access>) -> Self {
        (self.tls, self.access) = (tls, access);
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Where the server listens, once it does.
    pub(crate) fn bound(&self) -> Arc<RwLock<Option<SocketAddr>>> {
        self.bound.clone()
    }

    /// Listens, and returns the task that serves.
    pub(crate) async fn listen(
        self,
    ) -> Result<impl FnOnce(CancellationToken) -> futures::future::BoxFuture<'static, Result<()>>>
    {
        let listener = bind(&self.address).await.map_err(|e| {
            Error::Other(format!("{} cannot listen on {}: {e}", self.name, self.address).into())
        })?;
        let local = listener.local_addr()?;
        *self.bound.write() = Some(local);
        let secure = self.tls.is_some();
        tracing::info!(name = self.name, address = %local, secure, "starting server");
        Ok(move |stop: CancellationToken| {
            let serve: futures::future::BoxFuture<'static, Result<()>> =
                Box::pin(async move { self.serve(listener, stop).await });
            serve
        })
    }

    async fn serve(self, listener: TcpListener, stop: CancellationToken) -> Result<()> {
        let limit = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
        let server = Arc::new(self);
        let tls = server.tls.clone();
        let follow = async {
            match &tls {
                Some(tls) => tls.follow(stop.clone()).await,
                None => stop.cancelled().await,
            }
        };
        tokio::pin!(follow);
        loop {
            let Ok(permit) = limit.clone().acquire_owned().await else { return Ok(()) };
            let accepted = tokio::select! {
                biased;
                () = &mut follow => return Ok(()),
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: others have to end first.
                    tracing::warn!(name = server.name, %error, "connection not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (server, stop) = (server.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = server.connection(stream) => {}
                    () = stop.cancelled() => {}
                }
                drop(permit);
            });
        }
    }

    async fn connection(self: Arc<Self>, stream: tokio::net::TcpStream) {
        match &self.tls {
            None => self.clone().http(TokioIo::new(stream)).await,
            Some(tls) => {
                let accept = tokio::time::timeout(HEAD_TIMEOUT, tls.acceptor().accept(stream));
                match accept.await {
                    Ok(Ok(stream)) => self.clone().http(TokioIo::new(stream)).await,
                    Ok(Err(error)) => tracing::debug!(name = self.name, %error, "TLS handshake"),
                    Err(_) => tracing::debug!(name = self.name, "TLS handshake too slow"),
                }
            }
        }
    }

    async fn http<I>(self: Arc<Self>, io: I)
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let name = self.name;
        let service = service_fn(move |request: Request<Incoming>| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(&request).await) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_MAX);
        if let Err(error) = http.serve_connection(io, service).await {
            tracing::debug!(name, %error, "connection ended");
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".into());
        }
        let path = request.uri().path();
        if let Some(access) = &self.access {
            let token = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
            if let Err((status, why)) = access.check(token, path, "get").await {
                return text(status, "text/plain; charset=utf-8", format!("{why}\n"));
            }
        }
        let plain = "text/plain; charset=utf-8";
        match (&*self.pages, path) {
            (Pages::Probes(checks), path) => {
                let (status, body) = checks.answer(path, request.uri().query().unwrap_or_default());
                text(status, plain, body)
            }
            (Pages::Metrics { metrics, .. }, "/metrics") => {
                let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok());
                let format = Format::accepted(accept);
                text(StatusCode::OK, format.content_type(), metrics.encode(format))
            }
            (Pages::Metrics { diagnostics, .. }, "/debug/windlass") => {
                text(StatusCode::OK, "application/json", format!("{:#}\n", diagnostics()))
            }
            _ => text(StatusCode::NOT_FOUND, plain, "404 page not found\n".into()),
        }
    }
}

/// Listens on an address; `:8081` means every address of both families, as elsewhere.
async fn bind(address: &str) -> std::io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await };
    match bind_both(port) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            // No IPv6 on this machine, or another reason that the older family will tell as well.
            TcpListener::bind(format!("0.0.0.0:{port}")).await
        }
        bound => bound,
    }
}

/// Listens on every address of both families, whatever the system does by itself.
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

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
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
    use super::*;

    #[test]
    fn probes_answer_as_upstream_does() {
        let checks = Checks::default();
        assert_eq!(checks.answer("/healthz", ""), (StatusCode::OK, "ok".into()));
        checks.ready("cache", || Err("pods are forbidden".into()));
        checks.ready("ping", || Ok(()));
        let (status, body) = checks.answer("/readyz", "");
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body, "[-]cache failed: reason withheld\n[+]ping ok\nreadyz check failed\n");
        let (status, body) = checks.answer("/readyz/", "exclude=cache&verbose");
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, "[+]cache excluded: ok\n[+]ping ok\nreadyz check passed\n");
        assert_eq!(checks.answer("/readyz/ping", "").0, StatusCode::OK);
        assert_eq!(checks.answer("/readyz/nope", "").0, StatusCode::NOT_FOUND);
        assert_eq!(checks.answer("/else", "").0, StatusCode::NOT_FOUND);
    }
    #[tokio::test]
    async fn a_port_alone_means_every_address_of_both_families() {
        let listener = bind(":0").await.expect("listens");
        let port = listener.local_addr().expect("has one").port();
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("IPv4");
        // A machine without IPv6 listens on the other family alone.
        if TcpListener::bind("[::1]:0").await.is_ok() {
            tokio::net::TcpStream::connect(("::1", port)).await.expect("IPv6");
        }
        let error = bind(&format!(":{port}")).await.expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
