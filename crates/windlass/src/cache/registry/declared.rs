//! Indexes that are declared for a cache, and kept by every store of their kind.

use std::sync::Arc;

use super::Cache;
use crate::cache::index::{Index, IndexGuard, IndexId};
use crate::cache::informer::Core;
use crate::cache::store::Store;
use crate::error::Result;
use crate::kind::{Kind, Object};

/// An index without its types.
pub(crate) trait Declared: Send + Sync {
    fn id(&self) -> &IndexId;
    fn kind(&self) -> Kind;
    fn attach(&self, store: &Store) -> Result<IndexGuard>;
}

// === impl Cache ===

impl Cache {
    /// Declares an index, so that lists of its kind can use it for as long as the cache lives.
    ///
    /// # Errors
    ///
    /// Fails if the index is declared with another function already.
    pub fn declare<K, V>(&self, index: &Index<K, V>) -> Result<()>
    where
        K: Object<DynamicType = ()>,
        V: Ord + Clone + Send + Sync + 'static,
    {
        self.declare_any(Arc::new(index.clone()))
    }

    pub(crate) fn declare_any(&self, index: Arc<dyn Declared>) -> Result<()> {
        let kind = index.kind();
        let mut declared = self.shared.declared.lock();
        let mut known = declared.iter().filter(|(of, _)| *of == kind);
        if let Some((_, known)) = known.find(|(_, known)| known.id().same(index.id())) {
            return known.id().agrees(index.id());
        }
        declared.push((kind.clone(), index.clone()));
        drop(declared);
        let cores: Vec<_> = {
            let kinds = self.shared.kinds.read();
            kinds.get(&kind).into_iter().flatten().filter_map(|o| o.core.upgrade()).collect()
        };
        for core in cores {
            let guard = index.attach(&core.store)?;
            core.indexes.lock().push(guard);
        }
        Ok(())
    }

    /// Adds the declared indexes of a kind to its new store, which is empty.
    pub(super) fn attach_declared(&self, kind: &Kind, core: &Core) {
        for (of, index) in &*self.shared.declared.lock() {
            if of != kind || core.indexes.lock().iter().any(|known| known.is_of(index.id())) {
                continue;
            }
            // That it conflicts with another one was found out when it was declared.
            if let Ok(guard) = index.attach(&core.store) {
                core.indexes.lock().push(guard);
            }
        }
    }
}

// === impl Declared ===

impl<K, V> Declared for Index<K, V>
where
    K: Object<DynamicType = ()>,
    V: Ord + Clone + Send + Sync + 'static,
{
    fn id(&self) -> &IndexId {
        self.id()
    }

    fn kind(&self) -> Kind {
        Kind::of::<K>()
    }

    fn attach(&self, store: &Store) -> Result<IndexGuard> {
        store.declare(self)
    }
}
