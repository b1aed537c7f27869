//! A record of everything that passes between clients and a server.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service};
use windlass_apiserver::{ApiServer, User};

/// The lines of a trace, in the order in which things happened.
#[derive(Clone)]
pub struct Tape {
    lines: Arc<Mutex<Vec<String>>>,
    began: Instant,
}

/// A service that records what passes through it.
#[derive(Clone)]
struct Tap {
    client: kube::Client,
    actor: String,
    tape: Tape,
}

// === impl Tape ===

impl Tape {
    pub fn new() -> Self {
        Self { lines: Arc::default(), began: Instant::now() }
    }

    /// Returns a client of the server whose requests and answers are recorded.
    pub fn client(&self, server: &ApiServer, actor: &str) -> kube::Client {
        let client = server.client_as(User::admin(actor));
        let tap = Tap { client, actor: actor.to_owned(), tape: self.clone() };
        kube::Client::new(tap, "default")
    }

    pub fn note(&self, actor: &str, text: &str) {
        // One line for each note, so that a trace can be written to a file and read again.
        let (at, text) = (self.began.elapsed(), text.replace('\n', "\\n"));
        let mut lines = self.lines.lock().expect("no writer panics");
        lines.push(format!("{at:?} {actor} {text}"));
    }

    /// Returns all lines.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no writer panics").clone()
    }
}

// === impl Tap ===

impl Tap {
    async fn pass(
        self,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let target = format!("{} {}", parts.method, parts.uri);
        let sent = format!("> {target} {:?} {}", parts.headers, String::from_utf8_lossy(&body));
        self.tape.note(&self.actor, &sent);
        let request = Request::from_parts(parts, Body::from(body));
        let (head, body) = self.client.send(request).await?.into_parts();
        let answer = format!("< {target} {} {:?}", head.status, head.headers);
        self.tape.note(&self.actor, &answer);
        let body = body.map_err(BoxError::from).map_frame(move |frame| {
            let text = frame.data_ref().map(|data| String::from_utf8_lossy(data));
            self.tape.note(&self.actor, &format!("~ {target} {}", text.unwrap_or_default()));
            frame
        });
        Ok(Response::from_parts(head, body.boxed_unsync()))
    }
}

impl Service<Request<Body>> for Tap {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}
