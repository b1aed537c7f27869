//! A store that hands out its whole content after every change.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

/// A map that calls a function with all its values after every change, in order.
///
/// For consumers that need the full state, such as writers of a configuration file.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use windlass::cache::undelta::UndeltaStore;
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let store = UndeltaStore::new(move |all: Vec<(&str, u8)>| log.lock().unwrap().push(all.len()));
/// store.insert("a", 1);
/// store.replace([("b", 2), ("c", 3)]);
/// store.remove(&"b");
/// assert_eq!(*seen.lock().unwrap(), [1, 2, 1]);
/// ```
pub struct UndeltaStore<K, V> {
    inner: Mutex<Inner<K, V>>,
}

struct Inner<K, V> {
    entries: BTreeMap<K, V>,
    push: Push<K, V>,
}

type Push<K, V> = Box<dyn FnMut(Vec<(K, V)>) + Send>;

// === impl UndeltaStore ===

impl<K: Ord + Clone, V: Clone> UndeltaStore<K, V> {
    /// Makes an empty store with the function to call; it must not use the store itself.
    pub fn new(push: impl FnMut(Vec<(K, V)>) + Send + 'static) -> Self {
        Self { inner: Mutex::new(Inner { entries: BTreeMap::new(), push: Box::new(push) }) }
    }

    /// Puts an entry in and hands out everything.
    pub fn insert(&self, key: K, value: V) {
        self.change(|entries| {
            entries.insert(key, value);
        });
    }

    /// Takes an entry out and hands out everything.
    pub fn remove(&self, key: &K) {
        self.change(|entries| {
            entries.remove(key);
        });
    }

    /// Replaces everything and hands it out.
    pub fn replace(&self, all: impl IntoIterator<Item = (K, V)>) {
        self.change(|entries| *entries = all.into_iter().collect());
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.inner.lock().entries.get(key).cloned()
    }

    /// Returns everything, in order.
    pub fn list(&self) -> Vec<(K, V)> {
        let inner = self.inner.lock();
        inner.entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    // The function is called under the lock, so that states are handed out in their order.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<K, V>)) {
        let mut inner = self.inner.lock();
        change(&mut inner.entries);
        let all = inner.entries.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        (inner.push)(all);
    }
}

impl<K, V> fmt::Debug for UndeltaStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndeltaStore").field("len", &self.inner.lock().entries.len()).finish()
    }
}
