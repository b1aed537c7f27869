//! The deltas that a reflector has read and not yet applied to the store.
//!
//! Deltas keep the order in which they were received, across keys and kinds of delta: a bookmark or
//! the end of a relist is applied after everything before it. The reflector itself applies them, all
//! at once, when there is nothing more to read or when there are many. No other task has to be
//! woken for that, and a server that is faster than the store waits.
//!
//! **Invariant:** the deltas of one reflector are applied in the order in which it added them.
//! **Invariant:** the state describes what the store holds, not what was read.

use std::sync::Arc;

use super::state::SyncStates;
use super::{Entry, Key, Store, SyncState};

/// Deltas applied at once, so that the store is published once for all of them.
const BATCH_MAX: usize = 1000;
/// The capacity that is kept for the next deltas.
const CAPACITY_KEPT: usize = 16;

/// One step of a reflector.
#[derive(Clone, Debug)]
pub(super) enum Delta {
    /// A list of the whole scope begins; an earlier one that did not end is discarded.
    Begin,
    /// An object of that list.
    Listed(Arc<Entry>),
    /// An object of that list that could not be read: what is known of it stays.
    Kept(Key),
    /// An object that was deleted while that list was streamed.
    Unlisted(Key),
    /// The list is complete: objects that it does not contain are deleted.
    Replace {
        /// The version of the list.
        version: u64,
    },
    /// An object was created or changed.
    Upsert(Arc<Entry>),
    /// An object was deleted; the entry is its last state.
    Delete(Arc<Entry>),
    /// An object was deleted whose last state could not be read.
    Gone {
        /// The key of the object.
        key: Key,
        /// Its UID.
        uid: Box<str>,
        /// The version of the deletion.
        version: u64,
    },
    /// Everything up to this version was sent.
    Bookmark {
        /// That version.
        version: u64,
    },
    /// The watch has failed; the state describes how.
    Broken(SyncState),
    /// The watch works again after a fault.
    Resumed,
}

/// Deltas that are applied to the store at once.
pub(super) struct Batch {
    source: usize,
    /// Only metadata is requested.
    pub(super) metadata_only: bool,
    deltas: Vec<Delta>,
    store: Store,
    states: Arc<SyncStates>,
}

// === impl Batch ===

impl Batch {
    /// Creates the batch of one of the sources of a store.
    pub(super) fn new(source: usize, store: Store, states: Arc<SyncStates>) -> Self {
        Self { source, metadata_only: false, deltas: Vec::new(), store, states }
    }

    /// Adds a delta. One that changes the state of the watch is applied at once, with all before it.
    pub(super) fn push(&mut self, delta: Delta) {
        let state = match &delta {
            Delta::Replace { version } => Some(Some(SyncState::Synced { version: *version })),
            Delta::Broken(state) => Some(Some(state.clone())),
            Delta::Resumed => Some(None),
            _ => None,
        };
        self.deltas.push(delta);
        if state.is_some() || self.deltas.len() >= BATCH_MAX {
            self.flush();
        }
        if let Some(state) = state {
            let resumed = || SyncState::Synced { version: self.store.resource_version() };
            self.states.set(self.source, state.unwrap_or_else(resumed), self.metadata_only);
        }
    }

    /// Applies everything to the store.
    pub(super) fn flush(&mut self) {
        if self.deltas.is_empty() {
            return;
        }
        self.store.apply_from(self.deltas.drain(..).map(|delta| (self.source, delta)));
        self.deltas.shrink_to(CAPACITY_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ApiResource;

    use super::*;

    fn batch() -> (Batch, Store, Arc<SyncStates>) {
        let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
        let states = Arc::new(SyncStates::new(1, true));
        (Batch::new(0, store.clone(), states.clone()), store, states)
    }

    fn entry(store: &Store, n: usize, version: usize) -> Arc<Entry> {
        let json = format!(
            r#"{{"metadata":{{"name":"m{n}","uid":"u{n}","resourceVersion":"{version}"}}}}"#
        );
        store.read(json.as_bytes()).expect("an object")
    }

    #[test]
    fn the_store_holds_what_was_read_before_the_state_changes() {
        let (mut batch, store, states) = batch();
        batch.push(Delta::Begin);
        batch.push(Delta::Listed(entry(&store, 1, 5)));
        assert_eq!((store.len(), states.get()), (0, SyncState::Pending));
        batch.push(Delta::Replace { version: 7 });
        assert_eq!((store.len(), store.resource_version()), (1, 7));
        assert_eq!(states.get(), SyncState::Synced { version: 7 });

        batch.push(Delta::Upsert(entry(&store, 2, 8)));
        batch.push(Delta::Bookmark { version: 9 });
        assert_eq!((store.len(), store.resource_version()), (1, 7));
        let fault = SyncState::Unreachable("gone".to_owned());
        batch.push(Delta::Broken(fault.clone()));
        assert_eq!((store.len(), store.resource_version(), states.get()), (2, 9, fault));
        batch.push(Delta::Resumed);
        assert_eq!(states.get(), SyncState::Synced { version: 9 });
    }

    #[test]
    fn many_deltas_are_applied_before_their_end() {
        let (mut batch, store, _) = batch();
        batch.push(Delta::Begin);
        batch.push(Delta::Replace { version: 1 });
        for n in 0..BATCH_MAX + 1 {
            batch.push(Delta::Upsert(entry(&store, n, n + 2)));
        }
        assert_eq!(store.len(), BATCH_MAX);
        batch.flush();
        assert_eq!(store.len(), BATCH_MAX + 1);
        assert!(batch.deltas.capacity() <= CAPACITY_KEPT);
    }
}
