//! A store that passes on its whole content after every change.

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
/// use windlass::cache::FullStateStore;
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let store = FullStateStore::new(move |all: Vec<(&str, u8)>| log.lock().unwrap().push(all.len()));
/// store.insert("a", 1);
/// store.insert("b", 2);
/// store.remove(&"a");
/// assert_eq!(*seen.lock().unwrap(), [1, 2, 1]);
/// ```
pub struct FullStateStore<K, V> {
    inner: Mutex<Inner<K, V>>,
}

struct Inner<K, V> {
    entries: BTreeMap<K, V>,
    push: Push<K, V>,
}

type Push<K, V> = Box<dyn FnMut(Vec<(K, V)>) + Send>;

// === impl FullStateStore ===

impl<K: Ord + Clone, V: Clone> FullStateStore<K, V> {
    /// Creates an empty store with the function to call; it must not use the store itself.
    pub fn new(push: impl FnMut(Vec<(K, V)>) + Send + 'static) -> Self {
        Self { inner: Mutex::new(Inner { entries: BTreeMap::new(), push: Box::new(push) }) }
    }

    /// Inserts an entry, and calls the function with all values.
    pub fn insert(&self, key: K, value: V) {
        self.change(|entries| {
            entries.insert(key, value);
        });
    }

    /// Removes an entry, and calls the function with all values that are left.
    pub fn remove(&self, key: &K) {
        self.change(|entries| {
            entries.remove(key);
        });
    }

    #[cfg(test)]
    fn list(&self) -> Vec<(K, V)> {
        let inner = self.inner.lock();
        inner.entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    // The function is called under the lock, so that states are passed on in their order.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<K, V>)) {
        let mut inner = self.inner.lock();
        change(&mut inner.entries);
        let all = inner.entries.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        (inner.push)(all);
    }
}

impl<K, V> fmt::Debug for FullStateStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FullStateStore").field("len", &self.inner.lock().entries.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    type Seen = Arc<Mutex<Vec<Vec<(u32, u32)>>>>;

    fn store() -> (FullStateStore<u32, u32>, Seen) {
        let seen = Seen::default();
        let log = seen.clone();
        (FullStateStore::new(move |all| log.lock().push(all)), seen)
    }

    #[test]
    fn every_change_passes_on_everything_also_one_that_changes_nothing() {
        let (store, seen) = store();
        store.insert(2, 20);
        store.insert(1, 10);
        store.insert(1, 11);
        store.remove(&7);
        store.remove(&2);
        let states: [&[(u32, u32)]; 5] =
            [&[(2, 20)], &[(1, 10), (2, 20)], &[(1, 11), (2, 20)], &[(1, 11), (2, 20)], &[(1, 11)]];
        assert_eq!(*seen.lock(), states);
    }

    #[test]
    fn states_are_passed_on_in_their_order_also_from_several_threads() {
        let (store, seen) = store();
        std::thread::scope(|scope| {
            for hand in 0..4 {
                let store = &store;
                scope.spawn(move || (1..=100).for_each(|value| store.insert(hand, value)));
            }
        });
        let seen = seen.lock();
        assert_eq!(seen.len(), 400, "one state per change");
        for pair in seen.windows(2) {
            // Each state differs from the one before it by one step of one hand.
            let sum = |state: &[(u32, u32)]| state.iter().map(|(_, value)| value).sum::<u32>();
            assert_eq!(sum(&pair[1]), sum(&pair[0]) + 1);
        }
        assert_eq!(*seen.last().expect("many"), store.list());
    }

    #[test]
    fn a_function_that_panics_does_not_spoil_the_store() {
        let store = FullStateStore::new(|all: Vec<(u8, u8)>| assert!(all.len() != 2, "on purpose"));
        store.insert(1, 1);
        let insert = std::panic::AssertUnwindSafe(|| store.insert(2, 2));
        assert!(std::panic::catch_unwind(insert).is_err());
        store.insert(3, 3);
        assert_eq!(store.list(), [(1, 1), (2, 2), (3, 3)]);
    }
}
