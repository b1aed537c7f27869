//! How a controller is described.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};

use super::{Context, Controller, Next, Options, Predicate, Reconciler, Watch};
use crate::cache::{Index, Key};
use crate::error::Result;
use crate::kind::{Kind, Object};
use crate::queue::{Limiter, QueueOptions};

/// Describes a [`Controller`]: what it watches and how it runs.
///
/// Made by [`Controller::builder`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass::controller::Builder;
/// use windlass::queue::Exponential;
/// use windlass::{Context, Controller, Key, Kind, Next, Predicate, Result, Watch};
///
/// async fn reconcile(cx: Context<Deployment>) -> Result<Next> {
///     let Some(_deployment) = cx.object() else { return Ok(Next::Done) };
///     let replica_sets = cx.list::<ReplicaSet>().owned().keys()?.len();
///     cx.event("Counted", format!("{replica_sets} replica sets"));
///     Ok(Next::After(Duration::from_secs(3600)))
/// }
///
/// let minute = Duration::from_secs(60);
/// let builder: Builder<Deployment> = Controller::builder("deployments");
/// let controller = builder
///     .when(Predicate::generation_changed() | Predicate::labels_changed())
///     .owns::<ReplicaSet>()
///     .watch(Watch::owned(Kind::of::<Pod>()).any_owner().metadata_only())
///     .watch(Watch::map(|map: &ConfigMap| vec![Key::of(map)]))
///     .reads::<Secret>()
///     .workers(4)
///     .timeout(minute)
///     .limiter(Exponential::new(minute / 60, minute))
///     .build(reconcile);
/// # let _: Controller<Deployment> = controller;
/// ```
#[must_use = "a controller does nothing until it is built and given to a manager"]
pub struct Builder<K: Object> {
    pub(super) options: Options,
    own: Option<Predicate>,
    resync: Option<Duration>,
    /// The kinds of objects that the reconcile function refers to.
    pub(super) referenced: BTreeSet<Kind>,
    object: PhantomData<fn() -> K>,
}

// === impl Builder ===

impl<K: Object> Builder<K> {
    pub(super) fn new(name: &str, kind: Kind) -> Self {
        let options = Options {
            name: name.to_string(),
            kind,
            watches: Vec::new(),
            writes: Vec::new(),
            indexes: Vec::new(),
            channels: Vec::new(),
            reports_as: None,
            workers: 1,
            timeout: None,
            queue: QueueOptions::new(),
            leader: true,
            conditions: false,
            references: None,
        };
        let referenced = BTreeSet::new();
        Self { options, own: None, resync: None, referenced, object: PhantomData }
    }

    /// Reconciles only after changes of the reconciled objects that `predicate` lets pass.
    ///
    /// With several predicates, a change has to pass all of them. Changes of other watched kinds are
    /// filtered with [`Watch::when`].
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Controller, Key, Manager, Next, Predicate};
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
    /// let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    /// let mine = Predicate::object(|map: &ConfigMap| {
    ///     map.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("mine"))
    /// });
    /// let controller = Controller::<ConfigMap>::builder("mine").when(mine).build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             let _ = sender.send(cx.key().clone()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let handle = Manager::new(server.client()).add(controller).spawn()?;
    /// handle.client().api().create(&config_map("other")).await?;
    /// let mut map = config_map("map");
    /// map.metadata.labels = Some([("mine".into(), "yes".into())].into());
    /// handle.client().api().create(&map).await?;
    /// assert_eq!(seen.recv().await, Some(Key::of(&map)), "the other one did not pass");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.own = Some(match self.own.take() {
            Some(before) => before & predicate,
            None => predicate,
        });
        self
    }

    /// Reconciles the controlling owner when an object of this kind changes, caches the kind, and
    /// declares that the reconcile function applies such objects.
    pub fn owns<T: Object<DynamicType = ()>>(self) -> Self {
        let owned = Watch::owned(Kind::of::<T>());
        self.applies::<T>().watch(if T::metadata_api() { owned.metadata_only() } else { owned })
    }

    /// Adds a [`Watch`]: reconciles the keys it returns when an object of its kind changes, and
    /// caches the kind.
    pub fn watch(mut self, watch: Watch) -> Self {
        self.options.indexes.extend(watch.index.clone());
        self.options.watches.push(watch);
        self
    }

    /// Caches a kind for reading; its changes do not lead to reconciles.
    ///
    /// Of a `PartialObjectMeta<T>` only the metadata is cached. A kind known at run time is declared
    /// with `watch(Watch::read(kind))`.
    pub fn reads<T: Object<DynamicType = ()>>(self) -> Self {
        let read = Watch::read(Kind::of::<T>());
        self.watch(if T::metadata_api() { read.metadata_only() } else { read })
    }

    /// Declares an index of a kind that this controller caches, for [`List::by`].
    ///
    /// An example is at [`Index`]. The controller does not start if the kind is not cached, or if
    /// the index is declared elsewhere with another function.
    ///
    /// [`List::by`]: crate::List::by
    pub fn index<T, V>(mut self, index: &Index<T, V>) -> Self
    where
        T: Object<DynamicType = ()>,
        V: Ord + Clone + Send + Sync + 'static,
    {
        self.options.indexes.push(Arc::new(index.clone()));
        self
    }

    /// Reconciles every key that a stream yields, for sources outside the cluster.
    ///
    /// The stream is polled while the controller runs, and dropped when it stops. The receiver of a
    /// channel becomes a stream with `futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Node;
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    /// let alarms = futures::stream::iter([Key::cluster("node-1")]);
    /// let controller = Controller::<Node>::builder("alarms").source(alarms).build(
    ///     move |cx: Context<Node>| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             let _ = sender.send(cx.name().to_string()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let handle = Manager::new(server.client()).add(controller).spawn()?;
    /// assert_eq!(seen.recv().await.as_deref(), Some("node-1"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn source(mut self, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.options.channels.push(keys.boxed());
        self
    }

    /// Reconciles every object again after this time, although nothing changed; off by default.
    ///
    /// A period below a second counts as one second, and periods vary by some percent so that not
    /// all objects come at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use tokio::time::Instant;
    /// use windlass::{Context, Controller, Manager, Next, Predicate};
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
    /// # windlass::Client::new(server.client()).api().create(&config_map("a")).await?;
    /// let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    /// let hour = Duration::from_secs(3600);
    /// let controller = Controller::<ConfigMap>::builder("hourly")
    ///     .when(Predicate::labels_changed()) // a resync passes all predicates
    ///     .resync(hour)
    ///     .build(move |_: Context<ConfigMap>| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             let _ = sender.send(Instant::now()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     });
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let (first, second) = (seen.recv().await, seen.recv().await);
    /// let between = second.expect("the resync") - first.expect("the first list");
    /// assert!(between > hour / 2 && between < 2 * hour);
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// Sets the name that events are published under; the controller's own name by default.
    pub fn reports_as(mut self, name: &str) -> Self {
        self.options.reports_as = Some(name.into());
        self
    }

    /// Sets how many reconciles may run at the same time; 1 by default.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers.max(1);
        self
    }

    /// Drops a reconcile that takes longer, counts it and retries with growing delay; no limit by
    /// default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::queue::Exponential;
    /// use windlass::{Context, Controller, Manager, Next};
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
    /// # windlass::Client::new(server.client()).api().create(&config_map("a")).await?;
    /// let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    /// let second = Duration::from_secs(1);
    /// let controller = Controller::<ConfigMap>::builder("slow")
    ///     .timeout(30 * second)
    ///     .limiter(Exponential::new(second, 60 * second))
    ///     .build(move |cx: Context<ConfigMap>| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             if cx.failures() < 3 {
    ///                 std::future::pending::<()>().await; // hangs, and is dropped
    ///             }
    ///             let _ = sender.send(tokio::time::Instant::now()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     });
    /// let began = tokio::time::Instant::now();
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let took = seen.recv().await.expect("succeeds") - began;
    /// assert_eq!(took.as_secs(), 3 * 30 + 1 + 2 + 4);
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Sets the delays after failures; exponential from 5 ms to 1000 s by default.
    pub fn limiter(mut self, limiter: impl Limiter<Key> + 'static) -> Self {
        self.options.queue = self.options.queue.limiter(limiter);
        self
    }

    /// Reconciles waiting keys of the same priority in turns of their tenants, so that a tenant with
    /// ten thousand keys does not delay one with a single key; first come, first served by default.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Controller, Key, Next};
    ///
    /// let controller = Controller::<ConfigMap>::builder("maps")
    ///     .fair_by(|key: &Key| key.namespace().unwrap_or_default().to_string())
    ///     .build(|_| async { Ok(Next::Done) });
    /// # let _ = controller;
    /// ```
    pub fn fair_by<T: Hash>(mut self, tenant: impl Fn(&Key) -> T + Send + Sync + 'static) -> Self {
        self.options.queue = self.options.queue.fair_by(tenant);
        self
    }

    /// Reconciles on every replica, whether it leads or not, and writes without the lease; only the
    /// leader reconciles by default.
    pub fn on_every_replica(mut self) -> Self {
        self.options.leader = false;
        self
    }

    /// Writes the conditions `Ready`, `Reconciling` and `Stalled` after each reconcile.
    ///
    /// They have the meaning that `kubectl wait`, Flux and Argo CD expect:
    ///
    /// | after a reconcile that | `Ready` | `Reconciling` | `Stalled` |
    /// |---|---|---|---|
    /// | succeeded, with all parts ready | `True` | absent | absent |
    /// | succeeded, with a part in progress | `False` | `True` | absent |
    /// | succeeded, with a failed part | `False` | absent | `True` |
    /// | failed, and is retried | `False` | `True` | absent |
    /// | failed with a terminal error | `False` | absent | `True` |
    ///
    /// Parts are the sets of [`Context::children`] and what [`Context::report`] names, which also
    /// becomes a condition of its own. `status.observedGeneration` is set as well. A write conflict
    /// changes nothing, and a status that is as it should be costs no request.
    ///
    /// The kind needs the subresource `status`, and `conditions` and `observedGeneration` in the
    /// schema of its status.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Pod, Service, ServiceStatus};
    /// use windlass::{Context, Controller, Key, Manager, Next, Readiness, Result, Watch};
    ///
    /// /// A service is ready when its pod is.
    /// async fn reconcile(cx: Context<Service>) -> Result<Next> {
    ///     if let Some(pod) = cx.get::<Pod>(cx.name())? {
    ///         cx.report("PodReady", &Readiness::of(&*pod, cx.clock().now()));
    ///     }
    ///     Ok(Next::Done)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let setup = windlass::Client::new(server.client());
    /// # let metadata = serde_json::json!({"name": "web", "namespace": "default"});
    /// # let pod: Pod = serde_json::from_value(serde_json::json!({
    /// #     "metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]},
    /// # }))?;
    /// # setup.api().create(&pod).await?;
    /// # let service: Service = serde_json::from_value(serde_json::json!({
    /// #     "metadata": metadata, "spec": {"ports": [{"port": 80}]},
    /// # }))?;
    /// # setup.api().create(&service).await?;
    /// let controller = Controller::<Service>::builder("services")
    ///     .watch(Watch::map(|pod: &Pod| vec![Key::of(pod)]))
    ///     .conditions()
    ///     .build(reconcile);
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let (client, second) = (handle.client(), std::time::Duration::from_secs(1));
    /// windlass::wait::until("the conditions", second / 10, 10 * second, || async {
    ///     let web = client.api::<Service>().get(&Key::namespaced("default", "web")).await?;
    ///     let status: ServiceStatus = web.and_then(|web| web.status.clone()).unwrap_or_default();
    ///     let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").cloned();
    ///     Ok(ready.is_some_and(|ready| ready.status == "False" && ready.reason == "PodPending"))
    /// })
    /// .await?;
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn conditions(mut self) -> Self {
        self.options.conditions = true;
        self.writes_status()
    }

    /// Completes the controller with a function, or a closure, that reconciles one object.
    ///
    /// Functions with another error type, and types that implement [`Reconciler`], are taken by
    /// [`build_with`](Self::build_with).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Controller, Next};
    ///
    /// let controller = Controller::<ConfigMap>::builder("maps").build(|cx| async move {
    ///     cx.event("Seen", "hello");
    ///     Ok(Next::Done)
    /// });
    /// # let _: Controller<ConfigMap> = controller;
    /// ```
    pub fn build<F, Fut>(self, reconcile: F) -> Controller<K>
    where
        F: Fn(Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next>> + Send,
    {
        self.build_with(reconcile)
    }

    /// Completes the controller with any [`Reconciler`].
    pub fn build_with(self, reconciler: impl Reconciler<K>) -> Controller<K> {
        let Self { mut options, own: predicate, resync, .. } = self.follow_references();
        let mut own = Watch::itself(options.kind.clone());
        if let Some(predicate) = predicate {
            own = own.when(predicate);
        }
        own.metadata_only = K::metadata_api();
        own.resync = resync;
        options.watches.insert(0, own);
        Controller { options, reconciler: Arc::new(reconciler) }
    }
}

impl<K: Object> fmt::Debug for Builder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.options.name)
            .field("kind", &self.options.kind)
            .finish_non_exhaustive()
    }
}
