//! The requests that one reconcile sends.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most requests of a reconcile that are named.
const NAMED_MAX: usize = 16;

tokio::task_local! {
    static CURRENT: Arc<Requests>;
}

/// The requests of one reconcile, as far as its own task sends them.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<Log>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// What was sent first, such as `patch ConfigMap default/a`.
    pub(crate) named: Vec<String>,
    pub(crate) count: u32,
}

// === impl Requests ===

impl Requests {
    /// Runs a reconcile whose requests are noted here.
    pub(crate) fn of<F: Future>(self: &Arc<Self>, run: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.clone(), run)
    }

    /// Takes what was noted.
    pub(crate) fn take(&self) -> Log {
        std::mem::take(&mut self.0.lock())
    }
}

/// Notes a request, if it is sent by a reconcile.
pub(crate) fn note(action: &str) {
    let _ = CURRENT.try_with(|current| {
        let mut log = current.0.lock();
        log.count = log.count.saturating_add(1);
        if log.named.len() < NAMED_MAX {
            log.named.push(action.to_string());
        }
    });
}
