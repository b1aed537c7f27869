//! The keys that are ready, by priority and age.
//!
//! One first-in first-out lane per priority. Waiting lifts every key at the same pace, so which
//! of two lane heads is first never changes: it is decided by the time each was queued, moved
//! earlier in proportion to its priority. That makes aging free. Mostly there is one lane, and
//! nothing to decide.
//!
//! **Invariant:** of the lanes without live keys only a few are kept, for their room.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Empty lanes that are kept.
const LANES_KEPT: usize = 4;

pub(super) struct Ready {
    /// The highest priority first.
    lanes: Vec<Lane>,
    len: usize,
    /// Lanes with live keys.
    used: usize,
    /// Nanoseconds of waiting that one point of priority is worth; `None` is strict.
    point: Option<i128>,
}

struct Lane {
    priority: i32,
    keys: VecDeque<Slot>,
    /// Keys that did not move to another lane since.
    live: usize,
}

struct Slot {
    /// Where the key is.
    place: u32,
    seq: u64,
    /// Nanoseconds since the epoch of the queue.
    since: u64,
}

// === impl Ready ===

impl Ready {
    pub(super) fn new(aging: Option<Duration>) -> Self {
        let point = aging.map(|d| i128::try_from(d.as_nanos() / 100).unwrap_or(i128::MAX >> 40));
        Self { lanes: Vec::new(), len: 0, used: 0, point }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, place: u32, priority: i32, seq: u64, since: u64) {
        let at = self.lanes.partition_point(|lane| lane.priority > priority);
        if self.lanes.get(at).is_none_or(|lane| lane.priority != priority) {
            self.lanes.insert(at, Lane { priority, keys: VecDeque::new(), live: 0 });
        }
        let lane = &mut self.lanes[at];
        lane.keys.push_back(Slot { place, seq, since });
        self.used += usize::from(lane.live == 0);
        lane.live += 1;
        self.len += 1;
    }

    /// Notes that a key left the lane of `priority` for another; its slot there is dead.
    pub(super) fn moved(&mut self, priority: i32, live: impl Fn(u32, u64) -> bool) {
        let at = self.lanes.partition_point(|lane| lane.priority > priority);
        self.leave(at);
        if let Some(lane) = self.lanes.get_mut(at)
            && lane.keys.len() > 64 + 2 * lane.live
        {
            lane.keys.retain(|slot| live(slot.place, slot.seq));
        }
    }

    /// Takes the first key; `live` tells whether a slot still stands for its key.
    pub(super) fn pop(&mut self, live: impl Fn(u32, u64) -> bool) -> Option<u32> {
        let at = match self.used {
            0 => return None,
            1 => self.lanes.iter().position(|lane| lane.live > 0)?,
            _ => self.first(&live)?,
        };
        let keys = &mut self.lanes[at].keys;
        let slot = loop {
            let slot = keys.pop_front()?;
            if live(slot.place, slot.seq) {
                break slot;
            }
        };
        self.leave(at);
        Some(slot.place)
    }

    /// Finds the lane whose head comes first.
    fn first(&mut self, live: &impl Fn(u32, u64) -> bool) -> Option<usize> {
        let mut best: Option<(usize, i128)> = None;
        for (at, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.live > 0) {
            while lane.keys.front().is_some_and(|slot| !live(slot.place, slot.seq)) {
                lane.keys.pop_front();
            }
            let Some(head) = lane.keys.front() else { continue };
            let Some(point) = self.point else { return Some(at) };
            let due = i128::from(head.since) - i128::from(lane.priority) * point;
            if best.is_none_or(|(_, first)| due < first) {
                best = Some((at, due));
            }
        }
        best.map(|(at, _)| at)
    }

    /// Counts a live key less in a lane.
    fn leave(&mut self, at: usize) {
        self.len -= 1;
        let lane = &mut self.lanes[at];
        lane.live -= 1;
        if lane.live > 0 {
            return;
        }
        lane.keys.clear();
        self.used -= 1;
        if self.lanes.len() - self.used > LANES_KEPT {
            self.lanes.remove(at);
        }
    }

    pub(super) fn depths(&self) -> BTreeMap<i32, usize> {
        let lanes = self.lanes.iter().filter(|lane| lane.live > 0);
        lanes.map(|lane| (lane.priority, lane.live)).collect()
    }
}
