//! How a key is added to a queue.

use std::time::Duration;

/// Options of one add: priority, delay and rate limit.
///
/// By default a key is added at once, at priority 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Add {
    pub(super) priority: i32,
    pub(super) after: Option<Duration>,
    pub(super) rate_limited: bool,
    pub(super) flags: u8,
}

// === impl Add ===

impl Add {
    /// Sets the priority; keys with a larger one are handed out first. The priority of a key that
    /// is already queued is never lowered.
    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key. A key that is already delayed keeps the earlier time.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Counts a failure of the key and delays it by what the queue's
    /// [`Limiter`](super::Limiter) returns. Together with [`after`](Self::after) the shorter delay
    /// is used.
    pub(crate) fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// Sets flags that the worker of the key gets: those of all adds since the key was
    /// handed out last.
    pub(crate) fn flags(mut self, flags: u8) -> Self {
        self.flags |= flags;
        self
    }
}
