//! Where keys come from: changes of watched objects, mapped to the keys they concern.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, slice};

use kube::core::DynamicObject;

use super::Predicate;
use crate::cache::{Entry, Key};
use crate::cluster::Caches;
use crate::kind::{Kind, Object};

/// A change of one watched object.
///
/// # Examples
///
/// ```
/// use windlass::Predicate;
/// use windlass::controller::Change;
///
/// /// Deletions, and what is new under a name that was in use before.
/// fn gone(change: &Change) -> bool {
///     change.is_delete() || change.is_replacement()
/// }
///
/// let predicate = Predicate::new(gone);
/// assert!(predicate.passes(&Change::default()), "neither before nor after: it is gone");
/// ```
#[derive(Clone, Default)]
pub struct Change {
    /// The state before; `None` if it is new here.
    pub old: Option<Arc<Entry>>,
    /// The state now; `None` if it is gone.
    pub new: Option<Arc<Entry>>,
    /// Part of the first list of this watch.
    pub initial: bool,
    /// Nothing changed: a periodic reminder.
    pub resync: bool,
}

/// One watched kind and what its changes mean to a controller.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass::cache::Key;
/// use windlass::controller::{Predicate, Watch};
/// let watch = Watch::map(|pod: &Pod| pod.spec.iter()
///         .filter_map(|s| s.node_name.as_deref())
///         .map(Key::cluster)
///         .collect())
///     .when(Predicate::generation_changed());
/// ```
#[derive(Clone)]
pub struct Watch {
    pub(crate) kind: Kind,
    pub(crate) metadata_only: bool,
    pub(crate) predicate: Option<Predicate>,
    pub(crate) map: Mapper,
    pub(crate) priority: Option<i32>,
    pub(crate) resync: Option<Duration>,
}

/// A function of the author, from a change to keys.
pub(crate) type Map = Arc<dyn Fn(&Change) -> Vec<Key> + Send + Sync>;

/// How a change becomes keys.
#[derive(Clone)]
pub(crate) enum Mapper {
    /// The object's own key.
    Itself,
    /// The keys of its owners of the controller's kind.
    Owner { controller_only: bool },
    /// A function of the author.
    With(Map),
    /// A function of the author that looks other objects up.
    Reading(Arc<ReadingMap>),
    /// No keys: the kind is only read.
    Nothing,
}

type ReadingMap = dyn Fn(&Change, &Caches) -> Vec<Key> + Send + Sync;

// === impl Change ===

impl Change {
    /// The state now, or the last one known of an object that is gone.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// The same as a Rust value; `None` if it does not decode.
    pub fn object<K: Object>(&self) -> Option<K> {
        self.entry()?.decode().ok()
    }

    /// There was a state before and there is one now.
    pub fn is_update(&self) -> bool {
        self.old.is_some() && self.new.is_some()
    }

    /// The object was deleted and another of its name created since the last change.
    pub fn is_replacement(&self) -> bool {
        matches!((&self.old, &self.new), (Some(old), Some(new)) if old.uid() != new.uid())
    }

    /// The object is gone.
    pub fn is_delete(&self) -> bool {
        self.new.is_none()
    }

    /// Nothing new: same version before and after, or part of the first list.
    pub(crate) fn is_old_news(&self) -> bool {
        self.initial
            || self.resync
            || matches!((&self.old, &self.new), (Some(o), Some(n)) if o.version() == n.version())
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("key", &self.entry().map(|e| e.key()))
            .field("old", &self.old.as_ref().map(|e| e.version()))
            .field("new", &self.new.as_ref().map(|e| e.version()))
            .field("initial", &self.initial)
            .field("resync", &self.resync)
            .finish()
    }
}

// === impl Watch ===

impl Watch {
    fn new(kind: Kind, map: Mapper) -> Self {
        Self { kind, metadata_only: false, predicate: None, map, priority: None, resync: None }
    }

    /// Changes of objects the reconciled object controls.
    ///
    /// Whole objects are cached, which [`Context::apply`](super::Context::apply) compares with; of
    /// a `PartialObjectMeta<T>` the metadata only.
    pub fn owned<T: Object<DynamicType = ()>>() -> Self {
        Self { metadata_only: T::metadata_api(), ..Self::owned_kind(Kind::of::<T>()) }
    }

    /// The same for a kind known at run time.
    pub fn owned_kind(kind: Kind) -> Self {
        Self::new(kind, Mapper::Owner { controller_only: true })
    }

    /// Any owner reference counts, not only that of the managing controller.
    ///
    /// For watches of owned objects: what another watch maps to is replaced.
    pub fn any_owner(mut self) -> Self {
        self.map = Mapper::Owner { controller_only: false };
        self
    }

    /// Changes of any object, mapped to keys; on an update the old and the new state are mapped.
    pub fn map<T: Object<DynamicType = ()>>(
        map: impl Fn(&T) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        Self::with(Kind::of::<T>(), map)
    }

    /// The same for a kind known at run time.
    pub fn map_kind(
        kind: Kind,
        map: impl Fn(&DynamicObject) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        Self::with(kind, map)
    }

    fn with<T: Object>(kind: Kind, map: impl Fn(&T) -> Vec<Key> + Send + Sync + 'static) -> Self {
        let of = kind.clone();
        let watch = Self::reading(kind, move |change, caches| {
            let mut keys = Vec::new();
            for entry in [&change.old, &change.new].into_iter().flatten() {
                match entry.decode::<T>() {
                    Ok(object) => keys.extend(map(&object)),
                    Err(error) => {
                        caches.count_undecodable::<T>(&of, entry);
                        tracing::warn!(
                            object = %entry.key(),
                            error = %error,
                            "an object does not decode: its change maps to nothing"
                        );
                    }
                }
            }
            keys
        });
        Self { metadata_only: T::metadata_api(), ..watch }
    }

    /// Changes as they are, mapped to keys without decoding the object.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Controller, Key, Kind, Manager, Next, Watch};
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
    /// // The config map of the same name, when a secret goes.
    /// let gone = Watch::changes(Kind::of::<Secret>(), |change| {
    ///     let entry = change.entry().filter(|_| change.is_delete());
    ///     entry.map(|entry| entry.key().clone()).into_iter().collect()
    /// });
    /// let controller = Controller::<ConfigMap>::builder("gone").watch(gone.metadata_only()).build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send(cx.key().clone()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// handle.ready().await;
    /// let secret = Secret { metadata: config_map("a").metadata, ..Secret::default() };
    /// handle.client().create(&secret).await?;
    /// handle.client().delete::<Secret>(&Key::of(&secret)).await?;
    /// assert_eq!(told.recv().await, Some(Key::of(&secret)));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn changes(kind: Kind, map: impl Fn(&Change) -> Vec<Key> + Send + Sync + 'static) -> Self {
        Self::new(kind, Mapper::With(Arc::new(map)))
    }

    /// Changes mapped to keys by a function that may look other objects up in the cache.
    ///
    /// Only kinds that the controller declares are there; what is read may be older than the
    /// change.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Controller, Key, Kind, List, Manager, Next, Watch};
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
    /// # windlass::Client::new(server.client()).create(&map).await?;
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// // All config maps that name the secret which changed.
    /// let users = Watch::reading(Kind::of::<Secret>(), |change, caches| {
    ///     let Some(secret) = change.entry() else { return Vec::new() };
    ///     let maps = caches.list::<ConfigMap>(&Kind::of::<ConfigMap>(), &List::within("default"));
    ///     let names = |map: &ConfigMap| {
    ///         map.data.as_ref().and_then(|data| data.get("secret")).map(String::as_str)
    ///             == Some(secret.key().name())
    ///     };
    ///     let maps = maps.unwrap_or_default();
    ///     maps.iter().filter(|map| names(map)).map(|map| Key::of(&**map)).collect()
    /// });
    /// let controller = Controller::<ConfigMap>::builder("users").watch(users.priority(10)).build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send(cx.name().to_string()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// handle.ready().await;
    /// assert_eq!(told.recv().await.as_deref(), Some("uses-gold"), "the first list");
    /// # let gold = Secret { metadata: config_map("gold").metadata, ..Secret::default() };
    /// handle.client().create(&gold).await?;
    /// assert_eq!(told.recv().await.as_deref(), Some("uses-gold"), "the secret is there now");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn reading(
        kind: Kind,
        map: impl Fn(&Change, &Caches) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        Self::new(kind, Mapper::Reading(Arc::new(map)))
    }

    pub(crate) fn itself(kind: Kind) -> Self {
        Self::new(kind, Mapper::Itself)
    }

    /// Caches a kind known at run time for reading; its changes do not lead to reconciles.
    pub fn read(kind: Kind) -> Self {
        Self::new(kind, Mapper::Nothing)
    }

    /// Asks the server for metadata only; reads of this kind must then be metadata only too.
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// Only changes that pass; several have to pass all.
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Queues the keys of this watch with a priority of their own; larger comes first.
    ///
    /// Without, changes have 0, and the first list and reminders
    /// [`LOW_PRIORITY`](crate::queue::LOW_PRIORITY).
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Reminds the controller of every object of this watch after this time, at least a second.
    ///
    /// Reminders pass every predicate that does not ask for them with
    /// [`Predicate::resyncs`]; nothing is asked of the API server.
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// The keys a change leads to, each once, for a controller of kind `reconciled`.
    pub(crate) fn keys<'a>(
        &self,
        change: &'a Change,
        reconciled: &Kind,
        caches: &Caches,
    ) -> Cow<'a, [Key]> {
        let mut keys = match &self.map {
            Mapper::Nothing => return Cow::default(),
            Mapper::Itself => {
                let entry = change.entry();
                return entry.map_or_else(Cow::default, |e| slice::from_ref(e.key()).into());
            }
            Mapper::With(map) => map(change),
            Mapper::Reading(map) => map(change, caches),
            Mapper::Owner { controller_only } => owners(change, reconciled, *controller_only),
        };
        if keys.len() > 1 {
            keys.sort();
            keys.dedup();
        }
        keys.into()
    }
}

/// The keys of all owners of kind `reconciled`, before and after the change.
///
/// The version of the reference is not compared: an owner is the same object in every version.
fn owners(change: &Change, reconciled: &Kind, controller_only: bool) -> Vec<Key> {
    let mut keys = Vec::new();
    for entry in [&change.old, &change.new].into_iter().flatten() {
        for owner in entry.owners() {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let same = &*owner.kind == reconciled.kind() && group == reconciled.group();
            if same && (owner.controller || !controller_only) {
                let namespace = entry.key().namespace().filter(|_| reconciled.namespaced());
                keys.push(Key::new(namespace, &owner.name));
            }
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
