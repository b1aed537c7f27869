//! The pool that runs reconciles: bounded, one key at a time, fenced against panics.
//!
//! There are no idle workers: a task exists only while it has a key in its hands, takes the next
//! key if one is ready, and ends otherwise. So a limit of 32,000 costs nothing until it is used,
//! and each wake is a queue pop and a spawn.
//!
//! **Invariant:** a key is never reconciled twice at once (the queue holds it back until its
//! [`Work`] is dropped).
//! **Invariant:** whatever a reconcile does - fail, panic, hang past its deadline - the pool goes
//! on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::context::{Shared, Undecodable};
use super::{Context, Next, Reconciler};
use crate::cache::{Key, Reader};
use crate::error::{Error, Result};
use crate::kind::Object;
use crate::metrics::{ControllerMetrics, Outcome};
use crate::queue::{Add, Work, WorkQueue};

/// A reconcile that runs for longer is named in the log, as long as it does.
const SLOW: Duration = Duration::from_secs(60);

/// Keys a task works off before it lets others run.
const TURNS_MAX: usize = 32;

/// The author's reconciler behind one pointer.
pub(crate) trait DynReconciler<K: Object>: Send + Sync {
    fn run<'a>(&'a self, cx: &'a Context<K>) -> BoxFuture<'a, Result<Next>>;
}

impl<K: Object, R: Reconciler<K>> DynReconciler<K> for R {
    fn run<'a>(&'a self, cx: &'a Context<K>) -> BoxFuture<'a, Result<Next>> {
        // Inside an async block, so that a panic before the first await is caught as well.
        async move { self.reconcile(cx).await }.boxed()
    }
}

/// Runs the reconciles of one controller.
pub(crate) struct Pool<K: Object> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<WorkQueue<Key>>,
    pub(crate) reader: Reader<K>,
    pub(crate) reconciler: Arc<dyn DynReconciler<K>>,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) workers: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) ids: Ids,
}

/// What all tasks of a pool share, so that each holds one thing.
struct Shift<K: Object> {
    pool: Arc<Pool<K>>,
    /// As many as may run; a task gives one back when it ends.
    limit: Semaphore,
    stop: CancellationToken,
    abort: CancellationToken,
}

/// One of those that may run.
struct Place<K: Object>(Arc<Shift<K>>);

// === impl Shift ===

impl<K: Object> Shift<K> {
    /// Takes a key if one is ready and there is room for it.
    fn ready(&self) -> Option<Work<Key>> {
        if self.stop.is_cancelled() {
            return None;
        }
        let permit = self.limit.try_acquire().ok()?;
        let work = self.pool.queue.try_get()?;
        permit.forget();
        Some(work)
    }

    /// Works off a key, whose permit was taken, in a task of its own.
    fn begin(self: &Arc<Self>, work: Work<Key>) {
        let place = Place(self.clone());
        tokio::spawn(async move {
            let Shift { pool, stop, abort, .. } = &*place.0;
            pool.drain(work, stop, abort).await;
        });
    }
}

// === impl Place ===

impl<K: Object> Drop for Place<K> {
    fn drop(&mut self) {
        self.0.limit.add_permits(1);
    }
}

// === impl Pool ===

impl<K: Object> Pool<K> {
    /// Works until `stop`, then waits for what is under way until `abort`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken, abort: CancellationToken) {
        let room = u32::try_from(self.workers).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        // Nothing outlives the pool, not even one whose future is dropped.
        let abort = abort.child_token();
        let _ends_with_this = abort.clone().drop_guard();
        let limit = Semaphore::new(room as usize);
        let shift = Arc::new(Shift { pool: self, limit, stop, abort });
        let Shift { pool, limit, stop, abort } = &*shift;
        let (mut look, mut turns) = (None, 0_usize);
        loop {
            // What is ready is handed on without much ado; now and then there is a look around.
            turns = (turns + 1) % TURNS_MAX;
            if turns > 0
                && let Some(work) = shift.ready()
            {
                shift.begin(work);
                tokio::task::consume_budget().await;
                continue;
            }
            // Only while something runs; an idle controller wakes nobody.
            let busy = limit.available_permits() < room as usize;
            look = if busy { look.or_else(|| Some(Instant::now() + SLOW)) } else { None };
            if look.is_some_and(|at| Instant::now() >= at) {
                look = None;
                pool.complain();
                continue;
            }
            let next = async {
                let permit = limit.acquire().await.ok()?;
                Some((permit, pool.queue.get().await?))
            };
            let (permit, work) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = next => match next {
                    Some(next) => next,
                    None => break,
                },
                () = due(look) => continue,
            };
            permit.forget();
            shift.begin(work);
        }
        pool.queue.shutdown();
        tokio::select! {
            biased;
            _ = limit.acquire_many(room) => {}
            () = abort.cancelled() => {
                // What was aborted ends at its next await; nothing of it may outlive the pool.
                let _ = limit.acquire_many(room).await;
            }
        }
    }

    /// Names the reconcile that runs longest if that is too long.
    fn complain(&self) {
        let Some((key, took)) = self.queue.longest().filter(|(_, took)| *took >= SLOW) else {
            return;
        };
        tracing::warn!(
            controller = %self.shared.controller,
            controllerKind = self.shared.kind.kind(),
            namespace = key.namespace().unwrap_or_default(),
            name = key.name(),
            ?took,
            "Reconcile does not return"
        );
    }

    /// Works off `first` and whatever is ready after it.
    async fn drain(&self, first: Work<Key>, stop: &CancellationToken, abort: &CancellationToken) {
        let mut turns = 0;
        let mut next = Some(first);
        while let Some(work) = next {
            self.one(&work, abort).await;
            turns += 1;
            if turns % TURNS_MAX == 0 {
                drop(work);
                tokio::task::yield_now().await;
                next = if stop.is_cancelled() { None } else { self.queue.try_get() };
            } else {
                next = if stop.is_cancelled() { None } else { work.next() };
            }
        }
    }

    async fn one(&self, work: &Work<Key>, abort: &CancellationToken) {
        let shared = &self.shared;
        let key = work.key();
        let span = tracing::info_span!(
            "reconcile",
            controller = %shared.controller,
            controllerGroup = shared.kind.group(),
            controllerKind = shared.kind.kind(),
            namespace = key.namespace().unwrap_or_default(),
            name = key.name(),
            reconcileID = tracing::field::Empty,
        );
        if !span.is_disabled() {
            span.record("reconcileID", tracing::field::display(self.ids.next()));
        }
        let ended = tokio::select! {
            biased;
            ended = self.attempt(key).instrument(span.clone()) => Some(ended),
            () = abort.cancelled() => None,
        };
        let Some((result, took)) = ended else {
            self.metrics.abandoned();
            span.in_scope(|| tracing::warn!("reconcile dropped: the grace period is over"));
            return;
        };
        let settled = catch_unwind(AssertUnwindSafe(|| {
            span.in_scope(|| self.settle(work, result, took));
        }));
        if let Err(panic) = settled {
            // Only the author's limiter can panic there; the key must not be lost with it.
            self.metrics.panicked();
            let panic = panic_text(&*panic);
            span.in_scope(|| tracing::error!(panic, "a limiter panicked, trying again"));
            let (priority, after) = (work.priority(), Some(Duration::from_secs(1)));
            self.queue.add_with(key, Add { priority, after, rate_limited: false });
        }
    }

    async fn attempt(&self, key: &Key) -> (Result<Next>, Duration) {
        let began = Instant::now();
        self.metrics.started();
        tracing::trace!("Reconciling");
        // Everything of the author's is within: how the object decodes, the reconcile, its drop.
        let caught = AssertUnwindSafe(self.reconcile(key)).catch_unwind().await;
        let result = caught.unwrap_or_else(|panic| match panic.downcast::<Undecodable>() {
            // Trying again does not help: the next change of the object brings the key back.
            Ok(undecodable) => {
                let what = format!("{} {key}", self.shared.kind);
                let source = serde::de::Error::custom(undecodable.0.message);
                Err(Error::terminal(Error::Decode { what, source }))
            }
            Err(panic) => {
                self.metrics.panicked();
                Err(Error::Panic(panic_text(&*panic)))
            }
        });
        (result, began.elapsed())
    }

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let object = self.reader.object(key);
        let failures = self.queue.failures(key);
        let cx = Context::new(self.shared.clone(), key.clone(), object, failures);
        let run = self.reconciler.run(&cx);
        let Some(limit) = self.timeout else { return run.await };
        // In a box, so that a reconcile without a deadline has no room for a timer.
        Box::pin(tokio::time::timeout(limit, run)).await.unwrap_or_else(|_| {
            self.metrics.timed_out();
            Err(Error::Timeout { action: format!("reconcile {key}"), after: limit })
        })
    }

    /// Files the outcome: forget, again later, or back off.
    fn settle(&self, work: &Work<Key>, result: Result<Next>, took: Duration) {
        let (key, priority) = (work.key(), work.priority());
        match result {
            Ok(Next::Done) => {
                self.metrics.ended(Outcome::Success, took);
                self.queue.forget(key);
                tracing::trace!("Reconcile successful");
            }
            Ok(Next::After(after)) => {
                self.metrics.ended(Outcome::RequeueAfter, took);
                self.queue.forget(key);
                tracing::trace!(?after, "Reconcile successful");
                let add = Add { priority, after: Some(after), rate_limited: false };
                self.queue.add_with(key, add);
            }
            Err(error) if error.is_terminal() => {
                self.metrics.ended(Outcome::Terminal, took);
                tracing::error!(error = error.chain(), "Reconciler error, not retried");
            }
            Err(error) => {
                self.metrics.ended(Outcome::Error, took);
                let add = Add { priority, after: None, rate_limited: true };
                let retry = self.queue.add_with(key, add);
                if error.is_conflict() || error.is_fenced() {
                    tracing::debug!(error = error.chain(), ?retry, "Reconciler error");
                } else {
                    tracing::error!(error = error.chain(), ?retry, "Reconciler error");
                }
            }
        }
    }
}

/// Waits until a moment, or for ever.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no text".to_string()
    }
}

/// Identifiers of attempts: unique in a process, equal in every run of the same seed.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    seed: u64,
    count: AtomicU64,
}

// === impl Ids ===

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> uuid::Uuid {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let high = mix(self.seed ^ mix(count));
        let bits = (u128::from(high) << 64) | u128::from(mix(high ^ count));
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}

/// The finalizer of splitmix64: spreads a counter over all bits.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
