//! A store whose entries end by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A map whose entries end after a time; what has ended is dropped when it is met.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::cache::expiring::ExpiringStore;
///
/// let store = ExpiringStore::new(Duration::from_secs(60), 1000);
/// store.insert("token", 7);
/// assert_eq!(store.get(&"token"), Some(7));
/// ```
#[derive(Debug)]
pub struct ExpiringStore<K, V> {
    entries: Mutex<Entries<K, V>>,
    lifetime: Duration,
    len_max: usize,
}

#[derive(Debug)]
struct Entries<K, V> {
    by_key: BTreeMap<K, (Instant, u64, V)>,
    by_end: BTreeMap<(Instant, u64), K>,
    seq: u64,
}

// === impl ExpiringStore ===

impl<K: Ord + Clone, V: Clone> ExpiringStore<K, V> {
    /// Makes a store whose entries live so long, and which holds at most so many of them.
    pub fn new(lifetime: Duration, len_max: usize) -> Self {
        let (by_key, by_end) = (BTreeMap::new(), BTreeMap::new());
        let entries = Mutex::new(Entries { by_key, by_end, seq: 0 });
        Self { entries, lifetime, len_max: len_max.max(1) }
    }

    /// Puts an entry in, with a full life; beyond the limit the one that ends first gives way.
    pub fn insert(&self, key: K, value: V) {
        self.insert_for(key, value, self.lifetime);
    }

    /// Puts an entry in with a lifetime of its own.
    pub fn insert_for(&self, key: K, value: V, lifetime: Duration) {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        entries.remove(&key);
        entries.seq += 1;
        let (end, seq) = (crate::clock::after(lifetime), entries.seq);
        entries.by_end.insert((end, seq), key.clone());
        entries.by_key.insert(key, (end, seq, value));
        if entries.by_key.len() > self.len_max
            && let Some((_, first)) = entries.by_end.pop_first()
        {
            entries.by_key.remove(&first);
        }
    }

    /// Returns the value of a key that has not ended.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        entries.by_key.get(key).map(|(_, _, value)| value.clone())
    }

    /// Takes an entry out.
    pub fn remove(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        entries.remove(key)
    }

    /// Returns all keys and values that have not ended, in order.
    pub fn list(&self) -> Vec<(K, V)> {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        let live = entries.by_key.iter();
        live.map(|(key, (_, _, value))| (key.clone(), value.clone())).collect()
    }

    /// Returns how many entries have not ended.
    pub fn len(&self) -> usize {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        entries.by_key.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl Entries ===

impl<K: Ord + Clone, V> Entries<K, V> {
    fn sweep(&mut self, now: Instant) {
        while let Some(first) = self.by_end.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            self.by_key.remove(&key);
        }
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let (end, seq, value) = self.by_key.remove(key)?;
        self.by_end.remove(&(end, seq));
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_ends_after_its_time_and_a_new_insert_starts_it_over() {
        let store = ExpiringStore::new(Duration::from_secs(10), 10);
        store.insert("a", 1);
        store.insert("b", 2);
        tokio::time::advance(Duration::from_secs(9)).await;
        store.insert("a", 3);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.list(), [("a", 3)]);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(store.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_its_limit_the_first_to_end_gives_way() {
        let store = ExpiringStore::new(Duration::from_secs(10), 2);
        store.insert_for("short", 1, Duration::from_secs(1));
        store.insert("a", 2);
        store.insert("b", 3);
        assert_eq!(store.list(), [("a", 2), ("b", 3)]);
        assert_eq!(store.remove(&"a"), Some(2));
        assert_eq!(store.len(), 1);
    }
}
