//! Jumps of a wall clock: it advanced by more or less than monotonic time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Clock;

/// The smallest jump; a clock that is slewed or runs a little fast stays below it between samples.
const JUMP_MIN: SignedDuration = SignedDuration::from_secs(1);

/// Compares a clock with monotonic time, from sample to sample.
#[derive(Debug)]
pub(crate) struct Jumps {
    clock: Clock,
    last: Sample,
}

/// One jump of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Jump {
    /// What the clock showed when the jump was noticed.
    pub(crate) at: Timestamp,
    /// How far it jumped; backward if negative.
    pub(crate) by: SignedDuration,
}

/// What the clock showed, and the moments between which it was read.
#[derive(Debug, Clone, Copy)]
struct Sample {
    before: Instant,
    wall: Timestamp,
    after: Instant,
}

// === impl Jumps ===

impl Jumps {
    /// Takes the first sample of `clock`.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { last: Sample::new(clock), clock: clock.clone() }
    }

    /// Returns the jump of the clock since the last call, if it jumped.
    pub(crate) fn check(&mut self) -> Option<Jump> {
        let sample = Sample::new(&self.clock);
        let last = std::mem::replace(&mut self.last, sample);
        let by = sample.ahead_of(&last);
        (by.abs() >= JUMP_MIN).then_some(Jump { at: sample.wall, by })
    }
}

// === impl Jump ===

impl Jump {
    /// `ahead` or `back`.
    pub(crate) fn direction(&self) -> &'static str {
        if self.by.is_negative() { "back" } else { "ahead" }
    }
}

// === impl Sample ===

impl Sample {
    fn new(clock: &Clock) -> Self {
        let before = Instant::now();
        Self { before, wall: clock.now(), after: Instant::now() }
    }

    /// How much further the wall clock advanced since `last` than monotonic time.
    ///
    /// A thread may be suspended between its readings, so the time passed has a lower and an upper
    /// bound.
    fn ahead_of(&self, last: &Self) -> SignedDuration {
        let wall = self.wall.duration_since(last.wall);
        let least = signed(self.before.saturating_duration_since(last.after));
        let most = signed(self.after.saturating_duration_since(last.before));
        if wall > most {
            wall - most
        } else if wall < least {
            wall - least
        } else {
            SignedDuration::ZERO
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    #[tokio::test(start_paused = true)]
    async fn jumps_are_seen_once_in_both_directions_and_passing_time_is_not_a_jump() {
        let clock = Clock::fixed(Timestamp::from_second(1_000).expect("in range"));
        let mut jumps = Jumps::new(&clock);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(jumps.check(), None);
        clock.shift(HOUR);
        let jump = Jump { at: clock.now(), by: HOUR };
        assert_eq!((jumps.check(), jump.direction()), (Some(jump), "ahead"));
        assert_eq!(jumps.check(), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        clock.shift(-HOUR);
        let jump = Jump { at: clock.now(), by: -HOUR };
        assert_eq!((jumps.check(), jump.direction()), (Some(jump), "back"));
        clock.shift(SignedDuration::from_millis(999));
        assert_eq!(jumps.check(), None, "too little to be one");
    }

    #[tokio::test(start_paused = true)]
    async fn the_system_clock_does_not_jump_when_paused_time_advances() {
        let clock = Clock::default();
        let mut jumps = Jumps::new(&clock);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(jumps.check(), None);
        clock.shift(-HOUR);
        let by = jumps.check().expect("a jump").by;
        assert!((by + HOUR).abs() < SignedDuration::from_secs(60), "{by:?}");
    }

    #[test]
    fn a_thread_held_up_while_it_looks_sees_no_jump() {
        let (begin, wall) = (Instant::now(), Timestamp::from_second(1_000).expect("in range"));
        let second = Duration::from_secs(1);
        let first = Sample { before: begin, wall, after: begin };
        let held = |at: i64| Sample {
            before: begin + 10 * second,
            wall: Timestamp::from_second(1_000 + at).expect("in range"),
            after: begin + 40 * second,
        };
        for (at, by) in [(10, 0), (25, 0), (40, 0), (45, 5), (7, -3)] {
            assert_eq!(held(at).ahead_of(&first), SignedDuration::from_secs(by));
        }
        let later =
            Sample { before: begin + 50 * second, wall: held(50).wall, after: begin + 50 * second };
        assert_eq!(later.ahead_of(&held(40)), SignedDuration::ZERO);
    }
}
