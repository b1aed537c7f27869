//! The open connections of a server, limited in number.
//!
//! **Invariant:** there are never more than [`CONNECTIONS_MAX`], and a new connection never waits
//! for an older one: it closes the oldest one that serves no request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{AbortHandle, Id, JoinSet};

/// How many connections a server keeps.
pub(super) const CONNECTIONS_MAX: usize = 256;

/// All connections of a server; dropping it closes them.
#[derive(Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// By age, the oldest first.
    open: BTreeMap<u64, Connection>,
    ages: HashMap<Id, u64>,
    next: u64,
}

struct Connection {
    task: AbortHandle,
    busy: Busy,
}

/// Counts the requests that a connection is serving.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy(Arc<AtomicUsize>);

/// One request; it has been served when this is dropped.
pub(super) struct BusyGuard(Busy);

// === impl Connections ===

impl Connections {
    /// Serves a new connection in a task of its own.
    pub(super) fn add<Fut>(&mut self, serve: impl FnOnce(Busy) -> Fut)
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        if self.open.len() >= CONNECTIONS_MAX {
            self.close_one();
        }
        let busy = Busy::default();
        let task = self.tasks.spawn(serve(busy.clone()));
        self.ages.insert(task.id(), self.next);
        self.open.insert(self.next, Connection { task, busy });
        self.next += 1;
    }

    /// Waits until a connection has ended; never completes while there are none.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, ()))) => self.forget(id),
            Some(Err(error)) => self.forget(error.id()),
        }
    }

    fn forget(&mut self, id: Id) {
        if let Some(age) = self.ages.remove(&id) {
            self.open.remove(&age);
        }
    }

    /// Closes the oldest connection that serves no request, or the oldest of all.
    fn close_one(&mut self) {
        let idle = self.open.iter().find(|(_, open)| !open.busy.is_busy());
        let Some(age) = idle.or_else(|| self.open.first_key_value()).map(|(age, _)| *age) else {
            return;
        };
        if let Some(closed) = self.open.remove(&age) {
            tracing::debug!(limit = CONNECTIONS_MAX, "too many connections, closing the oldest");
            closed.task.abort();
        }
    }
}

// === impl Busy ===

impl Busy {
    /// Marks the connection as busy until the guard is dropped.
    pub(super) fn begin(&self) -> BusyGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        BusyGuard(self.clone())
    }

    fn is_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_outlives_idle_ones_and_the_number_stays_limited() {
        let mut connections = Connections::default();
        let (busy_ended, mut hears) = tokio::sync::oneshot::channel::<()>();
        connections.add(|busy| async move {
            let _guard = (busy.begin(), busy_ended);
            std::future::pending::<()>().await;
        });
        // The task has to run once to be busy.
        tokio::task::yield_now().await;
        for _ in 0..3 * CONNECTIONS_MAX {
            connections.add(|_| std::future::pending());
            assert!(connections.open.len() <= CONNECTIONS_MAX);
        }
        assert!(matches!(hears.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Empty)));
        while connections.ages.len() > CONNECTIONS_MAX {
            connections.ended().await;
        }
        connections.add(|_| async {});
        connections.ended().await;
        assert!(connections.open.len() <= CONNECTIONS_MAX);
    }
}
