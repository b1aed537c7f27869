//! Typed views of a store.

use std::any::Any;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use kube::core::Selector;
use serde::de::DeserializeOwned;

use super::entry::Malformed;
use super::hot::HotSet;
use super::index::{Index, IndexValue};
use super::mailbox::Mailbox;
use super::{Entry, Key, Labels, Owner, Store, select};

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
    hot: Arc<HotSet<K>>,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// One object of a store; its metadata is at hand, the rest is decoded when asked for.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::ApiResource;
/// use windlass::cache::{Delta, Key, Object, Store};
///
/// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
/// let good = store.read(br#"{"metadata": {"name": "a", "labels": {"app": "web"}}}"#)?;
/// let bad = store.read(br#"{"metadata": {"name": "b"}, "data": "no map"}"#)?;
/// store.apply([Delta::Upsert(good), Delta::Upsert(bad)]);
///
/// let reader = store.reader::<ConfigMap>();
/// let a: Object<ConfigMap> = reader.object(&Key::cluster("a")).expect("was stored");
/// assert_eq!(a.labels().get("app"), Some("web"));
/// let b = reader.object(&Key::cluster("b")).expect("was stored");
/// assert!(b.get().is_err(), "it is found out only when somebody looks");
/// assert_eq!((reader.len(), reader.list().len(), reader.undecodable()), (2, 1, 1));
/// # Ok::<(), windlass::cache::Malformed>(())
/// ```
pub struct Object<K> {
    entry: Arc<Entry>,
    hot: Arc<HotSet<K>>,
}

// === impl Reader ===

impl<K: DeserializeOwned + Send + Sync + 'static> Reader<K> {
    pub(super) fn new(
        store: Store,
        hot: Arc<HotSet<K>>,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { store, hot, keep }
    }

    /// Returns the store behind the view.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the object of a key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.hot.shown(key, |slot| slot.object().ok()).flatten().or_else(|| {
            let entry = self.store.entry(key)?;
            self.hot.get(&entry, true).ok()
        })
    }

    /// Returns the object of a key without decoding it.
    pub fn object(&self, key: &Key) -> Option<Object<K>> {
        let shown = self.hot.shown(key, |slot| Some(slot.entry().clone())).flatten();
        shown.or_else(|| self.store.entry(key)).map(|entry| self.object_of(entry))
    }

    /// Returns all objects by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.decode(self.store.entries())
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
    /// let by_app = reader.index_label("app"); // found without a walk over all
    /// assert_eq!(by_app.values(), ["db", "web"]);
    /// assert_eq!(by_app.keys(&"db".to_string()).len(), 1);
    /// # Ok::<(), windlass::cache::Malformed>(())
    /// ```
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.decode(self.entries(namespace, selector))
    }

    /// Returns the same as [`select`](Self::select) without decoding.
    pub fn objects(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Object<K>> {
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

    /// Tells whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Returns how many objects did not decode into `K`.
    pub fn undecodable(&self) -> u64 {
        self.hot.undecodable()
    }

    /// Counts an entry that turned out not to decode into `K`, unless it was counted before.
    pub(crate) fn count_undecodable(&self, entry: &Arc<Entry>) {
        // Decoded once more, which is rare enough; that counts it.
        drop(self.hot.get(entry, false));
    }

    /// Adds an index by values of the object and files all present objects in it.
    ///
    /// The function has to be pure: it is called once for each version of an object.
    pub fn index<V, F>(&self, name: &str, values: F) -> Index<K, V>
    where
        V: IndexValue,
        F: Fn(&K) -> Vec<V> + Send + Sync + 'static,
    {
        let hot = self.hot.clone();
        let decoded = move |entry: &Arc<Entry>| {
            hot.get(entry, false).map(|object| values(&object)).unwrap_or_default()
        };
        self.index_entries(name, decoded)
    }

    /// Adds an index by what is known without decoding: labels, owners, names.
    pub fn index_entries<V, F>(&self, name: &str, values: F) -> Index<K, V>
    where
        V: IndexValue,
        F: Fn(&Arc<Entry>) -> Vec<V> + Send + Sync + 'static,
    {
        let extract: super::index::Extract<V> = Arc::new(values);
        let slot = self.store.add_index(name, extract.clone());
        Index::new(self.clone(), extract, slot)
    }

    /// Adds an index by the UIDs of the owners; what nobody controls is under the empty one, too.
    pub fn index_owners(&self) -> Index<K, Arc<str>> {
        let uids = |entry: &Arc<Entry>| {
            let owners = entry.owners();
            let orphan = !owners.iter().any(|o| o.controller);
            let nobody = orphan.then(|| Arc::from(""));
            owners.iter().map(|o| o.uid.clone()).chain(nobody).collect()
        };
        self.index_entries("owner", uids)
    }

    /// Adds an index by the values of a label.
    pub fn index_label(&self, label: &str) -> Index<K, String> {
        let wanted = label.to_owned();
        self.index_entries(label, move |entry: &Arc<Entry>| {
            entry.labels().get(&wanted).map(str::to_owned).into_iter().collect()
        })
    }

    /// Returns a view of the same store as another type.
    pub fn view<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Reader<T> {
        Reader::new(self.store.clone(), self.store.hot_set(), self.keep.clone())
    }

    pub(super) fn object_of(&self, entry: Arc<Entry>) -> Object<K> {
        Object { entry, hot: self.hot.clone() }
    }

    pub(super) fn keep(mut self, keep: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep = Some(keep);
        self
    }

    fn decode(&self, entries: Vec<Arc<Entry>>) -> Vec<Arc<K>> {
        // A walk over everything must not push out what is read all the time.
        let keep = self.store.options().pinned;
        entries.iter().filter_map(|entry| self.hot.get(entry, keep).ok()).collect()
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
        Self { store: self.store.clone(), hot: self.hot.clone(), keep: self.keep.clone() }
    }
}

impl<K> fmt::Debug for Reader<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({:?})", self.store)
    }
}

// === impl Object ===

impl<K: DeserializeOwned + Send + Sync + 'static> Object<K> {
    /// Returns the object as a Rust value, decoded now unless it was before.
    ///
    /// # Errors
    ///
    /// Fails if the object does not have the shape of `K`.
    pub fn get(&self) -> Result<Arc<K>, Malformed> {
        self.hot.get(&self.entry, true)
    }

    /// Checks that the object decodes, and returns it if it had to be decoded for that.
    pub(crate) fn verify(&self) -> Result<Option<Arc<K>>, Malformed> {
        self.hot.verify(&self.entry)
    }
}

impl<K> Object<K> {
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

    /// Tells whether the object is being deleted.
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

impl<K> Clone for Object<K> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), hot: self.hot.clone() }
    }
}

impl<K> fmt::Debug for Object<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.entry)
    }
}
