//! The time of a queue, in nanoseconds since a fixed moment: half as large as an `Instant`.

use std::time::Duration;

use tokio::time::Instant;

/// The moment at which the time of a queue begins.
#[derive(Clone, Copy)]
pub(super) struct Epoch(Instant);

// === impl Epoch ===

impl Epoch {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        // A paused clock may lag behind the real one: begin before anything that it can show.
        Self(now.checked_sub(Duration::from_secs(86_400)).unwrap_or(now))
    }

    /// Returns the nanoseconds that have passed until now.
    pub(super) fn now(self) -> u64 {
        whole_nanos(Instant::now().saturating_duration_since(self.0))
    }

    /// Converts a number of nanoseconds into an instant.
    pub(super) fn instant(self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

/// Returns a duration in nanoseconds, saturating at the largest number.
pub(super) fn whole_nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}
