//! A manager before it runs: what it runs, and its settings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Selector;

#[cfg(feature = "operator")]
use super::assembly::host_in;
use super::checks::Probe;
use super::serving::Serving;
use super::{Checks, RunContext, Runnable};
use crate::cache::{CacheOptions, Choice, Namespaces, Scope};
use crate::clock::Clock;
use crate::controller::{Component, Controller, SWITCH_PREFIX};
use crate::error::Result;
use crate::events::EventsApi;
use crate::kind::{Kind, Object};
use crate::lease::LeaseOptions;
use crate::metrics::Metrics;

/// The default grace period of a shutdown.
const GRACE: Duration = Duration::from_secs(30);

/// Runs controllers, and everything they need.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::lease::LeaseOptions;
/// use windlass::{Context, Controller, Manager, Next, Result};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let controller = Controller::<ConfigMap>::builder("maps")
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// let running = Manager::new(client)
///     .name("my-operator")
///     .namespaces(["default"])
///     .add(controller)
///     .lease(LeaseOptions::new("my-operator"))
///     .probes("127.0.0.1:0") // conventionally :8081
///     .metrics("127.0.0.1:0") // conventionally :8080, or :8443 with TLS
///     .ready_check("disk", || async { Ok(()) })
///     .runnable("importer", |cx| async move {
///         cx.stopping().await;
///         Ok(())
///     })
///     .grace(Duration::from_secs(20))
///     .spawn()?;
/// running.ready().await;
/// assert_eq!(running.diagnostics()["controllers"][0]["name"], "maps");
/// running.stop().await
/// # }
/// ```
#[must_use = "a manager does nothing until it runs"]
pub struct Manager {
    pub(super) home: kube::Client,
    pub(super) others: Vec<(String, kube::Client)>,
    /// The label `host` of the home cluster.
    pub(super) host: Option<String>,
    pub(super) components: Vec<(String, Box<dyn Component>)>,
    pub(super) runnables: Vec<(bool, Runnable)>,
    pub(super) name: String,
    pub(super) namespaces: Namespaces,
    pub(super) scopes: BTreeMap<Kind, Scope>,
    pub(super) cache: CacheOptions,
    pub(super) lease: Option<LeaseOptions>,
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "nothing is served"))]
    pub(super) serving: Serving,
    pub(super) checks: Checks,
    pub(super) registry: Metrics,
    pub(super) grace: Duration,
    pub(super) clock: Clock,
    pub(super) events_api: Option<EventsApi>,
    pub(super) seed: Option<u64>,
    pub(super) replica: Option<String>,
    pub(super) switch_prefix: Arc<str>,
    #[cfg(feature = "operator")]
    pub(super) settings_file: Option<std::path::PathBuf>,
}

// === impl Manager ===

impl Manager {
    /// Creates a manager for the cluster of `client`.
    pub fn new(home: kube::Client) -> Self {
        Self {
            home,
            others: Vec::new(),
            host: None,
            components: Vec::new(),
            runnables: Vec::new(),
            name: "windlass".into(),
            namespaces: Namespaces::All,
            scopes: BTreeMap::new(),
            cache: CacheOptions::default(),
            lease: None,
            serving: Serving::default(),
            checks: Checks::default(),
            registry: Metrics::new(),
            grace: GRACE,
            clock: Clock::default(),
            events_api: Some(EventsApi::default()),
            seed: None,
            replica: None,
            switch_prefix: SWITCH_PREFIX.into(),
            #[cfg(feature = "operator")]
            settings_file: None,
        }
    }

    /// Adds a controller to the home cluster.
    #[expect(clippy::should_implement_trait, reason = "a manager is not a number")]
    pub fn add<K: Object>(mut self, controller: Controller<K>) -> Self {
        self.components.push((String::new(), Box::new(controller)));
        self
    }

    /// Adds a controller to a named cluster.
    pub fn add_to<K: Object>(mut self, cluster: &str, controller: Controller<K>) -> Self {
        self.components.push((cluster.into(), Box::new(controller)));
        self
    }

    /// Sets the API that events are written to; `events.k8s.io/v1` by default. With `None`, events
    /// are logged at level `debug` and not written.
    pub fn events_api(mut self, api: impl Into<Option<EventsApi>>) -> Self {
        self.events_api = api.into();
        self
    }

    /// Adds another cluster, with a cache of its own. Logs and metrics name its controllers
    /// `cluster/controller`.
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
    /// let handle = Manager::new(home.client())
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

    /// Sets the label `host` of `rest_client_requests_total` for the home cluster: a `host:port`, or
    /// a URL that contains it. By default it is `kubernetes`, because a `kube::Client` does not
    /// reveal its server.
    #[cfg(feature = "operator")]
    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = Some(host_in(host).into());
        self
    }

    /// Adds a task that runs while this process leads; if it fails, the manager stops.
    ///
    /// It starts when the caches of all controllers have synced. It does not wait for kinds that are
    /// missing or forbidden, and no longer than two minutes for the others; the log names them.
    ///
    /// ```
    /// use windlass::{Error, Manager};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let handle = Manager::new(server.client())
    ///     .runnable_everywhere("idle", |cx| async move {
    ///         cx.stopping().await; // the manager stops because the other one failed
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

    /// Adds a task that runs on every replica, whether it leads or not; its client writes without
    /// the lease.
    ///
    /// It starts as described at [`runnable`](Self::runnable).
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
            eager: false,
        };
        self.runnables.push((leader, runnable));
        self
    }

    /// Sets the name of the operator, which is used in events and as the default field manager.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Caches namespaced kinds in these namespaces only; in all namespaces by default.
    pub fn namespaces<'a>(mut self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.namespaces = Namespaces::Fixed(namespaces.into_iter().map(str::to_string).collect());
        self
    }

    /// Caches namespaced kinds in the namespaces that match a label selector, at any time.
    ///
    /// When a namespace begins to match, its objects are read and reconciled. When it does not match
    /// any more, its objects are treated as deleted: they are not in the cache, and their keys are
    /// reconciled once more, without an object. Reads in other namespaces fail.
    ///
    /// Each kind has one watch per namespace, so this is for some hundred namespaces. The role of the
    /// operator has to allow `list` and `watch` of namespaces.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// use kube::core::Expression;
    /// use serde_json::json;
    /// use windlass::client::Patch;
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = windlass::Client::new(server.client());
    /// # let mut map = ConfigMap::default();
    /// # map.metadata.name = Some("a".into());
    /// # map.metadata.namespace = Some("default".into());
    /// # client.api().create(&map).await?;
    /// let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    /// let maps = Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
    ///     let sender = sender.clone();
    ///     async move {
    ///         let _ = sender.send((cx.key().clone(), cx.object().is_some())).await;
    ///         Ok(Next::Done)
    ///     }
    /// });
    /// let blue = Expression::Equal("team".into(), "blue".into());
    /// let manager = Manager::new(server.client()).namespace_selector(blue.into());
    /// let handle = manager.add(maps).spawn()?;
    /// handle.ready().await;
    /// let namespaces = handle.client().api::<Namespace>();
    /// let paint = |team| Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
    /// namespaces.patch(&Key::cluster("default"), &paint("blue")).await?;
    /// let key = Key::namespaced("default", "a");
    /// assert_eq!(seen.recv().await, Some((key.clone(), true)));
    /// namespaces.patch(&Key::cluster("default"), &paint("red")).await?;
    /// assert_eq!(seen.recv().await, Some((key, false)));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn namespace_selector(mut self, selector: Selector) -> Self {
        self.namespaces = Namespaces::Chosen(Choice::Labels(selector));
        self
    }

    /// Caches only a part of the objects of a kind: those in some namespaces, or with some labels
    /// or fields.
    ///
    /// Cached reads do not see other objects, and changes of other objects are ignored.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::Expression;
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
    /// client.api().create(&config_map("mine")).await?;
    /// client.api().create(&config_map("other")).await?;
    /// let maps = Controller::<ConfigMap>::builder("maps")
    ///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    /// let mine = Expression::Equal("metadata.name".into(), "mine".into());
    /// let part = cache::Scope::default().namespace("default").fields(mine);
    /// let handle = Manager::new(server.client()).scope::<ConfigMap>(part).add(maps).spawn()?;
    /// handle.ready().await;
    /// let get = |key: &Key| handle.client().cached().get::<ConfigMap>(key);
    /// assert!(get(&Key::namespaced("default", "mine"))?.is_some());
    /// assert!(get(&Key::namespaced("default", "other"))?.is_none(), "outside");
    /// let elsewhere = get(&Key::namespaced("shop", "mine")).unwrap_err();
    /// assert!(elsewhere.to_string().starts_with("ConfigMap.v1 is cached in default only"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn scope<K: Object<DynamicType = ()>>(mut self, part: Scope) -> Self {
        self.scopes.insert(Kind::of::<K>(), part);
        self
    }

    /// Sets the options of the caches.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Uses a lease: controllers and runnables work only while this process holds it.
    pub fn lease(mut self, options: LeaseOptions) -> Self {
        self.lease = Some(options);
        self
    }

    /// Registers metrics of the operator, which are served with those of the manager.
    ///
    /// ```
    /// use windlass::Manager;
    /// use windlass::prometheus_client::metrics::gauge::Gauge;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let doors = Gauge::<i64>::default();
    /// let handle = Manager::new(server.client())
    ///     .register_metrics(|registry| registry.register("doors", "Open doors", doors.clone()))
    ///     .spawn()?; // or run_until_signal()
    /// doors.set(2);
    /// assert!(handle.metrics().contains("\ndoors 2\n"));
    /// # handle.stop().await
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    pub fn register_metrics(
        self,
        register: impl FnOnce(&mut prometheus_client::registry::Registry),
    ) -> Self {
        self.registry.register(register);
        self
    }

    /// Adds a check to `/healthz`. Kubernetes restarts a container whose liveness probe fails.
    ///
    /// A check that does not return within five seconds, fails or panics makes the probe fail.
    pub fn health_check<F, Fut>(self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.checks.add(Probe::Health, name, check);
        self
    }

    /// Adds a check to `/readyz`. Kubernetes sends no requests to a pod whose readiness probe fails.
    ///
    /// A check that does not return within five seconds, fails or panics makes the probe fail.
    pub fn ready_check<F, Fut>(self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.checks.add(Probe::Ready, name, check);
        self
    }

    /// Sets the prefix of the annotations by which people pause an object (`PREFIX/paused`), have it
    /// reconciled (`PREFIX/reconcile`) or log more of it (`PREFIX/log-level`); `windlass.dev` by
    /// default.
    ///
    /// [`Context::is_paused`](crate::Context::is_paused) has an example.
    pub fn annotation_prefix(mut self, prefix: &str) -> Self {
        self.switch_prefix = prefix.into();
        self
    }

    /// Sets how long a shutdown may take, 30 s by default. Keep it some seconds below the termination
    /// grace period of the pod.
    ///
    /// If it is used up, releasing the lease and sending the last events may take two more seconds
    /// each.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the clock that timestamps are taken from; the clock of the machine by default.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the seed of all random decisions.
    ///
    /// With tokio's time paused and a [fixed clock](Clock::fixed), two runs with the same seed and
    /// [replica](Self::replica) do exactly the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the name of this replica, which has to be unique among the replicas of the operator; by
    /// default the environment variable `HOSTNAME`, which is the name of the pod.
    ///
    /// Events are reported by this instance, and the lease is held under this name. Replicas with
    /// equal seeds make different random decisions.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::Manager;
    /// use windlass::lease::LeaseOptions;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let lease = LeaseOptions::new("shop").namespace("default");
    /// let builder = Manager::new(server.client()).lease(lease);
    /// let handle = builder.replica("shop-0").seed(7).spawn()?;
    /// tokio::time::sleep(Duration::from_secs(1)).await;
    /// assert!(handle.lease().expect("configured").holder.starts_with("shop-0_"));
    /// handle.stop().await
    /// # }
    /// ```
    pub fn replica(mut self, name: &str) -> Self {
        self.replica = Some(name.into());
        self
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("name", &self.name).finish_non_exhaustive()
    }
}
