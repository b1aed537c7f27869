//! Handlers of the controllers: functions that are called with the changes of an informer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::informer::Core;
use super::mailbox::Mailbox;
use super::{Change, Subscription};
use crate::ordered_watch;

/// A handler that runs; dropping it removes the handler.
pub(crate) struct HandlerGuard {
    /// Keeps the watch running; the task does not, so that the watch ends with the guard.
    _core: Arc<Core>,
    task: JoinHandle<()>,
    mailbox: Arc<Mailbox>,
}

// === impl HandlerGuard ===

impl HandlerGuard {
    /// Calls a function with every change, once `ready` completes. One that panics is called again
    /// with the next change.
    pub(super) fn spawn(
        core: &Arc<Core>,
        resync: Option<Duration>,
        ready: impl Future<Output = ()> + Send + 'static,
        mut handler: impl FnMut(Change) + Send + 'static,
    ) -> Self {
        let mut changes = Subscription::new(core.store.clone(), None);
        if let Some(every) = resync {
            changes = changes.resync(every);
        }
        let mailbox = changes.mailbox().clone();
        let task = tokio::spawn(async move {
            ready.await;
            while let Some(change) = changes.recv().await {
                let key = change.key().clone();
                if catch_unwind(AssertUnwindSafe(|| handler(change))).is_err() {
                    tracing::error!(object = %key, "event handler panicked");
                }
                tokio::task::consume_budget().await;
            }
        });
        Self { _core: core.clone(), task, mailbox }
    }

    /// Returns whether the first list is handled, as a value to wait on without keeping the handler.
    pub(crate) fn handled(&self) -> ordered_watch::Receiver<bool> {
        self.mailbox.synced()
    }

    /// Returns how many objects have changes waiting for the handler.
    pub(crate) fn lag(&self) -> usize {
        self.mailbox.len()
    }
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.mailbox.close();
        self.task.abort();
    }
}
