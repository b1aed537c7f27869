//! The client for webhooks: where they are, and one exchange of a document with them.
//!
//! A webhook is named by a URL or a service. Callbacks of this process come first, then services
//! that are routed to an address or to streams of this process, then the endpoints of the service, unless they are simulated.
//!
//! **Invariant:** an exchange ends by its timeout, and an answer has a largest size.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::text;
use crate::lookup::Lookup;

mod service;
mod tls;

/// How often a call is repeated if the webhook asks for it, within the timeout.
const RETRIES_MAX: usize = 10;

/// A webhook of this process: takes and gives the review document. An error is why no answer arrives.
pub(crate) type Callback =
    Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// Webhooks and services that are reached without looking into the cluster.
#[derive(Default)]
pub(crate) struct Routes {
    callbacks: RwLock<BTreeMap<String, Callback>>,
    services: RwLock<BTreeMap<(String, String), Route>>,
}

/// Where connections to a service are made.
#[derive(Clone)]
pub(crate) enum Route {
    Address(SocketAddr),
    Streams(Connect),
}

/// Opens a connection within this process.
pub(crate) type Connect =
    Arc<dyn Fn() -> BoxFuture<'static, std::io::Result<Box<dyn Stream>>> + Send + Sync>;

/// A connection, whatever carries it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Whom to call.
pub(crate) struct Target {
    /// The address without query, as error texts show it.
    url: String,
    host: String,
    path: String,
    authority: String,
    place: Place,
    ca: String,
    now: Timestamp,
}

/// What a webhook responded.
struct Response {
    code: u16,
    /// When to call again, if it asks for that.
    retry_after: Option<Duration>,
    body: Bytes,
}

enum Place {
    Callback(Callback),
    Route(Route),
    /// A host of a URL, to be looked up.
    Host(String, u16),
    /// Nowhere, and why.
    Missing(String),
}

// === impl Routes ===

impl Routes {
    pub fn set_callback(&self, target: &str, callback: Callback) {
        self.callbacks.write().insert(plain(target), callback);
    }

    /// A copy: what is set on one of them is not set on the other.
    pub fn fork(&self) -> Self {
        Self {
            callbacks: RwLock::new(self.callbacks.read().clone()),
            services: RwLock::new(self.services.read().clone()),
        }
    }

    pub fn set_service(&self, namespace: &str, name: &str, route: Route) {
        self.services.write().insert((namespace.to_owned(), name.to_owned()), route);
    }

    /// Reads a `clientConfig`; certificates have to be valid `now`.
    ///
    /// # Errors
    /// Why it names no webhook.
    pub fn target(
        &self,
        config: &Value,
        lookup: &dyn Lookup,
        now: Timestamp,
    ) -> Result<Target, String> {
        let ca = text(config, &["caBundle"]);
        let ca = match STANDARD.decode(ca) {
            Ok(pem) => String::from_utf8_lossy(&pem).into_owned(),
            Err(error) => return Err(format!("could not get REST client: {error}")),
        };
        let service = &config["service"];
        if service.is_null() {
            return self.url_target(text(config, &["url"]), ca, now);
        }
        let (namespace, name) = (text(service, &["namespace"]), text(service, &["name"]));
        let port = service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let host = format!("{name}.{namespace}.svc");
        let path = clean(text(service, &["path"]));
        let url = format!("https://{host}:{port}{path}");
        let key = (namespace.to_owned(), name.to_owned());
        let routed = self.services.read().get(&key).cloned();
        let place = match (self.callback(&url), routed) {
            (Some(callback), _) => Place::Callback(callback),
            (None, Some(route)) => Place::Route(route),
            (None, None) => match service::endpoint(lookup, namespace, name, port) {
                Ok(address) => Place::Route(Route::Address(address)),
                Err(why) => Place::Missing(why),
            },
        };
        Ok(Target { url, authority: format!("{host}:{port}"), host, path, place, ca, now })
    }

    fn url_target(&self, url: &str, ca: String, now: Timestamp) -> Result<Target, String> {
        let bad = |why: &str| format!("could not get REST client: {why}");
        let uri: Uri = url.parse().map_err(|e| bad(&format!("parse \"{url}\": {e}")))?;
        let host = uri.host().ok_or_else(|| bad("the url has no host"))?.to_owned();
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let authority = match uri.port_u16() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        };
        let path = clean(uri.path());
        let url = format!("https://{authority}{path}");
        let place = match self.callback(&url) {
            Some(callback) => Place::Callback(callback),
            None => Place::Host(bare.clone(), port),
        };
        Ok(Target { url, authority, host: bare, path, place, ca, now })
    }

    fn callback(&self, url: &str) -> Option<Callback> {
        self.callbacks.read().get(&plain(url)).cloned()
    }
}

/// Returns a path as clients of Kubernetes send it: absolute, without empty segments, `.`, `..`
/// and a slash at the end.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// A URL in the form callbacks are kept under: without the usual port, and with a clean path.
fn plain(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    format!("{scheme}://{}{}", host.strip_suffix(":443").unwrap_or(host), clean(path))
}

// === impl Target ===

impl Target {
    /// Sends a document and reads the answer.
    ///
    /// # Errors
    /// What went wrong, to follow `failed to call webhook: `.
    pub async fn exchange(
        &self,
        document: &Value,
        limit: Duration,
        bytes_max: usize,
    ) -> Result<Value, String> {
        let seconds = limit.as_secs();
        let post = |why: String| format!("Post \"{}?timeout={seconds}s\": {why}", self.url);
        let exchange = async {
            for _ in 0..RETRIES_MAX {
                let answer = self.once(document, seconds, bytes_max).await?;
                match answer.retry_after {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Ok(answer),
                }
            }
            self.once(document, seconds, bytes_max).await
        };
        let Response { code, body, .. } = match tokio::time::timeout(limit, exchange).await {
            Err(_) => return Err(post("context deadline exceeded".into())),
            Ok(Err(why)) => return Err(post(why)),
            Ok(Ok(answer)) => answer,
        };
        if !(200..300).contains(&code) {
            return Err(refused(code, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
    }

    /// Sends a document once.
    async fn once(
        &self,
        document: &Value,
        seconds: u64,
        bytes_max: usize,
    ) -> Result<Response, String> {
        match &self.place {
            Place::Callback(callback) => {
                // A callback that panics is a webhook that hangs up.
                let answer = AssertUnwindSafe(callback(document.clone())).catch_unwind().await;
                let answer = answer.map_err(|_| "EOF".to_owned())??.to_string();
                match answer.len() > bytes_max {
                    true => Err(too_large(bytes_max)),
                    false => Ok(Response { code: 200, retry_after: None, body: answer.into() }),
                }
            }
            Place::Missing(why) => Err(why.clone()),
            Place::Route(Route::Streams(connect)) => {
                let stream = connect().await.map_err(|error| {
                    format!("dial tcp {}: connect: {}", self.authority, go_error(&error))
                })?;
                self.over_tls(stream, document, seconds, bytes_max).await
            }
            Place::Route(Route::Address(address)) => {
                self.over_tls(dial(*address).await?, document, seconds, bytes_max).await
            }
            Place::Host(host, port) => {
                let mut found = tokio::net::lookup_host((host.as_str(), *port))
                    .await
                    .map_err(|error| format!("dial tcp: lookup {host}: {error}"))?;
                let address =
                    found.next().ok_or_else(|| format!("dial tcp: lookup {host}: no such host"))?;
                self.over_tls(dial(address).await?, document, seconds, bytes_max).await
            }
        }
    }

    async fn over_tls(
        &self,
        stream: impl Stream + 'static,
        document: &Value,
        seconds: u64,
        bytes_max: usize,
    ) -> Result<Response, String> {
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| format!("tls: \"{}\" is not the name of a server", self.host))?;
        let stream = TlsConnector::from(tls::client_config(&self.ca, self.now).await?)
            .connect(name, stream)
            .await
            .map_err(|error| tls::explain(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}?timeout={seconds}s", self.path))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(Bytes::from(document.to_string())))
            .map_err(|error| error.to_string())?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| eof(&error))?;
            let code = response.status().as_u16();
            let retry_after = retry_after(code, response.headers());
            let body = Limited::new(response.into_body(), bytes_max).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => too_large(bytes_max),
                false => format!("unexpected EOF: {error}"),
            })?;
            Ok(Response { code, retry_after, body: body.to_bytes() })
        };
        tokio::pin!(connection);
        tokio::select! {
            biased;
            answer = answer => answer,
            ended = async {
                let ended = (&mut connection).await;
                // The answer is looked at first once it is complete.
                match ended {
                    Ok(()) => std::future::pending::<String>().await,
                    Err(error) => eof(&error),
                }
            } => Err(ended),
        }
    }
}

/// How long to wait before a call is repeated: a webhook that is overloaded asks for it.
fn retry_after(code: u16, headers: &header::HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    (code == 429 || code >= 500).then(|| Duration::from_secs(seconds))
}

async fn dial(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address)
        .await
        .map_err(|error| format!("dial tcp {address}: connect: {}", go_error(&error)))
}

fn too_large(bytes_max: usize) -> String {
    format!("the answer has more than {bytes_max} bytes")
}

fn eof(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() {
        return "EOF".into();
    }
    error.to_string()
}

fn go_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        std::io::ErrorKind::HostUnreachable => "no route to host".into(),
        std::io::ErrorKind::NetworkUnreachable => "network is unreachable".into(),
        _ => error.to_string(),
    }
}

/// The error of a client for an unsuccessful response.
fn refused(code: u16, body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    if parsed["kind"] == "Status" && parsed["message"].is_string() {
        return text(&parsed, &["message"]).to_owned();
    }
    let shown = String::from_utf8_lossy(body);
    let shown: String = shown.trim().chars().take(2048).collect();
    match code {
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 => shown,
        404 => "the server could not find the requested resource".into(),
        405 => "the server does not allow this method on the requested resource".into(),
        429 => "the server has received too many requests and has asked us to try again later".into(),
        503 => "the server is currently unable to handle the request".into(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".into(),
        500.. => format!(
            "an error on the server ({}) has prevented the request from succeeding",
            crate::status::quote(&shown)
        ),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_found_with_or_without_the_usual_port() {
        for url in ["https://a.b.svc:443/x", "https://a.b.svc/x", "https://a.b.svc/x/"] {
            assert_eq!(plain(url), "https://a.b.svc/x", "{url}");
        }
        assert_eq!(plain("https://a.b.svc:8443"), plain("https://a.b.svc:8443/"));
    }

    #[test]
    fn unsuccessful_responses_are_reported_as_clients_report_them() {
        assert_eq!(refused(404, b"x"), "the server could not find the requested resource");
        assert_eq!(
            refused(500, b"oops\n"),
            "an error on the server (\"oops\") has prevented the request from succeeding"
        );
        assert_eq!(refused(500, br#"{"kind":"Status","message":"reason"}"#), "reason");
    }
}
