//! The requests that one task sends, for diagnostics.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most requests that are named.
const NAMED_MAX: usize = 16;

tokio::task_local! {
    static CURRENT: Arc<Requests>;
}

/// The requests that are sent while one future runs, by the task that polls it.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<RequestLog>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestLog {
    /// What was sent first, such as `patch ConfigMap default/a`.
    pub(crate) named: Vec<String>,
    pub(crate) count: u32,
}

// === impl Requests ===

impl Requests {
    /// Runs a future whose requests are noted here.
    pub(crate) fn of<F: Future>(self: &Arc<Self>, run: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.clone(), run)
    }

    /// Takes what was noted.
    pub(crate) fn take(&self) -> RequestLog {
        std::mem::take(&mut self.0.lock())
    }
}

/// Notes a request, if it is sent within [`Requests::of`].
pub(super) fn note(action: &str) {
    let _ = CURRENT.try_with(|current| {
        let mut log = current.0.lock();
        log.count = log.count.saturating_add(1);
        if log.named.len() < NAMED_MAX {
            log.named.push(action.to_string());
        }
        drop(log);
        // In the span of the reconcile, so that an object with the log level `debug` shows them.
        tracing::debug!(request = action, "Sending request");
    });
}
