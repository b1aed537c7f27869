//! A deadline that a suspended machine does not outlive.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Clock, later, plus};

/// The end of a time that tokio's clock and the wall clock count; the first to reach it decides.
///
/// A wall clock that is set back does not put it off, and a machine that was suspended, where
/// tokio's clock stood still, finds that it has passed.
///
/// ```
/// use std::time::Duration;
/// use jiff::SignedDuration;
/// use windlass::clock::{Clock, Deadline};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = Clock::system();
/// let deadline: Deadline = clock.deadline(Duration::from_secs(60));
/// assert!(!deadline.passed());
/// clock.shift(SignedDuration::from_secs(60)); // as after a minute of sleep
/// assert!(deadline.passed());
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Deadline {
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

    /// Tells whether the deadline has passed by either clock.
    pub fn passed(&self) -> bool {
        Instant::now() >= self.instant || self.clock.now() >= self.wall
    }

    /// When the deadline passes by tokio's time; by wall time that may be earlier.
    pub fn instant(&self) -> Instant {
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
        assert!(!Clock::system().deadline(Duration::MAX).passed());
    }
}
