//! The end of a manager: work drains while the lease is still renewed, then the lease goes back.
//!
//! **Invariant:** while anything bound to the lease runs, either the lease is renewed or that work
//! is being dropped.

use std::pin::Pin;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use crate::lease::Lease;

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
    match tokio::time::timeout_at(deadline, lease.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = error.chain(), "lease not released"),
        Err(_) => tracing::warn!("lease not released within the grace period"),
    }
}
