//! Requests of the API server for webhooks, over HTTP.
//!
//! **Invariant:** a request is bounded in size and in time, and so are its response and all requests
//! together.

use std::time::Duration;

use ::http::{Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};

use super::Webhooks;
use super::handlers::{Arrival, CALL_TIMEOUT_MAX, CONVERT, Outcome, refuse};

/// The largest review: two objects of 3 MiB, which is the limit of the API server, and 1 MiB for
/// everything else.
const REVIEW_BYTES_MAX: usize = 7 << 20;
/// The largest conversion review, which carries a whole list of objects.
const CONVERSION_BYTES_MAX: usize = 64 << 20;
/// How long the body of a request may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

impl Webhooks {
    /// Answers a request.
    pub(crate) async fn serve<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let outcome = if !self.serves(path) {
            refuse(StatusCode::NOT_FOUND, &format!("there is no webhook under {path:?}"))
        } else if head.method != Method::POST {
            refuse(StatusCode::METHOD_NOT_ALLOWED, "webhooks are called with POST")
        } else if !is_json(head.headers.get(header::CONTENT_TYPE)) {
            let why = "expected a body of the type application/json";
            refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)
        } else {
            self.receive(path, head.uri.query().unwrap_or_default(), body).await
        };
        respond(outcome, bytes_max(path))
    }

    /// Reads a review and answers it.
    async fn receive<B>(&self, path: &str, query: &str, body: B) -> Outcome
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let most = bytes_max(path) as u64;
        let expected = body.size_hint().upper().unwrap_or(most);
        let Some(room) = self.room(expected.min(most)) else {
            let why = "too many large requests are being read";
            return refuse(StatusCode::TOO_MANY_REQUESTS, why);
        };
        match read(body, bytes_max(path)).await {
            Ok(review) => {
                self.answer(path, review, timeout(query), Arrival::Http { _room: room }).await
            }
            Err(refused) => refused,
        }
    }
}

fn bytes_max(path: &str) -> usize {
    if path == CONVERT { CONVERSION_BYTES_MAX } else { REVIEW_BYTES_MAX }
}

/// Reads a body.
async fn read<B>(body: B, bytes_max: usize) -> Result<Bytes, Outcome>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let whole = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, bytes_max).collect()).await;
    match whole {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = format!("the request has more than {bytes_max} bytes");
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &why))
        }
        Ok(Err(error)) => {
            let why = format!("the request cannot be read: {error}");
            Err(refuse(StatusCode::BAD_REQUEST, &why))
        }
        Err(_) => {
            let why = "the request did not arrive in time";
            Err(refuse(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

fn is_json(content_type: Option<&header::HeaderValue>) -> bool {
    let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The time that the API server allows, such as `timeout=10s`.
fn timeout(query: &str) -> Duration {
    let text = query.split('&').find_map(|part| part.strip_prefix("timeout="));
    let seconds = text.and_then(|text| text.strip_suffix('s')?.parse::<u64>().ok());
    seconds.map_or(CALL_TIMEOUT_MAX, |seconds| {
        Duration::from_secs(seconds.max(1)).min(CALL_TIMEOUT_MAX)
    })
}

fn respond((code, document): Outcome, bytes_max: usize) -> Response<Full<Bytes>> {
    let mut text = document.to_string();
    let mut code = code;
    if text.len() > bytes_max {
        let why = format!("the answer of the webhook has more than {bytes_max} bytes");
        let (refused, status) = refuse(StatusCode::INTERNAL_SERVER_ERROR, &why);
        (code, text) = (refused, status.to_string());
    }
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    let json = header::HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    if code == StatusCode::TOO_MANY_REQUESTS {
        // Without this header the API server does not try again.
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_that_of_the_api_server_within_bounds() {
        let seconds = |query| timeout(query).as_secs();
        assert_eq!(seconds("timeout=7s"), 7);
        assert_eq!(seconds("a=b&timeout=1s&c"), 1);
        assert_eq!(seconds("timeout=0s"), 1);
        for query in [
            "",
            "timeout=",
            "timeout=10m",
            "timeout=-1s",
            "timeout=99999999999999999999s",
            "timeout=999s",
        ] {
            assert_eq!(seconds(query), 30, "{query}");
        }
    }
}
