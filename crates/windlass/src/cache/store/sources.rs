//! Sources of a store that come and go.

use super::Store;

// === impl Store ===

impl Store {
    /// Adds the watch of a namespace, and returns its number.
    pub(in crate::cache) fn add_source(&self, namespace: &str) -> usize {
        self.write(|writer| writer.add_source(namespace))
    }

    /// Ends a watch that sends nothing any more: its objects are gone.
    pub(in crate::cache) fn end_source(&self, source: usize) {
        self.write(|writer| writer.end_source(source));
    }

    /// Notes that all sources of now were added.
    pub(in crate::cache) fn sources_known(&self) {
        self.write(|writer| writer.sources_known());
    }
}
