//! Shutdown of a manager: work drains while the lease is still renewed, then the lease is released.
//!
//! **Invariant:** every group has been asked to stop before any of them is waited for.
//! **Invariant:** while anything bound to the lease runs, either the lease is renewed or that work
//! is being dropped.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use crate::clock;
use crate::lease::Elector;

/// How long releasing the lease and sending the last events may each take once the grace period is
/// over.
const FINAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the deadline of a final request to the server, given the end of the grace period.
///
/// Without the extra time a lease that could be released would have to expire instead, and the
/// last events would be lost.
pub(super) fn final_request_deadline(deadline: Instant) -> Instant {
    deadline.max(clock::after(FINAL_REQUEST_TIMEOUT))
}

/// Stops both groups and waits until `deadline` for their tasks to end.
///
/// Returns `true` if nothing bound to the lease can still be running. `election` renews the lease
/// meanwhile and completes when the lease is lost; it is `None` if no lease is held. `abort` drops
/// the work that the lease guards.
pub(super) async fn drain(
    others: &mut Group,
    leaders: &mut Group,
    deadline: Instant,
    abort: &CancellationToken,
    election: Option<Pin<&mut (impl Future<Output = ()> + Send)>>,
) -> bool {
    // Both before either is waited for: nothing new may begin while the other group drains.
    leaders.stopping().cancel();
    others.stopping().cancel();
    let end = async { tokio::join!(others.stop(deadline), leaders.stop(deadline)).1 };
    let Some(election) = election else { return end.await };
    tokio::pin!(end);
    tokio::select! {
        biased;
        ended = &mut end => return ended,
        () = election => {}
    }
    // Another process may lead by now, so the work of this lease must not drain any further.
    abort.cancel();
    end.await
}

/// Releases the lease if nothing it guards can still be running.
pub(super) async fn release(elector: &mut Elector, ended: bool, deadline: Instant) {
    if !ended {
        tracing::warn!(
            "lease not released: work it guards may still be running, so the lease has to expire"
        );
        return;
    }
    match tokio::time::timeout_at(final_request_deadline(deadline), elector.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = error.chain(), "lease not released"),
        Err(_) => tracing::warn!("lease not released in time"),
    }
}
