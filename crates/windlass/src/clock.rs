//! Wall time that follows tokio's time, and its jumps.
//!
//! Timestamps in objects (`renewTime`, `lastTransitionTime`, event times) are wall time, decisions
//! are made on [`tokio::time::Instant`]. A [`Clock::fixed`] clock starts at a given moment and
//! moves with tokio's time, so a paused runtime gives the same timestamps in every run;
//! [`Clock::shift`] lets it jump, as clocks of machines do.
//!
//! A wall clock jumps when it is set, and when its machine was suspended: monotonic time, which
//! tokio counts, stands still then. No wait and no backoff hears of that; a manager tells it, and a
//! [`Deadline`] counts both clocks.
//!
//! **Invariant:** nothing in this crate compares a timestamp of another machine with this clock.

mod deadline;
mod jumps;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

pub use deadline::Deadline;
pub(crate) use jumps::{Jump, Jumps};

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
    /// The nanoseconds by which this clock and its clones were moved.
    shift: Arc<AtomicI64>,
}

/// Further ahead than anybody waits, and near enough for every timer.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

// === impl Clock ===

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self::default()
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
        Self { fixed: Some((start, Instant::now())), ..Self::default() }
    }

    /// Lets this clock and all its clones jump ahead, or back if `by` is negative.
    ///
    /// This is how a test sees what a jump does. The clock of the machine itself stays as it is,
    /// also for a [`Clock::system`].
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
    /// let handle = Manager::builder(client).clock(clock.clone()).spawn()?;
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

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        let unmoved = match &self.fixed {
            None => Timestamp::now(),
            Some((start, since)) => plus(*start, since.elapsed()),
        };
        match self.shift.load(Ordering::SeqCst) {
            0 => unmoved,
            nanos => moved(unmoved, SignedDuration::from_nanos(nanos)),
        }
    }

    /// The moment `wait` from now, by tokio's time and by this clock.
    pub fn deadline(&self, wait: Duration) -> Deadline {
        Deadline::new(self, wait)
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

    /// The time this clock has to keep up with: that of the machine, or tokio's.
    ///
    /// They differ where a runtime is paused: there the clock of the machine goes on.
    fn steady(&self) -> std::time::Instant {
        match &self.fixed {
            None => std::time::Instant::now(),
            Some(_) => Instant::now().into_std(),
        }
    }
}

/// The timestamp `wait` after `from`, or the last there is.
fn plus(from: Timestamp, wait: Duration) -> Timestamp {
    moved(from, SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
}

/// The timestamp `by` after `from`, or the last or first there is.
fn moved(from: Timestamp, by: SignedDuration) -> Timestamp {
    let limit = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    from.checked_add(by).unwrap_or(limit)
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
