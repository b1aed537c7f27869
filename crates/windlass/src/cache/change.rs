//! A change of an object: one type from the store to handlers, predicates and map functions.

use std::fmt;
use std::sync::{Arc, Weak};

use serde::de::DeserializeOwned;

use super::entry_reader::EntryReader;
use super::store::Shared;
use super::{Entry, Key, Malformed, Store};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// A change of one object, or a resync, which repeats its current state.
///
/// Changes of an object that happen before its handler takes the first of them are merged into one:
/// `old` is what the handler received last, and `new` is the newest state.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::cache::{Cache, Origin, Change, Scope};
/// use windlass::client::Patch;
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
/// # let client = Client::new(server.client());
/// let cache = Cache::new(server.client());
/// let maps = cache.informer::<ConfigMap>(&Scope::default().namespace("default"));
/// let mut changes = maps.subscribe();
/// let key = Key::of(&client.api().create(&config_map("a")).await?);
/// let created = changes.recv().await.expect("the watch runs");
/// assert!(created.old.is_none() && created.key() == &key);
///
/// client.api::<ConfigMap>().patch(&key, &Patch::Merge(json!({"data": {"k": "v"}}))).await?;
/// let updated = changes.recv().await.expect("the watch runs");
/// assert!(updated.old.is_some() && updated.origin == Origin::Watch);
/// let map = updated.object::<ConfigMap>().expect("a config map");
/// assert_eq!(map.data.as_ref().expect("has data")["k"], "v");
///
/// client.api::<ConfigMap>().delete(&key).await?;
/// let deleted: Change = changes.recv().await.expect("the watch runs");
/// assert!(deleted.new.is_none() && deleted.entry().uid() == updated.entry().uid());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Change {
    /// The state before; `None` if the object is new to the handler. For a deletion this is the last
    /// known state.
    pub old: Option<Arc<Entry>>,
    /// The state now; `None` if the object was deleted.
    pub new: Option<Arc<Entry>>,
    /// Where the change comes from: the first list, the watch or a resync.
    pub origin: Origin,
    /// `true` if a deletion was not observed but found by a new list, or if the last state could not be
    /// read: `old` may not be the last state that the object had.
    pub last_state_unknown: bool,
    /// The state now, or the last known one.
    state: Arc<Entry>,
    /// Decodes the states, and keeps them decoded.
    store: Weak<Shared>,
    /// Earlier changes that were not received are part of this one.
    merged: bool,
}

/// Where a [`Change`] comes from.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::cache::{Cache, Origin, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let namespaces = Cache::new(client).informer::<Namespace>(&Scope::default());
/// let first = namespaces.subscribe().recv().await.expect("the watch runs");
/// assert_eq!(first.origin, Origin::Initial);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The object was there before the handler was, or before the first sync.
    Initial,
    /// The object was created, changed or deleted.
    Watch,
    /// Nothing has changed: the handler asked to receive every object again from time to time.
    Resync,
}

// === impl Change ===

impl Change {
    /// Creates a change of an object of type `K`, to test a predicate or a map function with.
    ///
    /// # Errors
    ///
    /// Fails if there is neither a state before nor one after, or if an object has no name.
    pub fn between<K>(old: Option<&K>, new: Option<&K>) -> Result<Self>
    where
        K: Object<DynamicType = ()>,
    {
        let mut reader = EntryReader::new(true, false).of(&Kind::of::<K>().api_resource());
        let mut read = |object: &K| {
            let json = serde_json::to_vec(object)?;
            reader.read(&json).map(Arc::new).map_err(Error::from)
        };
        let (old, new) = (old.map(&mut read).transpose()?, new.map(&mut read).transpose()?);
        let state = new.clone().or(old.clone());
        let state = state.ok_or_else(|| Error::Invalid("a change needs an object".into()))?;
        Ok(Self { old, new, ..Self::of(state, Origin::Watch, Weak::new()) })
    }

    /// Creates an update or, without `old`, the addition of an object.
    pub(super) fn upsert(
        old: Option<Arc<Entry>>,
        new: Arc<Entry>,
        origin: Origin,
        store: &Weak<Shared>,
    ) -> Self {
        Self { old, new: Some(new.clone()), ..Self::of(new, origin, store.clone()) }
    }

    /// Creates the deletion of an object. Until [`split`](Self::split), `old` is the state that was
    /// delivered before.
    pub(super) fn delete(
        old: Arc<Entry>,
        last: Arc<Entry>,
        last_state_unknown: bool,
        store: &Weak<Shared>,
    ) -> Self {
        let gone = Self::of(last, Origin::Watch, store.clone());
        Self { old: Some(old), last_state_unknown, ..gone }
    }

    fn of(state: Arc<Entry>, origin: Origin, store: Weak<Shared>) -> Self {
        let (old, new, last_state_unknown, merged) = (None, None, false, false);
        Self { old, new, origin, last_state_unknown, state, store, merged }
    }

    /// Adds a later change of the object.
    pub(super) fn merge(&mut self, later: &Self) {
        let earlier = std::mem::replace(self, later.clone());
        if earlier.origin == Origin::Resync {
            return;
        }
        self.old = earlier.old;
        self.merged = true;
        // An object of the first list stays one, also if it changes before it is taken.
        if earlier.origin == Origin::Initial && !later.is_delete() {
            self.origin = Origin::Initial;
        }
    }

    /// Returns the change in the form that handlers receive. A deletion that an update was merged
    /// into is two changes: the update may concern others than the deletion.
    pub(super) fn split(self) -> (Self, Option<Self>) {
        if !self.is_delete() {
            return (self, None);
        }
        let last = self.state.clone();
        let deletion = Self { old: Some(last.clone()), merged: false, ..self.clone() };
        match self.old.filter(|old| self.merged && !Arc::ptr_eq(old, &last)) {
            Some(old) => {
                (Self::upsert(Some(old), last, Origin::Watch, &self.store), Some(deletion))
            }
            None => (deletion, None),
        }
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &Key {
        self.state.key()
    }

    /// Returns the state now, or the last known state of an object that was deleted.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.state
    }

    /// Returns the object in that state; `None` if it does not decode into `K`.
    ///
    /// An object is decoded once, however many handlers ask for it.
    pub fn object<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Option<Arc<K>> {
        self.decode(&self.state).ok()
    }

    /// Returns `true` if the object was deleted.
    pub(crate) fn is_delete(&self) -> bool {
        self.new.is_none()
    }

    /// Returns `true` if the object was deleted and another one of the same name created since the
    /// last change.
    pub fn is_replacement(&self) -> bool {
        matches!((&self.old, &self.new), (Some(old), Some(new)) if old.uid() != new.uid())
    }

    /// Returns `true` if nothing is new: part of the first list, a resync, or the same version
    /// before and after.
    pub(crate) fn is_old_news(&self) -> bool {
        let same = |old: &Entry, new: &Entry| old.version() == new.version();
        self.origin != Origin::Watch
            || matches!((&self.old, &self.new), (Some(old), Some(new)) if same(old, new))
    }

    /// Returns what happened in one word, for the log.
    pub(crate) fn word(&self) -> &'static str {
        match (self.origin, &self.old, &self.new) {
            (_, _, None) => "deleted",
            (Origin::Initial, ..) => "exists",
            (Origin::Resync, ..) => "resynced",
            (Origin::Watch, None, _) => "created",
            (Origin::Watch, Some(_), _) => "changed",
        }
    }

    /// Walks over the states before and after.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.old.iter().chain(&self.new)
    }

    /// Decodes one of the states, or returns what is kept decoded of it.
    pub(crate) fn decode<K>(&self, entry: &Arc<Entry>) -> Result<Arc<K>, Malformed>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        match self.store.upgrade() {
            Some(shared) => Store::of(shared).decoded_set::<K>().get(entry, true),
            None => entry.read().map(Arc::new),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |entry: &Option<Arc<Entry>>| entry.as_ref().map(|entry| entry.version());
        f.debug_struct("Change")
            .field("key", self.key())
            .field("old", &version(&self.old))
            .field("new", &version(&self.new))
            .field("origin", &self.origin)
            .finish()
    }
}
