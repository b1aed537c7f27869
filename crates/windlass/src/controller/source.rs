//! The watches of a controller: which objects it follows, and which keys their changes concern.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, slice};

use super::Predicate;
use super::children::marked_owner;
use super::map_output::{MapError, MapOutput};
use crate::cache::{Cache, Change, Declared, Index, Key, Selection};
use crate::error::Error;
use crate::kind::{Kind, Object};

/// One watched kind and the keys that its changes concern.
///
/// | constructor | keys | for kinds known |
/// |---|---|---|
/// | [`owned`](Self::owned) | of the controlling owner | at run time |
/// | [`map`](Self::map) | those that a function of the object returns | at compile time |
/// | [`selected_by`](Self::selected_by) | of the objects whose selectors match | at run time |
/// | [`changes`](Self::changes) | those that a function of the change and the caches returns | at run time |
///
/// A map function returns a `Vec<Key>`, or a `Result` with one and any error. A function that fails
/// or panics is called again with the same change, after 100 ms at first and with a growing delay of
/// up to five minutes, until it succeeds.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use windlass::{Key, Predicate, Watch};
///
/// let nodes = Watch::map(|pod: &Pod| {
///     let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
///     node.map(Key::cluster).into_iter().collect::<Vec<_>>()
/// })
/// .when(Predicate::generation_changed());
///
/// /// Fails if the annotation is missing, and is called again until it is there.
/// fn user(map: &ConfigMap) -> Result<Vec<Key>, String> {
///     let annotations = map.metadata.annotations.as_ref();
///     let name = annotations.and_then(|all| all.get("user")).ok_or("there is no user")?;
///     Ok(vec![Key::new(map.metadata.namespace.as_deref(), name)])
/// }
/// let users = Watch::map(user);
/// ```
#[derive(Clone)]
pub struct Watch {
    pub(crate) kind: Kind,
    pub(crate) metadata_only: bool,
    pub(crate) predicate: Option<Predicate>,
    pub(crate) mapper: Mapper,
    pub(crate) priority: Option<i32>,
    pub(crate) resync: Option<Duration>,
    pub(crate) optional: bool,
    /// The index that the map function uses.
    pub(crate) index: Option<Arc<dyn Declared>>,
}

/// How a change is mapped to keys.
#[derive(Clone)]
pub(crate) enum Mapper {
    /// The key of the object itself.
    Itself,
    /// The keys of its owners of the reconciled kind.
    Owner { controller_only: bool },
    /// What a function of the author returns.
    Function(Arc<MapFunction>),
    /// No keys: the kind is only read.
    Nothing,
}

type MapFunction = dyn Fn(&Change, &Cache) -> Result<Vec<Key>, MapError> + Send + Sync;

// === impl Watch ===

impl Watch {
    fn new(kind: Kind, mapper: Mapper) -> Self {
        let (metadata_only, optional) = (false, false);
        let (predicate, priority, resync, index) = (None, None, None, None);
        Self { kind, metadata_only, predicate, mapper, priority, resync, optional, index }
    }

    /// Watches objects of a kind, and reconciles their controlling owner when they change.
    ///
    /// Whole objects are cached, which lets [`Context::apply`](super::Context::apply) compare them;
    /// with [`metadata_only`](Self::metadata_only), only metadata is cached.
    pub fn owned(kind: Kind) -> Self {
        Self::new(kind, Mapper::Owner { controller_only: true })
    }

    /// Reconciles all owners instead of the controlling one. Replaces the map function of a watch
    /// that has one.
    pub fn any_owner(mut self) -> Self {
        self.mapper = Mapper::Owner { controller_only: false };
        self
    }

    /// Watches objects of type `T`, and reconciles the keys that `map` returns for them. On an
    /// update, the states before and after are mapped.
    ///
    /// The function returns a `Vec<Key>`, or a `Result` with one and any error; after an error it is
    /// called again. An object that cannot be decoded is logged and concerns no key.
    pub fn map<T: Object<DynamicType = ()>, R: MapOutput>(
        map: impl Fn(&T) -> R + Send + Sync + 'static,
    ) -> Self {
        let watch = Self::changes(Kind::of::<T>(), move |change, _| {
            let mut keys = Vec::new();
            for entry in change.states() {
                match change.decode::<T>(entry) {
                    Ok(object) => keys.extend(map(&object).into_keys()?),
                    Err(error) => {
                        tracing::warn!(
                            object = %entry.key(),
                            error = %error,
                            "object cannot be decoded; its change concerns no key"
                        );
                    }
                }
            }
            Ok::<_, MapError>(keys)
        });
        Self { metadata_only: T::metadata_api(), ..watch }
    }

    /// Watches objects of a kind, and reconciles the keys that `map` returns for a change. The
    /// object is not decoded, and the function may read other objects from the caches.
    ///
    /// The function returns a `Vec<Key>`, or a `Result` with one and any error; after an error it is
    /// called again. Only kinds that the controller declares are cached, and what is read may be
    /// older than the change. An [`Index`] finds the objects that refer to the changed one:
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Controller, Index, Kind, Manager, Next, Watch};
    ///
    /// /// Config maps by the secret that they refer to.
    /// fn by_secret() -> Index<ConfigMap, String> {
    ///     Index::new("secret", |map: &ConfigMap| {
    ///         map.data.iter().filter_map(|data| data.get("secret").cloned()).collect()
    ///     })
    /// }
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
    /// # let mut map = config_map("uses-gold");
    /// # map.data = Some([("secret".into(), "gold".into())].into());
    /// # windlass::Client::new(server.client()).api().create(&map).await?;
    /// let (sender, mut keys) = tokio::sync::mpsc::channel(8);
    /// // Reconciles all config maps that refer to the secret.
    /// let users = Watch::changes(Kind::of::<Secret>(), |change, cache| {
    ///     let secret = change.key();
    ///     let maps = cache.list::<ConfigMap>().namespace(secret.namespace().unwrap_or_default());
    ///     maps.by(&by_secret(), secret.name()).keys()
    /// });
    /// let controller = Controller::<ConfigMap>::builder("users")
    ///     .index(&by_secret())
    ///     .watch(users.priority(10))
    ///     .build(move |cx: Context<ConfigMap>| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             let _ = sender.send(cx.name().to_string()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     });
    /// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// handle.ready().await;
    /// assert_eq!(keys.recv().await.as_deref(), Some("uses-gold"), "the first list");
    /// # let gold = Secret { metadata: config_map("gold").metadata, ..Secret::default() };
    /// handle.client().api().create(&gold).await?;
    /// assert_eq!(keys.recv().await.as_deref(), Some("uses-gold"), "the secret is there now");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn changes<R: MapOutput>(
        kind: Kind,
        map: impl Fn(&Change, &Cache) -> R + Send + Sync + 'static,
    ) -> Self {
        let function = move |change: &Change, cache: &Cache| map(change, cache).into_keys();
        Self::new(kind, Mapper::Function(Arc::new(function)))
    }

    /// Watches objects of a kind, and reconciles the objects of type `K` whose selectors match their
    /// labels, before or after a change: services when one of their pods changes.
    ///
    /// The selectors are found by an index, not by a scan, and the index is declared by this. Objects
    /// in a namespace select objects of that namespace; if one of the two kinds is cluster-scoped,
    /// namespaces do not matter.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    /// use windlass::cache::{Index, Selection};
    /// use windlass::{Controller, Kind, Next, Watch};
    ///
    /// fn budgets() -> Index<PodDisruptionBudget, Selection> {
    ///     Index::selectors("pods", |budget: &PodDisruptionBudget| {
    ///         budget.spec.as_ref()?.selector.clone()
    ///     })
    /// }
    ///
    /// let controller = Controller::<PodDisruptionBudget>::builder("budgets")
    ///     .watch(Watch::selected_by(Kind::of::<Pod>(), &budgets()))
    ///     .build(|_| async { Ok(Next::Done) });
    /// # let _ = controller;
    /// ```
    pub fn selected_by<K>(kind: Kind, index: &Index<K, Selection>) -> Self
    where
        K: Object<DynamicType = ()>,
    {
        let selectors = index.clone();
        let watch = Self::changes(kind, move |change, cache| {
            let mut keys = Vec::new();
            for entry in change.states() {
                keys.extend(cache.list::<K>().selecting_entry(&selectors, entry).keys()?);
            }
            Ok::<_, Error>(keys)
        });
        Self { index: Some(Arc::new(index.clone())), ..watch }
    }

    pub(crate) fn itself(kind: Kind) -> Self {
        Self::new(kind, Mapper::Itself)
    }

    /// Caches a kind known at run time for reading; its changes do not lead to reconciles.
    pub fn read(kind: Kind) -> Self {
        Self::new(kind, Mapper::Nothing)
    }

    /// Watches and caches metadata only. All reads of this kind must then be of metadata too.
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// Does not wait for the kind: a server that does not serve it delays neither the controller nor
    /// the readiness of the manager. All objects are reconciled when the kind appears.
    ///
    /// [`Context::serves`](super::Context::serves) returns `true` while the kind is there. A watch
    /// that is forbidden is waited for nevertheless.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Controller, Kind, Manager, Next, Watch};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let monitors = Kind::new("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors");
    /// let optional = Watch::owned(monitors.clone()).optional();
    /// let controller = Controller::<ConfigMap>::builder("maps").watch(optional).build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let monitored = cx.serves(&monitors);
    ///         async move {
    ///             cx.event("Seen", if monitored { "with a monitor" } else { "without one" });
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let handle = Manager::new(server.client()).add(controller).spawn()?;
    /// assert!(handle.ready().await, "although nobody serves that kind");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Ignores changes that do not pass a predicate. With several predicates a change has to pass
    /// all of them.
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(before) => before & predicate,
            None => predicate,
        });
        self
    }

    /// Sets the priority of the keys of this watch; larger ones are reconciled first.
    ///
    /// By default changes have priority 0, and the first list and resyncs
    /// [`LOW_PRIORITY`](crate::queue::LOW_PRIORITY). Reconciled objects of the first list that are not
    /// settled come before the others: an object is settled if its condition `Ready` is `True` for
    /// its current generation.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Returns `true` if the keys may depend on other objects in the cache.
    pub(crate) fn reads_cache(&self) -> bool {
        matches!(self.mapper, Mapper::Function(_))
    }

    /// Returns the keys that a change concerns, each once, for a controller of kind `reconciled`.
    pub(crate) fn keys<'a>(
        &self,
        change: &'a Change,
        reconciled: &Kind,
        cache: &Cache,
    ) -> Result<Cow<'a, [Key]>, MapError> {
        let mut keys = match &self.mapper {
            Mapper::Nothing => return Ok(Cow::default()),
            Mapper::Itself => return Ok(slice::from_ref(change.key()).into()),
            Mapper::Function(map) => map(change, cache)?,
            Mapper::Owner { controller_only } => owners(change, reconciled, *controller_only),
        };
        if keys.len() > 1 {
            keys.sort();
            keys.dedup();
        }
        Ok(keys.into())
    }
}

/// Returns the keys of all owners of kind `reconciled`, before and after the change.
///
/// The version of a reference is not compared, because an owner is the same object in every version.
fn owners(change: &Change, reconciled: &Kind, controller_only: bool) -> Vec<Key> {
    let mut keys = Vec::new();
    for entry in change.states() {
        let known = keys.len();
        for owner in entry.owners() {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let same = &*owner.kind == reconciled.kind() && group == reconciled.group();
            if same && (owner.controller || !controller_only) {
                let namespace = entry.key().namespace().filter(|_| reconciled.namespaced());
                keys.push(Key::new(namespace, &owner.name));
            }
        }
        // Children in other namespaces and cluster-scoped ones have a mark instead.
        if keys.len() == known {
            keys.extend(marked_owner(entry, reconciled));
        }
    }
    keys
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &self.kind)
            .field("metadata_only", &self.metadata_only)
            .finish_non_exhaustive()
    }
}
