//! The kinds of one cluster that are cached, and typed reads of them.
//!
//! Nothing is cached that nobody declared: a read of an undeclared kind fails at once and says what
//! to do, instead of opening a watch that may hang on a missing right.
//!
//! **Invariant:** one store per kind; typed, dynamic and metadata views show the same moment.

mod index_by;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::cache::{
    Cache, CacheOptions, Entry, Index, IndexValue, Informer, InformerStats, Key, SyncState, Watch,
};
use crate::client::List;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

pub use index_by::IndexBy;

/// The cached kinds of one cluster; cheap to clone, empty unless a manager runs.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::cluster::{Caches, WatchReport};
/// use windlass::{Context, Controller, Kind, List, Manager, Next, Result};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let controller = Controller::<ConfigMap>::builder("maps")
///     .reads::<Secret>()
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// let handle = Manager::builder(client).add(controller).spawn()?;
/// handle.ready().await;
/// let caches: &Caches = handle.client().caches();
/// assert!(caches.list::<Secret>(&Kind::of::<Secret>(), &List::all())?.is_empty());
/// let reports: Vec<WatchReport> = caches.reports();
/// assert!(reports.len() == 2 && reports.iter().all(|watch| watch.state.synced()));
/// handle.stop().await
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Caches(Option<Arc<Inner>>);

/// Caches that may be gone.
pub(crate) struct WeakCaches(Option<Weak<Inner>>);

impl WeakCaches {
    /// The caches, or empty ones.
    pub(crate) fn upgrade(&self) -> Caches {
        Caches(self.0.as_ref().and_then(Weak::upgrade))
    }
}

struct Inner {
    cache: Cache,
    namespaces: Vec<String>,
    /// Kinds of which only a part is cached.
    scopes: BTreeMap<Kind, Watch>,
    kinds: RwLock<BTreeMap<Kind, Held>>,
    /// Kinds of controllers that have not been placed yet.
    coming: watch::Sender<BTreeSet<Kind>>,
}

#[derive(Clone)]
struct Held {
    informer: Informer<DynamicObject>,
    owners: Index<DynamicObject, Arc<str>>,
    metadata_only: bool,
    /// The namespaces it is cached in; empty for all.
    namespaces: Arc<BTreeSet<String>>,
    indexes: Arc<RwLock<BTreeMap<usize, Arc<dyn Any + Send + Sync>>>>,
    /// How often the kind was opened and not closed.
    users: usize,
}

/// A kind that was opened; dropping it closes the kind.
pub(crate) struct Opened {
    caches: WeakCaches,
    kind: Kind,
    /// Tells this cache of the kind from a later one.
    of: Weak<RwLock<BTreeMap<usize, Arc<dyn Any + Send + Sync>>>>,
}

/// What the diagnostics page shows of one watch.
#[derive(Debug, Clone)]
pub struct WatchReport {
    /// The kind.
    pub kind: Kind,
    /// How far the watch is.
    pub state: SyncState,
    /// Its figures.
    pub stats: InformerStats,
    /// The version the store has reached.
    pub version: u64,
    /// Its indexes and how many filings each holds.
    pub indexes: Vec<(String, usize)>,
}

// === impl Caches ===

impl Caches {
    pub(crate) fn new(
        kube: kube::Client,
        options: CacheOptions,
        namespaces: Vec<String>,
        scopes: BTreeMap<Kind, Watch>,
    ) -> Self {
        let cache = Cache::with(kube, options);
        let (kinds, coming) = (RwLock::default(), watch::Sender::default());
        Self(Some(Arc::new(Inner { cache, namespaces, scopes, kinds, coming })))
    }

    /// Tells whether there is no cache at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The same caches without keeping them.
    pub(crate) fn downgrade(&self) -> WeakCaches {
        WeakCaches(self.0.as_ref().map(Arc::downgrade))
    }

    /// Watches a kind, or joins the watch that runs already, until as many [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// Fails if there is no cache at all, that is, without a manager.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Client, Key, Kind, List, Manager, owner};
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
    /// let handle = Manager::builder(server.client()).namespaces(["default"]).spawn()?;
    /// let (client, kind) = (handle.client(), Kind::of::<ConfigMap>());
    /// let caches = client.caches();
    /// caches.open(&kind, false)?; // what a controller does with the kinds it declares
    ///
    /// let first = client.create(&config_map("first")).await?;
    /// let mut second = config_map("second");
    /// owner::set_controller(&first, &mut second)?;
    /// client.create(&second).await?;
    /// client.get::<ConfigMap>(&Key::of(&second)).await?; // waits until the cache is filled
    /// let (uid, second) = (first.metadata.uid.as_deref().expect("is stored"), Key::of(&second));
    /// assert_eq!(caches.dependents(&kind, uid)?, [second.clone()]);
    /// assert_eq!(caches.keys(&kind, Some(uid), &List::all())?, [second.clone()]);
    /// let json = caches.json(&kind, &second)?.expect("is there");
    /// assert_eq!(json["metadata"]["ownerReferences"][0]["name"], "first");
    ///
    /// caches.close(&kind);
    /// assert!(!caches.holds(&kind));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn open(&self, kind: &Kind, metadata_only: bool) -> Result<Informer<DynamicObject>> {
        let Some(inner) = &self.0 else {
            return Err(Error::NotCached { kind: kind.to_string() });
        };
        let mut kinds = inner.kinds.write();
        if let Some(held) = kinds.get_mut(kind) {
            held.users += 1;
            if metadata_only || !held.metadata_only {
                return Ok(held.informer.clone());
            }
        }
        let held = kinds.get(kind).cloned();
        let mut watch = inner.scopes.get(kind).cloned().unwrap_or_default();
        if kind.namespaced() && watch.namespaces().is_empty() {
            watch = inner.namespaces.iter().fold(watch, |watch, ns| watch.namespace(ns));
        }
        if metadata_only {
            watch = watch.metadata_only();
        }
        let informer = inner.cache.dynamic(&kind.api_resource(), &watch);
        // The watch of the metadata, if there was one, has become that of the whole objects.
        let held = match held {
            Some(held) => Held { metadata_only, ..held },
            None => Held {
                informer: informer.clone(),
                owners: informer.reader().index_owners(),
                metadata_only,
                namespaces: Arc::new(watch.namespaces().clone()),
                indexes: Arc::default(),
                users: 1,
            },
        };
        kinds.insert(kind.clone(), held);
        Ok(informer)
    }

    /// Lets go of a kind that was opened; it is cached until the last who opened it has done so.
    pub fn close(&self, kind: &Kind) {
        let Some(inner) = &self.0 else { return };
        let mut kinds = inner.kinds.write();
        let Some(held) = kinds.get_mut(kind) else { return };
        held.users = held.users.saturating_sub(1);
        if held.users == 0 {
            kinds.remove(kind);
        }
    }

    /// The same for a kind that was just opened, when what is returned is dropped.
    pub(crate) fn opened(&self, kind: &Kind) -> Opened {
        let of = self.held(kind).map(|held| Arc::downgrade(&held.indexes)).unwrap_or_default();
        Opened { caches: self.downgrade(), kind: kind.clone(), of }
    }

    /// Stops caching everything.
    pub(crate) fn clear(&self) {
        if let Some(inner) = &self.0 {
            inner.kinds.write().clear();
            inner.coming.send_modify(BTreeSet::clear);
        }
    }

    /// Lets reads of kinds wait that a controller declares, until it is placed.
    pub(crate) fn announce(&self, kinds: &[Kind]) {
        if let Some(inner) = &self.0 {
            inner.coming.send_modify(|coming| coming.extend(kinds.iter().cloned()));
        }
    }

    /// Notes that the controller which declares these kinds is placed, or will not be.
    pub(crate) fn arrived(&self, kinds: &[Kind]) {
        if let Some(inner) = &self.0 {
            inner.coming.send_modify(|coming| coming.retain(|kind| !kinds.contains(kind)));
        }
    }

    /// Waits until no controller that declares a kind is still to be placed.
    async fn placed(&self, kind: &Kind, within: Duration) -> Result<()> {
        let Some(inner) = &self.0 else { return Ok(()) };
        let mut coming = inner.coming.subscribe();
        let placed = coming.wait_for(|coming| !coming.contains(kind));
        // The sender lives in these caches.
        match timeout(within, placed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::NotSynced {
                kind: kind.to_string(),
                state: "its manager does not run yet".into(),
            }),
        }
    }

    fn held(&self, kind: &Kind) -> Result<Held> {
        let held = self.0.as_ref().and_then(|inner| inner.kinds.read().get(kind).cloned());
        held.ok_or_else(|| Error::NotCached { kind: kind.to_string() })
    }

    /// The versions in which a kind is cached.
    pub(crate) fn versions(&self, kind: &Kind) -> Vec<Kind> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let kinds = inner.kinds.read();
        kinds.keys().filter(|held| held.same_group_kind(kind)).cloned().collect()
    }

    /// Waits until what is not in the cache of a kind is not there.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached, or not read within that time; at once if it cannot be.
    pub(crate) async fn filled(&self, kind: &Kind, within: Duration) -> Result<()> {
        let began = Instant::now();
        let held = match self.held(kind) {
            Ok(held) => held,
            Err(_) => {
                self.placed(kind, within).await?;
                self.held(kind)?
            }
        };
        if held.informer.filled() {
            return Ok(());
        }
        let synced = held.informer.synced(within.saturating_sub(began.elapsed())).await;
        synced.map_err(|state| not_synced(kind, &state))
    }

    /// A kind whose objects are there, as far as they ever were.
    fn known(&self, kind: &Kind) -> Result<Held> {
        let held = self.held(kind)?;
        match held.informer.filled() {
            true => Ok(held),
            false => Err(not_synced(kind, &held.informer.state())),
        }
    }

    fn readable<K: Object>(&self, kind: &Kind) -> Result<Held> {
        let held = self.known(kind)?;
        if held.metadata_only && !K::metadata_api() {
            return Err(Error::Invalid(format!(
                "{kind} is cached as metadata only: read it as PartialObjectMeta"
            )));
        }
        if !K::metadata_api() && !held.informer.whole() {
            let text = format!("{kind} is not cached as a whole yet: try again");
            return Err(Error::Invalid(text));
        }
        Ok(held)
    }

    /// The object of a key; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached or the object does not decode into `K`.
    pub fn get<K: Object>(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<K>>> {
        let held = self.readable::<K>(kind)?;
        let key = &scoped(kind, key);
        held.within(kind, key.namespace())?;
        let Some(object) = held.informer.store().reader::<K>().object(key) else {
            return Ok(None);
        };
        object.get().map(Some).map_err(|malformed| {
            let what = format!("{kind} {key}");
            let source = serde::de::Error::custom(malformed.message);
            Error::Decode { what, source }
        })
    }

    /// The object of a key as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached, or cached as metadata only.
    pub fn json(&self, kind: &Kind, key: &Key) -> Result<Option<Value>> {
        self.readable::<DynamicObject>(kind)?.read(kind, key)
    }

    /// The metadata of the object of a key, own writes included.
    pub(crate) fn metadata(&self, kind: &Kind, key: &Key) -> Result<Option<ObjectMeta>> {
        #[derive(Deserialize)]
        struct Head {
            metadata: ObjectMeta,
        }
        let head: Option<Head> = self.known(kind)?.read(kind, key)?;
        Ok(head.map(|head| head.metadata))
    }

    /// The objects that match, by key; one that does not decode is left out, logged and counted.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached, or if fields other than `metadata.name` and
    /// `metadata.namespace` are asked for: use an index.
    pub fn list<K: Object>(&self, kind: &Kind, list: &List) -> Result<Vec<Arc<K>>> {
        let held = self.readable::<K>(kind)?;
        let reader = held.informer.store().reader::<K>();
        let namespace = list.namespace.as_deref().filter(|_| kind.namespaced());
        held.within(kind, namespace)?;
        if list.limit.is_none() && list.fields.is_none() {
            return Ok(reader.select(namespace, &list.labels));
        }
        let names = list.names()?;
        let found = reader.objects(namespace, &list.labels).into_iter();
        let found = found.filter(|o| fits(o.key(), &names)).filter_map(|o| o.get().ok());
        Ok(found.take(list.limit.unwrap_or(usize::MAX)).collect())
    }

    /// The objects that the object with this UID controls, by key.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn owned<K: Object>(&self, kind: &Kind, uid: &str, list: &List) -> Result<Vec<Arc<K>>> {
        let held = self.readable::<K>(kind)?;
        let reader = held.informer.store().reader::<K>();
        held.within(kind, list.namespace.as_deref().filter(|_| kind.namespaced()))?;
        let found = controlled(&held, uid, list)?.into_iter();
        let found = found.filter_map(|entry| reader.get(entry.key()));
        Ok(found.take(list.limit.unwrap_or(usize::MAX)).collect())
    }

    /// The keys that match, without decoding anything.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached.
    pub fn keys(&self, kind: &Kind, owner: Option<&str>, list: &List) -> Result<Vec<Key>> {
        let held = self.known(kind)?;
        let limit = list.limit.unwrap_or(usize::MAX);
        let namespace = list.namespace.as_deref().filter(|_| kind.namespaced());
        held.within(kind, namespace)?;
        if let Some(uid) = owner {
            let entries = controlled(&held, uid, list)?.into_iter();
            return Ok(entries.map(|entry| entry.key().clone()).take(limit).collect());
        }
        let reader = held.informer.store().reader::<DynamicObject>();
        let found = reader.objects(namespace, &list.labels).into_iter();
        let names = list.names()?;
        let found = found.map(|object| object.key().clone()).filter(|key| fits(key, &names));
        Ok(found.take(limit).collect())
    }

    /// The keys of all objects that name this UID among their owners, controller or not.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached.
    pub fn dependents(&self, kind: &Kind, uid: &str) -> Result<Vec<Key>> {
        Ok(self.known(kind)?.owners.keys(&Arc::from(uid)))
    }

    /// The index behind a handle; files all present objects when first asked for.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached.
    pub fn index<K, V>(&self, kind: &Kind, by: &IndexBy<K, V>) -> Result<Index<K, V>>
    where
        K: Object,
        V: IndexValue,
    {
        let held = self.readable::<K>(kind)?;
        let slot = Arc::as_ptr(&by.values).cast::<()>() as usize;
        let known = held.indexes.read().get(&slot).cloned();
        if let Some(index) = known.and_then(|any| any.downcast::<Index<K, V>>().ok()) {
            return Ok((*index).clone());
        }
        let mut indexes = held.indexes.write();
        if let Some(any) = indexes.get(&slot)
            && let Ok(index) = any.clone().downcast::<Index<K, V>>()
        {
            return Ok((*index).clone());
        }
        // The closure keeps the handle's function alive, so its address stays its own.
        let values = by.values.clone();
        let reader = held.informer.store().reader::<K>();
        let index = reader.index(&by.name, move |object: &K| values(object));
        indexes.insert(slot, Arc::new(index.clone()));
        Ok(index)
    }

    /// Counts an object that turned out not to decode into `K`, unless it was counted before.
    pub(crate) fn count_undecodable<K: Object>(&self, kind: &Kind, entry: &Arc<Entry>) {
        if let Ok(held) = self.held(kind) {
            held.informer.store().reader::<K>().count_undecodable(entry);
        }
    }

    /// Refuses to answer for a namespace in which a kind is not cached.
    pub(crate) fn within(&self, kind: &Kind, namespace: Option<&str>) -> Result<()> {
        self.held(kind)?.within(kind, namespace.filter(|_| kind.namespaced()))
    }

    /// Tells whether a kind is cached.
    pub fn holds(&self, kind: &Kind) -> bool {
        self.held(kind).is_ok()
    }

    /// The UID of an object as far as the cache knows.
    pub(crate) fn uid(&self, kind: &Kind, key: &Key) -> Option<String> {
        self.entry(kind, key).map(|entry| entry.uid().to_string())
    }

    /// An object as far as the cache knows.
    pub(crate) fn entry(&self, kind: &Kind, key: &Key) -> Option<Arc<Entry>> {
        self.held(kind).ok()?.informer.store().entry(&scoped(kind, key))
    }

    /// Shows the cache an object as a write of this process left it.
    pub(crate) fn wrote(&self, kind: &Kind, json: &[u8]) {
        let Ok(held) = self.held(kind) else { return };
        if let Err(error) = held.informer.store().observe_write(json) {
            tracing::warn!(kind = %kind, error = %error, "the answer to a write is no object");
        }
    }

    /// Tells the cache that a delete of this process took an object away.
    pub(crate) fn deleted(&self, kind: &Kind, key: &Key, uid: &str) {
        if let Ok(held) = self.held(kind) {
            held.informer.store().observe_delete(&scoped(kind, key), uid, None);
        }
    }

    /// The state of every watch; costs one step per kind.
    pub(crate) fn states(&self) -> Vec<(Kind, SyncState)> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let kinds = inner.kinds.read();
        kinds.iter().map(|(kind, held)| (kind.clone(), held.informer.state())).collect()
    }

    /// Every watch and how far it is.
    pub fn reports(&self) -> Vec<WatchReport> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let kinds = inner.kinds.read();
        let report = |(kind, held): (&Kind, &Held)| WatchReport {
            kind: kind.clone(),
            state: held.informer.state(),
            stats: held.informer.stats(),
            version: held.informer.store().resource_version(),
            indexes: held.informer.store().indexes(),
        };
        kinds.iter().map(report).collect()
    }
}

// === impl Held ===

impl Held {
    /// Refuses to answer for a namespace that is not cached.
    fn within(&self, kind: &Kind, namespace: Option<&str>) -> Result<()> {
        let Some(namespace) = namespace.filter(|_| !self.namespaces.is_empty()) else {
            return Ok(());
        };
        if self.namespaces.contains(namespace) {
            return Ok(());
        }
        let known: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
        Err(Error::Invalid(format!(
            "{kind} is cached in {} only: read it in {namespace} with live()",
            known.join(", ")
        )))
    }

    fn read<T: DeserializeOwned>(&self, kind: &Kind, key: &Key) -> Result<Option<T>> {
        let key = &scoped(kind, key);
        self.within(kind, key.namespace())?;
        let Some(entry) = self.informer.store().entry(key) else { return Ok(None) };
        let value = serde_json::from_slice(&entry.json());
        value.map(Some).map_err(|source| Error::Decode { what: format!("{kind} {key}"), source })
    }
}

fn not_synced(kind: &Kind, state: &SyncState) -> Error {
    Error::NotSynced { kind: kind.to_string(), state: state.to_string() }
}

// === impl Opened ===

impl Drop for Opened {
    fn drop(&mut self) {
        let caches = self.caches.upgrade();
        if caches.held(&self.kind).is_ok_and(|held| self.of.ptr_eq(&Arc::downgrade(&held.indexes)))
        {
            caches.close(&self.kind);
        }
    }
}

/// The entries that the object with this UID controls and that match, by key; with the empty UID
/// those that nobody controls.
fn controlled(held: &Held, uid: &str, list: &List) -> Result<Vec<Arc<Entry>>> {
    let names = list.names()?;
    let found = held.owners.get(&Arc::from(uid)).into_iter();
    let wanted = |entry: &Arc<Entry>| {
        let mut controllers = entry.owners().iter().filter(|o| o.controller);
        let controls = match uid {
            "" => controllers.next().is_none(),
            uid => controllers.any(|o| &*o.uid == uid),
        };
        let within =
            list.namespace.is_none() || entry.key().namespace() == list.namespace.as_deref();
        controls && within && fits(entry.key(), &names) && list.matches_entry(entry)
    };
    Ok(found.map(|object| object.entry().clone()).filter(wanted).collect())
}

/// Tells whether a key meets conditions on names and namespaces.
fn fits(key: &Key, names: &[(bool, bool, &str)]) -> bool {
    names.iter().all(|(name, wanted, value)| {
        let here = if *name { key.name() } else { key.namespace().unwrap_or_default() };
        (here == *value) == *wanted
    })
}

/// The key of an object of a kind; a namespace is dropped where the kind has none.
fn scoped(kind: &Kind, key: &Key) -> Key {
    match kind.namespaced() {
        true => key.clone(),
        false => Key::cluster(key.name()),
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.reports().iter().map(|r| &r.kind)).finish()
    }
}
