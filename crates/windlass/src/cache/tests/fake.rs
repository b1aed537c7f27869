//! A server that answers from a script and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::cache::{Cache, CacheOptions, Change, Informer, Origin, Scope, Subscription};

/// One answer of the script.
#[derive(Clone)]
pub(crate) enum Answer {
    Status(u16, String),
    Body(Vec<Part>),
    Protobuf(Vec<Part>),
    /// A page of HTML.
    Page(String),
    /// The connection is refused.
    Refused,
    /// No answer ever.
    Hang,
}

/// One step of a body.
#[derive(Clone)]
pub(crate) enum Part {
    Text(String),
    Bytes(Vec<u8>),
    Wait(Duration),
    /// The body stays open without sending anything.
    Hang,
    /// The connection breaks.
    Break,
}

/// A scripted server; when the script is over it does not answer any more.
#[derive(Clone)]
pub(crate) struct Fake {
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { script, asked: Arc::default(), accepted: Arc::default() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Returns the queries so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Returns the media types that were asked for.
    pub(crate) fn accepted(&self) -> Vec<String> {
        self.accepted.lock().clone()
    }

    /// Returns one parameter of one query.
    pub(crate) fn asked_for(&self, query: usize, parameter: &str) -> Option<String> {
        let asked = self.asked.lock();
        let query = asked.get(query)?.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == parameter).map(|(_, value)| value.to_owned())
    }

    pub(crate) fn cache(&self, streaming: bool) -> Cache {
        let options = CacheOptions { streaming, seed: Some(1), ..CacheOptions::default() };
        Cache::with(self.client(), options)
    }

    pub(crate) fn informer(&self, streaming: bool) -> Informer<ConfigMap> {
        self.cache(streaming).informer(&Scope::default())
    }
}

impl tower::Service<Request<Body>> for Fake {
    type Response = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.asked.lock().push(request.uri().to_string());
        let accept = request.headers().get("accept").and_then(|value| value.to_str().ok());
        self.accepted.lock().push(accept.unwrap_or_default().to_owned());
        let answer = self.script.lock().pop_front().unwrap_or(Answer::Hang);
        async move {
            let media = match answer {
                Answer::Protobuf(_) => windlass_protobuf::MEDIA_TYPE,
                Answer::Page(_) => "text/html; charset=utf-8",
                _ => "application/json",
            };
            let (status, parts) = match answer {
                Answer::Hang => std::future::pending().await,
                Answer::Refused => return Err(std::io::ErrorKind::ConnectionRefused.into()),
                Answer::Status(status, text) => (status, vec![Part::Text(text)]),
                Answer::Page(text) => (200, vec![Part::Text(text)]),
                Answer::Body(parts) | Answer::Protobuf(parts) => (200, parts),
            };
            let frames = stream::iter(parts).filter_map(|part| async move {
                match part {
                    Part::Text(text) => Some(Ok(Frame::data(Bytes::from(text)))),
                    Part::Bytes(bytes) => Some(Ok(Frame::data(Bytes::from(bytes)))),
                    Part::Wait(time) => {
                        sleep(time).await;
                        None
                    }
                    Part::Hang => std::future::pending().await,
                    Part::Break => Some(Err(std::io::ErrorKind::ConnectionReset.into())),
                }
            });
            let body = StreamBody::new(frames.boxed());
            let response = Response::builder().status(status).header("content-type", media);
            Ok(response.body(body).expect("a plain response"))
        }
        .boxed()
    }
}

pub(crate) fn object(name: &str, version: u64) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"n","uid":"uid-{name}","resourceVersion":"{version}","managedFields":[{{"manager":"m"}}]}},"data":{{"v":"{version}"}}}}"#
    )
}

pub(crate) fn list(version: &str, objects: &[String]) -> Answer {
    page(version, "", objects)
}

pub(crate) fn page(version: &str, next: &str, objects: &[String]) -> Answer {
    Answer::Status(
        200,
        format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
            objects.join(",")
        ),
    )
}

pub(crate) fn event(kind: &str, object: &str) -> Part {
    Part::Text(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

pub(crate) fn bookmark(version: u64, end: bool) -> Part {
    let annotations = match end {
        true => r#","annotations":{"k8s.io/initial-events-end":"true"}"#,
        false => "",
    };
    event(
        "BOOKMARK",
        &format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{annotations}}}}}"#
        ),
    )
}

pub(crate) fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{reason} it is","reason":"{reason}","code":{code}}}"#
    )
}

pub(crate) fn error(code: u16, reason: &str) -> Answer {
    Answer::Status(code, status(code, reason))
}

/// A watch that brings these and then stays silent.
pub(crate) fn watch(parts: impl IntoIterator<Item = Part>) -> Answer {
    Answer::Body(parts.into_iter().chain([Part::Hang]).collect())
}

/// A watch that brings these and ends.
pub(crate) fn ending(parts: impl IntoIterator<Item = Part>) -> Answer {
    Answer::Body(parts.into_iter().collect())
}

/// Describes a change in a line.
pub(crate) fn line(change: &Change) -> String {
    let (name, version) = (change.key().name(), change.entry().version());
    match (change.origin, &change.old, &change.new) {
        (Origin::Resync, ..) => format!("resync {name}"),
        (Origin::Initial, None, _) => format!("initial {name} {version}"),
        (_, None, _) => format!("added {name} {version}"),
        (_, Some(old), Some(_)) => format!("updated {name} {} -> {version}", old.version()),
        (_, _, None) => {
            let how = if change.last_state_unknown { " unseen" } else { "" };
            format!("deleted {name} {version}{how}")
        }
    }
}

/// Takes so many changes, and fails if they do not come.
pub(crate) async fn take(changes: &mut Subscription, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..count {
        let change = tokio::time::timeout(Duration::from_secs(3600), changes.recv()).await;
        let change = change.unwrap_or_else(|_| panic!("no change after {lines:?}"));
        lines.push(line(&change.expect("the subscription is open")));
    }
    lines
}
