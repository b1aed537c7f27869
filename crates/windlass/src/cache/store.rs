//! The store of one kind and scope.
//!
//! Readers take a snapshot, which is a pointer; the writer makes the next one beside it and
//! swaps the pointer. All types of reader, typed, dynamic and metadata only, are views of the
//! same entries.
//!
//! **Invariant:** readers never wait for the writer, nor the writer for readers.
//! **Invariant:** objects and indexes of a snapshot belong together.
//! **Invariant:** what is reported to a handler is already in the store.

mod indexing;
mod sources;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use imbl::OrdMap;
use kube::core::{ApiResource, Selector};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::batch::Delta;
use super::decoded::DecodedSet;
use super::entry_reader::EntryReader;
use super::index::Published;
use super::mailbox::Mailbox;
use super::transform::Transform;
use super::writer::Writer;
use super::{Entry, Key, Malformed, Reader, outline};
use crate::error::Result;
use crate::ordered_watch;

/// The settings of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreOptions {
    /// How many objects each reading type keeps decoded.
    pub(super) decoded_max: usize,
    /// Keeps `managedFields`, which takes as much memory as the rest of an object.
    pub(super) keep_managed_fields: bool,
    /// Compresses the bytes of large objects.
    pub(super) pack: bool,
}

/// The objects of one kind and scope; cheap to clone.
///
/// An [`Informer`](super::Informer) fills it and keeps it up to date. A [`Reader`] returns the
/// objects as Rust values.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::cache::{Cache, Scope, Store};
/// use windlass::{Client, Key};
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
/// # let mut map = config_map("a");
/// # map.data = Some([("color".into(), "blue".into())].into());
/// # Client::new(server.client()).api().create(&map).await?;
/// let maps = Cache::new(server.client()).informer::<ConfigMap>(&Scope::default());
/// let store: &Store = maps.store();
/// maps.synced(Duration::from_secs(30)).await.expect("config maps can be watched");
/// let entry = store.entry(&Key::namespaced("default", "a")).expect("was created");
/// assert_eq!(entry.decode::<ConfigMap>()?.data.expect("has data")["color"], "blue");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What readers see.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) objects: OrdMap<Key, Arc<Entry>>,
    pub(super) indexes: Vec<Arc<dyn Published>>,
    /// The bytes that the entries keep.
    pub(super) bytes: usize,
}

/// The part of a kind that a store holds.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreScope {
    /// Namespaces, one per source; `None` is all of them.
    pub(super) namespaces: Vec<Option<String>>,
    pub(super) labels: Option<Selector>,
    /// Objects are selected by fields, which cannot be evaluated here.
    pub(super) by_fields: bool,
    /// Namespaces come and go.
    pub(super) chosen: bool,
}

pub(super) struct Shared {
    kind: ApiResource,
    options: StoreOptions,
    state: ArcSwap<State>,
    /// Identifies this store.
    number: u32,
    writer: Mutex<Writer>,
    /// The mailboxes of the writer, for figures.
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
    version: ordered_watch::Sender<u64>,
    decoded: Mutex<BTreeMap<TypeId, Decoded>>,
    reader: Mutex<EntryReader>,
    transform: Option<Transform>,
}

/// The number of the next store; 0 is no store.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

struct Decoded {
    set: Arc<dyn Any + Send + Sync>,
    evict: Box<dyn Fn(&Key) + Send + Sync>,
    undecodable: Box<dyn Fn() -> u64 + Send + Sync>,
}

// === impl StoreOptions ===

impl Default for StoreOptions {
    fn default() -> Self {
        Self { decoded_max: 1024, keep_managed_fields: false, pack: true }
    }
}

// === impl State ===

impl State {
    /// Returns the objects of a namespace, or all, by key.
    pub(super) fn within<'a>(
        &'a self,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        let first = match namespace {
            Some(namespace) => Bound::Included(Key::namespaced(namespace, "")),
            None => Bound::Unbounded,
        };
        let objects = self.objects.range((first, Bound::Unbounded));
        let inside = move |key: &Key| namespace.is_none() || key.namespace() == namespace;
        objects.take_while(move |(key, _)| inside(key)).map(|(_, entry)| entry)
    }
}

// === impl Store ===

impl Store {
    /// Creates a store that no watch feeds.
    #[cfg(test)]
    pub(super) fn detached(kind: &ApiResource) -> Self {
        let scope = StoreScope { namespaces: vec![None], ..StoreScope::default() };
        Self::new(kind.clone(), StoreOptions::default(), scope, None)
    }

    pub(super) fn new(
        kind: ApiResource,
        options: StoreOptions,
        scope: StoreScope,
        transform: Option<Transform>,
    ) -> Self {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let reader = EntryReader::new(options.keep_managed_fields, options.pack).of(&kind);
        let shared = Arc::new_cyclic(|shared| Shared {
            kind,
            options,
            state: ArcSwap::default(),
            number,
            writer: Mutex::new(Writer::new(scope, number, shared.clone())),
            mailboxes: Mutex::default(),
            version: ordered_watch::Sender::new(0),
            decoded: Mutex::default(),
            reader: Mutex::new(reader),
            transform,
        });
        Self { shared }
    }

    /// Returns a typed view; all views of the same type share what is decoded.
    pub(super) fn reader<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Reader<K> {
        Reader::new(self.clone(), self.decoded_set::<K>(), None)
    }

    /// Returns how many objects there are.
    pub(super) fn len(&self) -> usize {
        self.state().objects.len()
    }

    /// Returns the entry of a key.
    pub fn entry(&self, key: &Key) -> Option<Arc<Entry>> {
        self.state().objects.get(key).cloned()
    }

    /// Returns all entries by key, as of one moment.
    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        self.state().objects.values().cloned().collect()
    }

    /// Returns the bytes that the entries keep.
    pub(super) fn size(&self) -> usize {
        self.state().bytes
    }

    /// Returns the version up to which the store has seen everything, bookmarks included;
    /// 0 before the first sync.
    pub(crate) fn resource_version(&self) -> u64 {
        *self.shared.version.borrow()
    }

    /// Returns how many objects did not decode into a type that they were read as.
    pub(super) fn undecodable(&self) -> u64 {
        self.shared.decoded.lock().values().map(|set| (set.undecodable)()).sum()
    }

    /// Returns the names of the indexes and how many values each holds.
    pub(crate) fn indexes(&self) -> Vec<(String, usize)> {
        let state = self.state();
        state.indexes.iter().map(|index| (index.id().name().to_owned(), index.len())).collect()
    }

    /// Returns how often index functions have panicked.
    pub(crate) fn index_panics(&self) -> u64 {
        self.state().indexes.iter().map(|index| index.panics()).sum()
    }

    /// Returns how many objects have changes that the slowest handler has not taken yet.
    pub(crate) fn lag(&self) -> usize {
        let mailboxes = self.shared.mailboxes.lock();
        mailboxes.iter().map(|mailbox| mailbox.len()).max().unwrap_or(0)
    }

    /// Waits until the store has seen everything up to a version.
    #[cfg(test)]
    pub(crate) async fn wait_for(
        &self,
        version: u64,
        within: std::time::Duration,
    ) -> Result<(), String> {
        let mut versions = self.shared.version.subscribe();
        let reached = versions.wait_for(|at| *at >= version);
        match tokio::time::timeout(within, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("it is at version {}", self.resource_version())),
        }
    }

    /// Shows an own write to readers before the watch brings it.
    ///
    /// `json` is the answer of the server. Reads return the newer of this and the watched state;
    /// handlers receive the watched state only. An object that has left the scope of the store is
    /// hidden.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not an object.
    pub(super) fn observe_write(&self, json: &[u8]) -> Result<(), Malformed> {
        let entry = match &self.shared.transform {
            None => self.shared.reader.lock().read(json)?,
            Some(transform) => {
                let name = outline::read(json)?.metadata.name.0.into_owned();
                let json = transform.apply(json, &name)?;
                self.shared.reader.lock().read(&json)?
            }
        };
        let entry = Arc::new(entry);
        self.write(|writer| writer.observe_write(&entry));
        Ok(())
    }

    /// Hides an object that was deleted by an own request before the watch brings it.
    ///
    /// The start of a deletion that finalizers delay is a write, not a deletion.
    pub(super) fn observe_delete(&self, key: &Key, uid: &str) {
        self.write(|writer| writer.observe_delete(key, uid));
    }

    /// Applies deltas of the first source.
    #[cfg(test)]
    pub(super) fn apply(&self, deltas: impl IntoIterator<Item = Delta>) {
        self.apply_from(deltas.into_iter().map(|delta| (0, delta)));
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<Key> {
        self.state().objects.keys().cloned().collect()
    }

    /// Reads an object into an entry, for [`apply`](Self::apply).
    #[cfg(test)]
    pub(super) fn read(&self, json: &[u8]) -> Result<Arc<Entry>, Malformed> {
        self.shared.reader.lock().read(json).map(Arc::new)
    }

    pub(super) fn apply_from(&self, deltas: impl IntoIterator<Item = (usize, Delta)>) {
        self.write(|writer| {
            for (source, delta) in deltas {
                writer.apply(source, delta);
            }
        });
    }

    pub(super) fn state(&self) -> arc_swap::Guard<Arc<State>> {
        #[cfg(test)]
        super::Work::count_store();
        self.shared.state.load()
    }

    #[cfg(test)]
    pub(super) fn overlays(&self) -> usize {
        self.shared.writer.lock().overlays()
    }

    pub(super) fn options(&self) -> StoreOptions {
        self.shared.options
    }

    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a mailbox and puts the current state into it, in one step with regard to changes.
    pub(super) fn subscribe(&self, mailbox: Arc<Mailbox>) {
        self.shared.mailboxes.lock().push(mailbox.clone());
        self.write(|writer| writer.subscribe(mailbox));
    }

    pub(super) fn unsubscribe(&self, mailbox: &Arc<Mailbox>) {
        self.write(|writer| writer.unsubscribe(mailbox));
        self.shared.mailboxes.lock().retain(|known| !Arc::ptr_eq(known, mailbox));
    }

    /// Puts every object into a mailbox once more.
    pub(super) fn resync(&self, mailbox: &Mailbox) {
        self.write(|writer| writer.resync(mailbox));
    }

    pub(super) fn decoded_set<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
    ) -> Arc<DecodedSet<K>> {
        let mut sets = self.shared.decoded.lock();
        let types = sets.len();
        let known = sets.entry(TypeId::of::<K>()).or_insert_with(|| {
            let room = self.shared.options.decoded_max.min(usize::MAX / 4);
            // There are eight bits; further types have none.
            let bit = u32::try_from(types).ok().and_then(|types| 1_u8.checked_shl(types));
            let set = DecodedSet::<K>::new(room, bit.unwrap_or(0)).of(self.shared.number);
            let set = Arc::new(set);
            let (evicted, counted) = (set.clone(), set.clone());
            Decoded {
                set,
                evict: Box::new(move |key| evicted.evict(key)),
                undecodable: Box::new(move || counted.undecodable()),
            }
        });
        known.set.clone().downcast().expect("a set is filed under its type")
    }

    /// Runs a change of the writer, publishes the result and then notifies the handlers.
    fn write<T>(&self, change: impl FnOnce(&mut Writer) -> T) -> T {
        #[cfg(test)]
        super::Work::count_store();
        let mut writer = self.shared.writer.lock();
        let result = change(&mut writer);
        if let Some(state) = writer.publish() {
            self.shared.state.store(Arc::new(state));
        }
        let gone = writer.deliver();
        let version = writer.version();
        self.shared.version.send_if_modified(|at| std::mem::replace(at, version) != version);
        drop(writer);
        if !gone.is_empty() {
            let sets = self.shared.decoded.lock();
            for evict in sets.values().map(|set| &set.evict) {
                gone.iter().for_each(evict);
            }
        }
        result
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.shared.kind.kind;
        f.debug_struct("Store").field("kind", kind).field("len", &self.len()).finish()
    }
}
