//! The keys that are ready, by priority and age.
//!
//! One first-in first-out lane per priority. Waiting lifts every key at the same pace, so which
//! of two lane heads is first never changes: it is decided by the time each was queued, moved
//! earlier in proportion to its priority. That makes aging free.
//!
//! **Invariant:** a lane is removed when its last live key leaves.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

pub(super) struct Ready {
    lanes: BTreeMap<i32, Lane>,
    len: usize,
    /// Nanoseconds of waiting that one point of priority is worth; `None` is strict.
    point: Option<i128>,
    epoch: Instant,
}

struct Lane {
    keys: VecDeque<Slot>,
    /// Keys that did not move to another lane since.
    live: usize,
}

struct Slot {
    /// Where the key is.
    place: u32,
    seq: u64,
    since: i128,
}

// === impl Ready ===

impl Ready {
    pub(super) fn new(aging: Option<Duration>) -> Self {
        let point = aging.map(|d| i128::try_from(d.as_nanos() / 100).unwrap_or(i128::MAX >> 40));
        Self { lanes: BTreeMap::new(), len: 0, point, epoch: Instant::now() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, place: u32, priority: i32, seq: u64, now: Instant) {
        let since = now.saturating_duration_since(self.epoch).as_nanos() as i128;
        let lane = self.lanes.entry(priority).or_insert_with(Lane::new);
        lane.keys.push_back(Slot { place, seq, since });
        lane.live += 1;
        self.len += 1;
    }

    /// Notes that a key left the lane of `priority` for another; its slot there is dead.
    pub(super) fn moved(&mut self, priority: i32, live: impl Fn(u32, u64) -> bool) {
        self.len -= 1;
        let Some(lane) = self.lanes.get_mut(&priority) else { return };
        lane.live -= 1;
        if lane.live == 0 {
            self.lanes.remove(&priority);
        } else if lane.keys.len() > 64 + 2 * lane.live {
            lane.keys.retain(|slot| live(slot.place, slot.seq));
        }
    }

    /// Takes the first key; `live` tells whether a slot still stands for its key.
    pub(super) fn pop(&mut self, live: impl Fn(u32, u64) -> bool) -> Option<u32> {
        let point = self.point;
        let mut best: Option<(i32, i128)> = None;
        for (priority, lane) in self.lanes.iter_mut().rev() {
            while lane.keys.front().is_some_and(|slot| !live(slot.place, slot.seq)) {
                lane.keys.pop_front();
            }
            let Some(head) = lane.keys.front() else { continue };
            let Some(point) = point else {
                best = Some((*priority, 0));
                break;
            };
            let due = head.since - i128::from(*priority) * point;
            if best.is_none_or(|(_, first)| due < first) {
                best = Some((*priority, due));
            }
        }
        let (priority, _) = best?;
        let lane = self.lanes.get_mut(&priority)?;
        let slot = lane.keys.pop_front()?;
        lane.live -= 1;
        self.len -= 1;
        if lane.live == 0 && self.lanes.len() > 1 {
            self.lanes.remove(&priority);
        }
        Some(slot.place)
    }

    pub(super) fn depths(&self) -> BTreeMap<i32, usize> {
        let lanes = self.lanes.iter().filter(|(_, lane)| lane.live > 0);
        lanes.map(|(priority, lane)| (*priority, lane.live)).collect()
    }
}

// === impl Lane ===

impl Lane {
    fn new() -> Self {
        Self { keys: VecDeque::new(), live: 0 }
    }
}
