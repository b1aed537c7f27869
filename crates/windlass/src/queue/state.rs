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

use std::task::Waker;
use std::time::Duration;

use super::entries::{Entries, Phase};
use super::epoch::{Epoch, whole_nanos};
use super::failures::Failures;
use super::key::{QueueKey, ToKey};
use super::lane::ReadyKey;
use super::limiter::Limiter;
use super::ready::Ready;
use super::stats::{Counters, QueueStats};
use super::timers::Timers;
use super::waiters::{Slot, Waiters};

pub(super) struct State<K: QueueKey> {
    entries: Entries<K>,
    pub(super) ready: Ready,
    timers: Timers,
    pub(super) limiter: Box<dyn Limiter<K>>,
    pub(super) failures: Failures<K>,
    clock: Epoch,
    seq: u64,
    /// Workers that wait for a key.
    pub(super) waiters: Waiters<K>,
    /// When the worker that watches the timers wakes by itself.
    next_wake: u64,
    processing: usize,
    pub(super) open: bool,
    pub(super) stats: Counters,
    /// Returns the tenant of a key, if tenants take turns.
    pub(super) tenant: Option<Tenant<K>>,
}

/// Returns the tenant of a key, as a hash.
pub(super) type Tenant<K> = Box<dyn Fn(&K) -> u64 + Send + Sync>;

/// A key that is handed out.
pub(super) struct Taken<K> {
    pub(super) slot: u32,
    pub(super) key: K,
    pub(super) priority: i32,
    pub(super) flags: u8,
}

// === impl State ===

impl<K: QueueKey> State<K> {
    pub(super) fn new(limiter: Box<dyn Limiter<K>>, aging: Option<Duration>, clock: Epoch) -> Self {
        Self {
            entries: Entries::new(),
            ready: Ready::new(aging),
            timers: Timers::default(),
            limiter,
            failures: Failures::new(),
            clock,
            seq: 0,
            waiters: Waiters::new(),
            next_wake: u64::MAX,
            processing: 0,
            open: true,
            stats: Counters::default(),
            tenant: None,
        }
    }

    /// Adds a key that is ready now. Returns the time if a worker may have to be woken for it.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        key: impl ToKey<K>,
        hash: u64,
        (priority, flags): (i32, u8),
    ) -> Option<u64> {
        let slot = self.entries.find_or_insert(key, hash);
        // Most adds are of keys that are queued already: not even the clock is read.
        let entry = self.entries.at(slot);
        entry.flags |= flags;
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
        // A delay ends here; the higher of both priorities is kept, and the flags of this add.
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
        let key = &self.entries.at(slot).key;
        let tenant = self.tenant.as_ref().map(|tenant| tenant(key));
        self.ready.push(tenant, priority, ReadyKey { slot, seq, since: now });
    }

    /// Adds a key that becomes ready later. Returns the time.
    pub(super) fn delay(
        &mut self,
        key: impl ToKey<K>,
        hash: u64,
        (priority, flags): (i32, u8),
        delay: Duration,
    ) -> u64 {
        let now = self.clock.now();
        let until = now.saturating_add(whole_nanos(delay));
        self.seq += 1;
        let slot = self.entries.find_or_insert(key, hash);
        let entry = self.entries.at(slot);
        if entry.phase == Phase::Queued {
            entry.flags |= flags;
            if entry.priority < priority {
                self.enqueue_at(slot, priority, now);
            }
            return now;
        }
        let already = std::mem::replace(&mut entry.delayed, true);
        self.timers.set(slot, already, (priority, flags, until), self.seq);
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
                let entry = self.entries.at(slot);
                entry.delayed = false;
                entry.flags |= delay.flags;
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
        let flags = std::mem::take(&mut entry.flags);
        Some(Taken { slot, key: entry.key.clone(), priority: entry.priority, flags })
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

    /// Returns the number of delayed keys.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.timers.live
    }

    /// Puts a key back that was given to a worker that has not begun to work on it.
    fn put_back(&mut self, slot: u32, flags: u8, now: u64) {
        let entry = self.entries.at(slot);
        entry.flags |= flags;
        entry.phase = Phase::Idle;
        self.processing -= 1;
        let mut priority = entry.priority;
        if std::mem::take(&mut entry.dirty) {
            priority = priority.max(entry.dirty_priority);
            self.stats.adds -= 1;
        }
        // The add was counted before.
        self.stats.adds -= 1;
        self.enqueue_at(slot, priority, now);
    }

    /// Returns `true` if a key is ready and a worker waits.
    pub(super) fn can_give(&self) -> bool {
        !self.waiters.is_empty() && !self.ready.is_empty()
    }

    /// Returns `true` if a waiting worker has to be woken: for a ready key, or for a timer that
    /// ends before any of them wakes.
    pub(super) fn should_wake(&self) -> bool {
        let first_timer = || self.timers.first().unwrap_or(u64::MAX);
        !self.waiters.is_empty() && (!self.ready.is_empty() || first_timer() < self.next_wake)
    }

    /// Gives a ready key to a waiting worker, or has one watch the timers. Returns the waker of
    /// that worker, which must be called without the lock.
    pub(super) fn wake_one(&mut self, now: u64) -> Option<Waker> {
        if !self.should_wake() {
            return None;
        }
        let Some(taken) = self.pop(now) else {
            self.next_wake = self.timers.first()?;
            return self.waiters.oldest();
        };
        let waker = self.waiters.give(taken).ok()?;
        if self.waiters.is_empty() {
            self.next_wake = u64::MAX;
        }
        Some(waker)
    }

    /// Has a waiting worker watch the timers if it has waited for the longest time. Returns the
    /// time at which it has to wake by itself.
    pub(super) fn watch_timers(&mut self, waiter: usize) -> Option<u64> {
        if !self.waiters.is_oldest(waiter) {
            return None;
        }
        let first = self.timers.first();
        self.next_wake = first.unwrap_or(u64::MAX);
        first
    }

    /// Removes a worker that no longer waits. A key that it was given is queued again.
    pub(super) fn leave(&mut self, waiter: usize, now: u64) -> Slot<K> {
        if self.waiters.is_oldest(waiter) {
            self.next_wake = u64::MAX;
        }
        let slot = self.waiters.leave(waiter);
        if let Slot::Key(taken) = &slot {
            self.put_back(taken.slot, taken.flags, now);
        }
        slot
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
