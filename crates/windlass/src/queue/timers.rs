//! Keys that are delayed, the earliest first.
//!
//! **Invariant:** outdated timers are at most about two thirds of the heap, so its size is bounded
//! by the number of keys.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Timer>,
    /// The delay of each slot. It is meaningful only while the entry of the slot says that the
    /// key is delayed.
    delays: Vec<Delay>,
    /// The number of delayed keys. Other items of the heap are outdated: their keys became ready,
    /// or were delayed again until an earlier time.
    pub(super) live: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Delay {
    pub(super) priority: i32,
    pub(super) flags: u8,
    seq: u64,
    until: u64,
}

#[derive(PartialEq, Eq)]
struct Timer {
    until: u64,
    seq: u64,
    slot: u32,
}

// === impl Timers ===

impl Timers {
    /// Delays a key until `until`. One that is delayed already keeps the earlier time and the
    /// higher priority.
    pub(super) fn set(&mut self, slot: u32, already: bool, new: (i32, u8, u64), seq: u64) {
        let (priority, flags, until) = new;
        if self.delays.len() <= slot as usize {
            self.delays.resize(slot as usize + 1, Delay::default());
        }
        let delay = &mut self.delays[slot as usize];
        if already {
            delay.priority = delay.priority.max(priority);
            delay.flags |= flags;
            if delay.until <= until {
                return;
            }
            (delay.until, delay.seq) = (until, seq);
        } else {
            *delay = Delay { priority, flags, seq, until };
            self.live += 1;
        }
        self.heap.push(Timer { until, seq, slot });
    }

    /// Ends the delay of a key that is delayed, and returns it.
    pub(super) fn cancel(&mut self, slot: u32) -> Delay {
        self.live -= 1;
        self.delays[slot as usize]
    }

    /// Removes outdated timers once they are most of the heap.
    pub(super) fn compact(&mut self, delayed: impl Fn(u32) -> bool) {
        if self.heap.len() > 64 + 2 * self.live {
            let delays = &self.delays;
            self.heap.retain(|timer| {
                delayed(timer.slot) && delays[timer.slot as usize].seq == timer.seq
            });
        }
    }

    /// Removes the first timer that is due, and returns its slot and delay, or `None` in their
    /// place if it is outdated.
    pub(super) fn pop(
        &mut self,
        now: u64,
        delayed: impl Fn(u32) -> bool,
    ) -> Option<Option<(u32, Delay)>> {
        let first = self.heap.peek().filter(|first| first.until <= now)?;
        let (slot, seq) = (first.slot, first.seq);
        self.heap.pop();
        let current = delayed(slot) && self.delays[slot as usize].seq == seq;
        Some(current.then(|| (slot, self.cancel(slot))))
    }

    /// Returns the time of the first timer, which may be outdated.
    pub(super) fn first(&self) -> Option<u64> {
        self.heap.peek().map(|first| first.until)
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.live = 0;
    }
}

// === impl Timer ===

// Reversed, because the heap returns the largest item first and the earliest timer is wanted.
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.until, other.seq).cmp(&(self.until, self.seq))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
