//! Tasks that start behind one gate and stop together.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{RunContext, Runnable};
use crate::controller::panic_text;
use crate::error::{Error, Result};
use crate::ordered_watch;

/// Tasks that start and stop together.
pub(super) struct Group {
    name: &'static str,
    tasks: JoinSet<Result<()>>,
    gate: Gate,
    stop: CancellationToken,
    abort: CancellationToken,
}

/// Lets the tasks that wait for it start.
#[derive(Clone, Default)]
pub(super) struct Gate(ordered_watch::Sender<bool>);

/// A task that waits for the gate and then runs until it is asked to stop.
pub(super) struct Job {
    name: String,
    run: Box<
        dyn FnOnce(CancellationToken, CancellationToken) -> BoxFuture<'static, Result<()>> + Send,
    >,
}

// === impl Job ===

impl Job {
    pub(super) fn new<F>(
        name: &str,
        run: impl FnOnce(CancellationToken, CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Self { name: name.into(), run: Box::new(move |stop, abort| run(stop, abort).boxed()) }
    }

    pub(super) fn controller(prepared: crate::controller::Prepared) -> Self {
        let handle = prepared.handle.clone();
        Self::new(handle.name(), move |stop, abort| async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = prepared.handle.synced() => {}
            }
            (prepared.run)(stop, abort).await;
            Ok(())
        })
    }

    /// A runnable, which also waits for the gate of the caches, so that it can read them immediately.
    pub(super) fn runnable(runnable: Runnable, context: RunContext, caches: Gate) -> Self {
        let Runnable { name, start, eager } = runnable;
        Self::new(&name, move |stop, abort| async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = caches.opened(), if !eager => {}
                () = std::future::ready(()), if eager => {}
            }
            tokio::select! {
                biased;
                result = start(context) => result,
                () = abort.cancelled() => Ok(()),
            }
        })
    }
}

// === impl Group ===

impl Group {
    pub(super) fn new(
        name: &'static str,
        stop: CancellationToken,
        abort: CancellationToken,
    ) -> Self {
        Self { name, tasks: JoinSet::new(), gate: Gate::default(), stop, abort }
    }

    pub(super) fn gate(&self) -> Gate {
        self.gate.clone()
    }

    pub(super) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Adds a task that starts when the gate opens, or immediately if it is open.
    pub(super) fn add(&mut self, job: Job) {
        let (stop, abort) = (self.stop.clone(), self.abort.clone());
        let gate = self.gate.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = gate.opened() => {}
            }
            // If both happened at the same time, nothing must start.
            if stop.is_cancelled() {
                return Ok(());
            }
            let name = job.name;
            let run = AssertUnwindSafe(async { (job.run)(stop, abort).await }).catch_unwind();
            match run.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(Error::Other(format!("{name}: {}", error.chain()).into())),
                Err(panic) => Err(Error::Panic(format!("{name}: {}", panic_text(&*panic)))),
            }
        });
    }

    /// Opens the gate and adds a task.
    pub(super) fn spawn(&mut self, job: Job) {
        self.open();
        self.add(job);
    }

    pub(super) fn open(&self) {
        self.gate.open();
    }

    /// Waits for a task to fail; never completes if none does.
    pub(super) async fn failed(&mut self) -> Error {
        loop {
            match self.tasks.join_next().await {
                None => std::future::pending().await,
                Some(Ok(Err(error))) => return error,
                Some(Ok(Ok(()))) => {}
                Some(Err(join)) => return Error::Panic(join.to_string()),
            }
        }
    }

    /// Asks all tasks to stop, waits until `deadline`, then drops those that still run.
    ///
    /// Returns `true` if no task of the group can be running any more.
    pub(super) async fn stop(&mut self, deadline: Instant) -> bool {
        tracing::info!("Stopping and waiting for {}", self.name);
        self.stop.cancel();
        let end = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Ok(Err(error)) = ended {
                    let error = error.chain();
                    tracing::error!(error, "error received after stop sequence was engaged");
                }
            }
        };
        if tokio::time::timeout_at(deadline, end).await.is_ok() {
            return true;
        }
        tracing::warn!(
            group = self.name,
            "the grace period is over, dropping tasks that still run"
        );
        self.abort.cancel();
        // Aborted tasks end at their next await; one that blocks its thread may never end.
        let end = async { while self.tasks.join_next().await.is_some() {} };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(1), end).await.is_ok();
        self.tasks.abort_all();
        ended
    }
}

// === impl Gate ===

impl Gate {
    pub(super) fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open.
    pub(super) async fn opened(&self) {
        // The sender lives in this gate, so this does not fail.
        drop(self.0.subscribe().wait_for(|open| *open).await);
    }
}
