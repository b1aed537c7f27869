//! The layer around the client of each actor: names requests, records them, injects faults.
//!
//! It wraps the service of a `kube::Client`, so it knows who sends a request and sees all bytes in
//! both directions. The server needs no hooks.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{BoxError, Service};
use windlass_apiserver::request::{Query, RequestInfo};

use crate::kernel::{Actor, Head, Kernel, Write};
use crate::plan::Fault;
use crate::reconciles;
use crate::sent::Sent;
use crate::site::Site;
use crate::trace::{Answer, What};
use crate::watch;

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The time between the effect of a request and its response.
const RESPONSE: Duration = Duration::from_millis(1);
/// How long a client waits for a lost response if it has no deadline of its own.
const LOST: Duration = Duration::from_secs(75);

/// The service behind the client of one actor.
#[derive(Clone)]
pub(crate) struct Layer {
    kernel: Arc<Kernel>,
    actor: Actor,
    token: HeaderValue,
}

/// One request on its way.
struct Exchange {
    kernel: Arc<Kernel>,
    actor: Actor,
    info: RequestInfo,
    query: Query,
    site: Site,
    fault: Option<Fault>,
    reconcile: Option<u32>,
    request: Request<Full<Bytes>>,
    began: Instant,
    /// Its place in the trace.
    place: usize,
}

// === impl Layer ===

impl Layer {
    /// Returns a client whose requests pass a layer of their own.
    pub(crate) fn client(kernel: &Arc<Kernel>, actor: Actor, token: &str) -> kube::Client {
        let token = HeaderValue::from_str(&format!("Bearer {token}")).expect("tokens are plain");
        kube::Client::new(Self { kernel: kernel.clone(), actor, token }, "default")
    }

    async fn handle(
        self,
        request: Request<kube::client::Body>,
        reconcile: Option<u32>,
    ) -> Result<Response<Body>, BoxError> {
        let Self { kernel, actor, token } = self;
        kernel.gate(&actor).await;
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        json_only(&mut parts.headers);
        parts.headers.insert(header::AUTHORIZATION, token);
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::read(&parts.method, parts.uri.path(), &query);
        let mut site = kernel.site(&actor.name, &info, &body);
        let fault = kernel.arrive(&mut site);
        let what = What::Request { site: site.clone(), reconcile, answer: None };
        let place = kernel.record(&actor, what);
        if let Some(fault) = fault {
            kernel.record(&actor, What::Fault(fault, site.clone()));
        }
        if actor.replica.is_some() {
            kernel.state.lock().request(&site.resource);
        }
        let request = Request::from_parts(parts, Full::new(body));
        let began = Instant::now();
        Exchange { kernel, actor, info, query, site, fault, reconcile, request, began, place }
            .run()
            .await
    }
}

impl Service<Request<kube::client::Body>> for Layer {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        // The buffer of `kube::Client` enters the span of the caller while it calls.
        let reconcile = reconciles::current();
        Box::pin(self.clone().handle(request, reconcile))
    }
}

// === impl Exchange ===

impl Exchange {
    async fn run(self) -> Result<Response<Body>, BoxError> {
        if self.info.verb == "watch" {
            return self.watch().await;
        }
        let in_flight = self.kernel.begin();
        let sent = self.before().await;
        let result = match sent {
            Some(refused) => refused,
            None => self.exchange().await,
        };
        drop(in_flight);
        result
    }

    /// What happens before the request reaches the server: `Some` if it never does.
    async fn before(&self) -> Option<Result<Response<Body>, BoxError>> {
        let (kernel, actor) = (&self.kernel, &self.actor);
        let second = Duration::from_secs(1);
        match self.fault {
            Some(Fault::CrashBefore) => {
                kernel.crash(actor);
                kernel.gate(actor).await;
            }
            Some(Fault::Pause) => kernel.pause(actor, crate::PAUSE),
            _ => {}
        }
        sleep(kernel.latency(&self.site)).await;
        kernel.gate(actor).await;
        match self.fault? {
            Fault::Error => Some(self.refuse(500, "InternalError", "injected failure", None)),
            Fault::Busy => Some(self.refuse(503, "ServiceUnavailable", "busy", Some(second))),
            Fault::Throttle => Some(self.refuse(429, "TooManyRequests", "throttled", Some(second))),
            Fault::Conflict if self.info.verb != "create" => {
                let text = "the object has been modified; please apply your changes to the \
                            latest version and try again";
                Some(self.refuse(409, "Conflict", text, None))
            }
            Fault::Expire => Some(self.refuse(410, "Expired", "too old resource version", None)),
            Fault::Reset => Some(self.broken("connection reset", None)),
            Fault::Slow => {
                sleep(crate::SLOW).await;
                kernel.gate(actor).await;
                None
            }
            _ => None,
        }
    }

    /// Sends the request to the server, and brings the response back.
    async fn exchange(mut self) -> Result<Response<Body>, BoxError> {
        self.rewind_list();
        let (kernel, actor) = (self.kernel.clone(), self.actor.clone());
        let fault = self.fault;
        if fault == Some(Fault::Late) {
            return self.late().await;
        }
        let (response, revision) = self.perform().await;
        match fault {
            Some(Fault::CrashAfter | Fault::StaleRestart) => {
                if fault == Some(Fault::StaleRestart) {
                    kernel.remember_the_past(&actor);
                }
                self.answered(0, revision, Some("crash"));
                kernel.crash(&actor);
                kernel.gate(&actor).await;
            }
            Some(Fault::Lost) => {
                self.answered(response.status().as_u16(), revision, Some("response lost"));
                sleep(LOST).await;
                return self.broken("connection closed before the response arrived", revision);
            }
            Some(Fault::Conflict) if response.status().is_success() => {
                return self.refuse(409, "AlreadyExists", "object already exists", None);
            }
            Some(Fault::Interrupt) => kernel.interrupt().await,
            _ => {}
        }
        sleep(RESPONSE).await;
        kernel.gate(&actor).await;
        self.answered(response.status().as_u16(), revision, None);
        Ok(response)
    }

    /// Performs the request when the client has given up.
    async fn late(self) -> Result<Response<Body>, BoxError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let in_flight = self.kernel.begin();
        let actor = self.actor.clone();
        let kernel = self.kernel.clone();
        tokio::spawn(async move {
            // The request is on the wire: the end of the replica does not stop it.
            sleep(crate::LATE).await;
            let (response, revision) = self.perform().await;
            self.answered(response.status().as_u16(), revision, Some("late"));
            drop(in_flight);
            let _ = sender.send(response);
        });
        let response = receiver.await;
        kernel.gate(&actor).await;
        response.map_err(|_| "the run has ended".into())
    }

    /// Performs the request; returns the response and the revision of its object.
    async fn perform(&self) -> (Response<Body>, Option<u64>) {
        let mut server = self.kernel.server.clone();
        let from = server.revision();
        let Ok(response) = server.call(self.request.clone()).await;
        let (head, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let seen: Head = match head.status.is_success() {
            true => serde_json::from_slice(&body).unwrap_or_default(),
            false => Head::default(),
        };
        if self.site.writes() {
            self.wrote(from, head.status, &seen);
        }
        self.kernel.show(&self.actor, &self.site.resource, &seen);
        let response = Response::from_parts(head, Full::new(body).map_err(never).boxed_unsync());
        (response, seen.metadata.revision())
    }

    fn wrote(&self, from: u64, status: StatusCode, seen: &Head) {
        let (kernel, actor, info) = (&self.kernel, &self.actor, &self.info);
        let resource = &self.site.resource;
        let name = if info.name.is_empty() { &seen.metadata.name } else { &info.name };
        if status.is_success() && !seen.metadata.name.is_empty() {
            kernel.canonical(resource, &seen.metadata);
        }
        let sight = kernel.sight(actor, resource, &info.namespace, name);
        let to = kernel.server.revision();
        let effect = to > from && !kernel.is_background(resource);
        let write = Write {
            site: self.site.clone(),
            actor: actor.name.to_string(),
            life: actor.life,
            at: kernel.now(),
            reconcile: self.reconcile,
            resource: resource.clone(),
            namespace: info.namespace.clone(),
            name: name.clone(),
            kind: [&info.group, &info.version, &info.resource, &seen.kind].map(String::clone),
            from,
            to,
            status: status.as_u16(),
            sight,
            manager: self.query.get("fieldManager").unwrap_or_default().to_owned(),
            sent: self.sent(),
            fault: self.fault,
        };
        kernel.state.lock().writes.push(write);
        if effect {
            kernel.touch();
        }
    }

    fn sent(&self) -> Sent {
        let content_type = self.request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let body = futures::executor::block_on(self.request.body().clone().collect());
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        Sent::read(&self.info.verb, content_type, &body)
    }

    fn answered(&self, status: u16, revision: Option<u64>, lost: Option<&'static str>) {
        let answer = Answer { status, revision, took: self.began.elapsed(), lost };
        self.kernel.answered(self.place, answer);
    }

    fn broken(&self, why: &'static str, revision: Option<u64>) -> Result<Response<Body>, BoxError> {
        self.answered(0, revision, Some(why));
        self.kernel.touch();
        Err(why.into())
    }

    fn refuse(
        &self,
        code: u16,
        reason: &str,
        text: &str,
        after: Option<Duration>,
    ) -> Result<Response<Body>, BoxError> {
        self.answered(code, None, None);
        self.kernel.touch();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": text, "reason": reason, "code": code,
        });
        let mut response =
            Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
        if let Some(after) = after {
            response = response.header(header::RETRY_AFTER, after.as_secs());
        }
        let body = Full::from(status.to_string()).map_err(never).boxed_unsync();
        Ok(response.body(body)?)
    }

    /// Turns the first list of a life that begins in the past into one of that time.
    fn rewind_list(&mut self) {
        if self.info.verb != "list" {
            return;
        }
        let Some(revision) = self.kernel.past(&self.actor, &self.site.resource) else { return };
        let path = self.request.uri().path().to_owned();
        let query = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
        let Ok(uri) = format!("{path}?{query}").parse() else { return };
        *self.request.uri_mut() = uri;
    }

    /// Opens a watch, whose events pass [`watch::body`].
    async fn watch(self) -> Result<Response<Body>, BoxError> {
        let (kernel, actor) = (self.kernel.clone(), self.actor.clone());
        if let Some(refused) = self.before().await {
            return refused;
        }
        let initial = self.query.flag("sendInitialEvents");
        if initial && kernel.lives_in_the_past(&actor, &self.site.resource) {
            // As a server without streaming lists does.
            let text = "sendInitialEvents is forbidden for watch";
            return self.refuse(422, "Invalid", text, None);
        }
        if let Some(until) = kernel.gap(&actor, &self.site.resource) {
            sleep_until(until).await;
            kernel.gate(&actor).await;
            if !initial {
                return self.refuse(410, "Expired", "too old resource version", None);
            }
        }
        let mut server = kernel.server.clone();
        let Ok(response) = server.call(self.request.clone()).await;
        match self.fault {
            Some(Fault::CrashAfter) => {
                kernel.crash(&actor);
                kernel.gate(&actor).await;
            }
            Some(Fault::Lost) => {
                self.answered(200, None, Some("response lost"));
                sleep(LOST).await;
                return self.broken("connection closed before the response arrived", None);
            }
            _ => {}
        }
        self.answered(response.status().as_u16(), None, None);
        let (head, body) = response.into_parts();
        if !head.status.is_success() || actor.replica.is_none() {
            return Ok(Response::from_parts(head, body.map_err(never).boxed_unsync()));
        }
        let body = watch::body(kernel, actor, self.site.resource.clone(), initial, body);
        Ok(Response::from_parts(head, body))
    }
}

/// Asks for JSON, so that the events can be separated.
fn json_only(headers: &mut http::HeaderMap) {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()) else {
        return;
    };
    let kept: Vec<&str> = accept.split(',').filter(|clause| !clause.contains("protobuf")).collect();
    if let Ok(value) = HeaderValue::from_str(&kept.join(",")) {
        headers.insert(header::ACCEPT, value);
    }
}

fn never(error: std::convert::Infallible) -> BoxError {
    match error {}
}
