//! The server's time, from one place, so that a paused runtime replays a run.

#![expect(clippy::disallowed_methods, reason = "this is the clock")]

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The server's clock: the wall clock, or `tokio::time` in a runtime whose time is paused.
///
/// The wall clock is followed even where it jumps, as it does when a machine was suspended. A clock
/// that was started at a given time follows `tokio::time` alone.
#[derive(Debug)]
pub struct Clock {
    epoch: Timestamp,
    start: Instant,
    /// The wall clock, if the clock follows it.
    wall: Option<fn() -> Timestamp>,
}

// === impl Clock ===

impl Default for Clock {
    fn default() -> Self {
        Self::resumed(Timestamp::now(), false)
    }
}

impl Clock {
    /// Creates a clock that shows `epoch` now and moves with `tokio::time`.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: Instant::now(), wall: None }
    }

    /// Returns the time now.
    pub fn now(&self) -> Timestamp {
        match self.wall.filter(|_| !is_paused()) {
            Some(wall) => wall(),
            None => {
                let passed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
                self.epoch.checked_add(passed).unwrap_or(self.epoch)
            }
        }
    }

    /// Creates a clock that continues where another one showed `epoch`.
    pub(crate) fn resumed(epoch: Timestamp, is_virtual: bool) -> Self {
        let wall = (!is_virtual).then_some(Timestamp::now as fn() -> Timestamp);
        Self { wall, ..Self::starting_at(epoch) }
    }

    /// Returns `true` if the clock follows `tokio::time` alone.
    pub(crate) fn is_virtual(&self) -> bool {
        self.wall.is_none()
    }

    /// Returns the time now as objects carry it: RFC 3339, whole seconds.
    pub fn stamp(&self) -> String {
        stamp(self.now())
    }
}

/// Returns `true` if the time of this runtime does not follow the system's clock.
fn is_paused() -> bool {
    let before = std::time::Instant::now();
    let now = Instant::now().into_std();
    now < before || now > std::time::Instant::now()
}

/// Returns a time as objects carry it: RFC 3339, whole seconds.
pub fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A wall clock that is three hours ahead: what it shows after a suspend.
    fn later() -> Timestamp {
        Timestamp::now() + SignedDuration::from_hours(3)
    }

    fn epoch() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[tokio::test]
    async fn a_clock_follows_the_wall_clock_over_a_suspend() {
        let began = Timestamp::now();
        let clock = Clock { wall: Some(later), ..Clock::default() };
        let passed = clock.now().duration_since(began);
        assert!(passed >= SignedDuration::from_hours(3), "{passed}");
        assert!(passed < SignedDuration::from_hours(4), "{passed}");
    }

    #[tokio::test]
    async fn a_clock_that_was_started_at_a_time_follows_no_wall_clock() {
        let clock = Clock::starting_at(epoch());
        let passed = clock.now().duration_since(epoch());
        assert!(clock.is_virtual() && passed < SignedDuration::from_hours(1), "{passed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_follows_the_time_of_a_paused_runtime() {
        for wall in [None, Some(later as fn() -> Timestamp)] {
            let clock = Clock { wall, ..Clock::starting_at(epoch()) };
            assert_eq!(clock.now(), epoch());
            tokio::time::advance(Duration::from_secs(90)).await;
            assert_eq!(clock.stamp(), "2026-01-01T00:01:30Z");
        }
    }

    #[test]
    fn a_clock_outside_of_a_runtime_follows_the_wall_clock() {
        let began = Timestamp::now();
        let clock = Clock { wall: Some(later), ..Clock::default() };
        assert!(clock.now().duration_since(began) >= SignedDuration::from_hours(3));
    }
}
