//! Indexes: sets of keys by a value that is computed from each object.
//!
//! An index is reached through its handle only, so asking for one that does not exist does not
//! compile. The writer owns the index and publishes it together with the objects, so a query
//! never sees an index that is ahead of or behind the objects.
//!
//! **Invariant:** an index function that panics leaves its object out of the index and nothing
//! else.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hashbrown::HashMap;
use imbl::OrdSet;
use serde::de::DeserializeOwned;

use super::{Entry, Key, Object, Reader};

/// What an index can be over.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass::IndexBy;
/// use windlass::cache::IndexValue;
///
/// fn is_one<V: IndexValue>(_: &IndexBy<Pod, V>) {}
///
/// // Several parts, searched by the first or by both.
/// let by_node: IndexBy<Pod, (String, Option<i32>)> = IndexBy::new("node", |pod: &Pod| {
///     pod.spec.iter().flat_map(|s| Some((s.node_name.clone()?, s.priority))).collect()
/// });
/// is_one(&by_node);
/// ```
pub trait IndexValue: Ord + Clone + Send + Sync + 'static {}
impl<T: Ord + Clone + Send + Sync + 'static> IndexValue for T {}

/// Computes the values of an object, from the entry.
pub(super) type Extract<V> = Arc<dyn Fn(&Arc<Entry>) -> Vec<V> + Send + Sync>;

type Tree<V> = OrdSet<(V, Key)>;

/// A handle to an index over objects of type `K` by values of type `V`.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass::cache::{Index, Store};
///
/// let store = Store::detached(&kube::core::ApiResource::erase::<Pod>(&()));
/// let by_node: Index<Pod, String> = store.reader::<Pod>().index("by-node", |pod: &Pod| {
///     pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
/// });
/// assert!(by_node.get(&"node-1".to_owned()).is_empty());
/// ```
///
/// There is no way to ask for an index by a name that may not exist, and the types of the handle
/// are those of the index: nodes are not looked up among services, nor by numbers.
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::{Pod, Service};
/// # use windlass::cache::{Index, Object, Store};
/// # let store = Store::detached(&kube::core::ApiResource::erase::<Pod>(&()));
/// # let by_node: Index<Pod, String> = store.reader::<Pod>().index("by-node", |_: &Pod| Vec::new());
/// let services: Vec<Object<Service>> = by_node.get(&"node-1".to_owned());
/// ```
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::Pod;
/// # use windlass::cache::{Index, Store};
/// # let store = Store::detached(&kube::core::ApiResource::erase::<Pod>(&()));
/// # let by_node: Index<Pod, String> = store.reader::<Pod>().index("by-node", |_: &Pod| Vec::new());
/// by_node.get(&7);
/// ```
pub struct Index<K, V> {
    reader: Reader<K>,
    extract: Extract<V>,
    slot: usize,
    _value: PhantomData<fn() -> V>,
}

/// The writer's side of an index, without its types.
pub(super) trait Indexer: Send {
    fn name(&self) -> &str;
    /// Counts the filings.
    fn len(&self) -> usize;
    /// Counts the panics of its function.
    fn panics(&self) -> u64;
    fn update(&mut self, key: &Key, entry: Option<&Arc<Entry>>);
    /// Returns the tree for readers.
    fn publish(&mut self) -> Arc<dyn Any + Send + Sync>;
}

pub(super) struct TreeIndexer<V> {
    name: String,
    extract: Extract<V>,
    tree: Tree<V>,
    /// What each key is filed under, to find it again without the old object.
    filed: HashMap<Key, Box<[V]>>,
    /// How often the function panicked.
    panics: u64,
    published: Option<Arc<dyn Any + Send + Sync>>,
}

// === impl Index ===

impl<K: DeserializeOwned + Send + Sync + 'static, V: IndexValue> Index<K, V> {
    pub(super) fn new(reader: Reader<K>, extract: Extract<V>, slot: usize) -> Self {
        Self { reader, extract, slot, _value: PhantomData }
    }

    /// Returns the objects filed under a value, by key.
    pub fn get(&self, value: &V) -> Vec<Object<K>> {
        self.range(value..=value).into_iter().map(|(_, object)| object).collect()
    }

    /// Returns the objects filed under a value, decoded, by key.
    pub(crate) fn objects(&self, value: &V, limit: Option<usize>) -> Vec<Arc<K>> {
        let found = self.get(value).into_iter().map(|object| object.entry().clone()).collect();
        self.reader.decode(found, limit)
    }

    /// Returns the keys filed under a value, in order.
    pub fn keys(&self, value: &V) -> Vec<Key> {
        self.get(value).into_iter().map(|object| object.key().clone()).collect()
    }

    /// Returns the objects filed under a range of values, by value and key.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::ApiResource;
    /// use windlass::cache::{Delta, Key, Store};
    ///
    /// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
    /// let by_size = store.reader::<ConfigMap>().index("size", |map: &ConfigMap| {
    ///     map.data.iter().filter_map(|data| data.get("size")?.parse::<u32>().ok()).collect()
    /// });
    /// for (name, size) in [("a", 3), ("b", 5), ("c", 9), ("d", 5)] {
    ///     let json = serde_json::json!({
    ///         "metadata": {"name": name},
    ///         "data": {"size": size.to_string()},
    ///     });
    ///     store.apply([Delta::Upsert(store.read(json.to_string().as_bytes())?)]);
    /// }
    /// let middle = by_size.range(&4..&9);
    /// let names: Vec<_> = middle.iter().map(|(size, map)| (*size, map.key().name())).collect();
    /// assert_eq!(names, [(5, "b"), (5, "d")]);
    /// assert_eq!(by_size.range(&6..).len(), 1);
    /// assert_eq!(by_size.values(), [3, 5, 9]);
    /// let like_b = by_size.matching(&middle[0].1);
    /// assert_eq!(like_b.last().map(|map| map.key()), Some(&Key::cluster("d")));
    /// # Ok::<(), windlass::cache::Malformed>(())
    /// ```
    pub fn range<'a>(&self, values: impl RangeBounds<&'a V>) -> Vec<(V, Object<K>)>
    where
        V: 'a,
    {
        let state = self.reader.store().state();
        let Some(tree) = state.indexes.get(self.slot).and_then(|t| t.downcast_ref::<Tree<V>>())
        else {
            return Vec::new();
        };
        let first = match values.start_bound() {
            Bound::Included(value) | Bound::Excluded(value) => {
                Bound::Included(((**value).clone(), Key::cluster("")))
            }
            Bound::Unbounded => Bound::Unbounded,
        };
        let inside = |value: &V| match values.end_bound() {
            Bound::Included(end) => value <= *end,
            Bound::Excluded(end) => value < *end,
            Bound::Unbounded => true,
        };
        let skip = |value: &V| matches!(values.start_bound(), Bound::Excluded(s) if value == *s);
        tree.range((first, Bound::Unbounded))
            .take_while(|(value, _)| inside(value))
            .filter(|(value, _)| !skip(value))
            .filter_map(|(value, key)| {
                let entry = state.objects.get(key)?;
                Some((value.clone(), self.reader.object_of(entry.clone())))
            })
            .collect()
    }

    /// Returns all values that have objects, in order.
    pub fn values(&self) -> Vec<V> {
        let state = self.reader.store().state();
        let tree = state.indexes.get(self.slot).and_then(|t| t.downcast_ref::<Tree<V>>());
        let mut values: Vec<V> = tree.into_iter().flatten().map(|(v, _)| v.clone()).collect();
        values.dedup();
        values
    }

    /// Returns the objects that share a value with this one, itself included, by key.
    pub fn matching(&self, object: &Object<K>) -> Vec<Object<K>> {
        let mut found = Vec::new();
        for value in extract_caught("", &self.extract, object.entry()).unwrap_or_default() {
            found.extend(self.get(&value));
        }
        found.sort_by(|a, b| a.key().cmp(b.key()));
        found.dedup_by(|a, b| a.key() == b.key());
        found
    }
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self {
            reader: self.reader.clone(),
            extract: self.extract.clone(),
            slot: self.slot,
            _value: PhantomData,
        }
    }
}

// === impl TreeIndexer ===

impl<V: IndexValue> TreeIndexer<V> {
    pub(super) fn new(name: &str, extract: Extract<V>) -> Self {
        let (tree, filed) = (Tree::new(), HashMap::new());
        Self { name: name.to_owned(), extract, tree, filed, panics: 0, published: None }
    }
}

impl<V: IndexValue> Indexer for TreeIndexer<V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn update(&mut self, key: &Key, entry: Option<&Arc<Entry>>) {
        let mut values = match entry {
            Some(entry) => {
                let values = extract_caught(&self.name, &self.extract, entry);
                self.panics += u64::from(values.is_none());
                values.unwrap_or_default()
            }
            None => Vec::new(),
        };
        values.sort();
        values.dedup();
        let known = self.filed.get(key);
        if known.map_or(&[][..], |known| known) == values.as_slice() {
            return;
        }
        for value in known.into_iter().flatten() {
            self.tree.remove(&(value.clone(), key.clone()));
        }
        for value in &values {
            self.tree.insert((value.clone(), key.clone()));
        }
        if values.is_empty() {
            self.filed.remove(key);
        } else {
            self.filed.insert(key.clone(), values.into_boxed_slice());
        }
        self.published = None;
    }

    fn panics(&self) -> u64 {
        self.panics
    }

    fn publish(&mut self) -> Arc<dyn Any + Send + Sync> {
        self.published.get_or_insert_with(|| Arc::new(self.tree.clone())).clone()
    }
}

/// Calls the author's function; `None` if it panics.
fn extract_caught<V>(name: &str, extract: &Extract<V>, entry: &Arc<Entry>) -> Option<Vec<V>> {
    let caught = catch_unwind(AssertUnwindSafe(|| extract(entry)));
    if caught.is_err() {
        let key = entry.key();
        tracing::error!(index = name, object = %key, "index function panicked, object not indexed");
    }
    caught.ok()
}
