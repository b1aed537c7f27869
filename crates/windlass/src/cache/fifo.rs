//! The delta queue between a reflector and the store.
//!
//! Deltas keep the order of the wire, across keys and kinds of delta: a bookmark or the end of
//! a relist is applied after everything that came before it. The reflector that puts them in also
//! brings them into the store, all at once when there is nothing more to read or when they are
//! many: nobody has to be woken for that, and a server that is faster than the store waits.
//!
//! **Invariant:** what one reflector puts in comes out in the same order.
//! **Invariant:** the state says what the store holds, not what was read.

use std::sync::Arc;

use super::state::SyncStates;
use super::{Entry, Key, Store, SyncState};

/// Deltas applied at once, so that the store is published once for all of them.
const BATCH_MAX: usize = 1000;
/// Room that is kept for the next ones.
const ROOM: usize = 16;

/// One step of a reflector.
#[derive(Clone, Debug)]
pub enum Delta {
    /// A list of the whole scope begins; what an earlier one left unfinished is void.
    Begin,
    /// An object of that list.
    Listed(Arc<Entry>),
    /// An object of that list that could not be read: what is known of it stays.
    Kept(Key),
    /// An object that was deleted while that list was streamed.
    Unlisted(Key),
    /// The list is complete: what it did not name is gone.
    Replace {
        /// The version the list stands for.
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
    /// The watch is at fault; the state says how.
    Broken(SyncState),
    /// The watch works again after a fault.
    Resumed,
}

/// What a reflector has read and the store does not hold yet.
pub(super) struct Fifo {
    source: usize,
    /// Only metadata are asked for.
    pub(super) narrow: bool,
    deltas: Vec<Delta>,
    store: Store,
    states: Arc<SyncStates>,
}

// === impl Fifo ===

impl Fifo {
    /// Makes the queue of one of the sources of a store.
    pub(super) fn new(source: usize, store: Store, states: Arc<SyncStates>) -> Self {
        Self { source, narrow: false, deltas: Vec::new(), store, states }
    }

    /// Puts a delta in; one that says how the watch is goes on to the store at once, with all
    /// before it.
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
            self.states.set(self.source, state.unwrap_or_else(resumed), self.narrow);
        }
    }

    /// Brings everything into the store.
    pub(super) fn flush(&mut self) {
        if self.deltas.is_empty() {
            return;
        }
        self.store.apply_from(self.deltas.drain(..).map(|delta| (self.source, delta)));
        self.deltas.shrink_to(ROOM);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ApiResource;

    use super::*;

    fn made() -> (Fifo, Store, Arc<SyncStates>) {
        let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
        let states = Arc::new(SyncStates::new(1, true));
        (Fifo::new(0, store.clone(), states.clone()), store, states)
    }

    fn entry(store: &Store, n: usize, version: usize) -> Arc<Entry> {
        let json = format!(
            r#"{{"metadata":{{"name":"m{n}","uid":"u{n}","resourceVersion":"{version}"}}}}"#
        );
        store.read(json.as_bytes()).expect("an object")
    }

    #[test]
    fn what_was_read_is_in_the_store_before_the_state_says_so() {
        let (mut fifo, store, states) = made();
        fifo.push(Delta::Begin);
        fifo.push(Delta::Listed(entry(&store, 1, 5)));
        assert_eq!((store.len(), states.get()), (0, SyncState::Pending));
        fifo.push(Delta::Replace { version: 7 });
        assert_eq!((store.len(), store.resource_version()), (1, 7));
        assert_eq!(states.get(), SyncState::Synced { version: 7 });

        fifo.push(Delta::Upsert(entry(&store, 2, 8)));
        fifo.push(Delta::Bookmark { version: 9 });
        assert_eq!((store.len(), store.resource_version()), (1, 7));
        let fault = SyncState::Unreachable("gone".to_owned());
        fifo.push(Delta::Broken(fault.clone()));
        assert_eq!((store.len(), store.resource_version(), states.get()), (2, 9, fault));
        fifo.push(Delta::Resumed);
        assert_eq!(states.get(), SyncState::Synced { version: 9 });
    }

    #[test]
    fn many_deltas_do_not_wait_for_the_end_of_them() {
        let (mut fifo, store, _) = made();
        fifo.push(Delta::Begin);
        fifo.push(Delta::Replace { version: 1 });
        for n in 0..BATCH_MAX + 1 {
            fifo.push(Delta::Upsert(entry(&store, n, n + 2)));
        }
        assert_eq!(store.len(), BATCH_MAX);
        fifo.flush();
        assert_eq!(store.len(), BATCH_MAX + 1);
        assert!(fifo.deltas.capacity() <= ROOM);
    }
}
