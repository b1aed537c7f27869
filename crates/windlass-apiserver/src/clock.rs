//! The server's time, from one place, so that a paused runtime replays a run.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The server's clock: wall time at start, advanced by `tokio::time`.
#[derive(Debug)]
pub struct Clock {
    epoch: Timestamp,
    start: Instant,
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
        Self { epoch, start: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        self.epoch.checked_add(passed).unwrap_or(self.epoch)
    }

    /// The time now as objects carry it: RFC 3339, whole seconds.
    pub fn stamp(&self) -> String {
        stamp(self.now())
    }
}

/// A time as objects carry it: RFC 3339, whole seconds.
pub fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
