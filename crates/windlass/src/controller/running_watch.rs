//! The running watches of a controller.

use std::collections::BTreeMap;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::cache::{HandlerGuard, SyncState};
use crate::kind::Kind;
use crate::ordered_watch;

/// All running watches of a controller.
#[derive(Default)]
pub(super) struct RunningWatches {
    pub(super) by_id: BTreeMap<u64, RunningWatch>,
    /// The identifier of the next watch.
    pub(super) next: u64,
    /// Set when the manager has stopped: no watch can be added any more.
    pub(super) ended: bool,
}

/// One running watch; dropping it ends the watch.
pub(super) struct RunningWatch {
    pub(super) kind: Kind,
    pub(super) guard: HandlerGuard,
    pub(super) states: ordered_watch::Receiver<SyncState>,
    /// A kind that the server does not serve is not waited for.
    pub(super) optional: bool,
    /// Notifies those who wait for the watch that it has ended.
    pub(super) ended: CancellationToken,
}

// === impl RunningWatch ===

impl RunningWatch {
    /// Waits for the first list or the end of the watch, without keeping the watch alive.
    pub(super) fn synced(&self) -> impl Future<Output = ()> + use<> {
        let (mut handled, mut states) = (self.guard.handled(), self.states.clone());
        let (optional, mut missing) = (self.optional, self.states.clone());
        let synced = async move {
            let _ = handled.wait_for(|handled| *handled).await;
            // A watch of metadata may be about to become one of whole objects.
            drop(states.wait_for(has_listed).await);
        };
        let synced = async move {
            tokio::select! {
                biased;
                () = synced => {}
                _ = missing.wait_for(is_missing), if optional => {}
            }
        };
        self.ended.clone().run_until_cancelled_owned(synced).map(drop)
    }

    /// Waits like [`synced`](Self::synced), but if the watch cannot continue without help, its
    /// state is returned at once.
    pub(super) fn synced_or_blocked(&self) -> impl Future<Output = Option<String>> + use<> {
        let (mut handled, mut states) = (self.guard.handled(), self.states.clone());
        let (kind, optional) = (self.kind.clone(), self.optional);
        let settled = async move {
            let state =
                states.wait_for(|state| has_listed(state) || state.blocked()).await.ok()?.clone();
            if optional && is_missing(&state) {
                return None;
            }
            if state.blocked() {
                return Some(format!("{kind}: {state}"));
            }
            let _ = handled.wait_for(|handled| *handled).await;
            None
        };
        self.ended.clone().run_until_cancelled_owned(settled).map(Option::flatten)
    }
}

impl RunningWatch {
    /// Calls `appeared` each time the server begins to serve a kind that it did not serve.
    pub(super) fn on_appearance(&self, appeared: impl Fn() + Send + 'static) {
        let mut states = self.states.clone();
        let follow = async move {
            loop {
                let missing = states.wait_for(is_missing).await;
                if missing.is_err() || states.wait_for(SyncState::synced).await.is_err() {
                    return;
                }
                appeared();
            }
        };
        tokio::spawn(self.ended.clone().run_until_cancelled_owned(follow));
    }
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Returns `true` if the server does not serve the kind.
fn is_missing(state: &SyncState) -> bool {
    matches!(state, SyncState::NoKind(_))
}

/// Returns `true` if the first list is complete, even if the watch has failed since then.
fn has_listed(state: &SyncState) -> bool {
    state.synced() || matches!(state, SyncState::Stale { .. })
}
