//! Typed views of a store.

use std::any::Any;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use kube::core::Selector;
use serde::de::DeserializeOwned;

use super::decoded::DecodedSet;
use super::entry::Malformed;
use super::index::{Index, IndexGuard};
use super::mailbox::Mailbox;
use super::{Entry, Key, Labels, Owner, Store, select};

/// A list of at most this part of the decoded objects stays decoded.
const KEPT_PART: usize = 16;

/// Reads a store as objects of type `K`; cheap to clone.
///
/// A reader of an informer keeps the watch running. An object that does not decode into `K` is
/// left out; it is logged, and counted in [`undecodable`](Self::undecodable).
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::{ApiResource, DynamicObject};
/// use windlass::cache::{Delta, Key, Reader, Store};
///
/// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
/// let entry = store.read(br#"{"metadata":{"name":"a","namespace":"n"},"data":{"k":"v"}}"#)?;
/// store.apply([Delta::Upsert(entry)]);
///
/// let key = Key::namespaced("n", "a");
/// let reader: Reader<ConfigMap> = store.reader();
/// let typed = reader.get(&key).expect("was stored");
/// assert_eq!(typed.data.as_ref().expect("has data")["k"], "v");
/// let dynamic = store.reader::<DynamicObject>().get(&key).expect("the same object");
/// assert_eq!(dynamic.data["data"]["k"], "v");
/// # Ok::<(), windlass::cache::Malformed>(())
/// ```
pub struct Reader<K> {
    store: Store,
    decoded: Arc<DecodedSet<K>>,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// One object of a store; its metadata is at hand, the rest is decoded when asked for.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::ApiResource;
/// use windlass::cache::{Cached, Delta, Key, Store};
///
/// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
/// let good = store.read(br#"{"metadata": {"name": "a", "labels": {"app": "web"}}}"#)?;
/// let bad = store.read(br#"{"metadata": {"name": "b"}, "data": "no map"}"#)?;
/// store.apply([Delta::Upsert(good), Delta::Upsert(bad)]);
///
/// let reader = store.reader::<ConfigMap>();
/// let a: Cached<ConfigMap> = reader.object(&Key::cluster("a")).expect("was stored");
/// assert_eq!(a.labels().get("app"), Some("web"));
/// let b = reader.object(&Key::cluster("b")).expect("was stored");
/// assert!(b.get().is_err(), "it is found out only when somebody looks");
/// assert_eq!((reader.len(), reader.list().len(), reader.undecodable()), (2, 1, 1));
/// # Ok::<(), windlass::cache::Malformed>(())
/// ```
pub struct Cached<K> {
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

    /// Returns the store behind the view.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the object of a key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.decoded.shown(key, |slot| slot.object().ok()).flatten().or_else(|| {
            let entry = self.store.entry(key)?;
            self.decoded.get(&entry, true).ok()
        })
    }

    /// Returns the object of a key without decoding it.
    pub fn object(&self, key: &Key) -> Option<Cached<K>> {
        let shown = self.decoded.shown(key, |slot| Some(slot.entry().clone())).flatten();
        shown.or_else(|| self.store.entry(key)).map(|entry| self.object_of(entry))
    }

    /// Returns all objects by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.decode(self.store.entries(), None)
    }

    /// Returns the objects of a namespace, or of all, that a selector selects, by key.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::{ApiResource, Expression, Selector};
    /// use windlass::cache::{Delta, Store};
    ///
    /// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
    /// for (namespace, name, app) in [("n", "a", "web"), ("n", "b", "db"), ("o", "a", "web")] {
    ///     let meta = format!(
    ///         r#"{{"namespace": "{namespace}", "name": "{name}", "labels": {{"app": "{app}"}}}}"#
    ///     );
    ///     let entry = store.read(format!(r#"{{"metadata": {meta}}}"#).as_bytes())?;
    ///     store.apply([Delta::Upsert(entry)]);
    /// }
    /// let reader = store.reader::<ConfigMap>();
    /// let web: Selector = Expression::Equal("app".into(), "web".into()).into();
    /// assert_eq!(reader.select(None, &web).len(), 2);
    /// assert_eq!(reader.objects(Some("n"), &web)[0].key().to_string(), "n/a");
    /// # Ok::<(), windlass::cache::Malformed>(())
    /// ```
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.decode(self.entries(namespace, selector), None)
    }

    /// Returns the same as [`select`](Self::select) without decoding.
    pub fn objects(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Cached<K>> {
        let entries = self.entries(namespace, selector);
        entries.into_iter().map(|entry| self.object_of(entry)).collect()
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> Vec<Key> {
        self.store.state().objects.keys().cloned().collect()
    }

    /// Returns how many objects there are.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Returns how many objects did not decode into `K`.
    pub fn undecodable(&self) -> u64 {
        self.decoded.undecodable()
    }

    /// Keeps an index of the objects for as long as the guard lives.
    ///
    /// Present objects are filed by the caller, beside the watch.
    ///
    /// # Errors
    ///
    /// Fails if the index is declared with another function already.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::ApiResource;
    /// use windlass::cache::{Delta, Index, IndexGuard, Store};
    ///
    /// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
    /// let reader = store.reader::<ConfigMap>();
    /// let by_size = Index::new("size", |map: &ConfigMap| {
    ///     map.data.iter().filter_map(|data| data.get("size")?.parse::<u32>().ok()).collect()
    /// });
    /// let guard: IndexGuard = reader.declare(&by_size)?;
    /// for (name, size) in [("a", 3), ("b", 5), ("c", 9), ("d", 5)] {
    ///     let json = serde_json::json!({
    ///         "metadata": {"name": name},
    ///         "data": {"size": size.to_string()},
    ///     });
    ///     let entry = store.read(json.to_string().as_bytes()).expect("an object");
    ///     store.apply([Delta::Upsert(entry)]);
    /// }
    /// let found = reader.by(&by_size, &5)?;
    /// assert_eq!(found.iter().map(|map| map.key().name()).collect::<Vec<_>>(), ["b", "d"]);
    /// drop(guard);
    /// assert!(reader.by(&by_size, &5).is_err(), "it is not declared any more");
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn declare<V>(&self, index: &Index<K, V>) -> crate::Result<IndexGuard>
    where
        V: Ord + Clone + Send + Sync + 'static,
    {
        self.store.declare(index)
    }

    /// Returns the objects that an index files under a value, by key.
    ///
    /// # Errors
    ///
    /// Fails if the index is not declared.
    pub fn by<V>(&self, index: &Index<K, V>, value: &V) -> crate::Result<Vec<Cached<K>>>
    where
        V: Ord + Clone + Send + Sync + 'static,
    {
        let found = index.find(&self.store.state(), value)?;
        Ok(found.into_iter().map(|entry| self.object_of(entry)).collect())
    }

    /// Returns a view of the same store as another type.
    pub fn view<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Reader<T> {
        Reader::new(self.store.clone(), self.store.decoded_set(), self.keep.clone())
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
        let keep = options.pinned || entries.len().min(limit) <= options.hot_max / KEPT_PART;
        entries.iter().filter_map(|entry| self.decoded.get(entry, keep).ok()).take(limit).collect()
    }

    fn entries(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<Entry>> {
        let state = self.store.state();
        let wanted = select::expressions(selector);
        let first = match namespace {
            Some(namespace) => Bound::Included(Key::namespaced(namespace, "")),
            None => Bound::Unbounded,
        };
        let inside = |key: &Key| namespace.is_none() || key.namespace() == namespace;
        state
            .objects
            .range((first, Bound::Unbounded))
            .take_while(|(key, _)| inside(key))
            .filter(|(_, entry)| select::matches_all(&wanted, entry.labels()))
            .map(|(_, entry)| entry.clone())
            .collect()
    }
}

impl<K> Reader<K> {
    pub(super) fn detach(&self, mailbox: &Arc<Mailbox>) {
        self.store.unsubscribe(mailbox);
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
    ///
    /// # Errors
    ///
    /// Fails if the object does not have the shape of `K`.
    pub fn get(&self) -> Result<Arc<K>, Malformed> {
        self.decoded.get(&self.entry, true)
    }

    /// Checks that the object decodes, and returns it if it had to be decoded for that.
    pub(crate) fn verify(&self) -> Result<Option<Arc<K>>, Malformed> {
        self.decoded.verify(&self.entry)
    }
}

impl<K> Cached<K> {
    /// Returns the stored entry.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Returns the key.
    pub fn key(&self) -> &Key {
        self.entry.key()
    }

    /// Returns the UID.
    pub fn uid(&self) -> &str {
        self.entry.uid()
    }

    /// Returns the resource version.
    pub fn version(&self) -> u64 {
        self.entry.version()
    }

    /// Returns the generation; 0 for kinds that have none.
    pub fn generation(&self) -> i64 {
        self.entry.generation()
    }

    /// Returns `true` if the object is being deleted.
    pub fn deleting(&self) -> bool {
        self.entry.deleting()
    }

    /// Returns the labels.
    pub fn labels(&self) -> &Labels {
        self.entry.labels()
    }

    /// Returns the owners.
    pub fn owners(&self) -> &[Owner] {
        self.entry.owners()
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
