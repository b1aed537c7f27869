//! Jumps of a wall clock: it moved otherwise than time did.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::Clock;

/// Clocks that are adjusted gently, or that run a little fast, do not come near this between looks.
const JUMP_MIN: SignedDuration = SignedDuration::from_secs(1);

/// Looks at a clock from time to time.
#[derive(Debug)]
pub(crate) struct Jumps {
    clock: Clock,
    last: Look,
}

/// One jump of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Jump {
    /// What the clock showed when the jump was noticed.
    pub(crate) at: Timestamp,
    /// How far it jumped; back if negative.
    pub(crate) by: SignedDuration,
}

/// What the clock showed, and the moments between which it was asked.
#[derive(Debug, Clone, Copy)]
struct Look {
    before: Instant,
    wall: Timestamp,
    after: Instant,
}

// === impl Jumps ===

impl Jumps {
    /// Looks at `clock` for the first time.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { last: Look::new(clock), clock: clock.clone() }
    }

    /// Tells whether the clock jumped since the last look.
    pub(crate) fn look(&mut self) -> Option<Jump> {
        let look = Look::new(&self.clock);
        let last = std::mem::replace(&mut self.last, look);
        let by = look.ahead_of(&last);
        (by.abs() >= JUMP_MIN).then_some(Jump { at: look.wall, by })
    }
}

// === impl Jump ===

impl Jump {
    /// `ahead` or `back`.
    pub(crate) fn direction(&self) -> &'static str {
        if self.by.is_negative() { "back" } else { "ahead" }
    }
}

// === impl Look ===

impl Look {
    fn new(clock: &Clock) -> Self {
        let before = clock.steady();
        Self { before, wall: clock.now(), after: clock.steady() }
    }

    /// How much further the wall clock went since `last` than time can have.
    ///
    /// A thread may be held up while it looks, so time passed is known within bounds only.
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
    async fn jumps_are_seen_once_in_both_directions_and_time_that_passes_is_none() {
        let clock = Clock::fixed(Timestamp::from_second(1_000).expect("in range"));
        let mut jumps = Jumps::new(&clock);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(jumps.look(), None);
        clock.shift(HOUR);
        let jump = Jump { at: clock.now(), by: HOUR };
        assert_eq!((jumps.look(), jump.direction()), (Some(jump), "ahead"));
        assert_eq!(jumps.look(), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        clock.shift(-HOUR);
        let jump = Jump { at: clock.now(), by: -HOUR };
        assert_eq!((jumps.look(), jump.direction()), (Some(jump), "back"));
        clock.shift(SignedDuration::from_millis(999));
        assert_eq!(jumps.look(), None, "too little to be one");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_the_machine_is_not_measured_by_virtual_time() {
        let clock = Clock::system();
        let mut jumps = Jumps::new(&clock);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(jumps.look(), None);
        clock.shift(-HOUR);
        let by = jumps.look().expect("a jump").by;
        assert!((by + HOUR).abs() < SignedDuration::from_secs(60), "{by:?}");
    }

    #[test]
    fn a_thread_held_up_while_it_looks_sees_no_jump() {
        let (begin, wall) = (Instant::now(), Timestamp::from_second(1_000).expect("in range"));
        let second = Duration::from_secs(1);
        let first = Look { before: begin, wall, after: begin };
        let held = |at: i64| Look {
            before: begin + 10 * second,
            wall: Timestamp::from_second(1_000 + at).expect("in range"),
            after: begin + 40 * second,
        };
        for (at, by) in [(10, 0), (25, 0), (40, 0), (45, 5), (7, -3)] {
            assert_eq!(held(at).ahead_of(&first), SignedDuration::from_secs(by));
        }
        let later =
            Look { before: begin + 50 * second, wall: held(50).wall, after: begin + 50 * second };
        assert_eq!(later.ahead_of(&held(40)), SignedDuration::ZERO);
    }
}
