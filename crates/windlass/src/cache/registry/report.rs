//! What metrics and diagnostics show of the watches of a cache.

use std::sync::Arc;

use super::Cache;
use crate::cache::informer::Core;
use crate::cache::{InformerStats, SyncState};
use crate::kind::Kind;

/// The state and the figures of one watch.
#[derive(Debug, Clone)]
pub(crate) struct WatchReport {
    pub(crate) kind: Kind,
    pub(crate) state: SyncState,
    pub(crate) stats: InformerStats,
    /// The version that the store has reached.
    pub(crate) version: u64,
    /// The indexes and how many values each holds.
    pub(crate) indexes: Vec<(String, usize)>,
}

// === impl Cache ===

impl Cache {
    /// Returns the state of every watch.
    pub(crate) fn states(&self) -> Vec<(Kind, SyncState)> {
        self.all().into_iter().map(|(kind, core)| (kind, core.states.get())).collect()
    }

    /// Returns the figures of every watch.
    pub(crate) fn reports(&self) -> Vec<WatchReport> {
        let report = |(kind, core): (Kind, Arc<Core>)| WatchReport {
            kind,
            state: core.states.get(),
            stats: InformerStats::read(&core.store, &core.stats),
            version: core.store.resource_version(),
            indexes: core.store.indexes(),
        };
        self.all().into_iter().map(report).collect()
    }
}
