//! Putting a manager together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::assembly::{check_names, counted, host_in, known_as, place};
use super::{Cluster, Handle, Manager, RunContext, Runnable, Stage, State, diagnostics};
use crate::cache::{Cache, CacheOptions, Declared, Index, Scope};
use crate::client::Client;
use crate::clock::Clock;
use crate::controller::{Component, Controller, Ground};
use crate::error::{Error, Result};
use crate::events::{EventForm, Recorder};
use crate::fence::Fence;
use crate::kind::{Kind, Object};
use crate::lease::{Lease, LeaseOptions};
use crate::metrics::Metrics;
use crate::serve::{Access, Checks, Pages, Server, Tls};
use crate::signal::Signals;

/// The grace period of a shutdown unless told otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// Puts a [`Manager`] together.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::manager::Builder;
/// use windlass::{Manager, Result};
///
/// /// What all operators of this house have in common.
/// fn ours(builder: Builder) -> Builder {
///     builder.grace(Duration::from_secs(8)).health_check("clock", || Ok(()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// ours(Manager::builder(client)).run(async {}).await
/// # }
/// ```
#[must_use = "a manager does nothing until it runs"]
pub struct Builder {
    home: kube::Client,
    others: Vec<(String, kube::Client)>,
    /// The hosts of clusters, by name.
    hosts: BTreeMap<String, String>,
    components: Vec<(String, Box<dyn Component>)>,
    runnables: Vec<(bool, Runnable)>,
    name: String,
    namespaces: Vec<String>,
    scopes: BTreeMap<Kind, Scope>,
    indexes: Vec<Arc<dyn Declared>>,
    cache: CacheOptions,
    lease: Option<LeaseOptions>,
    probes: Option<String>,
    metrics: Option<String>,
    tls: Option<Tls>,
    secure: bool,
    reviewed: bool,
    checks: Checks,
    registry: Metrics,
    grace: Duration,
    clock: Clock,
    event_form: EventForm,
    seed: Option<u64>,
}

// === impl Builder ===

impl Builder {
    pub(super) fn new(home: kube::Client) -> Self {
        Self {
            home,
            others: Vec::new(),
            hosts: BTreeMap::new(),
            components: Vec::new(),
            runnables: Vec::new(),
            name: "windlass".into(),
            namespaces: Vec::new(),
            scopes: BTreeMap::new(),
            indexes: Vec::new(),
            cache: CacheOptions::default(),
            lease: None,
            probes: None,
            metrics: None,
            tls: None,
            secure: false,
            reviewed: false,
            checks: Checks::default(),
            registry: Metrics::new(),
            grace: GRACE,
            clock: Clock::system(),
            event_form: EventForm::default(),
            seed: None,
        }
    }

    /// Adds a controller of the home cluster.
    #[expect(clippy::should_implement_trait, reason = "a manager is no number")]
    pub fn add<K: Object>(mut self, controller: Controller<K>) -> Self {
        self.components.push((String::new(), Box::new(controller)));
        self
    }

    /// Adds a controller of a named cluster.
    pub fn add_to<K: Object>(mut self, cluster: &str, controller: Controller<K>) -> Self {
        self.components.push((cluster.into(), Box::new(controller)));
        self
    }

    /// The form events are written in; `events.k8s.io/v1` unless told otherwise.
    pub fn event_form(mut self, form: EventForm) -> Self {
        self.event_form = form;
        self
    }

    /// Adds another cluster, with a cache of its own; its controllers show as `cluster/controller`
    /// in logs and metrics.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Controller, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let home = windlass_apiserver::ApiServer::start();
    /// # let edge = windlass_apiserver::ApiServer::start();
    /// let maps = || Controller::<ConfigMap>::builder("maps")
    ///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    /// let handle = Manager::builder(home.client())
    ///     .add(maps())
    ///     .cluster("edge", edge.client())
    ///     .add_to("edge", maps())
    ///     .spawn()?;
    /// handle.ready().await;
    /// assert!(handle.cluster("edge").is_some() && handle.cluster("attic").is_none());
    /// assert!(handle.controller("edge/maps").is_some());
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn cluster(mut self, name: &str, client: kube::Client) -> Self {
        self.others.push((name.into(), client));
        self
    }

    /// The server of the home cluster, as `rest_client_requests_total` shows it: a `host:port`, or
    /// an URL of which only that is taken. `kubernetes` unless told otherwise, because a
    /// `kube::Client` does not tell whom it speaks to; its `kube::Config` does.
    ///
    /// ```
    /// use windlass::Manager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = kube::Config::new("http://10.0.0.1:6443".parse()?);
    /// let host = config.cluster_url.to_string();
    /// let manager = Manager::builder(kube::Client::try_from(config)?).host(&host);
    /// # Ok(())
    /// # }
    /// ```
    pub fn host(self, host: &str) -> Self {
        self.host_of("", host)
    }

    /// The same of a named cluster; its name unless told otherwise.
    pub fn host_of(mut self, cluster: &str, host: &str) -> Self {
        self.hosts.insert(cluster.into(), host_in(host).into());
        self
    }

    /// Adds a task that runs while this process leads; its failure stops the manager.
    ///
    /// It begins when the caches of all controllers are synced. Those of kinds that are missing or
    /// forbidden are not waited for, and others no longer than two minutes; the log names them.
    ///
    /// ```
    /// use windlass::{Error, Manager};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::builder(server.client())
    ///     .runnable_everywhere("idle", |cx| async move {
    ///         cx.stopping().await; // asked to end, as the other one failed
    ///         Ok(())
    ///     })
    ///     .runnable("importer", |_| async { Err(Error::from("the source is gone")) })
    ///     .spawn()?;
    /// assert!(handle.wait().await.unwrap_err().to_string().contains("the source is gone"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn runnable<F, Fut>(self, name: &str, start: F) -> Self
    where
        F: FnOnce(RunContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.run_with(true, name, start)
    }

    /// Adds a task that runs on every replica, leader or not; its writes need no lease.
    ///
    /// It begins as those of [`runnable`](Self::runnable) do.
    pub fn runnable_everywhere<F, Fut>(self, name: &str, start: F) -> Self
    where
        F: FnOnce(RunContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.run_with(false, name, start)
    }

    fn run_with<F, Fut>(mut self, leader: bool, name: &str, start: F) -> Self
    where
        F: FnOnce(RunContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let runnable = Runnable {
            name: name.into(),
            start: Box::new(move |context| Box::pin(start(context))),
        };
        self.runnables.push((leader, runnable));
        self
    }

    /// The operator's name in events and as default field owner.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Caches namespaced kinds in these namespaces only; all if none is named.
    pub fn namespaces<'a>(mut self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.namespaces = namespaces.into_iter().map(str::to_string).collect();
        self
    }

    /// Caches only a part of a kind: some namespaces, labels or fields.
    ///
    /// What is outside is not there for cached reads, and its changes lead to nothing.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Controller, Key, Manager, Next, cache};
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = windlass::Client::new(server.client());
    /// client.create(&config_map("mine")).await?;
    /// client.create(&config_map("other")).await?;
    /// let maps = Controller::<ConfigMap>::builder("maps")
    ///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    /// let part = cache::Scope::all().namespace("default").fields("metadata.name=mine");
    /// let handle = Manager::builder(server.client()).caches::<ConfigMap>(part).add(maps).spawn()?;
    /// handle.ready().await;
    /// let get = |key: &Key| handle.client().cached().get::<ConfigMap>(key);
    /// assert!(get(&Key::namespaced("default", "mine"))?.is_some());
    /// assert!(get(&Key::namespaced("default", "other"))?.is_none(), "outside");
    /// let elsewhere = get(&Key::namespaced("shop", "mine")).unwrap_err();
    /// assert!(elsewhere.to_string().starts_with("ConfigMap.v1 is cached in default only"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn caches<K: Object<DynamicType = ()>>(mut self, part: Scope) -> Self {
        self.scopes.insert(Kind::of::<K>(), part);
        self
    }

    /// Declares an index for all clusters; see [`Index`].
    ///
    /// An index that one controller uses is declared with
    /// [`controller::Builder::index`](crate::controller::Builder::index).
    pub fn index<K, V>(mut self, index: &Index<K, V>) -> Self
    where
        K: Object<DynamicType = ()>,
        V: Ord + Clone + Send + Sync + 'static,
    {
        self.indexes.push(Arc::new(index.clone()));
        self
    }

    /// Settings of the caches.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Works only while it holds a lease.
    pub fn lease(mut self, options: LeaseOptions) -> Self {
        self.lease = Some(options);
        self
    }

    /// Serves `/healthz` and `/readyz` on an address such as `:8081`.
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// use tokio::net::TcpStream;
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::builder(server.client())
    ///     .probes("127.0.0.1:0")
    ///     .ready_check("disk", || Err("it is full".into()))
    ///     .spawn()?;
    /// handle.ready().await; // by then it listens
    /// let at = handle.address("health probe").expect("listens");
    /// let mut probe = TcpStream::connect(at).await?;
    /// probe.write_all(b"GET /readyz HTTP/1.1\r\nhost: me\r\nconnection: close\r\n\r\n").await?;
    /// let mut answer = String::new();
    /// probe.read_to_string(&mut answer).await?;
    /// assert!(answer.starts_with("HTTP/1.1 500 "));
    /// assert!(answer.contains("[+]caches ok\n[-]disk failed: reason withheld\n[+]ping ok"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn probes(mut self, address: &str) -> Self {
        self.probes = enabled(address);
        self
    }

    /// Serves `/metrics` and `/debug/windlass` on an address such as `:8080`.
    pub fn metrics(mut self, address: &str) -> Self {
        self.metrics = enabled(address);
        self
    }

    /// Serves metrics over TLS, conventionally on `:8443`.
    ///
    /// ```
    /// use windlass::Manager;
    /// use windlass::serve::Tls;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::builder(server.client())
    ///     .metrics("127.0.0.1:0")
    ///     .metrics_tls(Tls::self_signed(&["localhost", "127.0.0.1"])?)
    ///     .metrics_reviewed() // and not to everybody
    ///     .spawn()?;
    /// handle.ready().await;
    /// assert!(handle.address("metrics").is_some());
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn metrics_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Serves metrics over TLS with a certificate made here, unless
    /// [`metrics_tls`](Self::metrics_tls) gives one.
    pub fn metrics_secure(mut self) -> Self {
        self.secure = true;
        self
    }

    /// Shows metrics only to those whom the cluster gives the right.
    pub fn metrics_reviewed(mut self) -> Self {
        self.reviewed = true;
        self
    }

    /// Adds a liveness check.
    pub fn health_check(
        self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.health(name, check);
        self
    }

    /// Adds a readiness check.
    pub fn ready_check(
        self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.ready(name, check);
        self
    }

    /// How long a shutdown may take; keep it some seconds below the grace period of the pod.
    ///
    /// Giving the lease back and the last events have two seconds each where it is used up.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Where timestamps come from.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes everything random repeatable.
    ///
    /// With tokio's time paused and a [fixed clock](Clock::fixed), what a run does depends on nothing
    /// but the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self.cache.seed = Some(seed);
        self
    }

    /// Completes the manager.
    ///
    /// # Errors
    ///
    /// Fails on two controllers of one name in one cluster, an unknown cluster, also of a host, two
    /// clusters of one name, or lease durations without a margin.
    pub fn build(self) -> Result<Manager> {
        check_names(&self.others, &self.hosts)?;
        let stopping = CancellationToken::new();
        let fence = Fence::new();
        let mut clusters = Vec::new();
        let mut publishers = Vec::new();
        let mut first = None;
        let all = [(String::new(), self.home)].into_iter().chain(self.others);
        for (name, kube) in all {
            let mut options = self.cache.clone();
            let host = self.hosts.get(&name).map_or_else(|| known_as(&name), String::as_str);
            options.observe = Some(counted(self.registry.clone(), host, options.observe));
            let (namespaces, scopes) = (self.namespaces.clone(), self.scopes.clone());
            let cache = Cache::limited(kube.clone(), options, namespaces, scopes);
            self.indexes.iter().try_for_each(|index| cache.declare_any(index.clone()))?;
            let shown = cache.downgrade();
            self.registry.watches(&name, move || {
                shown.upgrade().map(|cache| cache.reports()).unwrap_or_default()
            });
            let (fence, registry) = (fence.clone(), self.registry.clone());
            let client = Client::build(kube, host, cache, fence, registry).field_owner(&self.name);
            let (recorder, publisher) = Recorder::new(&client, &self.name, self.clock.clone());
            let recorder = recorder.in_form(self.event_form);
            publishers.push(publisher);
            first.get_or_insert_with(|| (client.clone(), recorder.clone()));
            let ground = Ground {
                client,
                recorder,
                clock: self.clock.clone(),
                metrics: self.registry.clone(),
                stopping: stopping.clone(),
                seed: self.seed.unwrap_or_else(rand::random),
                cluster: name.clone(),
            };
            clusters.push(Cluster { name, ground });
        }
        let arrivals = place(&clusters, self.components)?;
        for arrival in &arrivals {
            let caches = clusters[arrival.cluster].ground.client.cached();
            caches.announce(&arrival.component.kinds());
        }
        let Some((client, recorder)) = first else {
            return Err(Error::Invalid("a manager needs a cluster".into()));
        };
        let lease = match self.lease {
            None => None,
            Some(options) => Some(Lease::new(&client, self.clock.clone(), options)?),
        };
        let state = Arc::new(State {
            controllers: parking_lot::Mutex::default(),
            waiting: parking_lot::Mutex::new(arrivals),
            wake: tokio::sync::Notify::new(),
            ready: watch::Sender::new(false),
            lease: parking_lot::Mutex::new(lease.as_ref().map(|l| (l.label(), l.status()))),
            checks: self.checks.clone(),
            metrics: self.registry.clone(),
            clients: clusters.iter().map(|c| (c.name.clone(), c.ground.client.clone())).collect(),
            recorder,
            bound: parking_lot::Mutex::default(),
            jumps: parking_lot::Mutex::default(),
            stopping,
        });
        state.default_checks();
        let mut servers = Vec::new();
        if let Some(address) = &self.probes {
            servers.push(Server::new("health probe", address, Pages::Probes(self.checks)));
        }
        if let Some(address) = &self.metrics {
            let shown = state.clone();
            let diagnostics = Box::new(move || diagnostics::report(&shown));
            let pages = Pages::Metrics { metrics: self.registry, diagnostics };
            let access = self.reviewed.then(|| Access::new(&client));
            let tls = match self.tls {
                None if self.secure => Some(Tls::self_signed(&["localhost"])?),
                tls => tls.map(|tls| tls.counted(&client)),
            };
            servers.push(Server::new("metrics", address, pages).secure(tls, access));
        }
        for server in &servers {
            state.bound.lock().push((server.name(), server.bound()));
        }
        Ok(Manager {
            _end: state.stopping.clone().drop_guard(),
            stage: Stage { state, clusters },
            runnables: self.runnables,
            servers,
            lease,
            publishers,
            grace: self.grace,
        })
    }

    /// Runs until `shutdown` completes, then stops in order.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build) and [`Manager::run`].
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.build()?.run(shutdown).await
    }

    /// Runs until SIGINT or SIGTERM; a second one ends the process at once, also if the manager
    /// stops for another reason.
    ///
    /// Logs as [`log::init`](crate::log::init) does, unless the process has a subscriber already.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// ```
    /// use windlass::Manager;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = server.client();
    /// # tokio::spawn(async {
    /// #     let me = std::process::id().to_string();
    /// #     std::process::Command::new("kill").args(["-TERM", &me]).status().expect("kill runs");
    /// # });
    /// // The client is `kube::Client::try_default().await?` in a cluster.
    /// Manager::builder(client).name("my-operator").run_until_signal().await
    /// # }
    /// ```
    pub async fn run_until_signal(self) -> Result<()> {
        crate::log::ensure();
        let mut signals = Signals::new();
        let manager = self.build()?;
        let stopping = manager.stage.state.stopping.clone();
        let result = tokio::select! {
            biased;
            result = manager.run(std::future::pending()) => result,
            never = signals.follow(stopping) => match never {},
        };
        signals.leave();
        result
    }

    /// Runs in a task of its own, until the handle says stop.
    ///
    /// The caches open when that task begins: until then reads of the handle's client fail as if
    /// nothing was declared. Wait for [`ready`](Handle::ready) first.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn spawn(self) -> Result<Handle> {
        let manager = self.build()?;
        let state = manager.stage.state.clone();
        let task = tokio::spawn(manager.run(std::future::pending()));
        Ok(Handle::new(state, Some(task)))
    }
}

/// An empty address and `0` switch a server off.
fn enabled(address: &str) -> Option<String> {
    Some(address.to_string()).filter(|address| !address.is_empty() && address != "0")
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).finish_non_exhaustive()
    }
}
