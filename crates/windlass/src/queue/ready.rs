//! The keys that are ready, by priority and age.
//!
//! There is one lane for each priority, first in, first out, or in turns of tenants. With aging, the effective priority of
//! every waiting key grows at the same rate, so the order of two keys never changes while they
//! wait: it follows from the time at which each was queued, moved earlier in proportion to its
//! priority. Aging therefore costs nothing. Most queues have a single lane.
//!
//! **Invariant:** only a few lanes without live keys are kept, for their allocated memory.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lane::{Lane as Keys, ReadyKey};

/// Empty lanes that are kept.
const LANES_KEPT: usize = 4;

pub(super) struct Ready {
    /// Sorted by priority, the highest first.
    lanes: Vec<Lane>,
    len: usize,
    /// Lanes with live keys.
    used: usize,
    /// The nanoseconds of waiting that equal one point of priority; `None` if priorities are strict.
    point: Option<i128>,
}

struct Lane {
    priority: i32,
    keys: Keys,
    /// The keys that have not moved to another lane.
    live: usize,
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

    /// Adds a key, which comes in the turn of its tenant if it has one.
    pub(super) fn push(&mut self, tenant: Option<u64>, priority: i32, key: ReadyKey) {
        let at = self.lanes.partition_point(|lane| lane.priority > priority);
        if self.lanes.get(at).is_none_or(|lane| lane.priority != priority) {
            self.lanes.insert(at, Lane { priority, keys: Keys::default(), live: 0 });
        }
        let lane = &mut self.lanes[at];
        lane.keys.push(tenant, key);
        self.used += usize::from(lane.live == 0);
        lane.live += 1;
        self.len += 1;
    }

    /// Notes that a key moved from the lane of `priority` to another one; it is outdated there.
    pub(super) fn moved(&mut self, priority: i32, live: impl Fn(u32, u64) -> bool) {
        let at = self.lanes.partition_point(|lane| lane.priority > priority);
        self.leave(at);
        if let Some(lane) = self.lanes.get_mut(at)
            && lane.keys.len() > 64 + 2 * lane.live
        {
            lane.keys.retain(live);
        }
    }

    /// Takes the first key; `live` returns `false` for keys that are outdated in their lane.
    pub(super) fn pop(&mut self, live: impl Fn(u32, u64) -> bool) -> Option<u32> {
        let at = match self.used {
            0 => return None,
            1 => self.lanes.iter().position(|lane| lane.live > 0)?,
            _ => self.first(&live)?,
        };
        let first = self.lanes[at].keys.pop(&live)?;
        self.leave(at);
        Some(first.slot)
    }

    /// Finds the lane whose first key comes before the first keys of all others.
    fn first(&mut self, live: &impl Fn(u32, u64) -> bool) -> Option<usize> {
        let mut best: Option<(usize, i128)> = None;
        for (at, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.live > 0) {
            let Some(head) = lane.keys.first(live) else { continue };
            let Some(point) = self.point else { return Some(at) };
            let due = i128::from(head.since) - i128::from(lane.priority) * point;
            if best.is_none_or(|(_, first)| due < first) {
                best = Some((at, due));
            }
        }
        best.map(|(at, _)| at)
    }

    /// Counts one live key less in a lane.
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
