//! A store whose entries expire.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A bounded map whose entries expire after a time.
///
/// Expired entries are dropped with the next call.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::cache::ExpiringStore;
///
/// let store = ExpiringStore::new(Duration::from_secs(60), 1000);
/// store.insert("token", 7);
/// assert_eq!(store.get("token"), Some(7));
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
    /// Creates a store of at most `len_max` entries, each of which lives for `lifetime`.
    pub fn new(lifetime: Duration, len_max: usize) -> Self {
        let (by_key, by_end) = (BTreeMap::new(), BTreeMap::new());
        let entries = Mutex::new(Entries { by_key, by_end, seq: 0 });
        Self { entries, lifetime, len_max: len_max.max(1) }
    }

    /// Inserts an entry; beyond the limit the entry that expires first is dropped.
    pub fn insert(&self, key: K, value: V) {
        self.insert_for(key, value, self.lifetime);
    }

    /// Inserts an entry with a lifetime of its own.
    pub(crate) fn insert_for(&self, key: K, value: V, lifetime: Duration) {
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

    /// Returns the value of a key that has not expired.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        entries.by_key.get(key).map(|(_, _, value)| value.clone())
    }

    /// Removes an entry.
    pub fn remove<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        entries.remove(key)
    }

    /// Returns all keys and values that have not expired, in order.
    pub(crate) fn list(&self) -> Vec<(K, V)> {
        let mut entries = self.entries.lock();
        entries.sweep(Instant::now());
        let live = entries.by_key.iter();
        live.map(|(key, (_, _, value))| (key.clone(), value.clone())).collect()
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

    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (end, seq, value) = self.by_key.remove(key)?;
        self.by_end.remove(&(end, seq));
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_expires_after_its_lifetime_and_inserting_it_again_renews_it() {
        let store = ExpiringStore::new(Duration::from_secs(10), 10);
        store.insert("a", 1);
        store.insert("b", 2);
        tokio::time::advance(Duration::from_secs(9)).await;
        store.insert("a", 3);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(store.list(), [("a", 3)]);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(store.list().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_the_entry_that_expires_first_is_dropped() {
        let store = ExpiringStore::new(Duration::from_secs(10), 2);
        store.insert_for("short", 1, Duration::from_secs(1));
        store.insert("a", 2);
        store.insert("b", 3);
        assert_eq!(store.list(), [("a", 2), ("b", 3)]);
        assert_eq!(store.remove("a"), Some(2));
        assert_eq!(store.list().len(), 1);
    }
}
