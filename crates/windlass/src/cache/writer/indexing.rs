//! Indexes of a store: built beside the writer, then kept up to date by it.

use std::sync::Arc;

use imbl::OrdMap;

use super::Writer;
use crate::cache::index::{IndexId, Indexer};
use crate::cache::{Entry, Key};
use crate::error::Result;

/// An index and how many guards it has.
pub(super) struct UsedIndexer {
    pub(super) indexer: Box<dyn Indexer>,
    pub(super) users: usize,
}

/// A key, the object that was there, and the one that is there since.
pub(in crate::cache) type Missed = (Key, Option<Arc<Entry>>, Option<Arc<Entry>>);

/// An index that is to be built from a snapshot.
pub(in crate::cache) struct IndexBuild {
    pub(in crate::cache) ticket: u64,
    pub(in crate::cache) objects: OrdMap<Key, Arc<Entry>>,
}

// === impl Writer ===

impl Writer {
    /// Uses an index once more, or begins to build it and returns what to build it from.
    ///
    /// # Errors
    ///
    /// Fails if the index is there with another function.
    pub(in crate::cache) fn begin_index(&mut self, id: &IndexId) -> Result<Option<IndexBuild>> {
        if self.use_index(id)? {
            return Ok(None);
        }
        self.tickets += 1;
        self.building.push((self.tickets, Vec::new()));
        Ok(Some(IndexBuild { ticket: self.tickets, objects: self.objects.clone() }))
    }

    fn use_index(&mut self, id: &IndexId) -> Result<bool> {
        let Some(used) = self.indexers.iter_mut().find(|used| used.indexer.id().same(id)) else {
            return Ok(false);
        };
        used.indexer.id().agrees(id)?;
        used.users += 1;
        Ok(true)
    }

    /// Takes the changes that an index has missed; `None` if they are at most `few`.
    pub(in crate::cache) fn missed(&mut self, ticket: u64, few: usize) -> Option<Vec<Missed>> {
        let (_, missed) = self.building.iter_mut().find(|(building, _)| *building == ticket)?;
        (missed.len() > few).then(|| std::mem::take(missed))
    }

    /// Ends the building of an index: it is kept up to date and published from now on.
    ///
    /// # Errors
    ///
    /// Fails if somebody else has built it meanwhile with another function.
    pub(in crate::cache) fn end_index(
        &mut self,
        ticket: u64,
        mut indexer: Box<dyn Indexer>,
    ) -> Result<()> {
        let building = self.building.iter().position(|(building, _)| *building == ticket);
        let missed = building.map(|at| self.building.swap_remove(at).1).unwrap_or_default();
        if self.use_index(indexer.id())? {
            return Ok(());
        }
        for (key, old, new) in &missed {
            indexer.update(key, old.as_ref(), new.as_ref());
        }
        tracing::debug!(index = indexer.id().name(), objects = self.objects.len(), "index added");
        self.indexers.push(UsedIndexer { indexer, users: 1 });
        self.dirty = true;
        Ok(())
    }

    pub(in crate::cache) fn release_index(&mut self, id: &IndexId) {
        let Some(at) = self.indexers.iter().position(|used| used.indexer.id().same(id)) else {
            return;
        };
        self.indexers[at].users -= 1;
        if self.indexers[at].users == 0 {
            self.indexers.remove(at);
            self.dirty = true;
        }
    }

    /// Files an object in all indexes, or takes it out of them.
    pub(super) fn file(&mut self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        for used in &mut self.indexers {
            used.indexer.update(key, old, new);
        }
        for (_, missed) in &mut self.building {
            missed.push((key.clone(), old.cloned(), new.cloned()));
        }
    }
}
