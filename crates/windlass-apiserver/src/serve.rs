//! The listener: HTTPS or plain HTTP, HTTP/1.1 and HTTP/2, in front of any service.
//!
//! **Invariant:** every wait on a peer is bounded: for the handshake, for headers, for a body, and
//! for a peer that does not read its answer. Connections are counted, and one too many is refused.
//!
//! **Invariant:** at the end, requests under way are answered, and answers without an end of their
//! own (watches) end cleanly.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use crate::auth::PeerCertificate;

mod body;
mod limits;
mod stall;
mod strangers;

pub use body::{AnswerBody, RequestBody};
pub use limits::Limits;
use stall::{Progress, StallTimeout};
pub(crate) use strangers::Recognized;
use strangers::{Peer, Strangers};

/// Any error, for bodies and services.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The mark of a request that came over a connection.
#[derive(Clone, Copy, Debug)]
pub struct OverWire;

/// How many connections above the limit get an error at a time; further ones are closed.
const REFUSALS_MAX: usize = 64;
/// How long sending that error may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Why a connection is cut whose peer does not read.
const STALLED: &str = "an answer waited too long for its peer";
/// How often an idle HTTP/2 peer is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(60);

/// Serves connections of a listener until `shutdown` is done, with the usual limits.
///
/// # Cancel safety
/// Dropping the future stops accepting and cuts the connections.
pub async fn serve<S, B>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    shutdown: impl Future<Output = ()>,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    serve_with(listener, tls, service, shutdown, Limits::default()).await;
}

/// Serves like [`serve`], with other limits.
pub async fn serve_with<S, B>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    shutdown: impl Future<Output = ()>,
    limits: Limits,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let (end, cut) = (CancellationToken::new(), CancellationToken::new());
    let _cut_when_dropped = cut.clone().drop_guard();
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let strangers = Strangers::new(limits.strangers_max, limits.stranger_timeout);
    let limits = Arc::new(limits);
    let tls = tls.map(TlsAcceptor::from);
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut shutdown => break,
            never = strangers.close_idle() => match never {},
            stream = accept(&listener) => stream,
        };
        let (place, refused) = match places.clone().try_acquire_owned() {
            Ok(place) => (place, false),
            Err(_) => {
                tracing::warn!(max = limits.connections_max, "too many connections, one refused");
                match refusals.clone().try_acquire_owned() {
                    Ok(place) => (place, true),
                    Err(_) => continue,
                }
            }
        };
        let connection = Connection {
            service: service.clone(),
            limits: limits.clone(),
            end: end.clone(),
            peer: strangers.enter(),
            refused,
            place,
        };
        let (tls, cut) = (tls.clone(), cut.clone());
        let closed = connection.peer.closed();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = closed => {}
                () = connection.run(stream, tls) => {}
            }
        });
    }
    drop(listener);
    end.cancel();
    // Every connection holds a place: when all places are free, all connections are done.
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    if timeout(limits.end_timeout, places.acquire_many(all)).await.is_err() {
        let open = limits.connections_max - places.available_permits();
        tracing::warn!(open, "connections did not end in time and are cut");
    }
}

/// The next connection; failures to accept are waited out.
async fn accept(listener: &TcpListener) -> TcpStream {
    let mut pause = Duration::from_millis(5);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it small answers wait for acknowledgements; a failure costs only speed.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) if of_the_peer(&error) => {}
            Err(error) => {
                // Mostly no more file descriptors: trying again at once would only burn time.
                tracing::warn!(%error, "accepting a connection failed, trying again");
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}

fn of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// One connection and what it needs.
struct Connection<S> {
    service: S,
    limits: Arc<Limits>,
    end: CancellationToken,
    peer: Arc<Peer>,
    refused: bool,
    place: OwnedSemaphorePermit,
}

impl<S, B> Connection<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let refused = self.refused;
        let whole = self.run_unbounded(stream, tls);
        let done = match refused {
            true => timeout(REFUSAL_TIMEOUT, whole).await.unwrap_or(Ok(())),
            false => whole.await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "connection ended");
        }
    }

    async fn run_unbounded(
        self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
    ) -> Result<(), BoxError> {
        let Some(tls) = tls else {
            let h2 = timeout(self.limits.header_timeout, speaks_h2(&stream)).await??;
            return self.http(stream, h2, None).await;
        };
        let stream = tokio::select! {
            biased;
            () = self.end.cancelled() => return Ok(()),
            done = timeout(self.limits.handshake_timeout, tls.accept(stream)) => done??,
        };
        let (_, session) = stream.get_ref();
        let h2 = session.alpn_protocol() == Some(b"h2");
        let certificate = session
            .peer_certificates()
            .and_then(|chain| chain.first())
            .and_then(|certificate| PeerCertificate::from_der(certificate));
        if certificate.is_some() {
            self.peer.recognize();
        }
        self.http(stream, h2, certificate).await
    }

    async fn http<I>(
        self,
        io: I,
        h2: bool,
        certificate: Option<PeerCertificate>,
    ) -> Result<(), BoxError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { service, limits, end, peer, refused, place } = self;
        let _place = place;
        let body_timeout = limits.body_timeout;
        let answer_end = end.clone();
        let progress = Progress::default();
        let answers = progress.clone();
        let handler = hyper::service::service_fn(move |request: Request<Incoming>| {
            let request = received(request, body_timeout, certificate.as_ref());
            let (service, asking) = (service.clone(), peer.ask());
            let (end, progress) = (answer_end.clone(), answers.entry());
            async move {
                if refused {
                    return Ok(refusal().map(Either::Right));
                }
                let answer = service.oneshot(request).await.map_err(io::Error::other)?;
                if answer.extensions().get::<Recognized>().is_some() {
                    asking.recognize();
                }
                Ok::<_, io::Error>(
                    answer.map(|body| Either::Left(AnswerBody::new(body, end, progress))),
                )
            }
        });
        let io = TokioIo::new(StallTimeout::new(io, limits.stall_timeout));
        let mut stalled = pin!(progress.stalled(limits.stall_timeout));
        if h2 {
            let connection = limits.http2().serve_connection(io, handler);
            let mut connection = pin!(connection);
            tokio::select! {
                biased;
                done = &mut connection => return Ok(done?),
                () = &mut stalled => return Err(STALLED.into()),
                () = end.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            return tokio::select! {
                biased;
                done = connection => Ok(done?),
                () = stalled => Err(STALLED.into()),
            };
        }
        let connection = limits.http1(!refused)?.serve_connection(io, handler).with_upgrades();
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            done = &mut connection => return Ok(done?),
            () = &mut stalled => return Err(STALLED.into()),
            () = end.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            biased;
            done = connection => Ok(done?),
            () = stalled => Err(STALLED.into()),
        }
    }
}

/// A request that arrived over the wire, with the certificate of its sender.
fn received(
    request: Request<Incoming>,
    body_timeout: Duration,
    certificate: Option<&PeerCertificate>,
) -> Request<RequestBody> {
    let mut request = request.map(|body| RequestBody::new(body, body_timeout));
    request.extensions_mut().insert(OverWire);
    if let Some(certificate) = certificate {
        request.extensions_mut().insert(certificate.clone());
    }
    request
}

/// Whether a plain connection opens with the preface of HTTP/2.
async fn speaks_h2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; 4];
    let count = stream.peek(&mut start).await?;
    Ok(start[..count] == *b"PRI ")
}

/// The answer to a connection too many.
fn refusal() -> Response<Full<Bytes>> {
    let status = crate::status::Status::new(
        503,
        "ServiceUnavailable",
        "too many connections to the API server, please try again later",
    );
    let mut answer = Response::new(Full::from(status.to_json().to_string()));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    answer
}

#[cfg(test)]
mod tests;
