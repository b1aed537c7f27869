//! The worker pool of a controller: up to `workers` tasks that reconcile keys.
//!
//! Workers do not each wait for the queue. Whoever adds a key hands it to a parked worker, and the
//! worker then takes further keys by itself as long as there are any. One more task, [`run`],
//! waits for keys that find no parked worker and for keys whose delay has passed, and spawns
//! workers for them.
//!
//! **Invariant:** a key is never reconciled twice at once: the queue does not hand it out again
//! until its [`Work`] is dropped.
//! **Invariant:** the pool continues whatever a reconcile does: fail, panic or exceed its timeout.

mod slots;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::slots::Slots;
use super::worker::{Scratch, Worker};
use crate::cache::Key;
use crate::kind::Object;
use crate::queue::{HandOff, Work};

/// How often slow reconciles and unneeded workers are looked for.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// The number of keys that a worker reconciles before it lets other tasks run.
const TURNS_MAX: usize = 32;

/// What all tasks of a pool share.
struct PoolShared<K: Object> {
    worker: Arc<Worker<K>>,
    slots: Slots,
    stop: CancellationToken,
    abort: CancellationToken,
    /// Where workers are spawned, also by tasks of other runtimes that add keys.
    runtime: Handle,
    /// Set when the pool begins to stop; cheaper to read than `stop`.
    stopping: AtomicBool,
}

/// Vacates the slot of a worker when its task ends or is dropped.
struct WorkerGuard<K: Object> {
    pool: Arc<PoolShared<K>>,
    slot: usize,
}

/// Aborts all workers when the future of the pool is dropped, so that none outlives it.
struct AbortOnDrop<K: Object>(Arc<PoolShared<K>>);

/// Runs a pool of up to `workers` workers until `stop`, then waits for running reconciles until
/// `abort`.
pub(super) async fn run<K: Object>(
    worker: Arc<Worker<K>>,
    workers: usize,
    stop: CancellationToken,
    abort: CancellationToken,
) {
    let pool = Arc::new(PoolShared {
        worker,
        slots: Slots::new(workers.clamp(1, 1 << 28)),
        stop,
        abort: abort.child_token(),
        runtime: Handle::current(),
        stopping: AtomicBool::new(false),
    });
    pool.worker.queue.hand_off_to(Some(pool.clone()));
    let _abort_on_drop = AbortOnDrop(pool.clone());
    pool.spawn_workers().await;
    pool.stop().await;
}

// === impl PoolShared ===

impl<K: Object> PoolShared<K> {
    /// Finds workers for ready keys until the pool has to stop.
    async fn spawn_workers(self: &Arc<Self>) {
        let (mut slow_check, mut retire_check, mut turns) = (None, None, 0_usize);
        loop {
            // While keys are ready, the checks below are made only now and then.
            turns = (turns + 1) % TURNS_MAX;
            if turns > 0
                && !self.stop.is_cancelled()
                && let Some(work) = self.take()
            {
                self.begin(work);
                tokio::task::consume_budget().await;
                continue;
            }
            // The checks run only while there are workers, so that an idle controller does not
            // wake up. Parked workers count, because keys that are handed off do not pass here.
            let (now, any) = (Instant::now(), self.slots.any());
            if is_due(&mut slow_check, any, now) {
                slow_check = slow_check.map(|_| now + self.worker.warn_if_slow());
            }
            if is_due(&mut retire_check, any, now) {
                self.slots.retire_unneeded();
            }
            let work = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                next = self.next() => match next {
                    Some(next) => next,
                    None => return,
                },
                () = sleep_until(slow_check.into_iter().chain(retire_check).min()) => continue,
            };
            self.begin(work);
        }
    }

    /// Begins nothing new and waits for what runs.
    async fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.worker.queue.shutdown();
        self.slots.close();
        tokio::select! {
            biased;
            () = self.slots.all_ended() => {}
            () = self.abort.cancelled() => {
                // An aborted task ends at its next await; none may outlive the pool.
                self.slots.abort();
                self.slots.all_ended().await;
            }
        }
    }

    /// Takes a key and reserves a worker for it, if there are both.
    fn take(&self) -> Option<Work<Key>> {
        if !self.slots.reserve() {
            return None;
        }
        let work = self.worker.queue.try_get();
        if work.is_none() {
            self.slots.release();
        }
        work
    }

    /// Waits for a key and a worker for it. `None` once the queue is shut down.
    async fn next(&self) -> Option<Work<Key>> {
        loop {
            self.slots.has_room().await;
            if !self.worker.queue.ready().await {
                return None;
            }
            // Another task may have taken the key or the worker meanwhile.
            if let Some(work) = self.take() {
                return Some(work);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Gives a key, for which a worker is reserved, to a parked worker or to a new one.
    fn begin(self: &Arc<Self>, work: Work<Key>) {
        self.slots.wake(work, |slot, work| {
            let guard = WorkerGuard { pool: self.clone(), slot };
            self.runtime.spawn(async move {
                let mut scratch = Scratch::default();
                let mut work = Some(work);
                while let Some(first) = work {
                    guard.pool.work_off(first, &mut scratch).await;
                    work = poll_fn(|cx| guard.pool.slots.poll_park(guard.slot, cx)).await;
                }
            })
        });
    }

    /// Reconciles `first` and all keys that are ready after it.
    async fn work_off(&self, first: Work<Key>, scratch: &mut Scratch<K>) {
        let mut turns = 0;
        let mut next = Some(first);
        while let Some(work) = next {
            self.worker.work_on(&work, &self.abort, scratch).await;
            turns += 1;
            if turns % TURNS_MAX == 0 {
                drop(work);
                tokio::task::yield_now().await;
                next = if self.is_stopping() { None } else { self.worker.queue.try_get() };
            } else {
                next = if self.is_stopping() { None } else { work.next() };
            }
        }
    }
}

impl<K: Object> HandOff<Key> for PoolShared<K> {
    fn reserve(&self) -> bool {
        self.slots.any_parked() && !self.stop.is_cancelled() && self.slots.reserve()
    }

    fn accept(self: Arc<Self>, work: Work<Key>) {
        self.begin(work);
    }
}

// === impl WorkerGuard ===

impl<K: Object> Drop for WorkerGuard<K> {
    fn drop(&mut self) {
        self.pool.slots.vacate(self.slot);
    }
}

// === impl AbortOnDrop ===

impl<K: Object> Drop for AbortOnDrop<K> {
    fn drop(&mut self) {
        self.0.abort.cancel();
        self.0.worker.queue.hand_off_to(None);
        self.0.slots.close();
        self.0.slots.abort();
    }
}

/// Returns `true` if a check is due, and schedules the next one as long as there are workers.
fn is_due(check: &mut Option<Instant>, workers: bool, now: Instant) -> bool {
    let due = check.is_some_and(|at| now >= at);
    *check = check.filter(|_| workers && !due).or_else(|| workers.then_some(now + CHECK_EVERY));
    due
}

/// Sleeps until a moment, or for ever.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
