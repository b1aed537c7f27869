//! The fence between a lost lease and the API server.
//!
//! While a lease is asked for, every mutating request of what it guards passes here: not those of
//! controllers and tasks that run on every replica, events, and the lease itself. The
//! fence is open from the moment a renewal *began* until the renew deadline after it; nothing has
//! to run for it to close, so a process that was paused finds it closed when it wakes.
//!
//! A request that still waits for an answer when the fence closes is given up, because it may not
//! have left yet: it may be waiting for a connection or for a token.
//!
//! **Invariant:** no new mutating request leaves after the renew deadline. Requests already on
//! their way are not called back, so this is no fencing token.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Lets writes pass only while the lease is held; open for ever until a lease is asked for.
///
/// ```
/// use windlass::fence::Fence;
/// let fence = Fence::new();
/// assert!(fence.check().is_ok());
/// fence.close("ops/my-operator");
/// assert_eq!(fence.check(), Err("ops/my-operator".to_string()));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    None,
    Closed {
        lease: String,
    },
    Until {
        lease: String,
        deadline: Instant,
    },
}

// === impl Fence ===

impl Fence {
    /// A fence that is open until a lease is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells whether a lease governs this fence at all.
    pub fn armed(&self) -> bool {
        !matches!(*self.0.borrow(), State::None)
    }

    /// Tells whether a write may leave now, or names the lease that is not held.
    pub fn check(&self) -> Result<(), String> {
        self.0.borrow().check().map(drop)
    }

    /// Waits until no write may leave any more, and names the lease; for ever without a lease.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn closed(&self) -> String {
        let mut states = self.0.subscribe();
        loop {
            let now = states.borrow_and_update().check();
            match now {
                Err(lease) => return lease,
                // The sender lives in this fence, so there is always news or none yet.
                Ok(None) => drop(states.changed().await),
                Ok(Some(deadline)) => {
                    tokio::select! {
                        biased;
                        _ = states.changed() => {}
                        () = sleep_until(deadline) => {}
                    }
                }
            }
        }
    }

    /// Closes the fence; `lease` names who may open it.
    pub fn close(&self, lease: &str) {
        self.0.send_replace(State::Closed { lease: lease.to_string() });
    }

    /// Opens the fence until `deadline`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// use windlass::fence::Fence;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (fence, began) = (Fence::new(), Instant::now());
    /// fence.open_until("ops/my-operator", began + Duration::from_secs(10));
    /// assert!(fence.armed() && fence.check().is_ok());
    /// // Nothing has to run for it to close.
    /// assert_eq!(fence.closed().await, "ops/my-operator");
    /// assert!(fence.check().is_err() && began.elapsed() >= Duration::from_secs(10));
    /// # }
    /// ```
    pub fn open_until(&self, lease: &str, deadline: Instant) {
        self.0.send_replace(State::Until { lease: lease.to_string(), deadline });
    }
}

// === impl State ===

impl State {
    /// Returns until when the fence is open, or the lease that is not held.
    fn check(&self) -> Result<Option<Instant>, String> {
        match self {
            Self::None => Ok(None),
            Self::Until { deadline, .. } if Instant::now() < *deadline => Ok(Some(*deadline)),
            Self::Until { lease, .. } | Self::Closed { lease } => Err(lease.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fence_closes_by_itself_at_the_deadline() {
        let fence = Fence::new();
        assert!(fence.check().is_ok());
        fence.open_until("a/b", Instant::now() + Duration::from_secs(10));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(fence.check().is_ok());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(fence.check(), Err("a/b".to_string()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_keeps_the_fence_open_and_a_loss_closes_it_at_once() {
        let fence = Fence::new();
        let second = Duration::from_secs(1);
        let began = Instant::now();
        fence.open_until("a/b", began + 10 * second);
        let seen = fence.clone();
        let closed = tokio::spawn(async move { (seen.closed().await, began.elapsed()) });
        tokio::time::sleep(8 * second).await;
        fence.open_until("a/b", began + 18 * second);
        tokio::time::sleep(7 * second).await;
        assert!(!closed.is_finished());
        fence.close("a/b");
        assert_eq!(closed.await.expect("ends"), ("a/b".to_string(), 15 * second));
    }
}
