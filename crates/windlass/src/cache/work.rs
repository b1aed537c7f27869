//! Counts what reads cost, for tests.

use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<Work> = const { Cell::new(Work { states: 0, stores: 0 }) };
}

/// What was read on this thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// States of watches.
    pub(crate) states: usize,
    /// Snapshots of stores, and locks of their writers: the only ways to reach an object.
    pub(crate) stores: usize,
}

// === impl Work ===

impl Work {
    /// Counts a read of the state of a watch.
    pub(super) fn count_state() {
        COUNTED.set(Self { states: COUNTED.get().states + 1, ..COUNTED.get() });
    }

    /// Counts a read of a store.
    pub(super) fn count_store() {
        COUNTED.set(Self { stores: COUNTED.get().stores + 1, ..COUNTED.get() });
    }

    /// Returns what was read since the last call.
    pub(crate) fn take() -> Self {
        COUNTED.take()
    }
}
