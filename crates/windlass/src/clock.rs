//! Wall time that follows tokio's time, and its jumps.
//!
//! Timestamps in objects (`renewTime`, `lastTransitionTime`, event times) are wall time; decisions
//! are made on [`tokio::time::Instant`]. In a runtime whose time is paused, every clock moves with
//! tokio's time, so a test that sleeps for a day sees a day pass. [`Clock::fixed`] also starts at a
//! given moment, so that a test writes the same timestamps in every run, and [`Clock::shift`]
//! makes a clock jump.
//!
//! A wall clock jumps when somebody sets it, and when its machine was suspended: monotonic time,
//! which tokio measures, does not advance then. No timer and no backoff is affected by a jump; the
//! manager reports it, and the lease takes it into account.
//!
//! **Invariant:** nothing in this crate compares a timestamp of another machine with this clock.

mod deadline;
mod jumps;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

pub(crate) use deadline::Deadline;
pub(crate) use jumps::{Jump, Jumps};

/// The source of timestamps that are written into objects.
///
/// By default it is the clock of the machine, or tokio's time if that is paused. Clones share their
/// shift.
///
/// ```
/// use windlass::clock::Clock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = Clock::fixed("2026-01-01T00:00:00Z".parse().unwrap());
/// assert_eq!(clock.time().0.to_string(), "2026-01-01T00:00:00Z");
///
/// tokio::time::pause();
/// let (clock, start) = (Clock::default(), Clock::default().now());
/// tokio::time::sleep(std::time::Duration::from_secs(86_400)).await; // returns immediately
/// assert_eq!(clock.now().duration_since(start).as_secs(), 86_400);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Clock {
    fixed: Option<(Timestamp, Instant)>,
    /// The nanoseconds by which this clock and its clones were shifted.
    shift: Arc<AtomicI64>,
}

/// Later than anybody waits, and within the range of every timer.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

// === impl Clock ===

impl Clock {
    /// Returns a clock that shows `start` now and moves with tokio's time.
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
    /// # }
    /// ```
    pub fn fixed(start: Timestamp) -> Self {
        Self { fixed: Some((start, Instant::now())), ..Self::default() }
    }

    /// Makes this clock and all its clones jump forward, or backward if `by` is negative.
    ///
    /// For tests of what a jump does. The clock of the machine does not change.
    ///
    /// ```
    /// use jiff::SignedDuration;
    /// use windlass::Manager;
    /// use windlass::clock::Clock;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = server.client();
    /// let clock = Clock::fixed("2026-01-01T00:00:00Z".parse().unwrap());
    /// let handle = Manager::new(client).clock(clock.clone()).spawn()?;
    /// clock.shift(SignedDuration::from_hours(-1));
    /// assert!(clock.time().0.to_string().starts_with("2025-12-31T23:00:0"));
    /// // Within ten seconds: a line in the log, `windlass_clock_jumps_total`, and this.
    /// assert_eq!(handle.diagnostics()["clock"]["jumps"], 0);
    /// handle.stop().await
    /// # }
    /// ```
    pub fn shift(&self, by: SignedDuration) {
        let limit = if by.is_negative() { i64::MIN } else { i64::MAX };
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(limit);
        let add = |shift: i64| Some(shift.saturating_add(nanos));
        // The closure always has a value, so this cannot fail.
        let _ = self.shift.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let unshifted = match &self.fixed {
            None => machine_or_paused(),
            Some((start, since)) => plus(*start, since.elapsed()),
        };
        match self.shift.load(Ordering::SeqCst) {
            0 => unshifted,
            nanos => moved(unshifted, SignedDuration::from_nanos(nanos)),
        }
    }

    /// The moment `wait` from now, by tokio's time and by this clock.
    pub(crate) fn deadline(&self, wait: Duration) -> Deadline {
        Deadline::new(self, wait)
    }

    /// Returns the current time in the format of most object fields, in whole seconds.
    pub fn time(&self) -> Time {
        let now = self.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    /// The current time in the format of leases and events (microseconds).
    pub(crate) fn micro_time(&self) -> MicroTime {
        let now = self.now();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }
}

/// The clock of the machine, or tokio's time if that is paused.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn machine_or_paused() -> Timestamp {
    static ANCHOR: OnceLock<(Timestamp, std::time::Instant)> = OnceLock::new();
    let (start, since) = ANCHOR.get_or_init(|| (Timestamp::now(), std::time::Instant::now()));
    let before = std::time::Instant::now();
    let tokio = Instant::now().into_std();
    // Tokio's time is the monotonic time of the machine unless it is paused.
    if before <= tokio && tokio <= std::time::Instant::now() {
        return Timestamp::now();
    }
    match tokio.checked_duration_since(*since) {
        Some(ahead) => plus(*start, ahead),
        None => {
            let behind = SignedDuration::try_from(since.duration_since(tokio));
            moved(*start, -behind.unwrap_or(SignedDuration::MAX))
        }
    }
}

/// The timestamp `wait` after `from`, or the latest possible one.
fn plus(from: Timestamp, wait: Duration) -> Timestamp {
    moved(from, SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
}

/// The timestamp `by` after `from`, or the latest or earliest possible one.
fn moved(from: Timestamp, by: SignedDuration) -> Timestamp {
    let limit = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    from.checked_add(by).unwrap_or(limit)
}

/// The moment `wait` from now, or thirty years from now if that is earlier.
pub(crate) fn after(wait: Duration) -> Instant {
    later(Instant::now(), wait)
}

/// The moment `wait` after `from`, or thirty years after if that is earlier.
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
    async fn the_system_clock_follows_paused_time_and_nothing_else() {
        let clock = Clock::default();
        let start = clock.now();
        // The machine's clock advances.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(clock.now(), start);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(clock.now().duration_since(start), SignedDuration::from_hours(24));
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "compares with the machine")]
    async fn the_system_clock_is_that_of_the_machine_otherwise() {
        let (before, shown, after) = (Timestamp::now(), Clock::default().now(), Timestamp::now());
        assert!(before <= shown && shown <= after, "{before} {shown} {after}");
    }

    #[tokio::test(start_paused = true)]
    async fn fixed_clock_moves_with_virtual_time() {
        let clock = Clock::fixed(Timestamp::from_second(1_000).expect("in range"));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now().as_second(), 1_005);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shift_moves_all_clones_and_stops_at_the_ends_of_time() {
        let clock = Clock::fixed(Timestamp::from_second(1_000).expect("in range"));
        let clone = clock.clone();
        clock.shift(SignedDuration::from_secs(50));
        clone.shift(SignedDuration::from_secs(-100));
        assert_eq!((clock.now().as_second(), clone.now().as_second()), (950, 950));
        clock.shift(SignedDuration::MIN);
        clock.shift(SignedDuration::MIN);
        assert!(clock.now() < Timestamp::from_second(0).expect("in range"));
        let last = Clock::fixed(Timestamp::MAX);
        last.shift(SignedDuration::MAX);
        assert_eq!(last.now(), Timestamp::MAX);
    }
}
