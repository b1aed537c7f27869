//! What can be a key of a queue. Both traits are implemented for all types that qualify; nobody
//! has to name them.

use std::hash::Hash;

/// The bounds of a queue's key type.
pub trait QueueKey: Hash + Eq + Clone + Ord + Send + 'static {}

impl<T: Hash + Eq + Clone + Ord + Send + 'static> QueueKey for T {}

/// A key, or a reference to one, which is cloned only if the queue does not hold the key yet.
pub trait ToKey<K> {
    /// Returns the key.
    fn key(&self) -> &K;

    /// Converts into the key that the queue stores.
    fn into_key(self) -> K;
}

impl<K> ToKey<K> for K {
    fn key(&self) -> &K {
        self
    }

    fn into_key(self) -> K {
        self
    }
}

impl<K: Clone> ToKey<K> for &K {
    fn key(&self) -> &K {
        self
    }

    fn into_key(self) -> K {
        self.clone()
    }
}
