//! One API server: its state, its life, and the service that answers requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::admission::ExpressionWarning;
use crate::alloc::Allocator;
use crate::auth::{
    ANONYMOUS, Authenticator, Authorizer, DEFAULT_ISSUER, Impersonator, Signer, User,
};
use crate::clock::Clock;
use crate::fault::{Fault, FaultHook, Faults, LogEntry, RequestLog, Written};
use crate::handler::Rules;
use crate::random::Randomness;
use crate::registry::{Registry, storage_of};
use crate::request::{Query, RequestInfo};
use crate::resource::Resource;
use crate::response::{Body, Form};
use crate::serve::{OverWire, Recognized};
use crate::status::{Cause, Details, Result, Status};
use crate::store::{Change, Entry, Journal, JournalError, LogLimits, ResourceKey, Seed, Store};

mod convert;
mod definitions;
mod dispatch;
mod documents;
mod expiry;
mod flight;
mod health;
mod history;
mod read;
mod snapshot;
mod webhooks;

pub use snapshot::Snapshot;

use flight::{InFlight, TimeLimit};

/// The most bytes a request body may have.
pub const BODY_BYTES_MAX: usize = 3 << 20;
/// How long a read waits for a revision that is not there yet.
const REVISION_WAIT: Duration = Duration::from_secs(3);

/// A Kubernetes API server in this process.
///
/// Cloning shares it. It is a [`tower::Service`]: a `kube::Client` sits on it with no socket.
///
/// ```
/// # tokio_test(async {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, ListParams};
///
/// let server = windlass_apiserver::ApiServer::start();
/// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
/// assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 0);
/// # });
/// # fn tokio_test(f: impl Future<Output = ()>) {
/// #     tokio::runtime::Runtime::new().unwrap().block_on(f)
/// # }
/// ```
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

/// How a server is made.
pub struct Options {
    /// Tokens and whose they are.
    pub tokens: Vec<(String, User)>,
    /// A seed for names, UIDs and keys; `None` takes one from the operating system.
    ///
    /// Two servers with one seed and start time answer equal requests equally, byte for byte.
    pub seed: Option<u64>,
    /// How much history watches can go back.
    pub history: LogLimits,
    /// The journal of a data directory; `None` keeps everything in memory.
    pub journal: Option<Journal>,
    /// Whether requests are authorized by RBAC; otherwise everybody may do everything.
    pub authorize: bool,
    /// The key for service account tokens; `None` makes a new one, from the seed if there is one.
    pub signer: Option<Signer>,
    /// Whether pods are given a service account and its token, and refused without one.
    pub service_account_admission: bool,
    /// The time that the server's clock shows at the start; it moves with `tokio::time` from there.
    /// `None` follows the wall clock, or `tokio::time` if that is paused.
    pub start_time: Option<jiff::Timestamp>,
}

/// What servers differ in when they start.
struct Assembly {
    store: Store,
    clock: Clock,
    random: Randomness,
    authenticator: Authenticator,
    admission: crate::admission::State,
    authorize: bool,
}

pub(crate) struct Inner {
    pub store: Store,
    pub registry: Registry,
    pub clock: Clock,
    pub random: Randomness,
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    pub impersonator: Impersonator,
    pub allocator: Allocator,
    pub admission: crate::admission::State,
    /// What was read of definitions; held while they are brought up to date.
    definitions: Mutex<definitions::Known>,
    pub faults: Faults,
    pub log: RequestLog,
    pub shutdown: CancellationToken,
    expiry: expiry::Expiry,
    in_flight: InFlight,
    /// Whether controllers and a scheduler run on this server.
    pub controllers_run: AtomicBool,
    authorize: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            seed: None,
            history: LogLimits::default(),
            journal: None,
            authorize: true,
            signer: None,
            service_account_admission: false,
            start_time: None,
        }
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// Creates a server in memory with everything at its default.
    pub fn start() -> Self {
        Self::with_options(Options::default()).expect("a server in memory has nothing to open")
    }

    /// Creates a server by options.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn with_options(options: Options) -> Result<Self, JournalError> {
        let store = match options.journal {
            Some(journal) => Store::open(options.history, journal)?,
            None => Store::new(options.history),
        };
        let signer = options.signer.unwrap_or_else(|| signer(options.seed));
        Ok(Self::assemble(Assembly {
            store,
            clock: options.start_time.map_or_else(Clock::default, Clock::starting_at),
            random: Randomness::new(options.seed),
            authenticator: Authenticator::new(options.tokens, signer),
            admission: crate::admission::State::new(options.service_account_admission),
            authorize: options.authorize,
        }))
    }

    fn assemble(parts: Assembly) -> Self {
        let inner = Inner {
            store: parts.store,
            registry: Registry::default(),
            clock: parts.clock,
            random: parts.random,
            authenticator: parts.authenticator,
            authorizer: Authorizer::new(),
            impersonator: Impersonator::new(),
            allocator: Allocator::default(),
            admission: parts.admission,
            definitions: Mutex::default(),
            faults: Faults::default(),
            log: RequestLog::default(),
            shutdown: CancellationToken::new(),
            expiry: expiry::Expiry::default(),
            in_flight: InFlight::default(),
            controllers_run: AtomicBool::new(false),
            authorize: parts.authorize,
        };
        inner.bootstrap();
        let inner = Arc::new(inner);
        inner.start_expiry();
        Self { inner }
    }

    /// Returns a client with all rights, with no socket in between.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as every `kube::Client`.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin("kubernetes-admin"))
    }

    /// Returns a client that asks as a user.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as every `kube::Client`.
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(AsUser { server: self.clone(), user }, "default")
    }

    /// Decides what requests suffer from now on; `None` ends it.
    pub fn inject(&self, hook: Option<Box<FaultHook>>) {
        self.inner.faults.set(hook);
    }

    /// Returns the log of requests; [`RequestLog::enable`] starts it.
    pub fn request_log(&self) -> &RequestLog {
        &self.inner.log
    }

    /// Returns the server's clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Sets whether controllers and a scheduler work on this server, as its component statuses
    /// show.
    pub fn set_controllers_run(&self, run: bool) {
        self.inner.controllers_run.store(run, Ordering::Relaxed);
    }

    /// Ends all watches cleanly; further requests are still answered.
    pub fn shut_down(&self) {
        self.inner.shutdown.cancel();
    }

    /// Makes what was acknowledged durable against a loss of power.
    ///
    /// # Errors
    /// If the data directory cannot be synced.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.inner.store.sync()
    }

    /// Checks the expressions of a ValidatingAdmissionPolicy against the kinds it matches, and
    /// returns what `status.typeChecking` shows.
    pub fn type_check_policy(&self, policy: &serde_json::Value) -> Vec<ExpressionWarning> {
        self.inner.type_check_policy(policy)
    }

    /// Returns the URL-independent signer of service account tokens.
    pub fn signer(&self) -> &Signer {
        self.inner.authenticator.signer()
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { Ok(inner.answer(request).await) })
    }
}

/// The service with an identity put on every request.
#[derive(Clone)]
struct AsUser {
    server: ApiServer,
    user: User,
}

impl<B> tower::Service<Request<B>> for AsUser
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(Identity(self.user.clone()));
        self.server.call(request)
    }
}

/// A request without its body, as it is dispatched.
struct Routed {
    parts: http::request::Parts,
    query: Query,
    info: RequestInfo,
    fault: Fault,
    /// The place among the requests in flight.
    permit: Option<OwnedSemaphorePermit>,
}

/// The user of a request that needs no proof: it comes from within the process.
#[derive(Clone)]
struct Identity(User);

// === impl Inner ===

impl Inner {
    /// Puts the objects that every server starts with where they are missing.
    fn bootstrap(&self) {
        let seeds = crate::auth::bootstrap::seeds();
        // A failing journal shows at the first real write.
        let uid = |seed: &Seed| self.seed_uid(seed);
        let _ = self.store.seed(seeds, &self.clock.stamp(), uid);
        self.allocator.load(&self.store);
        self.sync_definitions();
    }

    fn seed_uid(&self, seed: &Seed) -> String {
        let (resource, key) = (&seed.resource, &seed.key);
        let purpose = ["uid", &resource.group, &resource.plural, &key.namespace, &key.name];
        self.random.uuid(&purpose)
    }

    /// Brings back the service the server is reached by, as it does for the real one.
    fn restore_own_service(&self) {
        for seed in crate::auth::bootstrap::seeds() {
            let Some(resource) = self.registry.find_stored(&seed.resource) else { continue };
            let hooks = Rules::of(&resource).hooks();
            if !hooks.is_restored(&seed.key.namespace, &seed.key.name)
                || self.store.world().get(&seed.resource, &seed.key).is_some()
            {
                continue;
            }
            let entry = seed.entry(0, &self.clock.stamp(), &self.seed_uid(seed));
            let (object, fields) = (entry.object(), entry.fields);
            if hooks.allocates() {
                self.allocator.keep(&object);
            }
            // A failing journal shows at the first real write.
            let put = Change::Put { object, fields };
            let _ = self.store.write(&seed.resource, &seed.key, None, put);
        }
    }

    /// Answers one request.
    async fn answer<B>(self: &Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let mut info = RequestInfo::read(&parts.method, parts.uri.path(), &query);
        let user = self.identify(&parts, &info);
        info.user = user.as_ref().map(|user| user.name.clone()).unwrap_or_default();
        info.user_agent = dispatch::text_of(&parts.headers, header::USER_AGENT).to_owned();
        let recognized = parts.extensions.get::<OverWire>().is_some()
            && user.as_ref().is_ok_and(|user| self.is_recognized(user, &info));
        let fault = self.faults.of(&info);
        if !fault.delay.is_zero() {
            tokio::time::sleep(fault.delay).await;
        }
        let failing = Form::of_failure(dispatch::accept_of(&parts.headers));
        let outcome = match fault.fail.clone() {
            Some(status) => Err(status),
            None => {
                let request =
                    Routed { parts, query, info: info.clone(), fault: fault.clone(), permit: None };
                self.handle(request, user, body).await
            }
        };
        let mut response = match (outcome, fault.fail_after) {
            (Ok(done), Some(status)) => {
                let mut lost = crate::response::failure(&status, failing);
                lost.extensions_mut().extend(done.extensions().clone());
                lost
            }
            (Ok(response), None) => response,
            (Err(status), _) => crate::response::failure(&status, failing),
        };
        if recognized {
            response.extensions_mut().insert(Recognized);
        }
        self.finish(&mut response, info);
        response
    }

    /// Returns `true` if the sender of a request is no stranger: it has authenticated, or may do what
    /// not everybody may.
    fn is_recognized(&self, user: &User, info: &RequestInfo) -> bool {
        user.name != ANONYMOUS || (info.is_resource && self.allow(user, info).is_ok())
    }

    /// Handles a request within its time limit.
    ///
    /// Nothing of the body is read before it is clear that the user may send the request.
    async fn handle<B>(
        self: &Arc<Self>,
        mut request: Routed,
        user: Result<User>,
        body: B,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let limit = TimeLimit::of(&request.info, &request.query)?;
        let user = user?;
        request.permit = self.in_flight.enter(&user, &request.info)?;
        self.allow(&user, &request.info)?;
        let info = request.info.clone();
        limit.run(&info, self.dispatch(request, user, body)).await
    }

    fn finish(&self, response: &mut Response<Body>, info: RequestInfo) {
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.random.uuid(&["audit"])) {
            headers.insert("audit-id", id);
        }
        headers.entry("cache-control").or_insert(HeaderValue::from_static("no-cache, private"));
        if self.log.wanted() {
            self.log.push(LogEntry {
                time: self.clock.stamp(),
                user: info.user.clone(),
                request: info,
                code: response.status().as_u16(),
                revision: self.store.revision(),
                written: response.extensions().get::<Written>().map(|written| written.0),
            });
        }
    }

    /// Waits until a revision is reached.
    ///
    /// # Errors
    /// 504 if it does not come in time.
    pub async fn wait_for_revision(&self, revision: u64) -> Result<()> {
        let reached = tokio::time::timeout(REVISION_WAIT, self.store.reached(revision));
        reached.await.map_err(|_| self.too_large(revision))
    }

    /// Returns 504 for a version that does not exist yet.
    pub fn too_large(&self, revision: u64) -> Status {
        let now = self.store.revision();
        Status::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {revision}, current: {now}"),
        )
        .with_details(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after: 1,
            ..Details::default()
        })
    }

    /// Ends the watches of a custom resource when its definition changes.
    pub fn definition_token(&self, resource: &ResourceKey) -> CancellationToken {
        self.registry.family(resource).map(|f| f.token.clone()).unwrap_or_default()
    }

    /// Does what follows from a write: definitions are served, allocations are freed, events
    /// expire.
    pub fn after_write(
        self: &Arc<Self>,
        resource: &Resource,
        new: Option<&Arc<Entry>>,
        old: Option<&Arc<Entry>>,
    ) {
        let hooks = Rules::of(resource).hooks();
        if let (None, Some(old)) = (new, old) {
            if hooks.allocates() {
                self.allocator.free(&old.object());
            }
            if hooks.is_restored(&old.key.namespace, &old.key.name) {
                self.restore_own_service();
            }
        }
        if hooks.defines_resources() {
            self.sync_definitions();
        }
        if new.is_some() && hooks.expires() {
            self.ensure_expiry();
        }
        if resource.is_custom() && new.is_none() {
            self.instance_gone(&storage_of(resource));
        }
    }
}

/// A signer with a new key, from the seed if there is one.
fn signer(seed: Option<u64>) -> Signer {
    match seed {
        Some(seed) => Signer::seeded(seed, DEFAULT_ISSUER),
        None => Signer::generate(DEFAULT_ISSUER),
    }
    .expect("the operating system gives randomness, and every seed a key")
}

pub(crate) async fn read_body<B>(body: B) -> Result<Bytes>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<tower::BoxError>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}")))
        }
        Err(error) => Err(Status::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// A value for a `Warning` header.
pub(crate) fn warning_header(text: &str) -> Option<HeaderValue> {
    let mut quoted = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}
