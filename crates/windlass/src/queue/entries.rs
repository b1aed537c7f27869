//! The table of keys that a queue knows.
//!
//! A key keeps its slot in the table, and everything else in the queue (ready keys, timers, work
//! in progress) refers to the slot: a key is hashed and compared only when it is added. An entry
//! with a small key fills one cache line.

use std::collections::VecDeque;

use hashbrown::HashTable;

use super::key::{QueueKey, ToKey};

/// Idle keys that keep their entries, because most keys come back.
const UNUSED_MAX: usize = 32_768;

pub(super) struct Entries<K> {
    by_hash: HashTable<u32>,
    slots: Vec<Option<Entry<K>>>,
    /// Slots without an entry.
    free: Vec<u32>,
    /// Slots of keys that became idle, the oldest first. Some are in use again.
    unused: VecDeque<u32>,
}

/// Everything known about one key, except its delay.
#[repr(align(64))]
pub(super) struct Entry<K> {
    pub(super) key: K,
    hash: u64,
    /// Identifies its place among the ready keys; a place with another number is outdated.
    pub(super) seq: u64,
    /// When it was queued or handed out.
    pub(super) since: u64,
    /// The priority with which it is queued.
    pub(super) priority: i32,
    /// The priority of the adds that came while the key was being worked on, if `dirty`.
    pub(super) dirty_priority: i32,
    /// The flags of all adds since it was handed out.
    pub(super) flags: u8,
    pub(super) phase: Phase,
    pub(super) dirty: bool,
    pub(super) delayed: bool,
    /// Whether its slot is in `unused`.
    in_unused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Queued,
    Working,
}

// === impl Entries ===

impl<K: QueueKey> Entries<K> {
    pub(super) fn new() -> Self {
        Self {
            by_hash: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            unused: VecDeque::new(),
        }
    }

    /// Returns the slot of a key that is in the table.
    #[inline]
    pub(super) fn find(&self, wanted: &K, hash: u64) -> Option<u32> {
        let same = |slot: &u32| {
            let entry = self.slots[*slot as usize].as_ref();
            entry.is_some_and(|entry| entry.hash == hash && entry.key == *wanted)
        };
        self.by_hash.find(hash, same).copied()
    }

    /// Returns the slot of a key, which is put into the table if it is not there.
    #[inline]
    pub(super) fn find_or_insert(&mut self, key: impl ToKey<K>, hash: u64) -> u32 {
        self.find(key.key(), hash).unwrap_or_else(|| self.insert(key.into_key(), hash))
    }

    #[cold]
    fn insert(&mut self, key: K, hash: u64) -> u32 {
        let entry = Some(Entry {
            key,
            hash,
            seq: 0,
            since: 0,
            priority: 0,
            dirty_priority: 0,
            flags: 0,
            phase: Phase::Idle,
            dirty: false,
            delayed: false,
            in_unused: false,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                u32::try_from(self.slots.len() - 1).expect("fewer keys than memory holds")
            }
        };
        let slots = &self.slots;
        let hash_of = |slot: &u32| slots[*slot as usize].as_ref().map_or(0, |entry| entry.hash);
        self.by_hash.insert_unique(hash, slot, hash_of);
        slot
    }

    /// Returns the entry of a slot that is in use.
    pub(super) fn get(&self, slot: u32) -> Option<&Entry<K>> {
        self.slots[slot as usize].as_ref()
    }

    /// Returns the entry of a slot that is in use.
    pub(super) fn at(&mut self, slot: u32) -> &mut Entry<K> {
        self.slots[slot as usize].as_mut().expect("a slot in use has an entry")
    }

    /// Returns `true` if a place among the ready keys is not outdated.
    pub(super) fn is_queued(&self, slot: u32, seq: u64) -> bool {
        self.get(slot).is_some_and(|entry| entry.seq == seq && entry.phase == Phase::Queued)
    }

    /// Notes that a key is idle. The keys that became idle first are removed if there are too
    /// many.
    pub(super) fn release(&mut self, slot: u32) {
        let entry = self.at(slot);
        if std::mem::replace(&mut entry.in_unused, true) {
            return;
        }
        self.unused.push_back(slot);
        while self.unused.len() > UNUSED_MAX
            && let Some(slot) = self.unused.pop_front()
        {
            let entry = self.at(slot);
            entry.in_unused = false;
            if entry.phase == Phase::Idle && !entry.delayed {
                self.remove(slot);
            }
        }
    }

    /// Cancels all delays and removes all idle keys.
    pub(super) fn remove_idle(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            let Some(entry) = self.slots[slot as usize].as_mut() else { continue };
            (entry.delayed, entry.in_unused) = (false, false);
            if entry.phase == Phase::Idle {
                self.remove(slot);
            }
        }
        self.unused.clear();
    }

    fn remove(&mut self, slot: u32) {
        let Some(entry) = self.slots[slot as usize].take() else { return };
        if let Ok(found) = self.by_hash.find_entry(entry.hash, |known| *known == slot) {
            found.remove();
        }
        self.free.push(slot);
    }

    /// Returns the entries of keys that are being worked on.
    pub(super) fn working(&self) -> impl Iterator<Item = &Entry<K>> {
        self.slots.iter().flatten().filter(|entry| entry.phase == Phase::Working)
    }
}
