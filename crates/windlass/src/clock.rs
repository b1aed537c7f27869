//! Wall time that follows tokio's time.
//!
//! Timestamps in objects (`renewTime`, `lastTransitionTime`, event times) are wall time, decisions
//! are made on [`tokio::time::Instant`]. A [`Clock::fixed`] clock starts at a given moment and
//! moves with tokio's time, so a paused runtime gives the same timestamps in every run.
//!
//! **Invariant:** nothing in this crate compares a timestamp of another machine with this clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

/// Where timestamps written into objects come from.
///
/// ```
/// use windlass::clock::Clock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = Clock::fixed("2026-01-01T00:00:00Z".parse().unwrap());
/// assert_eq!(clock.time().0.to_string(), "2026-01-01T00:00:00Z");
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Clock {
    fixed: Option<(Timestamp, Instant)>,
}

/// Further ahead than anybody waits, and near enough for every timer.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

// === impl Clock ===

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self { fixed: None }
    }

    /// A clock that shows `start` now and moves with tokio's time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::clock::Clock;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    /// let clock = Clock::fixed(start);
    /// tokio::time::advance(Duration::from_secs(90)).await; // a test's time is paused
    /// assert_eq!(clock.time().0.to_string(), "2026-01-01T00:01:30Z");
    /// assert_eq!(clock.since(start), Duration::from_secs(90));
    /// # }
    /// ```
    pub fn fixed(start: Timestamp) -> Self {
        Self { fixed: Some((start, Instant::now())) }
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.fixed {
            None => Timestamp::now(),
            Some((start, since)) => *start + since.elapsed(),
        }
    }

    /// The present moment in the format of most object fields (whole seconds).
    pub fn time(&self) -> Time {
        let now = self.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    /// The present moment in the format of leases and events (microseconds).
    pub fn micro_time(&self) -> MicroTime {
        let now = self.now();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }

    /// How long ago `then` was; zero when it lies ahead.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or_default()
    }
}

/// The moment `wait` from now; a wait without end is one of thirty years.
pub(crate) fn after(wait: Duration) -> Instant {
    later(Instant::now(), wait)
}

/// The moment `wait` after `from`; a wait without end is one of thirty years.
pub(crate) fn later(from: Instant, wait: Duration) -> Instant {
    from + wait.min(FAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_end_is_far_away_and_no_overflow() {
        let now = Instant::now();
        assert_eq!(later(now, Duration::MAX), now + FAR);
        assert_eq!(later(now, Duration::from_secs(1)), now + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn fixed_clock_moves_with_virtual_time() {
        let clock = Clock::fixed(Timestamp::from_second(1_000).expect("in range"));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now().as_second(), 1_005);
        assert_eq!(clock.since(Timestamp::from_second(1_002).expect("in range")).as_secs(), 3);
    }
}
