//! What happens again and again without any time passing.
//!
//! A running clock makes that impossible, so it is found with tokio's paused clock only. There it
//! would keep time from advancing, because tokio advances a paused clock when all tasks wait.

use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;

use crate::cache::Key;

/// Most writes of one object at one instant that are not delayed.
pub(super) const WRITES_MAX: u32 = 500;
/// Most reconciles of one key at one instant that are not delayed.
const RECONCILES_MAX: u32 = 1000;
/// Most keys whose reconciles are counted.
const KEYS_MAX: usize = 4096;
/// The first delay; it doubles with each further one.
pub(super) const DELAY_FIRST: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(60);

/// Counts what happens at one instant.
#[derive(Debug)]
pub(super) struct Standstill {
    /// When it happened last, or will after its delay.
    last: Instant,
    count: u32,
    delay: Duration,
}

/// Counts the reconciles of each key at one instant.
#[derive(Debug, Default)]
pub(super) struct Reconciles(HashMap<Key, Standstill>);

// === impl Standstill ===

impl Standstill {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, count: 0, delay: Duration::ZERO }
    }

    pub(super) fn last(&self) -> Instant {
        self.last
    }

    /// Counts one more, and returns how long to delay it: beyond `max` at one instant, longer each
    /// time.
    pub(super) fn count(&mut self, now: Instant, max: u32) -> Duration {
        // What is still delayed counts as well.
        if self.last < now {
            (self.count, self.delay) = (0, Duration::ZERO);
        }
        self.count = self.count.saturating_add(1);
        if self.count > max {
            self.delay = (self.delay * 2).clamp(DELAY_FIRST, DELAY_MAX);
        }
        self.last = now + self.delay;
        self.delay
    }
}

// === impl Reconciles ===

impl Reconciles {
    /// Counts a reconcile, and returns how long to delay it.
    pub(super) fn count(&mut self, key: &Key, now: Instant) -> Duration {
        if !self.0.contains_key(key) {
            if self.0.len() >= KEYS_MAX {
                self.0.retain(|_, standstill| standstill.last >= now);
            }
            if self.0.len() >= KEYS_MAX {
                return Duration::ZERO;
            }
        }
        let standstill = self.0.entry(key.clone()).or_insert_with(|| Standstill::new(now));
        standstill.count(now, RECONCILES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_until_time_passes_without_it() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut standstill = Standstill::new(start);
        assert_eq!([(); 2].map(|()| standstill.count(start, 2)), [Duration::ZERO; 2]);
        let mut now = start;
        for delay in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(standstill.count(now, 2), delay * second);
            now += delay * second;
        }
        assert_eq!(standstill.count(now + second / 1000, 2), Duration::ZERO, "time has passed");
    }

    #[test]
    fn the_keys_that_are_counted_are_bounded() {
        let (start, mut reconciles) = (Instant::now(), Reconciles::default());
        for i in 0..2 * KEYS_MAX {
            reconciles.count(&Key::cluster(&i.to_string()), start);
        }
        assert_eq!(reconciles.0.len(), KEYS_MAX);
        reconciles.count(&Key::cluster("later"), start + DELAY_FIRST);
        assert_eq!(reconciles.0.len(), 1, "the former instant is forgotten");
    }
}
