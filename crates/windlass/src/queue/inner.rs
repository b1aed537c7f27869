//! What the queue knows of each key, under its lock.
//!
//! Keys have places in a table and are known by their place from then on: the lanes of ready
//! keys, the heap of delays and the work in hand name places, so that a key is hashed and
//! compared only when it is added. A number given once marks what a place was named for; one
//! that was left behind is seen to be old by that.

use std::collections::BinaryHeap;
use std::hash::BuildHasher;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use tokio::time::Instant;

use super::ready::Ready;
use super::stats::Counters;
use super::{Limiter, QueueKey, QueueStats};

pub(super) struct Inner<K> {
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Vec<Option<Entry<K>>>,
    /// Places that are empty.
    free: Vec<u32>,
    pub(super) ready: Ready,
    waiting: BinaryHeap<Waiting>,
    /// Live entries in `waiting`; the rest are left-overs of keys that moved earlier.
    pub(super) waiting_live: usize,
    pub(super) limiter: Box<dyn Limiter<K>>,
    seq: u64,
    pub(super) idle: usize,
    pub(super) processing: usize,
    pub(super) open: bool,
    pub(super) draining: bool,
    pub(super) stats: Counters,
}

/// Everything known about one key; removed as soon as there is nothing to know.
struct Entry<K> {
    key: K,
    hash: u64,
    queued: Option<Queued>,
    waiting: Option<Delayed>,
    started: Option<Instant>,
    /// The priority of an add that came while the key was being worked on.
    dirty: Option<i32>,
}

#[derive(Clone, Copy)]
struct Queued {
    priority: i32,
    seq: u64,
    since: Instant,
}

#[derive(Clone, Copy)]
struct Delayed {
    priority: i32,
    seq: u64,
    until: Instant,
}

#[derive(PartialEq, Eq)]
struct Waiting {
    until: Instant,
    seq: u64,
    place: u32,
}

// === impl Inner ===

impl<K: QueueKey> Inner<K> {
    pub(super) fn new(limiter: Box<dyn Limiter<K>>, aging: Option<Duration>) -> Self {
        Self {
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            entries: Vec::new(),
            free: Vec::new(),
            ready: Ready::new(aging),
            waiting: BinaryHeap::new(),
            waiting_live: 0,
            limiter,
            seq: 0,
            idle: 0,
            processing: 0,
            open: true,
            draining: false,
            stats: Counters::default(),
        }
    }

    /// Adds a key that is ready now.
    pub(super) fn enqueue(&mut self, key: K, priority: i32, now: Instant) {
        let place = self.place(key);
        self.enqueue_at(place, priority, now);
    }

    fn enqueue_at(&mut self, place: u32, priority: i32, now: Instant) {
        let seq = self.next_seq();
        let entry = live(&mut self.entries, place);
        if entry.started.is_some() {
            match &mut entry.dirty {
                Some(known) => *known = (*known).max(priority),
                None => {
                    entry.dirty = Some(priority);
                    self.stats.adds += 1;
                }
            }
            return;
        }
        // An entry that waits is merged into the one that is ready, with the higher priority.
        let waited = entry.waiting.take();
        if waited.is_some() {
            self.waiting_live -= 1;
        }
        let priority = waited.map_or(priority, |delayed| delayed.priority.max(priority));
        match &mut entry.queued {
            Some(queued) if queued.priority >= priority => {}
            Some(queued) => {
                let old = queued.priority;
                queued.priority = priority;
                queued.seq = seq;
                let entries = &self.entries;
                self.ready.moved(old, |place, seq| is_live(entries, place, seq));
                self.ready.push(place, priority, seq, now);
            }
            None => {
                entry.queued = Some(Queued { priority, seq, since: now });
                self.stats.adds += 1;
                self.ready.push(place, priority, seq, now);
            }
        }
    }

    /// Adds a key that is ready later.
    pub(super) fn delay(&mut self, key: K, priority: i32, until: Instant) {
        let seq = self.next_seq();
        let place = self.place(key);
        let entry = live(&mut self.entries, place);
        if let Some(queued) = entry.queued {
            if queued.priority < priority {
                self.enqueue_at(place, priority, Instant::now());
            }
            return;
        }
        match &mut entry.waiting {
            Some(delayed) => {
                delayed.priority = delayed.priority.max(priority);
                if delayed.until <= until {
                    return;
                }
                delayed.until = until;
                delayed.seq = seq;
            }
            None => {
                entry.waiting = Some(Delayed { priority, seq, until });
                self.waiting_live += 1;
            }
        }
        self.waiting.push(Waiting { until, seq, place });
        self.compact();
    }

    /// Drops left-overs once they are most of the heap, so the heap is bounded by the keys.
    fn compact(&mut self) {
        if self.waiting.len() > 64 + 2 * self.waiting_live {
            let entries = &self.entries;
            self.waiting.retain(|w| delayed(entries, w).is_some());
        }
    }

    /// Moves keys whose time has come to the ready ones.
    pub(super) fn promote(&mut self, now: Instant) {
        while self.waiting.peek().is_some_and(|w| w.until <= now) {
            let waiting = self.waiting.pop().expect("peeked above");
            let Some(delayed) = delayed(&self.entries, &waiting) else { continue };
            live(&mut self.entries, waiting.place).waiting = None;
            self.waiting_live -= 1;
            self.enqueue_at(waiting.place, delayed.priority, now);
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.peek().map(|w| w.until)
    }

    /// Hands out the first ready key: its place, the key, its priority.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(u32, K, i32)> {
        self.promote(now);
        let entries = &self.entries;
        let place = self.ready.pop(|place, seq| is_live(entries, place, seq))?;
        let entry = live(&mut self.entries, place);
        let queued = entry.queued.take().expect("a live ready key is queued");
        entry.started = Some(now);
        self.processing += 1;
        self.stats.queue_latency.record(now.saturating_duration_since(queued.since));
        Some((place, entry.key.clone(), queued.priority))
    }

    /// Takes back the key of a place that was handed out.
    pub(super) fn done(&mut self, place: u32, now: Instant) {
        let entry = live(&mut self.entries, place);
        let Some(started) = entry.started.take() else { return };
        self.processing -= 1;
        self.stats.work_duration.record(now.saturating_duration_since(started));
        match entry.dirty.take() {
            Some(priority) => {
                // It was counted when it was marked.
                self.stats.adds -= 1;
                self.enqueue_at(place, priority, now);
            }
            None if entry.waiting.is_none() => self.clear(place),
            None => {}
        }
    }

    pub(super) fn close(&mut self) {
        self.open = false;
        self.waiting.clear();
        self.waiting_live = 0;
        for place in 0..self.entries.len() as u32 {
            let Some(entry) = self.entries[place as usize].as_mut() else { continue };
            entry.waiting = None;
            if entry.queued.is_none() && entry.started.is_none() {
                self.clear(place);
            }
        }
    }

    /// Finds the place of a key, or gives it one.
    fn place(&mut self, key: K) -> u32 {
        let hash = self.hasher.hash_one(&key);
        let entries = &self.entries;
        let same = |place: &u32| entries[*place as usize].as_ref().is_some_and(|e| e.key == key);
        if let Some(place) = self.places.find(hash, same) {
            return *place;
        }
        let entry = Entry { key, hash, queued: None, waiting: None, started: None, dirty: None };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                u32::try_from(self.entries.len() - 1).expect("fewer keys than memory holds")
            }
        };
        let entries = &self.entries;
        let hash_of = |place: &u32| entries[*place as usize].as_ref().map_or(0, |e| e.hash);
        self.places.insert_unique(hash, place, hash_of);
        place
    }

    /// Empties a place.
    fn clear(&mut self, place: u32) {
        let Some(entry) = self.entries[place as usize].take() else { return };
        if let Ok(found) = self.places.find_entry(entry.hash, |known| *known == place) {
            found.remove();
        }
        self.free.push(place);
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Finds the key that has been in work longest; the smallest of several.
    pub(super) fn longest(&self, now: Instant) -> Option<(K, Duration)> {
        let entries = self.entries.iter().flatten();
        let (started, key) = entries.filter_map(|e| Some((e.started?, &e.key))).min()?;
        Some((key.clone(), now.saturating_duration_since(started)))
    }

    pub(super) fn snapshot(&self, now: Instant) -> QueueStats {
        let running = self.entries.iter().flatten().filter_map(|e| e.started);
        let ages = running.map(|started| now.saturating_duration_since(started));
        let (unfinished, longest) = ages
            .fold((Duration::ZERO, Duration::ZERO), |(sum, max), age| (sum + age, max.max(age)));
        QueueStats {
            depth: self.ready.len(),
            depth_by_priority: self.ready.depths(),
            waiting: self.waiting_live,
            processing: self.processing,
            adds: self.stats.adds,
            retries: self.stats.retries,
            queue_latency: self.stats.queue_latency,
            work_duration: self.stats.work_duration,
            unfinished,
            longest,
        }
    }
}

/// Returns the entry of a place that is known to be taken.
fn live<K>(entries: &mut [Option<Entry<K>>], place: u32) -> &mut Entry<K> {
    entries[place as usize].as_mut().expect("a place in use has an entry")
}

/// Tells whether a slot among the ready keys still stands for its key.
fn is_live<K>(entries: &[Option<Entry<K>>], place: u32, seq: u64) -> bool {
    let queued = entries[place as usize].as_ref().and_then(|entry| entry.queued);
    queued.is_some_and(|queued| queued.seq == seq)
}

/// Returns the delay that an item of the heap stands for, unless it was left behind.
fn delayed<K>(entries: &[Option<Entry<K>>], waiting: &Waiting) -> Option<Delayed> {
    let entry = entries[waiting.place as usize].as_ref()?;
    entry.waiting.filter(|delayed| delayed.seq == waiting.seq)
}

// === impl Waiting ===

// Turned round, because the heap gives the largest first and the earliest is wanted.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.until, other.seq).cmp(&(self.until, self.seq))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
