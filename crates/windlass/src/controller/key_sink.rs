//! Where the sources of a controller put the keys of its objects.
//!
//! **Invariant:** an object has one key: the key of a cluster-scoped kind has no namespace.

use std::sync::Arc;
use std::time::Duration;

use crate::cache::Key;
use crate::kind::Kind;
use crate::queue::{Add, ToKey, WorkQueue};

/// The queue of a controller, for those who add keys; cheap to clone.
#[derive(Clone)]
pub(super) struct KeySink {
    kind: Kind,
    queue: Arc<WorkQueue<Key>>,
}

// === impl KeySink ===

impl KeySink {
    /// Wraps the queue of a controller of `kind`.
    pub(super) fn new(kind: Kind, queue: Arc<WorkQueue<Key>>) -> Self {
        Self { kind, queue }
    }

    /// Adds a key, and returns its delay.
    pub(super) fn add(&self, key: impl ToKey<Key>, add: Add) -> Duration {
        if self.kind.namespaced() || key.key().namespace().is_none() {
            return self.queue.add_with(key, add);
        }
        self.queue.add_with(Key::cluster(key.key().name()), add)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Pod};

    use super::*;

    #[test]
    fn a_cluster_scoped_object_has_one_key() {
        for (kind, keys) in [(Kind::of::<Namespace>(), 1), (Kind::of::<Pod>(), 2)] {
            let queue = Arc::new(WorkQueue::new());
            let sink = KeySink::new(kind, queue.clone());
            sink.add(Key::namespaced("default", "a"), Add::default());
            sink.add(Key::cluster("a"), Add::default());
            assert_eq!(queue.len(), keys);
        }
    }
}
