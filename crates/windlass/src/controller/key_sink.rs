//! Where the sources of a controller put the keys of its objects.
//!
//! **Invariant:** an object has one key: the key of a cluster-scoped kind has no namespace.

use std::sync::Arc;
use std::time::Duration;

use super::cause::flag;
use super::cause_table::CauseTable;
use crate::cache::{Change, Key, Origin};
use crate::kind::Kind;
use crate::queue::{Add, WorkQueue};

/// The queue of a controller, for those who add keys; cheap to clone.
#[derive(Clone)]
pub(super) struct KeySink {
    kind: Kind,
    queue: Arc<WorkQueue<Key>>,
    causes: Arc<CauseTable>,
}

// === impl KeySink ===

impl KeySink {
    /// Wraps the queue of a controller of `kind`.
    pub(super) fn new(kind: Kind, queue: Arc<WorkQueue<Key>>, causes: Arc<CauseTable>) -> Self {
        Self { kind, queue, causes }
    }

    /// Adds a key because somebody asks for it, and returns its delay.
    pub(super) fn request(&self, key: Key, add: Add) -> Duration {
        let add = add.flags(flag::REQUESTED);
        if self.fits(&key) {
            return self.queue.add_with(key, add);
        }
        self.queue.add_with(Key::cluster(key.name()), add)
    }

    /// Adds a key because a watch of its controller has begun.
    pub(super) fn started(&self, key: &Key) {
        self.queue.add_with(key, Add::default().flags(flag::STARTED));
    }

    /// Adds a key because an object of `kind` changed.
    pub(super) fn changed(&self, key: &Key, kind: &Kind, change: &Change, add: Add) {
        if !self.fits(key) {
            return self.changed(&Key::cluster(key.name()), kind, change, add);
        }
        let flags = match change.origin {
            Origin::Initial => flag::STARTED,
            _ if change.is_old_news() => flag::RESYNC,
            _ => {
                self.causes.changed(key, kind, change);
                flag::OBJECTS
            }
        };
        self.queue.add_with(key, add.flags(flags));
    }

    /// Returns `true` if a key can be that of an object of the controller's kind.
    fn fits(&self, key: &Key) -> bool {
        self.kind.namespaced() || key.namespace().is_none()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Pod};

    use super::*;

    #[test]
    fn a_cluster_scoped_object_has_one_key() {
        for (kind, keys) in [(Kind::of::<Namespace>(), 1), (Kind::of::<Pod>(), 2)] {
            let queue = Arc::new(WorkQueue::default());
            let sink = KeySink::new(kind, queue.clone(), Arc::default());
            sink.request(Key::namespaced("default", "a"), Add::default());
            sink.request(Key::cluster("a"), Add::default());
            assert_eq!(queue.len(), keys);
        }
    }
}
