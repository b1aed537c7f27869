//! The fence between a lost lease and the API server.
//!
//! If a manager uses a lease, every mutating request that the lease guards passes the fence. Exempt
//! are controllers and runnables of every replica, events, the lease itself, and every client that
//! was made without a manager. The fence is open from the moment a renewal *began* until the renew
//! deadline after it, by tokio's time and by wall time.
//! Nothing has to run for it to close: a process that was paused finds it closed when it resumes,
//! and so does one whose machine was suspended, because wall time advanced meanwhile. A wall clock
//! that jumps ahead closes the fence until the next renewal, and one that jumps back does not keep
//! it open any longer.
//!
//! A request that still waits for its response when the fence closes is cancelled, because it may
//! not have been sent yet: it may be waiting for a connection or a token. If the fence closes by
//! wall time, that happens when the request is polled the next time, or at the deadline by tokio's
//! time.
//!
//! **Invariant:** no new mutating request is sent after the renew deadline by either clock. Requests
//! that were already sent cannot be taken back, so this is not a fencing token.

use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, sleep_until};

use crate::clock::Deadline;
use crate::error::Error;
use crate::ordered_watch;

/// Lets writes pass only while the lease is held; always open without a lease.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fence(Arc<ordered_watch::Sender<State>>);

/// Why a fence is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The lease, `namespace/name`.
    lease: String,
    /// This process has held the lease before.
    was_held: bool,
}

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    NoLease,
    Closed(Closed),
    OpenUntil {
        lease: String,
        deadline: Deadline,
    },
}

// === impl Fence ===

impl Fence {
    /// Creates a fence that is open until a lease is configured.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if a lease controls this fence.
    pub(crate) fn armed(&self) -> bool {
        !matches!(*self.0.borrow(), State::NoLease)
    }

    /// Returns an error if writes must not be sent now.
    pub(crate) fn check(&self) -> Result<(), Closed> {
        self.0.borrow().check().map(drop)
    }

    /// Waits until writes must not be sent any more; for ever without a lease.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub(crate) async fn closed(&self) -> Closed {
        let mut states = self.0.subscribe();
        loop {
            let now = states.borrow_and_update().check();
            match now {
                Err(closed) => return closed,
                // The sender lives in this fence, so this does not fail.
                Ok(None) => drop(states.changed().await),
                Ok(Some(deadline)) => {
                    // A jump of the wall clock wakes nobody, so every poll checks it.
                    let check = std::future::poll_fn(|_| match self.check() {
                        Err(closed) => Poll::Ready(closed),
                        Ok(()) => Poll::Pending,
                    });
                    tokio::select! {
                        biased;
                        closed = check => return closed,
                        _ = states.changed() => {}
                        () = sleep_until(deadline) => {}
                    }
                }
            }
        }
    }

    /// Closes the fence on behalf of `lease`.
    pub(crate) fn close(&self, lease: &str) {
        self.0.send_modify(|state| {
            let was_held = match state {
                State::NoLease => false,
                State::Closed(closed) => closed.was_held,
                State::OpenUntil { .. } => true,
            };
            *state = State::Closed(Closed { lease: lease.to_string(), was_held });
        });
    }

    /// Opens the fence until `deadline` passes by one of its clocks.
    pub(crate) fn open_until(&self, lease: &str, deadline: Deadline) {
        self.0.send_replace(State::OpenUntil { lease: lease.to_string(), deadline });
    }
}

// === impl State ===

impl State {
    /// Returns until when the fence is open at most.
    fn check(&self) -> Result<Option<Instant>, Closed> {
        match self {
            Self::NoLease => Ok(None),
            Self::OpenUntil { deadline, .. } if !deadline.passed() => Ok(Some(deadline.instant())),
            Self::OpenUntil { lease, .. } => Err(Closed { lease: lease.clone(), was_held: true }),
            Self::Closed(closed) => Err(closed.clone()),
        }
    }
}

// === impl Closed ===

impl Closed {
    /// The error of the request `action`, which was not sent.
    pub(crate) fn error(self, action: String) -> Error {
        Error::Fenced { action, lease: self.lease, was_held: self.was_held }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;
    use crate::clock::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost() -> Closed {
        Closed { lease: "a/b".into(), was_held: true }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_never_held_is_distinguished_from_one_that_was_lost() {
        let fence = Fence::new();
        fence.close("a/b");
        let closed = fence.check().expect_err("closed");
        assert!(!closed.was_held);
        let text = closed.error("create Pod a/b".into()).to_string();
        assert!(text.ends_with("because this process does not hold lease a/b"), "{text}");
        fence.open_until("a/b", Clock::default().deadline(SECOND));
        fence.close("a/b");
        let text = fence.check().expect_err("closed").error("create Pod a/b".into()).to_string();
        assert!(text.ends_with("because this process has lost lease a/b"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn fence_closes_by_itself_at_the_deadline() {
        let fence = Fence::new();
        assert!(fence.check().is_ok());
        fence.open_until("a/b", Clock::default().deadline(10 * SECOND));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(fence.check().is_ok());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(fence.check(), Err(lost()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_keeps_the_fence_open_and_a_loss_closes_it_at_once() {
        let (fence, clock) = (Fence::new(), Clock::default());
        let began = Instant::now();
        fence.open_until("a/b", clock.deadline(10 * SECOND));
        let seen = fence.clone();
        let closed = tokio::spawn(async move { (seen.closed().await, began.elapsed()) });
        tokio::time::sleep(8 * SECOND).await;
        fence.open_until("a/b", clock.deadline(10 * SECOND));
        tokio::time::sleep(7 * SECOND).await;
        assert!(!closed.is_finished());
        fence.close("a/b");
        assert_eq!(closed.await.expect("ends"), (lost(), 15 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_jumps_ahead_closes_the_fence_until_it_is_opened_again() {
        let (fence, clock) = (Fence::new(), Clock::default());
        fence.open_until("a/b", clock.deadline(10 * SECOND));
        let mut closed = std::pin::pin!(fence.closed());
        assert!(futures::poll!(closed.as_mut()).is_pending());
        clock.shift(SignedDuration::from_hours(1));
        assert_eq!(fence.check(), Err(lost()));
        assert_eq!(futures::poll!(closed), Poll::Ready(lost()), "at the next step");
        fence.open_until("a/b", clock.deadline(10 * SECOND));
        assert!(fence.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_jumps_back_keeps_the_fence_open_no_longer() {
        let (fence, clock) = (Fence::new(), Clock::default());
        fence.open_until("a/b", clock.deadline(10 * SECOND));
        clock.shift(SignedDuration::from_hours(-1));
        assert!(fence.check().is_ok());
        tokio::time::advance(10 * SECOND).await;
        assert!(fence.check().is_err());
    }
}
