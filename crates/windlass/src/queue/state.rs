//! What a queue knows, behind its lock.
//!
//! The states of a key; each arrow is a method of [`State`]. Keys that are `Idle` or `Working` can
//! have a timer as well:
//!
//! ```text
//!            add                        pop
//!   Idle ──────────────► Queued ──────────────► Working ◄─┐
//!    ▲ │                  ▲  ▲                    │  │ │   │ add: sets `dirty`
//!    │ │ add with delay   │  │   done, `dirty`    │  │ └───┘
//!    │ ▼                  │  └────────────────────┘  │
//!   Idle + timer ─────────┘                          │
//!    ▲        promote (the time has come), or add    │
//!    │                                               │
//!    └───────────────────────────────────────────────┘
//!      done; stays delayed if it was added with a delay meanwhile, otherwise is Idle
//! ```
//!
//! - `Queued`: adds raise the priority, delays are ignored.
//! - `Working` + timer: when the time comes, the key becomes `dirty`.
//! - An idle key without a timer is forgotten once 32,768 others became idle after it.

use std::sync::Arc;
use std::time::Duration;

use super::entries::{Entries, Phase};
use super::epoch::{Epoch, whole_nanos};
use super::hand_off::HandOff;
use super::key::{QueueKey, ToKey};
use super::limiter::Limiter;
use super::ready::Ready;
use super::stats::{Counters, QueueStats};
use super::timers::Timers;

/// How long a notified worker may take to look at the queue before another one is notified too,
/// in nanoseconds.
const WAKE_TIMEOUT: u64 = 100_000;

pub(super) struct State<K: QueueKey> {
    entries: Entries<K>,
    pub(super) ready: Ready,
    timers: Timers,
    pub(super) limiter: Box<dyn Limiter<K>>,
    clock: Epoch,
    seq: u64,
    /// Workers that wait for a key.
    idle: usize,
    /// When a worker was notified that has not looked at the queue yet.
    notified_at: Option<u64>,
    /// The earliest time at which a waiting worker wakes by itself.
    next_wake: u64,
    pub(super) processing: usize,
    pub(super) open: bool,
    pub(super) draining: bool,
    pub(super) hand_off: Option<Arc<dyn HandOff<K>>>,
    pub(super) stats: Counters,
}

/// A key that is handed out.
pub(super) struct Taken<K> {
    pub(super) slot: u32,
    pub(super) key: K,
    pub(super) priority: i32,
}

// === impl State ===

impl<K: QueueKey> State<K> {
    pub(super) fn new(limiter: Box<dyn Limiter<K>>, aging: Option<Duration>, clock: Epoch) -> Self {
        Self {
            entries: Entries::new(),
            ready: Ready::new(aging),
            timers: Timers::default(),
            limiter,
            clock,
            seq: 0,
            idle: 0,
            notified_at: None,
            next_wake: u64::MAX,
            processing: 0,
            open: true,
            draining: false,
            hand_off: None,
            stats: Counters::default(),
        }
    }

    /// Adds a key that is ready now. Returns the time if a worker may have to be woken for it.
    #[inline]
    pub(super) fn enqueue(&mut self, key: impl ToKey<K>, hash: u64, priority: i32) -> Option<u64> {
        let slot = self.entries.find_or_insert(key, hash);
        // Most adds are of keys that are queued already: not even the clock is read.
        let entry = self.entries.at(slot);
        if entry.phase == Phase::Queued && entry.priority >= priority {
            return None;
        }
        let now = self.clock.now();
        self.enqueue_at(slot, priority, now);
        Some(now)
    }

    fn enqueue_at(&mut self, slot: u32, priority: i32, now: u64) {
        self.seq += 1;
        let seq = self.seq;
        let entry = self.entries.at(slot);
        if entry.phase == Phase::Working {
            if entry.dirty {
                entry.dirty_priority = entry.dirty_priority.max(priority);
            } else {
                (entry.dirty, entry.dirty_priority) = (true, priority);
                self.stats.adds += 1;
            }
            return;
        }
        // A delay ends here; the higher of both priorities is kept.
        let mut priority = priority;
        if std::mem::take(&mut entry.delayed) {
            priority = priority.max(self.timers.cancel(slot).priority);
        }
        if entry.phase == Phase::Queued {
            if entry.priority >= priority {
                return;
            }
            let old = entry.priority;
            (entry.priority, entry.seq) = (priority, seq);
            let entries = &self.entries;
            self.ready.moved(old, |slot, seq| entries.is_queued(slot, seq));
        } else {
            entry.phase = Phase::Queued;
            (entry.priority, entry.seq, entry.since) = (priority, seq, now);
            self.stats.adds += 1;
        }
        self.ready.push(slot, priority, seq, now);
    }

    /// Adds a key that becomes ready later. Returns the time.
    pub(super) fn delay(
        &mut self,
        key: impl ToKey<K>,
        hash: u64,
        priority: i32,
        delay: Duration,
    ) -> u64 {
        let now = self.clock.now();
        let until = now.saturating_add(whole_nanos(delay));
        self.seq += 1;
        let slot = self.entries.find_or_insert(key, hash);
        let entry = self.entries.at(slot);
        if entry.phase == Phase::Queued {
            if entry.priority < priority {
                self.enqueue_at(slot, priority, now);
            }
            return now;
        }
        let already = std::mem::replace(&mut entry.delayed, true);
        self.timers.set(slot, already, (priority, until), self.seq);
        let entries = &self.entries;
        self.timers.compact(|slot| entries.get(slot).is_some_and(|entry| entry.delayed));
        now
    }

    /// Moves the keys whose delay has passed to the ready ones.
    pub(super) fn promote(&mut self, now: u64) {
        loop {
            let entries = &self.entries;
            let delayed = |slot| entries.get(slot).is_some_and(|entry| entry.delayed);
            let Some(due) = self.timers.pop(now, delayed) else { return };
            if let Some((slot, delay)) = due {
                self.entries.at(slot).delayed = false;
                self.enqueue_at(slot, delay.priority, now);
            }
        }
    }

    /// Hands out the first ready key.
    pub(super) fn pop(&mut self, now: u64) -> Option<Taken<K>> {
        self.promote(now);
        let entries = &self.entries;
        let slot = self.ready.pop(|slot, seq| entries.is_queued(slot, seq))?;
        let entry = self.entries.at(slot);
        self.stats.queue_latency.record(now.saturating_sub(entry.since));
        entry.phase = Phase::Working;
        entry.since = now;
        self.processing += 1;
        Some(Taken { slot, key: entry.key.clone(), priority: entry.priority })
    }

    /// Takes the first ready key for a parked worker, if there are both.
    #[inline]
    pub(super) fn take_for_hand_off(
        &mut self,
        now: u64,
    ) -> Option<(Arc<dyn HandOff<K>>, Taken<K>)> {
        let hand_off = self.hand_off.as_ref().filter(|_| !self.ready.is_empty())?;
        let hand_off = hand_off.reserve().then(|| hand_off.clone())?;
        let taken = self.pop(now).expect("there is a ready key");
        Some((hand_off, taken))
    }

    /// Marks the key of a slot, which was handed out, as done.
    pub(super) fn done(&mut self, slot: u32, now: u64) {
        let entry = self.entries.at(slot);
        if entry.phase != Phase::Working {
            return;
        }
        entry.phase = Phase::Idle;
        self.processing -= 1;
        self.stats.work_duration.record(now.saturating_sub(entry.since));
        if std::mem::take(&mut entry.dirty) {
            let priority = entry.dirty_priority;
            // The add was counted when the key became dirty.
            self.stats.adds -= 1;
            self.enqueue_at(slot, priority, now);
        } else if !entry.delayed {
            self.entries.release(slot);
        }
    }

    /// Ends the queue: no key is added any more, and delayed keys are dropped.
    pub(super) fn close(&mut self) {
        self.open = false;
        self.timers.clear();
        self.entries.remove_idle();
    }

    /// Returns `true` if no key is ready or being worked on.
    pub(super) fn is_drained(&self) -> bool {
        self.processing == 0 && self.ready.is_empty()
    }

    /// Returns the number of delayed keys.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.timers.live
    }

    /// Counts a worker that begins to wait. Returns the time at which it has to wake by itself.
    pub(super) fn begin_idle(&mut self) -> Option<u64> {
        self.idle += 1;
        let due = self.timers.first()?;
        self.next_wake = self.next_wake.min(due);
        Some(due)
    }

    /// Counts a worker that no longer waits; `due` is what `begin_idle` returned to it.
    pub(super) fn end_idle(&mut self, due: Option<u64>) {
        self.idle -= 1;
        self.notified_at = None;
        if due.is_some_and(|due| due <= self.next_wake) {
            self.next_wake = u64::MAX;
        }
    }

    /// Returns `true` if a waiting worker has to be notified: for a ready key, or for a timer that
    /// ends before any of them wakes. One is notified at a time, and asks again for the next when
    /// it takes a key.
    pub(super) fn should_wake(&mut self, now: u64) -> bool {
        let recent = |at| now.saturating_sub(at) < WAKE_TIMEOUT;
        if self.idle == 0 || self.notified_at.is_some_and(recent) {
            return false;
        }
        let first_timer = self.timers.first().unwrap_or(u64::MAX);
        let wake = !self.ready.is_empty() || first_timer < self.next_wake;
        if wake {
            self.notified_at = Some(now);
        }
        wake
    }

    /// Returns the key that has been worked on for the longest time; the smallest of several.
    pub(super) fn longest(&self, now: u64) -> Option<(K, Duration)> {
        let (since, key) = self.entries.working().map(|entry| (entry.since, &entry.key)).min()?;
        Some((key.clone(), Duration::from_nanos(now.saturating_sub(since))))
    }

    pub(super) fn snapshot(&self, now: u64) -> QueueStats {
        let working = self.entries.working();
        let ages = working.map(|entry| Duration::from_nanos(now.saturating_sub(entry.since)));
        let (unfinished, longest) = ages
            .fold((Duration::ZERO, Duration::ZERO), |(sum, max), age| (sum + age, max.max(age)));
        QueueStats {
            depth: self.ready.len(),
            depth_by_priority: self.ready.depths(),
            waiting: self.timers.live,
            processing: self.processing,
            adds: self.stats.adds,
            retries: self.stats.retries,
            queue_latency: self.stats.queue_latency.histogram(),
            work_duration: self.stats.work_duration.histogram(),
            unfinished,
            longest,
        }
    }
}
