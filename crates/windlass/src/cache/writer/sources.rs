//! Sources of a writer that come and go.

use super::{Source, Writer};
use crate::cache::batch::Delta;

/// A version after all others.
const LAST: u64 = u64::MAX - 1;

// === impl Writer ===

impl Writer {
    /// Adds a source for a namespace, in the place of one that has ended if there is any.
    pub(in crate::cache) fn add_source(&mut self, namespace: &str) -> usize {
        let namespace = Some(namespace.to_owned());
        if let Some(free) = self.sources.iter().position(|source| source.ended) {
            self.sources[free] = Source::default();
            self.scope.namespaces[free] = namespace;
            return free;
        }
        self.sources.push(Source::default());
        self.scope.namespaces.push(namespace);
        self.overlays.add_source();
        self.sources.len() - 1
    }

    /// Ends a source: an empty list takes all its objects away.
    pub(in crate::cache) fn end_source(&mut self, source: usize) {
        self.apply(source, Delta::Begin);
        self.apply(source, Delta::Replace { version: LAST });
        self.sources[source] = Source { ended: true, ..Source::default() };
        self.overlays.restart(source);
    }

    /// Notes that all sources of now were added: without any, the store is complete.
    pub(in crate::cache) fn sources_known(&mut self) {
        let was_synced = self.all_synced();
        self.sources_known = true;
        self.sync_point |= !was_synced && self.all_synced();
    }

    /// Returns `true` if every source has sent its first list.
    pub(super) fn all_synced(&self) -> bool {
        self.sources_known && self.sources.iter().all(|source| source.synced || source.ended)
    }
}
