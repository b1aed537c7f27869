//! Indexes: look-ups of objects by a value that is computed from each object.
//!
//! An index is declared before it is used. The store files every object under its values and
//! publishes the index together with the objects, so a query never sees an index that is ahead of
//! or behind the objects. An index that is declared while the store holds objects already is built
//! from a snapshot, beside the writer, and catches up with the changes that were made meanwhile.
//!
//! **Invariant:** an index function that panics leaves its object out of the index and nothing
//! else.
//! **Invariant:** an index is identified by its name, the type of its objects and that of its
//! values; declaring it twice with different functions is an error.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Weak};

use hashbrown::HashMap;
use imbl::OrdSet;

use super::store::{Shared, State, Store};
use super::{Entry, Key};
use crate::error::{Error, Result};

/// A named look-up of objects of type `K` by values of type `V`.
///
/// Declare it with [`controller::Builder::index`](crate::controller::Builder::index) or
/// [`Cache::declare`](super::Cache::declare), and use it with
/// [`List::by`](crate::List::by). Two indexes with the same name and types are one index, so
/// a function that returns an `Index` may be called wherever the index is needed. Indexes of
/// one name have to compute the same values for an object, whatever their functions capture.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::cache::Index;
/// use windlass::{Context, Controller, Key, Manager, Next};
///
/// fn by_color() -> Index<ConfigMap, String> {
///     Index::new("color", |map: &ConfigMap| {
///         map.data.iter().filter_map(|data| data.get("color").cloned()).collect()
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
/// let maps = Controller::<ConfigMap>::builder("maps")
///     .index(&by_color())
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// let handle = Manager::new(server.client()).add(maps).spawn()?;
/// handle.ready().await;
/// let mut map = config_map("a");
/// map.data = Some([("color".into(), "blue".into())].into());
/// handle.client().api().create(&map).await?;
///
/// // In a reconcile: `cx.list::<ConfigMap>().by(&by_color(), "blue").items()?`.
/// let maps = handle.client().cached().list::<ConfigMap>();
/// assert_eq!(maps.clone().by(&by_color(), "blue").keys()?, [Key::of(&map)]);
/// assert!(maps.by(&by_color(), "red").items()?.is_empty());
/// # handle.stop().await
/// # }
/// ```
///
/// An index of pods finds no services:
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::{Pod, Service};
/// # use windlass::cache::Index;
/// # use windlass::{Context, Next, Result};
/// # async fn reconcile(cx: Context<Service>, by_node: Index<Pod, String>) -> Result<Next> {
/// cx.list::<Service>().by(&by_node, "node-1").items()?;
/// # Ok(Next::Done)
/// # }
/// ```
pub struct Index<K, V> {
    id: Arc<IndexId>,
    values: Arc<Values<K, V>>,
}

type Values<K, V> = dyn Fn(&K) -> Vec<V> + Send + Sync;

/// Keeps an index of a store up to date; the index ends when the last of its guards is dropped.
#[must_use = "the index ends when this is dropped"]
pub(crate) struct IndexGuard {
    store: Weak<Shared>,
    id: Arc<IndexId>,
}

/// What identifies an index, and the function that it was declared with.
#[derive(Debug)]
pub(crate) struct IndexId {
    name: Box<str>,
    object: TypeId,
    value: TypeId,
    object_name: &'static str,
    function: TypeId,
}

/// Computes the values of an object, from the entry.
pub(super) type Extract<V> = Arc<dyn Fn(&Arc<Entry>) -> Vec<V> + Send + Sync>;

type Tree<V> = OrdSet<(V, Key)>;

/// The owner of objects that no controller owns.
static NOBODY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

/// The key before all others.
static LOWEST: LazyLock<Key> = LazyLock::new(|| Key::cluster(""));

/// An index as readers see it, without its types.
pub(super) trait Published: Send + Sync {
    fn id(&self) -> &IndexId;
    /// Returns how many pairs of value and key the index holds.
    fn len(&self) -> usize;
    /// Returns how often the function of the index has panicked.
    fn panics(&self) -> u64;
    fn as_any(&self) -> &dyn Any;
}

/// The writer's side of an index, without its types.
pub(super) trait Indexer: Send {
    fn id(&self) -> &IndexId;
    /// Files an object anew; `old` is the one that was filed before.
    fn update(&mut self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>);
    /// Returns the index for readers.
    fn publish(&mut self) -> Arc<dyn Published>;
}

pub(super) struct TreeIndexer<V> {
    id: Arc<IndexId>,
    extract: Extract<V>,
    tree: Tree<V>,
    /// The values of each key, if the function may return others for the old object when it is
    /// called again.
    filed: Option<HashMap<Key, Box<[V]>>>,
    panics: u64,
    published: Option<Arc<dyn Published>>,
}

struct TreeIndex<V> {
    id: Arc<IndexId>,
    tree: Tree<V>,
    panics: u64,
}

// === impl Index ===

impl<K: 'static, V: Ord + Clone + Send + Sync + 'static> Index<K, V> {
    /// Creates an index under `name` by what `values` computes; the function has to be pure.
    pub fn new<F>(name: &str, values: F) -> Self
    where
        F: Fn(&K) -> Vec<V> + Send + Sync + 'static,
    {
        let id = IndexId {
            name: name.into(),
            object: TypeId::of::<K>(),
            value: TypeId::of::<V>(),
            object_name: short_name(type_name::<K>()),
            function: TypeId::of::<F>(),
        };
        Self { id: Arc::new(id), values: Arc::new(values) }
    }

    pub(super) fn id(&self) -> &Arc<IndexId> {
        &self.id
    }

    /// Returns the values of an object.
    pub(super) fn values(&self, object: &K) -> Vec<V> {
        (self.values)(object)
    }

    /// Returns the entries of a snapshot that are filed under a value, by key.
    ///
    /// # Errors
    ///
    /// Fails if the index is not declared.
    pub(super) fn find(&self, state: &State, value: &V) -> Result<Vec<Arc<Entry>>> {
        find(state, &self.id, value).ok_or_else(|| self.id.undeclared())
    }

    /// Calls a function for the values and keys from a value on, in order, until it returns `false`.
    ///
    /// # Errors
    ///
    /// Fails if the index is not declared.
    pub(super) fn range(
        &self,
        state: &State,
        first: V,
        mut each: impl FnMut(&V, &Key) -> bool,
    ) -> Result<()> {
        let tree = tree::<V>(state, &self.id).ok_or_else(|| self.id.undeclared())?;
        let first = Bound::Included((first, LOWEST.clone()));
        for (value, key) in tree.range((first, Bound::Unbounded)) {
            if !each(value, key) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<K: 'static, V: Ord + Clone + Send + Sync + 'static> Index<K, V> {
    /// Returns everything that the index files, in order.
    pub(super) fn filed(&self, state: &State) -> Vec<(V, Arc<Entry>)> {
        let filed = tree::<V>(state, &self.id).into_iter().flat_map(|tree| tree.iter());
        filed
            .filter_map(|(value, key)| Some((value.clone(), state.objects.get(key)?.clone())))
            .collect()
    }
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), values: self.values.clone() }
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("name", &self.id.name).finish_non_exhaustive()
    }
}

// === impl IndexGuard ===

impl IndexGuard {
    pub(super) fn new(store: Weak<Shared>, id: Arc<IndexId>) -> Self {
        Self { store, id }
    }

    pub(super) fn is_of(&self, id: &IndexId) -> bool {
        self.id.same(id)
    }
}

impl Drop for IndexGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.store.upgrade() {
            Store::of(shared).release(&self.id);
        }
    }
}

impl fmt::Debug for IndexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexGuard").field("name", &self.id.name).finish_non_exhaustive()
    }
}

// === impl IndexId ===

impl IndexId {
    /// Returns the identity of the index by the UIDs of owners, which every cached kind has.
    pub(super) fn owners() -> Arc<Self> {
        static OWNERS: LazyLock<Arc<IndexId>> = LazyLock::new(|| {
            Arc::new(IndexId {
                name: "owner".into(),
                object: TypeId::of::<Entry>(),
                value: TypeId::of::<Arc<str>>(),
                object_name: "object",
                function: TypeId::of::<Entry>(),
            })
        });
        OWNERS.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` if both are one index.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.object == other.object && self.value == other.value && self.name == other.name
    }

    fn undeclared(&self) -> Error {
        let Self { name, object_name, .. } = self;
        Error::Invalid(format!(
            "index {name} of {object_name} is not declared: declare it with \
             Controller::builder(..).index(..) or Cache::declare"
        ))
    }

    /// Fails if the index was declared with another function.
    pub(super) fn agrees(&self, other: &Self) -> Result<()> {
        if self.function == other.function {
            return Ok(());
        }
        let Self { name, object_name, .. } = self;
        Err(Error::Invalid(format!(
            "index {name} of {object_name} is declared twice with different functions: give one \
             of them another name"
        )))
    }
}

/// Returns the last part of a path, without generic arguments.
fn short_name(path: &'static str) -> &'static str {
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the UIDs of the owners of an object; the empty one if no controller owns it.
pub(super) fn owners(entry: &Arc<Entry>) -> Vec<Arc<str>> {
    let owners = entry.owners();
    let orphan = !owners.iter().any(|owner| owner.controller);
    let nobody = orphan.then(|| NOBODY.clone());
    owners.iter().map(|owner| owner.uid.clone()).chain(nobody).collect()
}

/// Returns the entries filed under a value, by key; `None` if there is no such index.
pub(super) fn find<V>(state: &State, id: &IndexId, value: &V) -> Option<Vec<Arc<Entry>>>
where
    V: Ord + Clone + 'static,
{
    let first = Bound::Included((value.clone(), LOWEST.clone()));
    let filed = tree::<V>(state, id)?.range((first, Bound::Unbounded));
    let filed = filed.take_while(|(at, _)| at == value);
    Some(filed.filter_map(|(_, key)| state.objects.get(key).cloned()).collect())
}

/// Returns what an index files; `None` if there is no such index.
fn tree<'a, V: 'static>(state: &'a State, id: &IndexId) -> Option<&'a Tree<V>> {
    let index = state.indexes.iter().find(|index| index.id().same(id))?;
    index.as_any().downcast_ref::<TreeIndex<V>>().map(|index| &index.tree)
}

// === impl TreeIndexer ===

impl<V: Ord + Clone + Send + Sync + 'static> TreeIndexer<V> {
    /// Creates an index by an author's function.
    pub(super) fn new(id: Arc<IndexId>, extract: Extract<V>) -> Self {
        Self { filed: Some(HashMap::new()), ..Self::pure(id, extract) }
    }

    /// Creates an index by a function that returns the same for the same entry.
    pub(super) fn pure(id: Arc<IndexId>, extract: Extract<V>) -> Self {
        Self { id, extract, tree: Tree::new(), filed: None, panics: 0, published: None }
    }

    fn values(&mut self, entry: Option<&Arc<Entry>>) -> Vec<V> {
        let Some(entry) = entry else { return Vec::new() };
        let mut values = extract_caught(&self.id, &self.extract, entry).unwrap_or_else(|| {
            self.panics += 1;
            self.published = None;
            Vec::new()
        });
        values.sort();
        values.dedup();
        values
    }
}

impl<V: Ord + Clone + Send + Sync + 'static> Indexer for TreeIndexer<V> {
    fn id(&self) -> &IndexId {
        &self.id
    }

    fn update(&mut self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let values = self.values(new);
        let known = match &mut self.filed {
            None => self.values(old),
            Some(filed) => filed.get(key).map(|known| known.to_vec()).unwrap_or_default(),
        };
        if known == values {
            return;
        }
        for value in known {
            self.tree.remove(&(value, key.clone()));
        }
        for value in &values {
            self.tree.insert((value.clone(), key.clone()));
        }
        match &mut self.filed {
            None => {}
            Some(filed) if values.is_empty() => drop(filed.remove(key)),
            Some(filed) => drop(filed.insert(key.clone(), values.into_boxed_slice())),
        }
        self.published = None;
    }

    fn publish(&mut self) -> Arc<dyn Published> {
        let published = self.published.get_or_insert_with(|| {
            let (id, tree) = (self.id.clone(), self.tree.clone());
            Arc::new(TreeIndex { id, tree, panics: self.panics })
        });
        published.clone()
    }
}

impl<V: Ord + Clone + Send + Sync + 'static> Published for TreeIndex<V> {
    fn id(&self) -> &IndexId {
        &self.id
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn panics(&self) -> u64 {
        self.panics
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Calls the author's function; `None` if it panics.
fn extract_caught<V>(id: &IndexId, extract: &Extract<V>, entry: &Arc<Entry>) -> Option<Vec<V>> {
    let caught = catch_unwind(AssertUnwindSafe(|| extract(entry)));
    if caught.is_err() {
        let (index, key) = (id.name(), entry.key());
        tracing::error!(index, object = %key, "index function panicked; object not indexed");
    }
    caught.ok()
}
