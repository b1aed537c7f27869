//! The bounded set of objects that are kept decoded.
//!
//! Which objects stay is decided by second chance: a look-up marks an object, and the hand that
//! looks for room clears a mark before it evicts. Once there is no room, an object has to be
//! read twice before it replaces another: a walk over more objects than are kept would otherwise
//! evict those that are read all the time.
//!
//! **Invariant:** an object is served only for the very entry it was decoded from.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::{Entry, Key, Malformed};

const SHARDS: usize = 16;

/// Keys that came and were not kept, as far as a shard remembers them.
const PASSED_MAX: usize = 4096;

pub(super) struct DecodedSet<K> {
    shards: Vec<Mutex<Shard<K>>>,
    hasher: DefaultHashBuilder,
    /// Objects in all shards together; keys need not fall evenly.
    kept: AtomicUsize,
    room: usize,
    /// The bit of this type in the flags of an entry.
    bit: u8,
    /// The number of the store.
    store: u32,
    /// Objects that did not decode into the type.
    undecodable: AtomicU64,
}

struct Shard<K> {
    slots: HashTable<Slot<K>>,
    hand: VecDeque<Key>,
    /// Parts of the hashes of keys that came lately and were not kept, each where its hash says.
    passed: Box<[u32]>,
}

/// An object and what it was decoded from.
pub(super) struct Slot<K> {
    hash: u64,
    entry: Arc<Entry>,
    object: Result<Arc<K>, Malformed>,
    used: bool,
}

// === impl DecodedSet ===

impl<K: DeserializeOwned + Send + Sync + 'static> DecodedSet<K> {
    pub(super) fn new(room: usize, bit: u8) -> Self {
        let shard = || {
            let passed = Box::default();
            Mutex::new(Shard { slots: HashTable::new(), hand: VecDeque::new(), passed })
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: DefaultHashBuilder::default(),
            kept: AtomicUsize::new(0),
            room,
            bit,
            store: 0,
            undecodable: AtomicU64::new(0),
        }
    }

    /// Joins it with a store: what its readers see now is found without a look at the snapshot.
    pub(super) fn of(mut self, store: u32) -> Self {
        self.store = store;
        self
    }

    pub(super) fn undecodable(&self) -> u64 {
        self.undecodable.load(Ordering::Relaxed)
    }

    /// Passes what is kept of a key to `look`, if that is what the store shows now.
    pub(super) fn shown<T>(&self, key: &Key, look: impl FnOnce(&Slot<K>) -> T) -> Option<T> {
        if self.kept.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let slot = shard.slots.find_mut(hash, |slot| slot.entry.key() == key)?;
        if !slot.entry.is_shown(self.store) {
            return None;
        }
        slot.used = true;
        Some(look(slot))
    }

    /// Returns the object of an entry, decoded now if need be; `keep` decides whether a freshly
    /// decoded one takes a place.
    pub(super) fn get(&self, entry: &Arc<Entry>, keep: bool) -> Result<Arc<K>, Malformed> {
        let hash = self.hasher.hash_one(entry.key());
        let shard = self.shard(hash);
        if let Some(slot) = shard.lock().find(hash, entry.key())
            && Arc::ptr_eq(&slot.entry, entry)
        {
            slot.used = true;
            return slot.object.clone();
        }
        let object = entry.read::<K>().map(Arc::new);
        match &object {
            Ok(_) => entry.set_decodes(self.bit),
            Err(err) if entry.fails(self.bit) => {
                self.undecodable.fetch_add(1, Ordering::Relaxed);
                let kind = std::any::type_name::<K>();
                let object = entry.key();
                tracing::warn!(%object, kind, %err, "object does not decode, skipped");
            }
            Err(_) => {}
        }
        if self.room > 0 && keep {
            let mut shard = shard.lock();
            // Looked at under the lock: an entry that leaves the store from now on is evicted after
            // this. One that has left it, such as the last state of a deletion, would never be.
            if self.store != 0 && !entry.is_shown(self.store) {
                return object;
            }
            let free = self.kept.load(Ordering::Relaxed) < self.room;
            if free || shard.comes_again(hash, entry.key(), self.room) {
                let slot = Slot { hash, entry: entry.clone(), object: object.clone(), used: false };
                shard.insert(slot, &self.hasher, &self.kept, self.room);
            }
        }
        object
    }

    /// Checks that an entry decodes, and returns the object if it had to be decoded for that.
    ///
    /// An entry is decoded for the check only once, however often it is checked.
    pub(super) fn verify(&self, entry: &Arc<Entry>) -> Result<Option<Arc<K>>, Malformed> {
        if entry.decodes(self.bit) {
            return Ok(None);
        }
        self.get(entry, true).map(Some)
    }

    /// Drops what is kept of an object that is gone.
    pub(super) fn evict(&self, key: &Key) {
        let hash = self.hasher.hash_one(key);
        if self.shard(hash).lock().remove(hash, key) {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<K>> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

// === impl Slot ===

impl<K> Slot<K> {
    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(super) fn object(&self) -> Result<Arc<K>, Malformed> {
        self.object.clone()
    }
}

// === impl Shard ===

impl<K> Shard<K> {
    fn find(&mut self, hash: u64, key: &Key) -> Option<&mut Slot<K>> {
        self.slots.find_mut(hash, |slot| slot.entry.key() == key)
    }

    /// Returns `true` if a key is kept in an older state or was read lately; records that it was read.
    fn comes_again(&mut self, hash: u64, key: &Key, room: usize) -> bool {
        if self.find(hash, key).is_some() {
            return true;
        }
        if self.passed.is_empty() {
            self.passed = vec![0; (room / SHARDS).clamp(1, PASSED_MAX)].into();
        }
        let place = (hash >> 40) as usize % self.passed.len();
        // Zero is an empty place.
        let part = hash as u32 | 1;
        std::mem::replace(&mut self.passed[place], part) == part
    }

    fn remove(&mut self, hash: u64, key: &Key) -> bool {
        let found = self.slots.find_entry(hash, |slot| slot.entry.key() == key);
        found.map(|found| drop(found.remove())).is_ok()
    }

    fn insert(
        &mut self,
        slot: Slot<K>,
        hasher: &DefaultHashBuilder,
        kept: &AtomicUsize,
        room: usize,
    ) {
        let newest = slot.entry.key().clone();
        if let Some(known) = self.find(slot.hash, &newest) {
            *known = slot;
            return;
        }
        self.slots.insert_unique(slot.hash, slot, |slot| slot.hash);
        kept.fetch_add(1, Ordering::Relaxed);
        self.hand.push_back(newest.clone());
        // What just came stays, so every shard may hold one more than there is room for. Within
        // that, the hand passes every object once: what was used since the last pass is not evicted.
        let mut chances = self.hand.len();
        while kept.load(Ordering::Relaxed) > room && self.slots.len() > 1 {
            if chances == 0 && kept.load(Ordering::Relaxed) <= room + SHARDS {
                break;
            }
            chances = chances.saturating_sub(1);
            let Some(key) = self.hand.pop_front() else { break };
            let hash = hasher.hash_one(&key);
            match self.find(hash, &key) {
                Some(slot) if slot.used || key == newest => {
                    slot.used = false;
                    self.hand.push_back(key);
                }
                Some(_) => {
                    self.remove(hash, &key);
                    kept.fetch_sub(1, Ordering::Relaxed);
                }
                None => {}
            }
        }
        // Keys of objects that are gone, or gone and back, are left in the ring: not too many.
        if self.hand.len() > 2 * self.slots.len() + 16 {
            let (slots, mut seen) = (&self.slots, HashSet::new());
            let kept = |key: &Key| {
                slots.find(hasher.hash_one(key), |slot| slot.entry.key() == key).is_some()
            };
            self.hand.retain(|key| kept(key) && seen.insert(key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry_reader::EntryReader;

    fn entry(name: &str) -> Arc<Entry> {
        let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        Arc::new(EntryReader::new(false, true).read(json.as_bytes()).unwrap())
    }

    #[test]
    fn the_set_stays_within_its_room_and_keeps_what_is_used() {
        let set: DecodedSet<serde_json::Value> = DecodedSet::new(64, 1);
        let first = entry("first");
        let object = set.get(&first, true).unwrap();
        for i in 0..1000 {
            set.get(&entry(&format!("e{i}")), true).unwrap();
            assert!(Arc::ptr_eq(&object, &set.get(&first, true).unwrap()));
        }
        let kept: usize = set.shards.iter().map(|s| s.lock().slots.len()).sum();
        assert!(kept <= 64 + SHARDS, "{kept}");
    }

    #[test]
    fn what_is_used_stays_even_where_it_is_alone_with_what_comes() {
        // However the keys fall, and they fall differently in every set.
        for _ in 0..50 {
            let set: DecodedSet<serde_json::Value> = DecodedSet::new(8, 1);
            let first = entry("first");
            let object = set.get(&first, true).unwrap();
            for i in 0..100 {
                set.get(&entry(&format!("e{i}")), true).unwrap();
                assert!(Arc::ptr_eq(&object, &set.get(&first, true).unwrap()), "at {i}");
            }
            assert!(set.kept.load(Ordering::Relaxed) <= 8 + SHARDS);
        }
    }

    #[test]
    fn a_walk_over_more_than_there_is_room_for_evicts_little_and_what_comes_twice_is_kept() {
        let set: DecodedSet<serde_json::Value> = DecodedSet::new(64, 1);
        let all: Vec<_> = (0..2000).map(|i| entry(&format!("e{i}"))).collect();
        let first: Vec<_> = all.iter().take(64).map(|e| set.get(e, true).unwrap()).collect();
        for _ in 0..3 {
            all[64..].iter().for_each(|entry| drop(set.get(entry, true).unwrap()));
        }
        let same = |(old, entry)| Arc::ptr_eq(old, &set.get(entry, true).unwrap());
        let left = first.iter().zip(&all).filter(|pair| same(*pair)).count();
        assert!(left > 32, "{left} of 64 are left");
        let twice = [set.get(&all[999], true).unwrap(), set.get(&all[999], true).unwrap()];
        let again = set.get(&all[999], true).unwrap();
        assert!(twice.iter().any(|object| Arc::ptr_eq(object, &again)));
    }

    #[test]
    fn another_entry_of_the_same_key_is_decoded_anew() {
        let set: DecodedSet<serde_json::Value> = DecodedSet::new(64, 1);
        let old = set.get(&entry("a"), true).unwrap();
        let new = set.get(&entry("a"), true).unwrap();
        assert!(!Arc::ptr_eq(&old, &new));
    }

    #[test]
    fn an_entry_is_decoded_for_a_check_only_once() {
        let set: DecodedSet<serde_json::Value> = DecodedSet::new(0, 1);
        let entry = entry("a");
        assert!(set.verify(&entry).unwrap().is_some());
        assert!(set.verify(&entry).unwrap().is_none());
        let other: DecodedSet<String> = DecodedSet::new(0, 2);
        assert!(other.verify(&entry).is_err(), "another type decodes on its own");
        assert!(other.verify(&entry).is_err(), "and fails every time");
    }

    #[test]
    fn an_object_that_does_not_decode_is_counted_once() {
        let set: DecodedSet<String> = DecodedSet::new(0, 1);
        let entry = entry("a");
        assert!(set.get(&entry, true).is_err() && set.get(&entry, false).is_err());
        assert_eq!(set.undecodable(), 1);
    }
}
