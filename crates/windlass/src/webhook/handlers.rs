//! The webhooks of an operator by their paths, and one call of them.
//!
//! **Invariant:** a handler or conversion that panics or takes too long harms its own request only.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::http::StatusCode;
use bytes::Bytes;
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::review::Review;
use super::{Answer, Call, Served, Webhook};
use crate::client::Client;
use crate::controller::panic_text;
use crate::error::Error;
use crate::metrics::{Metrics, WebhookMetrics};

/// How many calls run at the same time; one more is asked to come again.
const CALLS_MAX: usize = 256;
/// How much of requests is in memory at the same time; more is asked to come again.
const ROOM_KIB: usize = 256 << 10;
/// The longest time a call may take: the API server waits no longer.
pub(super) const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// The path of conversions.
pub(super) const CONVERT: &str = "/convert";

/// All webhooks that an operator serves. Clones share them.
///
/// In a test they are called without a server in between:
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::webhook::{Findings, Webhook, Webhooks};
/// use windlass_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let webhook = Webhook::<ConfigMap>::new().validate(|_| async {
///     let mut found = Findings::new();
///     found.forbidden("data", "no config maps today");
///     Ok(found)
/// });
/// let webhooks = Webhooks::new().add(webhook);
/// let server = ApiServer::start();
/// for path in webhooks.paths() {
///     let (webhooks, path) = (webhooks.clone(), path.to_owned());
///     let url = format!("https://webhooks.ops.svc{path}");
///     server.register_webhook(&url, move |review| {
///         let (webhooks, path) = (webhooks.clone(), path.clone());
///         async move { webhooks.call(&path, review).await }
///     });
/// }
/// assert_eq!(webhooks.paths().collect::<Vec<_>>(), ["/validate--v1-configmap"]);
/// # }
/// ```
#[derive(Clone)]
#[must_use = "webhooks do nothing until a manager serves them"]
pub struct Webhooks {
    served: BTreeMap<String, Served>,
    convert: Option<Convert>,
    seed: Seed,
    metrics: Arc<OnceLock<Metrics>>,
    calls: Arc<Semaphore>,
    /// The KiB of requests that may still be read.
    room: Arc<Semaphore>,
    /// The first path that two webhooks have.
    twice: Option<String>,
}

/// Answers a `ConversionReview`.
type Convert = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// What handlers work with, once a manager serves them.
#[derive(Clone, Default)]
pub(crate) struct Seed(Arc<OnceLock<Client>>);

/// The outcome of a call: the status of the HTTP response, and its document.
pub(super) type Outcome = (StatusCode, Value);

/// How a call arrived.
pub(super) enum Arrival {
    /// As a function call, which runs conversions in place.
    Direct,
    /// Over HTTP, with the room that its body takes. A conversion runs on a thread of its own, because
    /// nobody can interrupt it.
    Http { _room: OwnedSemaphorePermit },
}

// === impl Seed ===

impl Seed {
    pub(crate) fn client(&self) -> Option<&Client> {
        self.0.get()
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

// === impl Webhooks ===

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            served: BTreeMap::new(),
            convert: None,
            seed: Seed::default(),
            metrics: Arc::default(),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            room: Arc::new(Semaphore::new(ROOM_KIB)),
            twice: None,
        }
    }
}

impl Webhooks {
    /// Starts without webhooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the webhooks of a kind.
    #[expect(clippy::should_implement_trait, reason = "webhooks are not numbers")]
    pub fn add<K>(self, webhook: Webhook<K>) -> Self {
        self.extend(webhook.into_served())
    }

    /// Adds entries with the code behind them.
    pub(crate) fn extend(mut self, all: impl IntoIterator<Item = Served>) -> Self {
        for served in all {
            let path = served.entry.path.clone();
            if self.served.insert(path.clone(), served).is_some() || path == CONVERT {
                self.twice.get_or_insert(path);
            }
        }
        self
    }

    /// Serves conversions between the versions of kinds under `/convert`.
    ///
    /// The function takes a `ConversionReview` with a request and returns one with a response. The
    /// server runs it on a thread of its own, and answers with a failure after 30 s.
    pub fn convert(mut self, convert: impl Fn(Value) -> Value + Send + Sync + 'static) -> Self {
        self.convert = Some(Arc::new(convert));
        self
    }

    /// Returns the paths that are served, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let convert = self.convert.as_ref().map(|_| CONVERT);
        self.served.keys().map(String::as_str).chain(convert)
    }

    /// Answers a review as the server does, without a connection.
    ///
    /// If there is no answer, as for an unknown path or a malformed review, returns the `Status`
    /// that the server would send.
    pub async fn call(&self, path: &str, review: Value) -> Value {
        let review = review.to_string().into();
        self.answer(path, review, CALL_TIMEOUT_MAX, Arrival::Direct).await.1
    }

    /// Returns the entries of the webhook configurations, by path.
    #[cfg(any(test, feature = "operator"))]
    pub(crate) fn entries(&self) -> impl Iterator<Item = &windlass_manifests::model::Webhook> {
        self.served.values().map(|served| &served.entry)
    }

    /// Returns a path that is not unique.
    pub(crate) fn twice(&self) -> Option<&str> {
        self.twice.as_deref()
    }

    /// Gives the handlers the client of a manager, and counts their calls.
    pub(crate) fn attach(&self, client: &Client) {
        // A second manager leaves the handlers with the first one.
        let _ = self.seed.0.set(client.unfenced());
        let _ = self.metrics.set(client.metrics().clone());
        for path in self.paths() {
            self.series(path);
        }
    }

    /// The series of a path, or `None` if nothing counts.
    fn series(&self, path: &str) -> Option<WebhookMetrics> {
        self.metrics.get().filter(|_| self.serves(path)).map(|metrics| metrics.webhook(path))
    }

    /// Returns `true` if something answers under this path.
    pub(super) fn serves(&self, path: &str) -> bool {
        self.served.contains_key(path) || (path == CONVERT && self.convert.is_some())
    }

    /// Makes room for a request of this size, or returns `None` if there is none.
    pub(super) fn room(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(kib).ok()
    }

    /// Answers a review within a deadline.
    pub(super) async fn answer(
        &self,
        path: &str,
        review: Bytes,
        limit: Duration,
        arrival: Arrival,
    ) -> Outcome {
        let series = self.series(path);
        let start = tokio::time::Instant::now();
        let outcome = {
            let _running = series.as_ref().map(WebhookMetrics::begin);
            match self.calls.clone().try_acquire_owned() {
                Ok(permit) => self.dispatch(path, review, limit, (permit, arrival)).await,
                Err(_) => refuse(StatusCode::TOO_MANY_REQUESTS, "too many calls are running"),
            }
        };
        if let Some(series) = series {
            series.end(outcome.0.as_u16(), start.elapsed());
        }
        outcome
    }

    async fn dispatch(
        &self,
        path: &str,
        review: Bytes,
        limit: Duration,
        load: (OwnedSemaphorePermit, Arrival),
    ) -> Outcome {
        if let Some(served) = self.served.get(path) {
            return self.admit(served, &review, limit).await;
        }
        match &self.convert {
            Some(convert) if path == CONVERT => match serde_json::from_slice(&review) {
                Ok(review) => self.convert_review(convert, review, load).await,
                Err(error) => {
                    refuse(StatusCode::BAD_REQUEST, &format!("the request is not JSON: {error}"))
                }
            },
            _ => refuse(StatusCode::NOT_FOUND, &format!("there is no webhook under {path:?}")),
        }
    }

    async fn admit(&self, served: &Served, review: &[u8], limit: Duration) -> Outcome {
        let mut review = match Review::read(review) {
            Ok(review) => review,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        let (request, objects) = (review.request.take(), std::mem::take(&mut review.objects));
        let call = Call { request, objects, seed: self.seed.clone() };
        let shown = Shown::of(&call.request);
        let handler = AssertUnwindSafe(async { (served.handler)(call).await }).catch_unwind();
        let answer = match tokio::time::timeout(limit, handler).await {
            Ok(Ok(Ok(answer))) => answer,
            Ok(Ok(Err(error))) => Answer::failed(&error),
            Ok(Err(panic)) => {
                let panic = panic_text(&*panic);
                tracing::error!(webhook = served.entry.path, request = %shown, panic, "a webhook panicked");
                if let Some(metrics) = self.metrics.get() {
                    metrics.webhook_panicked();
                }
                Answer::failed(&Error::Panic(panic))
            }
            Err(_) => {
                tracing::warn!(webhook = served.entry.path, request = %shown, "a webhook did not answer in time");
                let action = format!("webhook {}", served.entry.entry.name);
                Answer::failed(&Error::Timeout { action, after: limit })
            }
        };
        if answer.is_denied() {
            tracing::debug!(webhook = served.entry.path, request = %shown, "request denied");
        }
        (StatusCode::OK, review.respond(answer))
    }

    async fn convert_review(
        &self,
        convert: &Convert,
        review: Value,
        load: (OwnedSemaphorePermit, Arrival),
    ) -> Outcome {
        if let Err(why) = check_conversion(&review) {
            return refuse(StatusCode::BAD_REQUEST, &why);
        }
        let (version, uid) = (review["apiVersion"].clone(), review["request"]["uid"].clone());
        let convert = convert.clone();
        let run = move || {
            std::panic::catch_unwind(AssertUnwindSafe(|| convert(review)))
                .map_err(|panic| panic_text(&*panic))
        };
        let converted = match load {
            (_permit, Arrival::Direct) => run(),
            load @ (_, Arrival::Http { .. }) => {
                // What the function uses is not free before it has returned.
                let task = tokio::task::spawn_blocking(move || (run(), load).0);
                match tokio::time::timeout(CALL_TIMEOUT_MAX, task).await {
                    Ok(Ok(converted)) => converted,
                    Ok(Err(_)) => Err("the server is shutting down".into()),
                    Err(_) => {
                        let seconds = CALL_TIMEOUT_MAX.as_secs();
                        tracing::error!(webhook = CONVERT, "a conversion did not answer in time");
                        let text = format!("the conversion did not answer within {seconds} s");
                        return (StatusCode::OK, failed_review(&version, &uid, &text));
                    }
                }
            }
        };
        match converted {
            Ok(answer) => (StatusCode::OK, answer),
            Err(panic) => {
                tracing::error!(webhook = CONVERT, panic, "a conversion panicked");
                if let Some(metrics) = self.metrics.get() {
                    metrics.conversion_panicked();
                }
                let text = "internal error occurred during conversion";
                (StatusCode::OK, failed_review(&version, &uid, text))
            }
        }
    }
}

/// Fails if a document is no `ConversionReview` that can be answered.
fn check_conversion(review: &Value) -> Result<(), String> {
    if review["kind"] != "ConversionReview" {
        return Err(format!("expected a ConversionReview, got {}", review["kind"]));
    }
    let known = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];
    if !review["apiVersion"].as_str().is_some_and(|version| known.contains(&version)) {
        return Err(format!(
            "expected a ConversionReview of apiextensions.k8s.io/v1, got {}",
            review["apiVersion"]
        ));
    }
    match review["request"]["uid"].as_str() {
        None | Some("") => Err("the ConversionReview has no request with a uid".into()),
        Some(_) => Ok(()),
    }
}

/// The answer to a `ConversionReview` whose objects could not be converted.
fn failed_review(version: &Value, uid: &Value, message: &str) -> Value {
    let result = json!({"status": "Failure", "message": message});
    let response = json!({"uid": uid, "result": result, "convertedObjects": []});
    json!({"apiVersion": version, "kind": "ConversionReview", "response": response})
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("paths", &self.paths().collect::<Vec<_>>()).finish()
    }
}

/// A request in the log: what happens to which object, without its content.
struct Shown(String);

impl Shown {
    fn of(request: &Value) -> Self {
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let resource = request["resource"]["resource"].as_str().unwrap_or_default();
        let shown =
            format!("{} {resource} {}/{}", text("operation"), text("namespace"), text("name"));
        Self(shown.chars().take(512).collect())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A response without a review: the API server shows the message of the status.
pub(super) fn refuse(code: StatusCode, message: &str) -> Outcome {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::REQUEST_TIMEOUT => "Timeout",
        StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
        _ => "BadRequest",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    (code, status)
}
