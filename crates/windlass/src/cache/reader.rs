//! Typed views of a store.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::decoded::DecodedSet;
use super::index::Index;
use super::{Entry, Key, Malformed, Store};

/// A list of at most this part of the decoded objects stays decoded.
const KEPT_PART: usize = 16;

/// Reads a store as objects of type `K`; cheap to clone.
///
/// A reader keeps the watch running. An object that does not decode into `K` is left out; it is
/// logged, and counted in [`InformerStats::undecodable`](super::InformerStats::undecodable).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::cache::{Cache, Reader, Scope};
/// use windlass::{Client, Index, Key};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// # for (name, app, size) in [("a", "web", 3), ("b", "db", 5), ("c", "web", 5)] {
/// #     let map = serde_json::from_value(serde_json::json!({
/// #         "metadata": {"namespace": "default", "name": name, "labels": {"app": app}},
/// #         "data": {"size": size.to_string()},
/// #     }))?;
/// #     client.api::<ConfigMap>().create(&map).await?;
/// # }
/// let cache = Cache::new(server.client());
/// let by_size = Index::new("size", |map: &ConfigMap| {
///     map.data.iter().filter_map(|data| data.get("size")?.parse::<u32>().ok()).collect()
/// });
/// cache.declare(&by_size)?;
/// let maps = cache.informer::<ConfigMap>(&Scope::default().namespace("default"));
/// maps.synced(Duration::from_secs(30)).await.expect("config maps can be watched");
///
/// let reader: Reader<ConfigMap> = maps.reader();
/// assert!(reader.get(&Key::namespaced("default", "a")).is_some());
/// assert_eq!(reader.list().len(), 3);
/// assert_eq!(reader.by(&by_size, &5)?.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Reader<K> {
    store: Store,
    decoded: Arc<DecodedSet<K>>,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// One object of a store, as an entry that is decoded when asked for.
pub(crate) struct Cached<K> {
    entry: Arc<Entry>,
    decoded: Arc<DecodedSet<K>>,
}

// === impl Reader ===

impl<K: DeserializeOwned + Send + Sync + 'static> Reader<K> {
    pub(super) fn new(
        store: Store,
        decoded: Arc<DecodedSet<K>>,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { store, decoded, keep }
    }

    /// Returns the object of a key; `None` if it does not exist or does not decode.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.decoded.shown(key, |slot| slot.object().ok()).flatten().or_else(|| {
            let entry = self.store.entry(key)?;
            self.decoded.get(&entry, true).ok()
        })
    }

    /// Returns the object of a key without decoding it.
    pub(crate) fn object(&self, key: &Key) -> Option<Cached<K>> {
        let shown = self.decoded.shown(key, |slot| Some(slot.entry().clone())).flatten();
        shown.or_else(|| self.store.entry(key)).map(|entry| self.object_of(entry))
    }

    /// Returns all objects, sorted by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.decode(self.store.entries(), None)
    }

    /// Returns the objects that an index files under a value, sorted by key.
    ///
    /// # Errors
    ///
    /// Fails if the index is not declared with [`Cache::declare`](super::Cache::declare).
    pub fn by<V>(&self, index: &Index<K, V>, value: &V) -> crate::Result<Vec<Arc<K>>>
    where
        V: Ord + Clone + Send + Sync + 'static,
    {
        Ok(self.decode(index.find(&self.store.state(), value)?, None))
    }

    pub(super) fn object_of(&self, entry: Arc<Entry>) -> Cached<K> {
        Cached { entry, decoded: self.decoded.clone() }
    }

    pub(super) fn keep(mut self, keep: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Decodes entries up to a limit; one that does not decode is left out.
    pub(crate) fn decode(&self, entries: Vec<Arc<Entry>>, limit: Option<usize>) -> Vec<Arc<K>> {
        let limit = limit.unwrap_or(usize::MAX);
        let options = self.store.options();
        // A walk over many must not push out what is read all the time.
        let keep = entries.len().min(limit) <= options.decoded_max / KEPT_PART;
        entries.iter().filter_map(|entry| self.decoded.get(entry, keep).ok()).take(limit).collect()
    }
}

impl<K> Clone for Reader<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), decoded: self.decoded.clone(), keep: self.keep.clone() }
    }
}

impl<K> fmt::Debug for Reader<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({:?})", self.store)
    }
}

// === impl Cached ===

impl<K: DeserializeOwned + Send + Sync + 'static> Cached<K> {
    /// Returns the object as a Rust value, decoded now unless it was before.
    pub(crate) fn get(&self) -> Result<Arc<K>, Malformed> {
        self.decoded.get(&self.entry, true)
    }

    /// Checks that the object decodes, and returns it if it had to be decoded for that.
    pub(crate) fn verify(&self) -> Result<Option<Arc<K>>, Malformed> {
        self.decoded.verify(&self.entry)
    }
}

impl<K> Deref for Cached<K> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), decoded: self.decoded.clone() }
    }
}

impl<K> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.entry)
    }
}
