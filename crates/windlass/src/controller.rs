//! Controllers: from changes of watched objects to reconciles.
//!
//! The flow is one way: [`Watch`] (a watched kind) → [`Predicate`] (does it matter) → keys →
//! the work queue → the worker pool → [`Reconciler`] with its [`Context`]. A [`Controller`] is a
//! plain description until a manager runs it, so it can be built before there is a cluster.
//!
//! A reconcile ends well when it has nothing left to do. One that writes on every pass, because
//! somebody else undoes what it writes, because the server stores something else, or because there
//! is the present time in it, never does, and nothing fails. So a controller looks after what its
//! client writes: an object that is written more than twenty times within a minute to no end - the
//! states written return, or what is stored is not what is written - is named in a warning with the
//! fields in question (their paths, never their values), at most once in ten minutes. It counts in
//! `windlass_update_loops_total`, and is shown on the diagnostics page under `updateLoops` as long
//! as it goes on. A status that follows the world, and objects that follow the spec of the
//! reconciled one, do not count. Leases are left out, and so is what a plain `kube::Client` writes.
//!
//! **Invariant:** workers start only when every watch has delivered its first list, so the first
//! reconcile sees the whole state.

mod context;
mod crew;
mod inbox;
mod predicate;
mod reconcile;
mod route;
mod running;
mod source;
mod worker;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt};
use kube::core::DynamicObject;
use tokio::sync::mpsc;

use crate::cache::{Declared, Index, Key};
use crate::error::Error;
use crate::kind::{Kind, Object};
use crate::queue::{Limiter, QueueOptions};

pub use context::Context;
pub use predicate::Predicate;
pub use reconcile::{Next, Reconciler};
pub use running::{ControllerHandle, WatchGuard};
pub use source::{Change, Watch};

pub(crate) use running::{Component, Ground, Prepared};
pub(crate) use worker::panic_text;

use worker::DynReconciler;

/// Reconciles objects of one kind; run by a manager.
///
/// # Examples
///
/// ```
/// use kube::core::DynamicObject;
/// use windlass::{Context, Controller, Kind, Next};
///
/// // A kind that is known at run time only.
/// let drive = Kind::new("ships.example.com", "v1", "Drive", "drives");
/// let controller: Controller<DynamicObject> = Controller::dynamic("drives", &drive)
///     .build(|_: Context<DynamicObject>| async { Ok(Next::Done) });
/// assert_eq!(controller.name(), "drives");
/// ```
pub struct Controller<K: Object> {
    options: Options,
    reconciler: Arc<dyn DynReconciler<K>>,
}

/// Puts a [`Controller`] together.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass::queue::FastSlow;
/// use windlass::{Context, Controller, Key, Next, Predicate, Result, Watch};
///
/// async fn reconcile(cx: Context<Deployment>) -> Result<Next> {
///     let Some(_deployment) = cx.object() else { return Ok(Next::Done) };
///     let replica_sets = cx.list::<ReplicaSet>().owned().count()?;
///     cx.event("Counted", format!("{replica_sets} replica sets"));
///     Ok(Next::After(Duration::from_secs(3600)))
/// }
///
/// let minute = Duration::from_secs(60);
/// let controller = Controller::<Deployment>::builder("deployments")
///     .when(Predicate::generation_changed().or(Predicate::labels_changed()))
///     .owns::<ReplicaSet>()
///     .watch(Watch::owned::<Pod>().any_owner().metadata_only())
///     .watches(|map: &ConfigMap| vec![Key::of(map)])
///     .reads::<Secret>()
///     .workers(4)
///     .timeout(minute)
///     .limiter(FastSlow::new(minute / 60, minute, 3))
///     .build(reconcile);
/// assert_eq!(controller.name(), "deployments");
/// ```
#[must_use = "a controller does nothing until it is built and given to a manager"]
pub struct Builder<K: Object> {
    options: Options,
    own: Option<Predicate>,
    resync: Option<Duration>,
    object: PhantomData<fn() -> K>,
}

struct Options {
    name: String,
    kind: Kind,
    watches: Vec<Watch>,
    indexes: Vec<Arc<dyn Declared>>,
    filter: Option<Predicate>,
    channels: Vec<BoxStream<'static, Key>>,
    reports_as: Option<String>,
    workers: usize,
    timeout: Option<Duration>,
    queue: QueueOptions<Key>,
    leader: bool,
}

// === impl Controller ===

impl<K: Object<DynamicType = ()>> Controller<K> {
    /// Starts a controller of a kind known at compile time.
    ///
    /// The name shows in logs and metrics and owns the fields this controller applies.
    pub fn builder(name: &str) -> Builder<K> {
        Builder::new(name, Kind::of::<K>())
    }
}

impl<K: Object> Controller<K> {
    /// Starts a controller of a kind known at run time, through any type that fits, such as
    /// `DynamicObject` or `PartialObjectMeta<DynamicObject>`.
    ///
    /// ```
    /// use kube::core::{DynamicObject, PartialObjectMeta};
    /// use windlass::{Context, Controller, Kind, Next};
    ///
    /// // Metadata is cached, and nothing else.
    /// type Metadata = PartialObjectMeta<DynamicObject>;
    /// let drives = Kind::new("ships.example.com", "v1", "Drive", "drives");
    /// let controller = Controller::<Metadata>::of_kind("labels", &drives)
    ///     .build(|_: Context<Metadata>| async { Ok(Next::Done) });
    /// assert_eq!(controller.name(), "labels");
    /// ```
    pub fn of_kind(name: &str, kind: &Kind) -> Builder<K> {
        Builder::new(name, kind.clone())
    }

    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.options.name
    }
}

impl Controller<DynamicObject> {
    /// Starts a controller of a kind known at run time.
    pub fn dynamic(name: &str, kind: &Kind) -> Builder<DynamicObject> {
        Builder::new(name, kind.clone())
    }
}

impl<K: Object> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.options.name)
            .field("kind", &self.options.kind)
            .finish_non_exhaustive()
    }
}

// === impl Builder ===

impl<K: Object> Builder<K> {
    fn new(name: &str, kind: Kind) -> Self {
        let options = Options {
            name: name.to_string(),
            kind,
            watches: Vec::new(),
            indexes: Vec::new(),
            filter: None,
            channels: Vec::new(),
            reports_as: None,
            workers: 1,
            timeout: None,
            queue: QueueOptions::new(),
            leader: true,
        };
        Self { options, own: None, resync: None, object: PhantomData }
    }

    /// Only these changes of the reconciled objects themselves.
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
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// let mine = Predicate::object(|map: &ConfigMap| {
    ///     map.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("mine"))
    /// });
    /// let controller = Controller::<ConfigMap>::builder("mine").when(mine).build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send(cx.key().clone()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let handle = Manager::builder(server.client()).add(controller).spawn()?;
    /// handle.client().create(&config_map("other")).await?;
    /// let mut map = config_map("map");
    /// map.metadata.labels = Some([("mine".into(), "yes".into())].into());
    /// handle.client().create(&map).await?;
    /// assert_eq!(told.recv().await, Some(Key::of(&map)), "of the other nothing was heard");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.own = Some(match self.own.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Only these changes, of all watched kinds.
    pub fn filter(mut self, predicate: Predicate) -> Self {
        self.options.filter = Some(match self.options.filter.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Reconciles the controlling owner when an object of this kind changes, and caches the kind.
    pub fn owns<T: Object<DynamicType = ()>>(self) -> Self {
        self.watch(Watch::owned::<T>())
    }

    /// The same for a kind known at run time.
    pub fn owns_kind(self, kind: &Kind) -> Self {
        self.watch(Watch::owned_kind(kind.clone()))
    }

    /// Reconciles what `map` names when an object of this kind changes, and caches the kind.
    pub fn watches<T: Object<DynamicType = ()>>(
        self,
        map: impl Fn(&T) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.watch(Watch::map(map))
    }

    /// Adds any [`Watch`].
    pub fn watch(mut self, watch: Watch) -> Self {
        self.options.watches.push(watch);
        self
    }

    /// Caches a kind for reading; its changes lead to nothing. Of a `PartialObjectMeta<T>` the
    /// metadata is cached.
    pub fn reads<T: Object<DynamicType = ()>>(self) -> Self {
        self.watch(Watch::read(Kind::of::<T>(), T::metadata_api()))
    }

    /// The same for a kind known at run time.
    pub fn reads_kind(self, kind: &Kind) -> Self {
        self.watch(Watch::read(kind.clone(), false))
    }

    /// Declares an index of a kind that this controller caches, for [`Listing::by`].
    ///
    /// An example is at [`Index`]. [`Manager`](crate::Manager)s fail to start if the kind is not
    /// cached, or if the index is declared elsewhere with another function.
    ///
    /// [`Listing::by`]: crate::cache::Listing::by
    pub fn index<T, V>(mut self, index: &Index<T, V>) -> Self
    where
        T: Object<DynamicType = ()>,
        V: Ord + Clone + Send + Sync + 'static,
    {
        self.options.indexes.push(Arc::new(index.clone()));
        self
    }

    /// Reconciles every key that comes through a channel, for sources outside the cluster.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let (calls, incoming) = tokio::sync::mpsc::channel(8); // from a webhook, say
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// let controller = Controller::<ConfigMap>::builder("calls").channel(incoming).build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send((cx.name().to_string(), cx.object().is_some())).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// calls.send(Key::namespaced("default", "a")).await.expect("the controller listens");
    /// assert_eq!(told.recv().await, Some(("a".into(), false)), "there is no such object");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn channel(self, mut keys: mpsc::Receiver<Key>) -> Self {
        self.source(futures::stream::poll_fn(move |cx| keys.poll_recv(cx)))
    }

    /// Reconciles every key that a stream brings, for sources of the author's own.
    ///
    /// The stream is polled while this process works, and dropped at its end.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Node;
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// let alarms = futures::stream::iter([Key::cluster("node-1")]);
    /// let controller = Controller::<Node>::builder("alarms").source(alarms).build(
    ///     move |cx: Context<Node>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send(cx.name().to_string()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let handle = Manager::builder(server.client()).add(controller).spawn()?;
    /// assert_eq!(told.recv().await.as_deref(), Some("node-1"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn source(mut self, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.options.channels.push(keys.boxed());
        self
    }

    /// Reminds the controller of every reconciled object after this time, at least a second.
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
    /// # windlass::Client::new(server.client()).create(&config_map("a")).await?;
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// let hour = Duration::from_secs(3600);
    /// let controller = Controller::<ConfigMap>::builder("hourly")
    ///     .when(Predicate::resource_version_changed()) // reminders pass nevertheless
    ///     .resync(hour)
    ///     .build(move |_: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send(Instant::now()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     });
    /// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let (first, second) = (told.recv().await, told.recv().await);
    /// let between = second.expect("a reminder") - first.expect("the first list");
    /// assert!(between > hour / 2 && between < 2 * hour);
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// The name events are published under; the controller's own unless told otherwise.
    pub fn reports_as(mut self, name: &str) -> Self {
        self.options.reports_as = Some(name.into());
        self
    }

    /// Most reconciles at once; 1 unless told otherwise.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers.max(1);
        self
    }

    /// Drops a reconcile that takes longer, counts it and tries again with backoff.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::queue::FastSlow;
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
    /// # windlass::Client::new(server.client()).create(&config_map("a")).await?;
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// let second = Duration::from_secs(1);
    /// let controller = Controller::<ConfigMap>::builder("slow")
    ///     .timeout(30 * second)
    ///     .limiter(FastSlow::new(second, 60 * second, 2)) // after two failures it gets slow
    ///     .build(move |cx: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             if cx.failures() < 3 {
    ///                 std::future::pending::<()>().await; // hangs, and is dropped
    ///             }
    ///             let _ = tell.send(tokio::time::Instant::now()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     });
    /// let began = tokio::time::Instant::now();
    /// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let took = told.recv().await.expect("at last") - began;
    /// assert_eq!(took.as_secs(), 3 * 30 + 1 + 1 + 60);
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Delays after failures; exponential from 5 ms to 1000 s unless told otherwise.
    pub fn limiter(mut self, limiter: impl Limiter<Key> + 'static) -> Self {
        self.options.queue = self.options.queue.limiter(limiter);
        self
    }

    /// Reconciles on every replica, leader or not; its writes need no lease.
    pub fn on_every_replica(mut self) -> Self {
        self.options.leader = false;
        self
    }

    /// Completes the controller.
    ///
    /// # Errors
    ///
    /// Fails if the name is empty or longer than 128 characters, the limit of field owners.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Controller, Next};
    ///
    /// let name = ""; // from the command line, say
    /// let built = Controller::<ConfigMap>::builder(name)
    ///     .try_build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    /// let text = "a controller needs a name of 1 to 128 characters";
    /// assert_eq!(built.unwrap_err().to_string(), text);
    /// ```
    pub fn try_build(self, reconciler: impl Reconciler<K>) -> Result<Controller<K>, Error> {
        let mut options = self.options;
        if options.name.is_empty() || options.name.len() > 128 {
            return Err(Error::Invalid("a controller needs a name of 1 to 128 characters".into()));
        }
        let mut own = Watch::itself(options.kind.clone());
        if let Some(predicate) = self.own {
            own = own.when(predicate);
        }
        own.metadata_only = K::metadata_api();
        own.resync = self.resync;
        options.watches.insert(0, own);
        Ok(Controller { options, reconciler: Arc::new(reconciler) })
    }

    /// Completes the controller.
    ///
    /// # Panics
    ///
    /// Panics where [`try_build`](Self::try_build) fails: on a name that is empty or too long.
    pub fn build(self, reconciler: impl Reconciler<K>) -> Controller<K> {
        self.try_build(reconciler).expect("the name of a controller is fixed in the source")
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
