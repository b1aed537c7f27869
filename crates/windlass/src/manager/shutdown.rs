//! The end of a manager: work drains while the lease is still renewed, then the lease goes back.
//!
//! **Invariant:** while anything bound to the lease runs, either the lease is renewed or that work
//! is being dropped.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use crate::clock;
use crate::lease::Lease;

/// What each of the last words to the server may take where the grace period is used up.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Until when a last word to the server may take, given the end of the grace period.
///
/// Without it a lease that could go back would run out, and nobody would read why.
pub(super) fn last_words(deadline: Instant) -> Instant {
    deadline.max(clock::after(LAST_WORDS))
}

/// Lets the tasks end until `deadline`; tells whether none bound to the lease can still be running.
///
/// `election` renews the lease meanwhile and completes when the lease is lost; there is none where
/// no lease is held. `abort` drops what the lease guards.
pub(super) async fn drain(
    others: &mut Group,
    leaders: &mut Group,
    deadline: Instant,
    abort: &CancellationToken,
    election: Option<Pin<&mut (impl Future<Output = ()> + Send)>>,
) -> bool {
    let stop_leaders = leaders.stopping();
    let end = async {
        others.stop(deadline).await;
        leaders.stop(deadline).await
    };
    let Some(election) = election else { return end.await };
    tokio::pin!(end);
    tokio::select! {
        biased;
        ended = &mut end => return ended,
        () = election => {}
    }
    // Another process may lead already: what drains for this lease ends here.
    stop_leaders.cancel();
    abort.cancel();
    end.await
}

/// Gives the lease back if nothing it guards can be running any more.
pub(super) async fn give_back(lease: &mut Lease, ended: bool, deadline: Instant) {
    if !ended {
        tracing::warn!("the lease is left to run out: what it guards may still be running");
        return;
    }
    match tokio::time::timeout_at(last_words(deadline), lease.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = error.chain(), "lease not released"),
        Err(_) => tracing::warn!("lease not released in time"),
    }
}
