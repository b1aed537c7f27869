//! The bounded set of objects that are kept decoded.
//!
//! Which objects stay is decided by second chance: a look-up marks an object, and the hand that
//! looks for room clears a mark before it evicts.
//!
//! **Invariant:** an object is served only for the very entry it was decoded from.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::entry::Malformed;
use super::{Entry, Key};

const SHARDS: usize = 16;

pub(super) struct HotSet<K> {
    shards: Vec<Mutex<Shard<K>>>,
    hasher: DefaultHashBuilder,
    /// Objects in all shards together; keys need not fall evenly.
    kept: AtomicUsize,
    room: usize,
    /// Tells this type from others on an entry.
    bit: u8,
    /// Objects that did not decode into the type.
    undecodable: AtomicU64,
}

struct Shard<K> {
    slots: HashMap<Key, Slot<K>>,
    hand: VecDeque<Key>,
}

struct Slot<K> {
    entry: Arc<Entry>,
    object: Result<Arc<K>, Malformed>,
    used: bool,
}

// === impl HotSet ===

impl<K: DeserializeOwned + Send + Sync + 'static> HotSet<K> {
    pub(super) fn new(room: usize, bit: u8) -> Self {
        let shard = || Mutex::new(Shard { slots: HashMap::new(), hand: VecDeque::new() });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: DefaultHashBuilder::default(),
            kept: AtomicUsize::new(0),
            room,
            bit,
            undecodable: AtomicU64::new(0),
        }
    }

    pub(super) fn undecodable(&self) -> u64 {
        self.undecodable.load(Ordering::Relaxed)
    }

    /// Returns the object of an entry, decoded now if need be; `keep` decides whether a freshly
    /// decoded one takes a place.
    pub(super) fn get(&self, entry: &Arc<Entry>, keep: bool) -> Result<Arc<K>, Malformed> {
        let shard = self.shard(entry.key());
        if let Some(slot) = shard.lock().slots.get_mut(entry.key())
            && Arc::ptr_eq(&slot.entry, entry)
        {
            slot.used = true;
            return slot.object.clone();
        }
        let object = entry.decode::<K>().map(Arc::new);
        if let Err(err) = &object
            && entry.fails(self.bit)
        {
            self.undecodable.fetch_add(1, Ordering::Relaxed);
            let kind = std::any::type_name::<K>();
            tracing::warn!(object = %entry.key(), kind, %err, "object does not decode, skipped");
        }
        if self.room > 0 && keep {
            shard.lock().insert(entry, object.clone(), &self.kept, self.room);
        }
        object
    }

    /// Drops what is kept of an object that is gone.
    pub(super) fn evict(&self, key: &Key) {
        if self.shard(key).lock().slots.remove(key).is_some() {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard<K>> {
        let hash = self.hasher.hash_one(key);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

// === impl Shard ===

impl<K> Shard<K> {
    fn insert(
        &mut self,
        entry: &Arc<Entry>,
        object: Result<Arc<K>, Malformed>,
        kept: &AtomicUsize,
        room: usize,
    ) {
        let slot = Slot { entry: entry.clone(), object, used: false };
        if self.slots.insert(entry.key().clone(), slot).is_some() {
            return;
        }
        kept.fetch_add(1, Ordering::Relaxed);
        self.hand.push_back(entry.key().clone());
        // What just came stays, so every shard may hold one more than there is room for. Within
        // that, the hand goes round once: what was used since it was here last is not evicted.
        let mut chances = self.hand.len();
        while kept.load(Ordering::Relaxed) > room && self.slots.len() > 1 {
            if chances == 0 && kept.load(Ordering::Relaxed) <= room + SHARDS {
                break;
            }
            chances = chances.saturating_sub(1);
            let Some(key) = self.hand.pop_front() else { break };
            match self.slots.get_mut(&key) {
                Some(slot) if slot.used || key == *entry.key() => {
                    slot.used = false;
                    self.hand.push_back(key);
                }
                Some(_) => {
                    self.slots.remove(&key);
                    kept.fetch_sub(1, Ordering::Relaxed);
                }
                None => {}
            }
        }
        // Keys of objects that are gone, or gone and back, are left in the ring: not too many.
        if self.hand.len() > 2 * self.slots.len() + 16 {
            let (slots, mut seen) = (&self.slots, HashSet::new());
            self.hand.retain(|key| slots.contains_key(key) && seen.insert(key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry::EntryReader;

    fn entry(name: &str) -> Arc<Entry> {
        let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        Arc::new(EntryReader::new(false, true).read(json.as_bytes()).unwrap())
    }

    #[test]
    fn the_set_stays_within_its_room_and_keeps_what_is_used() {
        let hot: HotSet<serde_json::Value> = HotSet::new(64, 1);
        let first = entry("first");
        let object = hot.get(&first, true).unwrap();
        for i in 0..1000 {
            hot.get(&entry(&format!("e{i}")), true).unwrap();
            assert!(Arc::ptr_eq(&object, &hot.get(&first, true).unwrap()));
        }
        let kept: usize = hot.shards.iter().map(|s| s.lock().slots.len()).sum();
        assert!(kept <= 64 + SHARDS, "{kept}");
    }

    #[test]
    fn what_is_used_stays_even_where_it_is_alone_with_what_comes() {
        // However the keys fall, and they fall differently in every set.
        for _ in 0..50 {
            let hot: HotSet<serde_json::Value> = HotSet::new(8, 1);
            let first = entry("first");
            let object = hot.get(&first, true).unwrap();
            for i in 0..100 {
                hot.get(&entry(&format!("e{i}")), true).unwrap();
                assert!(Arc::ptr_eq(&object, &hot.get(&first, true).unwrap()), "at {i}");
            }
            assert!(hot.kept.load(Ordering::Relaxed) <= 8 + SHARDS);
        }
    }

    #[test]
    fn another_entry_of_the_same_key_is_decoded_anew() {
        let hot: HotSet<serde_json::Value> = HotSet::new(64, 1);
        let old = hot.get(&entry("a"), true).unwrap();
        let new = hot.get(&entry("a"), true).unwrap();
        assert!(!Arc::ptr_eq(&old, &new));
    }

    #[test]
    fn an_object_that_does_not_decode_is_counted_once() {
        let hot: HotSet<String> = HotSet::new(0, 1);
        let entry = entry("a");
        assert!(hot.get(&entry, true).is_err() && hot.get(&entry, false).is_err());
        assert_eq!(hot.undecodable(), 1);
    }
}
