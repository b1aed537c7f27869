//! Indexes of a store, built from a snapshot while the writer continues.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Store;
use crate::cache::Entry;
use crate::cache::index::{Extract, Index, IndexGuard, IndexId, Indexer, TreeIndexer};
use crate::error::Result;

/// How often a new index catches up beside the writer before it does so under its lock.
const CATCH_UP_MAX: usize = 8;
/// Changes that are few enough to be caught up with under the lock.
const CATCH_UP_LEFT: usize = 64;

// === impl Store ===

impl Store {
    /// Keeps an index of the objects, decoded into `K`, as long as the guard lives.
    ///
    /// # Errors
    ///
    /// Fails if the index is declared with another function already.
    pub(in crate::cache) fn declare<K, V>(&self, index: &Index<K, V>) -> Result<IndexGuard>
    where
        K: DeserializeOwned + Send + Sync + 'static,
        V: Ord + Clone + Send + Sync + 'static,
    {
        let (decoded, values) = (self.decoded_set::<K>(), index.clone());
        let extract: Extract<V> = Arc::new(move |entry: &Arc<Entry>| {
            decoded.get(entry, false).map(|object| values.values(&object)).unwrap_or_default()
        });
        let id = index.id().clone();
        self.build(&id, || Box::new(TreeIndexer::new(id.clone(), extract)))
    }

    /// Keeps an index of the entries as they are, by a function that returns the same for the same
    /// entry.
    pub(in crate::cache) fn declare_entries<V>(
        &self,
        id: Arc<IndexId>,
        extract: Extract<V>,
    ) -> Result<IndexGuard>
    where
        V: Ord + Clone + Send + Sync + 'static,
    {
        self.build(&id, || Box::new(TreeIndexer::pure(id.clone(), extract)))
    }

    fn build(
        &self,
        id: &Arc<IndexId>,
        new: impl FnOnce() -> Box<dyn Indexer>,
    ) -> Result<IndexGuard> {
        let guard = || IndexGuard::new(Arc::downgrade(&self.shared), id.clone());
        let Some(build) = self.shared.writer.lock().begin_index(id)? else {
            return Ok(guard());
        };
        // Beside the writer: neither the watch nor own writes wait for it.
        let mut indexer = new();
        for (key, entry) in &build.objects {
            indexer.update(key, None, Some(entry));
        }
        for _ in 0..CATCH_UP_MAX {
            let changes = self.shared.writer.lock().missed(build.ticket, CATCH_UP_LEFT);
            let Some(changes) = changes else { break };
            for (key, old, new) in &changes {
                indexer.update(key, old.as_ref(), new.as_ref());
            }
        }
        self.write(|writer| writer.end_index(build.ticket, indexer))?;
        Ok(guard())
    }

    /// Gives up one use of an index; the last one ends it.
    pub(in crate::cache) fn release(&self, id: &IndexId) {
        self.write(|writer| writer.release_index(id));
    }
}
