//! A deadline that also passes while the machine is suspended.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Clock, later, plus};

/// A deadline by tokio's time and by the wall clock; it has passed as soon as one of them says so.
///
/// A wall clock that is set back does not postpone it, and after a suspension, during which tokio's
/// time did not advance, the wall clock shows that it has passed.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    instant: Instant,
    wall: Timestamp,
    clock: Clock,
}

// === impl Deadline ===

impl Deadline {
    pub(super) fn new(clock: &Clock, wait: Duration) -> Self {
        let wall = plus(clock.now(), wait);
        Self { instant: later(Instant::now(), wait), wall, clock: clock.clone() }
    }

    /// Returns `true` if the deadline has passed by either clock.
    pub(crate) fn passed(&self) -> bool {
        Instant::now() >= self.instant || self.clock.now() >= self.wall
    }

    /// The moment the deadline passes by tokio's time; by the wall clock it may be earlier.
    pub(crate) fn instant(&self) -> Instant {
        self.instant
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_clock_to_reach_a_deadline_decides() {
        let clock = Clock::fixed(Timestamp::from_second(1_000).expect("in range"));
        let second = Duration::from_secs(1);
        let deadline = clock.deadline(10 * second);
        clock.shift(SignedDuration::from_millis(9_999));
        assert!(!deadline.passed());
        clock.shift(SignedDuration::from_millis(1));
        assert!(deadline.passed(), "by wall time");
        clock.shift(SignedDuration::from_hours(-1));
        assert!(!deadline.passed());
        tokio::time::advance(10 * second).await;
        assert!(deadline.passed(), "by tokio's time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_without_end_is_far_away_and_no_overflow() {
        assert!(!Clock::default().deadline(Duration::MAX).passed());
    }
}
