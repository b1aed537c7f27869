//! A watch that was added to a running controller.

use std::fmt;

use super::handle::ControllerHandle;

/// A watch that was added to a running controller with
/// [`ControllerHandle::watch`](super::ControllerHandle::watch). Dropping it ends the watch.
///
/// The cache of the watched kind is closed with the last watch that uses it.
#[must_use = "the watch ends when this is dropped"]
pub struct WatchGuard {
    handle: ControllerHandle,
    id: u64,
}

// === impl WatchGuard ===

impl WatchGuard {
    pub(super) fn new(handle: ControllerHandle, id: u64) -> Self {
        Self { handle, id }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.handle.end_watch(self.id);
    }
}

impl fmt::Debug for WatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchGuard").field("controller", &self.handle.name()).finish()
    }
}
