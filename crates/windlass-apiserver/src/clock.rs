//! The server's time, from one place, so that a paused runtime replays a run.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The server's clock: the wall clock, or `tokio::time` in a runtime whose time is paused.
///
/// The wall clock is followed even where it jumps, as it does when a machine was suspended.
#[derive(Debug)]
pub struct Clock {
    epoch: Timestamp,
    start: Instant,
    /// How far the clock is ahead of the wall clock.
    offset: SignedDuration,
    wall: fn() -> Timestamp,
}

// === impl Clock ===

impl Default for Clock {
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl Clock {
    /// A clock that shows `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        let offset = epoch.duration_since(Timestamp::now());
        Self { epoch, start: Instant::now(), offset, wall: Timestamp::now }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let (from, passed) = match is_paused() {
            true => {
                let passed = SignedDuration::try_from(self.start.elapsed());
                (self.epoch, passed.unwrap_or_default())
            }
            false => ((self.wall)(), self.offset),
        };
        from.checked_add(passed).unwrap_or(self.epoch)
    }

    /// The time now as objects carry it: RFC 3339, whole seconds.
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

/// A time as objects carry it: RFC 3339, whole seconds.
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
        let clock = Clock { wall: later, ..Clock::starting_at(epoch()) };
        let passed = clock.now().duration_since(epoch());
        assert!(passed >= SignedDuration::from_hours(3), "{passed}");
        assert!(passed < SignedDuration::from_hours(4), "{passed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_follows_the_time_of_a_paused_runtime() {
        let clock = Clock { wall: later, ..Clock::starting_at(epoch()) };
        assert_eq!(clock.now(), epoch());
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.stamp(), "2026-01-01T00:01:30Z");
    }

    #[test]
    fn a_clock_outside_of_a_runtime_follows_the_wall_clock() {
        let clock = Clock { wall: later, ..Clock::starting_at(epoch()) };
        assert!(clock.now().duration_since(epoch()) >= SignedDuration::from_hours(3));
    }
}
