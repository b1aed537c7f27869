//! The worker pool of a controller: up to `workers` tasks that reconcile keys.
//!
//! Each worker takes keys from the queue as long as there are any, then waits for the next. The
//! queue gives a key that becomes ready to the worker that began to wait last. A key that finds no
//! waiting worker is taken by [`run`], which spawns a worker for it, and workers that were not
//! needed for a minute end. So a limit of 32,000 costs nothing until it is used, and a burst that
//! comes again finds its workers already spawned.
//!
//! **Invariant:** a key is never reconciled twice at once: the queue does not hand it out again
//! until its [`Work`] is dropped.
//! **Invariant:** the pool continues whatever a reconcile does: fail, panic or exceed its timeout.
//! **Invariant:** no worker outlives the pool, also if the future of [`run`] is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::worker::{Scratch, Worker};
use crate::cache::Key;
use crate::kind::Object;
use crate::ordered_watch;
use crate::queue::{Add, Work};

/// How often slow reconciles and unneeded workers are looked for.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// The number of keys that a worker reconciles before it lets other tasks run.
const TURNS_MAX: u32 = 32;

/// What all workers of a pool share.
struct Pool<K: Object> {
    worker: Arc<Worker<K>>,
    /// The most workers.
    limit: ordered_watch::Receiver<usize>,
    /// The workers that run.
    running: AtomicUsize,
    stop: CancellationToken,
    abort: CancellationToken,
}

/// When the pool looks for slow reconciles and unneeded workers; never while there are no workers,
/// so that an idle controller does not wake up.
#[derive(Default)]
struct Checks {
    slow: Option<Instant>,
    unneeded: Option<Instant>,
}

/// Runs a pool of up to `limit` workers until `stop`, then waits for running reconciles until
/// `abort`. The limit can change at any time.
pub(super) async fn run<K: Object>(
    worker: Arc<Worker<K>>,
    limit: ordered_watch::Receiver<usize>,
    stop: CancellationToken,
    abort: CancellationToken,
) {
    // Aborts its tasks when it is dropped.
    let mut tasks = JoinSet::new();
    let abort_if_dropped = abort.child_token().drop_guard();
    let (running, abort_token) = (AtomicUsize::new(0), abort_if_dropped.token().clone());
    let pool = Arc::new(Pool { worker, limit, running, stop, abort: abort_token });
    pool.spawn_workers(&mut tasks).await;
    pool.worker.queue.shutdown();
    tokio::select! {
        biased;
        () = async { while tasks.join_next().await.is_some() {} } => {}
        // An aborted task ends at its next await.
        () = abort.cancelled() => tasks.shutdown().await,
    }
}

// === impl Pool ===

impl<K: Object> Pool<K> {
    /// Spawns a worker for each key that finds none, until the pool has to stop.
    async fn spawn_workers(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let queue = &self.worker.queue;
        let mut limits = self.limit.clone();
        let mut checks = Checks::default();
        loop {
            while tasks.try_join_next().is_some() {}
            let next_check = checks.run(&self.worker, !tasks.is_empty());
            let limit = (*limits.borrow_and_update()).max(1);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                work = queue.get_unclaimed(), if tasks.len() < limit => match work {
                    Some(work) => {
                        self.running.fetch_add(1, Ordering::Relaxed);
                        tasks.spawn(self.clone().work(work));
                    }
                    None => return,
                },
                _ = tasks.join_next(), if !tasks.is_empty() => {}
                Ok(()) = limits.changed() => {}
                () = sleep_until(next_check) => {}
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Reconciles `first` and then other keys, until the pool stops or does not need this worker.
    async fn work(self: Arc<Self>, first: Work<Key>) {
        let queue = &self.worker.queue;
        let (mut scratch, mut turns, mut next) = (Scratch::default(), 0_u32, Some(first));
        while let Some(work) = next
            && !self.stop.is_cancelled()
        {
            if self.leave_if_surplus() {
                // Somebody else reconciles it: it is queued again when it is dropped.
                let add = Add::default().priority(work.priority()).flags(work.flags());
                queue.add_with(work.key(), add);
                return;
            }
            self.worker.work_on(&work, &self.abort, &mut scratch).await;
            turns = turns.wrapping_add(1);
            next = if turns % TURNS_MAX == 0 {
                drop(work);
                tokio::task::yield_now().await;
                queue.try_get()
            } else {
                work.next()
            };
            if next.is_none() {
                next = queue.get().await;
            }
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns `true` if there are more workers than allowed by now, so that this one has to end.
    fn leave_if_surplus(&self) -> bool {
        let limit = (*self.limit.borrow()).max(1);
        let leave = |running: usize| (running > limit).then(|| running - 1);
        self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave).is_ok()
    }
}

// === impl Checks ===

impl Checks {
    /// Makes the checks that are due, and returns the time of the next.
    fn run<K: Object>(&mut self, worker: &Worker<K>, any_workers: bool) -> Option<Instant> {
        if !any_workers {
            *self = Self::default();
            return None;
        }
        let now = Instant::now();
        let slow = self.slow.get_or_insert(now + CHECK_EVERY);
        if *slow <= now {
            *slow = now + worker.warn_if_slow();
        }
        let unneeded = self.unneeded.get_or_insert(now + CHECK_EVERY);
        if *unneeded <= now {
            worker.queue.retire_unneeded();
            *unneeded = now + CHECK_EVERY;
        }
        Some(*slow.min(unneeded))
    }
}

/// Sleeps until a moment, or for ever.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
