//! One exchange with the API server, shared by the client and the caches.
//!
//! A request is sent and its answer sorted: a body that the caller reads in one piece or as a
//! stream, the `Status` of a refusal, a page of a proxy that answered instead of the server, or no
//! answer at all.
//!
//! **Invariant:** every request of this crate is sent by [`exchange`].

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::Status;
use tokio::time::{Instant, timeout_at};

use super::url::Url;
use crate::cache::as_json;

/// Most bytes of the body of a refusal that are read.
const REFUSAL_MAX: usize = 1 << 20;
/// Most bytes of a refusal that is not a `Status` that are shown.
const SHOWN_MAX: usize = 256;

/// A request in parts.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: Cow<'static, str>,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// The verb and the object, for errors and logs.
    pub(crate) action: String,
}

/// A successful answer whose body has not been read yet.
pub(crate) struct ApiResponse {
    pub(crate) body: Body,
    pub(crate) media_type: String,
}

/// Why an exchange brought no successful answer.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The server refused the request.
    Refused {
        status: Box<Status>,
        /// How long the server asks to wait before the next try.
        retry_after: Option<Duration>,
    },
    /// There was no answer before the deadline.
    Timeout,
    /// The connection failed, or the request could not be made.
    Connection(Box<dyn std::error::Error + Send + Sync>),
    /// The answer is not one of the API server.
    Foreign { media_type: String },
}

// === impl ApiRequest ===

impl ApiRequest {
    pub(crate) fn new(method: Method, url: Url, action: String) -> Self {
        Self {
            method,
            url,
            accept: "application/json".into(),
            content_type: "application/json",
            body: Bytes::new(),
            action,
        }
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.url = self.url.query(name, value);
        self
    }

    pub(crate) fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns `true` if the request changes anything on the server.
    pub(crate) fn mutates(&self) -> bool {
        mutates(&self.method, self.url.path())
    }

    /// Returns `true` if the request changes anything but a status.
    pub(crate) fn mutates_more_than_status(&self) -> bool {
        mutates_more_than_status(&self.method, self.url.path())
    }

    fn to_http(&self) -> Result<Request<Body>, http::Error> {
        Request::builder()
            .method(self.method.clone())
            .uri(self.url.as_str())
            .header(header::ACCEPT, &*self.accept)
            .header(header::CONTENT_TYPE, self.content_type)
            .body(Body::from(self.body.clone()))
    }

    /// Returns `true` if an answer of this media type cannot come from the API server.
    fn is_foreign(&self, media_type: &str) -> bool {
        // Logs of containers are plain text.
        let any = self.accept == "*/*";
        media_type == "text/html" || (media_type.starts_with("text/") && !any)
    }
}

/// Returns `true` if a request with this method and path changes anything on the server.
pub(crate) fn mutates(method: &Method, path: &str) -> bool {
    // Reviews are questions that are asked with POST.
    let review = path.starts_with("/apis/authorization.k8s.io/")
        || path.starts_with("/apis/authentication.k8s.io/");
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !review
}

/// Returns `true` if a request with this method and path changes anything but a status.
pub(crate) fn mutates_more_than_status(method: &Method, path: &str) -> bool {
    mutates(method, path) && subresource(path) != Some("status")
}

/// Returns the subresource that a path names, such as `status`.
fn subresource(path: &str) -> Option<&str> {
    let mut parts = path.trim_matches('/').split('/');
    let versions = if parts.next()? == "api" { 1 } else { 2 };
    let parts: Vec<&str> = parts.skip(versions).collect();
    match parts[..] {
        // Namespaces are objects, and have objects within them.
        ["namespaces", _, sub @ ("status" | "finalize")] => Some(sub),
        ["namespaces", _, _, _, sub, ..] => Some(sub),
        ["namespaces", ..] => None,
        [_, _, sub, ..] => Some(sub),
        _ => None,
    }
}

/// Sends a request and returns a successful answer, with its body still to be read.
///
/// `observe` is called once with the head of the answer, if there was one, and the time it took.
pub(crate) async fn exchange(
    kube: &kube::Client,
    request: &ApiRequest,
    deadline: Instant,
    observe: impl FnOnce(Option<&Response<Body>>, Duration),
) -> Result<ApiResponse, ExchangeError> {
    let http = request.to_http().map_err(|error| ExchangeError::Connection(error.into()))?;
    let started = Instant::now();
    let answer = timeout_at(deadline, kube.send(http)).await;
    observe(answer.as_ref().ok().and_then(|sent| sent.as_ref().ok()), started.elapsed());
    let response = answer
        .map_err(|_| ExchangeError::Timeout)?
        .map_err(|error| ExchangeError::Connection(error.into()))?;
    let (head, body) = response.into_parts();
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    if head.status.is_success() {
        let media_type = text(header::CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let media_type = media_type.to_ascii_lowercase();
        if request.is_foreign(&media_type) {
            return Err(ExchangeError::Foreign { media_type });
        }
        return Ok(ApiResponse { body, media_type });
    }
    let retry_after = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    let body = timeout_at(deadline, Limited::new(body, REFUSAL_MAX).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let status = read_status(head.status.as_u16(), &body);
    let advised = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let retry_after = retry_after.or((advised > 0).then_some(u64::from(advised)));
    let retry_after = retry_after.map(Duration::from_secs);
    Err(ExchangeError::Refused { status: Box::new(status), retry_after })
}

/// Reads the `Status` of a refusal, or makes one from what a proxy sent instead.
///
/// `code` is the HTTP status, for bodies that do not repeat it; 0 if there is none.
pub(crate) fn read_status(code: u16, body: &[u8]) -> Status {
    let body = &*as_json(body);
    let status = serde_json::from_slice::<Status>(body).unwrap_or_default();
    if status.is_failure() || status.code != 0 || !status.reason.is_empty() {
        let code = if status.code == 0 { code } else { status.code };
        let message = match status.message.is_empty() {
            true => format!("server answered {code}"),
            false => status.message,
        };
        return Status { code, message, ..status };
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_MAX)]);
    let message = match text.trim() {
        "" => format!("server answered {code}"),
        text => text.to_owned(),
    };
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    Status::failure(&message, reason).with_code(code)
}

// === impl ExchangeError ===

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, .. } => f.write_str(&status.message),
            Self::Timeout => f.write_str("server does not answer"),
            Self::Connection(error) => write!(f, "{error}"),
            Self::Foreign { media_type } => {
                write!(f, "got {media_type} instead of JSON (is a proxy answering?)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_of_a_proxy_becomes_a_status() {
        let status = read_status(503, b"<html>no backend</html>");
        assert_eq!((status.code, status.reason.as_str()), (503, "ServiceUnavailable"));
        assert_eq!(status.message, "<html>no backend</html>");
        assert_eq!(read_status(502, br#"{"error": "x"}"#).message, r#"{"error": "x"}"#);
        assert_eq!(read_status(502, b"").message, "server answered 502");
    }

    #[test]
    fn a_status_is_read_as_the_server_sent_it() {
        let body = br#"{"kind":"Status","status":"Failure","reason":"Conflict","message":"no"}"#;
        let status = read_status(409, body);
        assert_eq!(
            (status.code, status.reason.as_str(), &*status.message),
            (409, "Conflict", "no")
        );
    }

    #[test]
    fn a_status_is_not_mistaken_for_an_object_of_that_name() {
        for (path, status) in [
            ("/api/v1/namespaces/a/pods/b/status", true),
            ("/apis/example.com/v1/namespaces/a/shops/b/status", true),
            ("/api/v1/nodes/a/status", true),
            ("/api/v1/namespaces/a/status", true),
            ("/api/v1/namespaces/a/configmaps/status", false),
            ("/apis/example.com/v1/namespaces/status/shops/status", false),
            ("/apis/example.com/v1/shops/status", false),
            ("/api/v1/namespaces/status", false),
            ("/apis/apps/v1/namespaces/a/deployments/status/scale", false),
            ("/api", false),
        ] {
            assert_eq!(mutates_more_than_status(&Method::PATCH, path), !status, "{path}");
        }
        assert!(!mutates_more_than_status(&Method::GET, "/api/v1/nodes/a"));
    }

    #[test]
    fn reviews_are_no_writes() {
        assert!(!mutates(&Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews"));
        assert!(mutates(&Method::POST, "/api/v1/namespaces/a/pods"));
        assert!(!mutates(&Method::GET, "/api/v1/pods"));
    }
}
