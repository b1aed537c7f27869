//! One exchange with the API server: deadline, fence, warnings, count, readable failure.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::Status;
use tokio::time::Instant;

use super::Client;
use crate::error::{Error, Result};
use crate::fence::Closed;

/// An answer longer than this is refused, unless told otherwise.
pub(super) const ANSWER_MAX: usize = 512 << 20;
/// How often "too many requests" is obeyed before it becomes an error.
const BUSY_RETRIES_MAX: u32 = 5;
/// The longest the server may ask to wait.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(10);

/// A request in parts.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    /// What else stands in the query, as it is.
    pub(crate) extra: String,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: Vec<u8>,
    /// What is done to what, for errors and logs.
    pub(crate) action: String,
}

// === impl Call ===

impl Call {
    pub(crate) fn new(method: Method, path: String, action: String) -> Self {
        Self {
            method,
            path,
            query: Vec::new(),
            extra: String::new(),
            content_type: "application/json",
            accept: "application/json",
            body: Vec::new(),
            action,
        }
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    fn uri(&self) -> String {
        let mut uri = self.path.clone();
        for (at, (name, value)) in self.query.iter().enumerate() {
            uri.push(if at == 0 { '?' } else { '&' });
            uri.push_str(name);
            uri.push('=');
            escape(value, &mut uri);
        }
        if !self.extra.is_empty() {
            uri.push(if self.query.is_empty() { '?' } else { '&' });
            uri.push_str(&self.extra);
        }
        uri
    }

    fn request(&self) -> Result<Request<Body>> {
        Request::builder()
            .method(self.method.clone())
            .uri(self.uri())
            .header(header::ACCEPT, self.accept)
            .header(header::CONTENT_TYPE, self.content_type)
            .body(Body::from(self.body.clone()))
            .map_err(|e| Error::Invalid(format!("{}: {e}", self.action)))
    }
}

/// Tells whether a request changes anything on the server.
pub(crate) fn mutates(method: &Method, path: &str) -> bool {
    // Reviews are questions in the dress of a create.
    let review = path.starts_with("/apis/authorization.k8s.io/")
        || path.starts_with("/apis/authentication.k8s.io/");
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !review
}

impl Client {
    /// Sends a request and reads the whole answer.
    pub(crate) async fn call(&self, call: Call) -> Result<Bytes> {
        let deadline = crate::clock::after(self.options.timeout);
        let mut tries = 0;
        loop {
            let answer = tokio::time::timeout_at(deadline, self.exchange(&call)).await;
            let Ok(answer) = answer else {
                self.shared.metrics.request(call.method.as_str(), &self.shared.host, None, {
                    self.options.timeout
                });
                let after = self.options.timeout;
                return Err(Error::Timeout { action: call.action, after });
            };
            match answer? {
                Answer::Body(bytes) => return Ok(bytes),
                Answer::Failure { status, retry_after } => {
                    let wait = retry_after.filter(|_| tries < BUSY_RETRIES_MAX);
                    let Some(wait) = wait.filter(|wait| Instant::now() + *wait < deadline) else {
                        return Err(Error::Api { action: call.action, status });
                    };
                    tries += 1;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    async fn exchange(&self, call: &Call) -> Result<Answer> {
        let fenced = |closed: Closed| closed.error(call.action.clone());
        let fence = Some(&self.shared.fence).filter(|fence| {
            fence.armed() && !self.options.unfenced && mutates(&call.method, &call.path)
        });
        if let Some(fence) = fence {
            fence.check().map_err(fenced)?;
        }
        let started = Instant::now();
        let count = |code| {
            let host = &self.shared.host;
            self.shared.metrics.request(call.method.as_str(), host, code, started.elapsed());
        };
        let failed = |source| Error::Transport { action: call.action.clone(), source };
        let send = self.shared.kube.send(call.request()?);
        let sent = match fence {
            None => send.await,
            Some(fence) => tokio::select! {
                biased;
                closed = fence.closed() => return Err(fenced(closed)),
                sent = send => sent,
            },
        };
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                count(None);
                return Err(failed(Box::new(error)));
            }
        };
        count(Some(response.status().as_u16()));
        self.shared.warnings.log(&response, &call.action);
        let (head, body) = response.into_parts();
        let retry_after = head.headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok());
        let retry_after = retry_after.and_then(|v| v.parse().ok()).map(Duration::from_secs);
        let body = Limited::new(body, self.options.answer_max).collect().await;
        let bytes = body.map_err(failed)?.to_bytes();
        let media = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        if head.status.is_success() && media.is_some_and(|media| media.starts_with("text/html")) {
            let text = "answer is an HTML page, as if of a proxy, not of the API server";
            return Err(failed(text.into()));
        }
        if head.status.is_success() {
            return Ok(Answer::Body(bytes));
        }
        let code = head.status.as_u16();
        let busy = code == 429 || (code >= 500 && retry_after.is_some());
        Ok(Answer::Failure {
            status: Box::new(status(code, &bytes)),
            retry_after: retry_after.filter(|_| busy).map(|wait| wait.min(BUSY_WAIT_MAX)),
        })
    }
}

enum Answer {
    Body(Bytes),
    Failure { status: Box<Status>, retry_after: Option<Duration> },
}

/// Reads the failure status of the server, or makes one of whatever a proxy sent instead.
fn status(code: u16, bytes: &[u8]) -> Status {
    match serde_json::from_slice::<Status>(bytes) {
        Ok(mut status) if status.is_failure() => {
            if status.code == 0 {
                status.code = code;
            }
            status
        }
        _ => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]);
            let reason = match code {
                401 => "Unauthorized",
                403 => "Forbidden",
                404 => "NotFound",
                409 => "Conflict",
                429 => "TooManyRequests",
                503 => "ServiceUnavailable",
                _ => "InternalError",
            };
            Status::failure(text.trim(), reason).with_code(code)
        }
    }
}

/// Logs each server warning once per text; the set is bounded.
#[derive(Debug, Default)]
pub(crate) struct Warnings(parking_lot::Mutex<std::collections::BTreeSet<String>>);

const WARNINGS_MAX: usize = 1000;

impl Warnings {
    fn log<B>(&self, response: &Response<B>, action: &str) {
        for value in response.headers().get_all(header::WARNING) {
            for text in warning_texts(&String::from_utf8_lossy(value.as_bytes())) {
                self.tell(text, action);
            }
        }
    }

    fn tell(&self, text: String, action: &str) {
        let mut seen = self.0.lock();
        if seen.contains(&text) {
            return;
        }
        if seen.len() < WARNINGS_MAX {
            seen.insert(text.clone());
        }
        drop(seen);
        tracing::warn!(action, warning = text, "the API server warns");
    }
}

/// Takes the texts out of `299 - "text", 299 - "another"`.
fn warning_texts(value: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), value);
    while let Some((head, tail)) = rest.split_once('"') {
        let (mut text, mut escaped, mut end) = (String::new(), false, tail.len());
        for (at, letter) in tail.char_indices() {
            match letter {
                _ if escaped => {
                    text.push(letter);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = at + 1;
                    break;
                }
                _ => text.push(letter),
            }
        }
        // A date may follow in quotes of its own, with no code before it.
        if head.trim_start_matches([',', ' ']).starts_with("299 ") {
            found.push(text);
        }
        rest = &tail[end..];
    }
    found
}

pub(super) fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        let call = Call::new(Method::GET, "/api/v1/pods".into(), String::new())
            .query("labelSelector", "a in (b,c)")
            .query("limit", "5");
        assert_eq!(call.uri(), "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29&limit=5");
    }

    #[test]
    fn garbage_of_a_proxy_becomes_a_status() {
        let status = status(503, b"<html>no backend</html>");
        assert_eq!((status.code, status.reason.as_str()), (503, "ServiceUnavailable"));
        assert_eq!(status.message, "<html>no backend</html>");
    }

    #[test]
    fn reviews_are_no_writes() {
        assert!(!mutates(&Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews"));
        assert!(mutates(&Method::POST, "/api/v1/namespaces/a/pods"));
        assert!(!mutates(&Method::GET, "/api/v1/pods"));
    }

    #[test]
    fn warning_texts_are_unquoted() {
        assert_eq!(warning_texts(r#"299 - "v1 is old""#), ["v1 is old"]);
        let field = r#"299 - "unknown field \"spec.foo\"""#;
        assert_eq!(warning_texts(field), [r#"unknown field "spec.foo""#]);
        let two = r#"299 - "a, \\ b" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "alt für neu""#;
        assert_eq!(warning_texts(two), [r"a, \ b", "alt für neu"]);
        assert!(warning_texts("199 - x").is_empty() && warning_texts(r#"199 - "x""#).is_empty());
        assert_eq!(warning_texts(r#"299 - "no end"#), ["no end"]);
    }
}
