//! What the queue knows of each key, under its lock.
//!
//! Keys have places in a table and are known by their place from then on: the lanes of ready
//! keys, the heap of delays and the work in hand name places, so that a key is hashed and
//! compared only when it is added. A number given once marks what a place was named for; one
//! that was left behind is seen to be old by that. Times are nanoseconds since an epoch: they
//! are half as large as instants, and an entry of a small key is one line of the processor's
//! cache. What is known of delays stands beside, for most keys never wait.

use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;
use tokio::time::Instant;

use super::ready::Ready;
use super::stats::Counters;
use super::{Hands, Limiter, QueueKey, QueueStats, ToKey};

/// How long others are left asleep for a worker that was woken and does not look, in
/// nanoseconds.
const PATIENCE: u64 = 100_000;

/// Keys that keep their places when there is nothing to know of them: most come again.
const VACANT_MAX: usize = 32_768;

pub(super) struct Inner<K: QueueKey> {
    places: HashTable<u32>,
    entries: Vec<Option<Entry<K>>>,
    /// The delays of those whose entries say that they wait, by place.
    delays: Vec<Delayed>,
    /// Places that are empty.
    free: Vec<u32>,
    /// Places whose keys were done with, the oldest first; some are in use again.
    vacant: VecDeque<u32>,
    pub(super) ready: Ready,
    waiting: BinaryHeap<Waiting>,
    /// Live entries in `waiting`; the rest are left-overs of keys that moved earlier.
    pub(super) waiting_live: usize,
    pub(super) limiter: Box<dyn Limiter<K>>,
    pub(super) clock: Epoch,
    seq: u64,
    idle: usize,
    /// When a worker was woken that did not look yet.
    woken: Option<u64>,
    /// The earliest moment that an idle worker is known to wake at by itself.
    watched: u64,
    pub(super) processing: usize,
    pub(super) open: bool,
    pub(super) draining: bool,
    pub(super) hands: Option<Arc<dyn Hands<K>>>,
    pub(super) stats: Counters,
}

/// Everything known about one key.
#[repr(align(64))]
struct Entry<K> {
    key: K,
    hash: u64,
    /// What its slot among the ready keys is named with.
    seq: u64,
    /// When it was queued or handed out.
    since: u64,
    /// The priority it is queued with.
    priority: i32,
    /// The priority of adds that came while the key was being worked on, if any did.
    dirty_priority: i32,
    phase: Phase,
    dirty: bool,
    /// Whether it has a delay.
    waits: bool,
    /// Whether its place stands among the vacant ones.
    listed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It waits, or is about to be queued.
    Resting,
    Queued,
    Working,
}

#[derive(Clone, Copy, Default)]
struct Delayed {
    priority: i32,
    seq: u64,
    until: u64,
}

#[derive(PartialEq, Eq)]
struct Waiting {
    until: u64,
    seq: u64,
    place: u32,
}

/// Where the time of a queue begins.
#[derive(Clone, Copy)]
pub(super) struct Epoch(Instant);

/// A key that is handed out.
pub(super) struct Taken<K> {
    pub(super) place: u32,
    pub(super) key: K,
    pub(super) priority: i32,
}

// === impl Inner ===

impl<K: QueueKey> Inner<K> {
    pub(super) fn new(limiter: Box<dyn Limiter<K>>, aging: Option<Duration>, clock: Epoch) -> Self {
        Self {
            places: HashTable::new(),
            entries: Vec::new(),
            delays: Vec::new(),
            free: Vec::new(),
            vacant: VecDeque::new(),
            ready: Ready::new(aging),
            waiting: BinaryHeap::new(),
            waiting_live: 0,
            limiter,
            clock,
            seq: 0,
            idle: 0,
            woken: None,
            watched: u64::MAX,
            processing: 0,
            open: true,
            draining: false,
            hands: None,
            stats: Counters::default(),
        }
    }

    /// Adds a key that is ready now; returns the time if a worker has to hear of it.
    #[inline]
    pub(super) fn enqueue(&mut self, key: impl ToKey<K>, hash: u64, priority: i32) -> Option<u64> {
        let place = self.find(key.key(), hash);
        // Most adds are of keys that are queued already: not even the clock is read.
        if let Some(place) = place
            && let entry = live(&mut self.entries, place)
            && entry.phase == Phase::Queued
            && entry.priority >= priority
        {
            return None;
        }
        let place = place.unwrap_or_else(|| self.settle(key.into_key(), hash));
        let now = self.clock.now();
        self.enqueue_at(place, priority, now);
        Some(now)
    }

    fn enqueue_at(&mut self, place: u32, priority: i32, now: u64) {
        self.seq += 1;
        let seq = self.seq;
        let entry = live(&mut self.entries, place);
        if entry.phase == Phase::Working {
            if entry.dirty {
                entry.dirty_priority = entry.dirty_priority.max(priority);
            } else {
                (entry.dirty, entry.dirty_priority) = (true, priority);
                self.stats.adds += 1;
            }
            return;
        }
        // An entry that waits is merged into the one that is ready, with the higher priority.
        let mut priority = priority;
        if std::mem::take(&mut entry.waits) {
            self.waiting_live -= 1;
            priority = priority.max(self.delays[place as usize].priority);
        }
        if entry.phase == Phase::Queued {
            if entry.priority >= priority {
                return;
            }
            let old = entry.priority;
            (entry.priority, entry.seq) = (priority, seq);
            let entries = &self.entries;
            self.ready.moved(old, |place, seq| is_live(entries, place, seq));
        } else {
            entry.phase = Phase::Queued;
            (entry.priority, entry.seq, entry.since) = (priority, seq, now);
            self.stats.adds += 1;
        }
        self.ready.push(place, priority, seq, now);
    }

    /// Adds a key that is ready later; returns the time.
    pub(super) fn delay(
        &mut self,
        key: impl ToKey<K>,
        hash: u64,
        priority: i32,
        wait: Duration,
    ) -> u64 {
        let now = self.clock.now();
        let until = now.saturating_add(whole_nanos(wait));
        self.seq += 1;
        let seq = self.seq;
        let place = self.find(key.key(), hash);
        let place = place.unwrap_or_else(|| self.settle(key.into_key(), hash));
        let entry = live(&mut self.entries, place);
        if entry.phase == Phase::Queued {
            if entry.priority < priority {
                self.enqueue_at(place, priority, now);
            }
            return now;
        }
        if self.delays.len() <= place as usize {
            self.delays.resize(place as usize + 1, Delayed::default());
        }
        let delayed = &mut self.delays[place as usize];
        if std::mem::replace(&mut entry.waits, true) {
            delayed.priority = delayed.priority.max(priority);
            if delayed.until <= until {
                return now;
            }
            (delayed.until, delayed.seq) = (until, seq);
        } else {
            *delayed = Delayed { priority, seq, until };
            self.waiting_live += 1;
        }
        self.waiting.push(Waiting { until, seq, place });
        self.compact();
        now
    }

    /// Drops left-overs once they are most of the heap, so the heap is bounded by the keys.
    fn compact(&mut self) {
        if self.waiting.len() > 64 + 2 * self.waiting_live {
            let (entries, delays) = (&self.entries, &self.delays);
            self.waiting.retain(|w| delayed(entries, delays, w).is_some());
        }
    }

    /// Moves keys whose time has come to the ready ones.
    pub(super) fn promote(&mut self, now: u64) {
        while self.waiting.peek().is_some_and(|w| w.until <= now) {
            let waiting = self.waiting.pop().expect("peeked above");
            let delayed = delayed(&self.entries, &self.delays, &waiting);
            let Some(delayed) = delayed else { continue };
            live(&mut self.entries, waiting.place).waits = false;
            self.waiting_live -= 1;
            self.enqueue_at(waiting.place, delayed.priority, now);
        }
    }

    /// Hands out the first ready key.
    pub(super) fn pop(&mut self, now: u64) -> Option<Taken<K>> {
        self.promote(now);
        let entries = &self.entries;
        let place = self.ready.pop(|place, seq| is_live(entries, place, seq))?;
        let entry = live(&mut self.entries, place);
        self.stats.queue_latency.record(now.saturating_sub(entry.since));
        entry.phase = Phase::Working;
        entry.since = now;
        self.processing += 1;
        Some(Taken { place, key: entry.key.clone(), priority: entry.priority })
    }

    /// Takes the first ready key for a hand that is free, if there are both.
    #[inline]
    pub(super) fn hand_out(&mut self, now: u64) -> Option<(Arc<dyn Hands<K>>, Taken<K>)> {
        let hands = self.hands.as_ref().filter(|_| !self.ready.is_empty())?;
        let hands = hands.reserve().then(|| hands.clone())?;
        let taken = self.pop(now).expect("there is a ready key");
        Some((hands, taken))
    }

    /// Takes back the key of a place that was handed out.
    pub(super) fn done(&mut self, place: u32, now: u64) {
        let entry = live(&mut self.entries, place);
        if entry.phase != Phase::Working {
            return;
        }
        entry.phase = Phase::Resting;
        self.processing -= 1;
        self.stats.work_duration.record(now.saturating_sub(entry.since));
        if std::mem::take(&mut entry.dirty) {
            let priority = entry.dirty_priority;
            // It was counted when it was marked.
            self.stats.adds -= 1;
            self.enqueue_at(place, priority, now);
        } else if !entry.waits && !entry.listed {
            self.vacate(place);
        }
    }

    pub(super) fn close(&mut self) {
        self.open = false;
        self.waiting.clear();
        self.waiting_live = 0;
        for place in 0..self.entries.len() as u32 {
            let Some(entry) = self.entries[place as usize].as_mut() else { continue };
            (entry.waits, entry.listed) = (false, false);
            if entry.phase == Phase::Resting {
                self.clear(place);
            }
        }
        self.vacant.clear();
    }

    /// Counts a worker that has nothing to do; returns when it has to look by itself.
    pub(super) fn rest(&mut self) -> Option<u64> {
        self.idle += 1;
        let due = self.waiting.peek()?.until;
        self.watched = self.watched.min(due);
        Some(due)
    }

    /// Takes a worker back that rested until `due`.
    pub(super) fn rise(&mut self, due: Option<u64>) {
        self.idle -= 1;
        self.woken = None;
        if due.is_some_and(|due| due <= self.watched) {
            self.watched = u64::MAX;
        }
    }

    /// Tells whether an idle worker has to be woken, and takes it that it is: for a ready key,
    /// or a delay that ends before anybody looks. One at a time: who takes a key asks again.
    pub(super) fn calls(&mut self, now: u64) -> bool {
        if self.idle == 0 || self.woken.is_some_and(|at| now.saturating_sub(at) < PATIENCE) {
            return false;
        }
        let due = self.waiting.peek().map_or(u64::MAX, |first| first.until);
        let called = !self.ready.is_empty() || due < self.watched;
        if called {
            self.woken = Some(now);
        }
        called
    }

    /// Finds the place of a key.
    #[inline]
    fn find(&self, wanted: &K, hash: u64) -> Option<u32> {
        let entries = &self.entries;
        let same = |place: &u32| {
            entries[*place as usize].as_ref().is_some_and(|e| e.hash == hash && e.key == *wanted)
        };
        self.places.find(hash, same).copied()
    }

    /// Gives a place to a key that has none.
    #[cold]
    fn settle(&mut self, key: K, hash: u64) -> u32 {
        let entry = Some(Entry {
            key,
            hash,
            seq: 0,
            since: 0,
            priority: 0,
            dirty_priority: 0,
            phase: Phase::Resting,
            dirty: false,
            waits: false,
            listed: false,
        });
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("fewer keys than memory holds")
            }
        };
        let entries = &self.entries;
        let hash_of = |place: &u32| entries[*place as usize].as_ref().map_or(0, |e| e.hash);
        self.places.insert_unique(hash, place, hash_of);
        place
    }

    /// Notes that there is nothing to know of a key; those that rest for longest are dropped
    /// when they are too many.
    fn vacate(&mut self, place: u32) {
        live(&mut self.entries, place).listed = true;
        self.vacant.push_back(place);
        while self.vacant.len() > VACANT_MAX
            && let Some(place) = self.vacant.pop_front()
        {
            let entry = live(&mut self.entries, place);
            entry.listed = false;
            if entry.phase == Phase::Resting && !entry.waits {
                self.clear(place);
            }
        }
    }

    /// Empties a place.
    fn clear(&mut self, place: u32) {
        let Some(entry) = self.entries[place as usize].take() else { return };
        if let Ok(found) = self.places.find_entry(entry.hash, |known| *known == place) {
            found.remove();
        }
        self.free.push(place);
    }

    /// Finds the key that has been in work longest; the smallest of several.
    pub(super) fn longest(&self, now: u64) -> Option<(K, Duration)> {
        let (since, key) = self.working().map(|entry| (entry.since, &entry.key)).min()?;
        Some((key.clone(), Duration::from_nanos(now.saturating_sub(since))))
    }

    pub(super) fn snapshot(&self, now: u64) -> QueueStats {
        let ages = self.working().map(|e| Duration::from_nanos(now.saturating_sub(e.since)));
        let (unfinished, longest) = ages
            .fold((Duration::ZERO, Duration::ZERO), |(sum, max), age| (sum + age, max.max(age)));
        QueueStats {
            depth: self.ready.len(),
            depth_by_priority: self.ready.depths(),
            waiting: self.waiting_live,
            processing: self.processing,
            adds: self.stats.adds,
            retries: self.stats.retries,
            queue_latency: self.stats.queue_latency.histogram(),
            work_duration: self.stats.work_duration.histogram(),
            unfinished,
            longest,
        }
    }

    fn working(&self) -> impl Iterator<Item = &Entry<K>> {
        self.entries.iter().flatten().filter(|entry| entry.phase == Phase::Working)
    }
}

fn whole_nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

/// Returns the entry of a place that is known to be taken.
fn live<K>(entries: &mut [Option<Entry<K>>], place: u32) -> &mut Entry<K> {
    entries[place as usize].as_mut().expect("a place in use has an entry")
}

/// Tells whether a slot among the ready keys still stands for its key.
fn is_live<K>(entries: &[Option<Entry<K>>], place: u32, seq: u64) -> bool {
    let entry = entries[place as usize].as_ref();
    entry.is_some_and(|entry| entry.seq == seq && entry.phase == Phase::Queued)
}

/// Returns the delay that an item of the heap stands for, unless it was left behind.
fn delayed<K>(
    entries: &[Option<Entry<K>>],
    delays: &[Delayed],
    waiting: &Waiting,
) -> Option<Delayed> {
    let place = waiting.place as usize;
    let waits = entries[place].as_ref().is_some_and(|entry| entry.waits);
    delays.get(place).filter(|delayed| waits && delayed.seq == waiting.seq).copied()
}

// === impl Epoch ===

impl Epoch {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        // Earlier than any moment that tokio's clock shows from here on, also one that is paused
        // and behind.
        Self(now.checked_sub(Duration::from_secs(86_400)).unwrap_or(now))
    }

    /// Returns the present moment in nanoseconds.
    pub(super) fn now(self) -> u64 {
        whole_nanos(Instant::now().saturating_duration_since(self.0))
    }

    pub(super) fn instant(self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
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
