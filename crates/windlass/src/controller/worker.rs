//! The pool that runs reconciles: bounded, one key at a time, fenced against panics.
//!
//! There are no workers that wait for a queue each: a key that is ready is put into the hands of a
//! task of the [`Crew`] that rests, by whoever added it, and the task takes further keys by itself
//! as long as there are any. One more task waits for keys that find nobody at rest and for those
//! whose time has come, and hires.
//!
//! **Invariant:** a key is never reconciled twice at once (the queue holds it back until its
//! [`Work`] is dropped).
//! **Invariant:** whatever a reconcile does - fail, panic, hang past its deadline - the pool goes
//! on.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, ReusableBoxFuture};
use tracing::Instrument;

use super::context::Shared;
use super::crew::Crew;
use super::{Context, Next, Reconciler};
use crate::cache::{Key, Malformed, Reader};
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::kind::Object;
use crate::metrics::{ControllerMetrics, Outcome};
use crate::queue::{Add, Hands, Work, WorkQueue};

/// A reconcile that runs for longer is named in the log, as long as it does.
const SLOW: Duration = Duration::from_secs(60);

/// The least time between two looks at what runs.
const LOOKS_APART: Duration = Duration::from_secs(5);

/// Keys a task works off before it lets others run.
const TURNS_MAX: usize = 32;

/// The author's reconciler behind one pointer.
pub(crate) trait DynReconciler<K: Object>: Send + Sync {
    /// Prepares a run, in the room of one that ended if there is any.
    fn run(self: Arc<Self>, cx: Context<K>, room: &mut Option<Run>) -> &mut Run;
}

/// A reconcile that runs or ended.
type Run = ReusableBoxFuture<'static, Result<Next>>;

impl<K: Object, R: Reconciler<K>> DynReconciler<K> for R {
    fn run(self: Arc<Self>, cx: Context<K>, room: &mut Option<Run>) -> &mut Run {
        // Inside an async block, so that a panic before the first await is caught as well.
        let run = async move { self.reconcile(cx).await.map_err(Error::other) };
        match room.take() {
            Some(mut old) => {
                old.set(run);
                room.insert(old)
            }
            None => room.insert(Run::new(run)),
        }
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
    crew: Crew,
    stop: CancellationToken,
    abort: CancellationToken,
    /// Where tasks are spawned, also by those who add keys from elsewhere.
    runtime: Handle,
    /// Set once `stop` was seen: cheaper to look at.
    stopping: AtomicBool,
}

/// The seat of a task in the crew.
struct Place<K: Object> {
    shift: Arc<Shift<K>>,
    at: usize,
}

/// What a task uses again for its next reconcile: with many in flight, taking and giving back
/// memory would be a fifth of what each costs.
struct Desk<K: Object> {
    cx: Option<Context<K>>,
    run: Option<Run>,
}

/// Sees to it that nothing outlives the pool, not even one whose future is dropped.
struct Last<K: Object>(Arc<Shift<K>>);

/// Tells of a reconcile that is dropped before it ended.
struct Underway<'a> {
    metrics: &'a ControllerMetrics,
    abort: &'a CancellationToken,
}

// === impl Shift ===

impl<K: Object> Shift<K> {
    /// Takes a key if one is ready and there is room for it, which is reserved then.
    fn take(&self) -> Option<Work<Key>> {
        if !self.crew.reserve() {
            return None;
        }
        let work = self.pool.queue.try_get();
        if work.is_none() {
            self.crew.release();
        }
        work
    }

    /// Waits for a key for which there is room; `None` once the queue is shut down.
    async fn next(&self) -> Option<Work<Key>> {
        loop {
            self.crew.has_room().await;
            if !self.pool.queue.ready().await {
                return None;
            }
            // Another may have taken the key or the room meanwhile.
            if let Some(work) = self.take() {
                return Some(work);
            }
        }
    }

    fn stops(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Has a key worked off, for which room is reserved.
    fn begin(self: &Arc<Self>, work: Work<Key>) {
        self.crew.call(work, |at, work| {
            let place = Place { shift: self.clone(), at };
            self.runtime.spawn(async move {
                let mut desk = Desk { cx: None, run: None };
                let mut work = Some(work);
                while let Some(first) = work {
                    place.shift.drain(first, &mut desk).await;
                    work = poll_fn(|cx| place.shift.crew.poll_rest(place.at, cx)).await;
                }
            })
        });
    }

    /// Works off `first` and whatever is ready after it.
    async fn drain(&self, first: Work<Key>, desk: &mut Desk<K>) {
        let mut turns = 0;
        let mut next = Some(first);
        while let Some(work) = next {
            self.pool.one(&work, &self.abort, desk).await;
            turns += 1;
            if turns % TURNS_MAX == 0 {
                drop(work);
                tokio::task::yield_now().await;
                next = if self.stops() { None } else { self.pool.queue.try_get() };
            } else {
                next = if self.stops() { None } else { work.next() };
            }
        }
    }
}

impl<K: Object> Hands<Key> for Shift<K> {
    fn reserve(&self) -> bool {
        self.crew.rests() && !self.stop.is_cancelled() && self.crew.reserve()
    }

    fn give(self: Arc<Self>, work: Work<Key>) {
        self.begin(work);
    }
}

// === impl Place ===

impl<K: Object> Drop for Place<K> {
    fn drop(&mut self) {
        self.shift.crew.leave(self.at);
    }
}

// === impl Last ===

impl<K: Object> Drop for Last<K> {
    fn drop(&mut self) {
        self.0.abort.cancel();
        self.0.pool.queue.set_hands(None);
        self.0.crew.close();
        self.0.crew.abort();
    }
}

// === impl Underway ===

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if self.abort.is_cancelled() {
            self.metrics.abandoned();
            tracing::warn!("reconcile dropped: the grace period is over");
        }
    }
}

// === impl Pool ===

impl<K: Object> Pool<K> {
    /// Works until `stop`, then waits for what is under way until `abort`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken, abort: CancellationToken) {
        let most = self.workers.clamp(1, 1 << 28);
        let abort = abort.child_token();
        let (crew, stopping) = (Crew::new(most), AtomicBool::new(false));
        let runtime = Handle::current();
        let shift = Arc::new(Shift { pool: self, crew, stop, abort, runtime, stopping });
        shift.pool.queue.set_hands(Some(shift.clone()));
        let _nothing_outlives_this = Last(shift.clone());
        let Shift { pool, crew, stop, abort, .. } = &*shift;
        let (mut look, mut thin, mut turns) = (None, None, 0_usize);
        loop {
            // What is ready is handed on without much ado; now and then there is a look around.
            turns = (turns + 1) % TURNS_MAX;
            if turns > 0
                && !stop.is_cancelled()
                && let Some(work) = shift.take()
            {
                shift.begin(work);
                tokio::task::consume_budget().await;
                continue;
            }
            // Only while there are tasks; an idle controller wakes nobody. Those at rest count, for
            // the keys that they are given do not come by here.
            let (now, any) = (Instant::now(), crew.any());
            if due(&mut look, any, now) {
                look = look.map(|_| now + pool.complain());
            }
            if due(&mut thin, any, now) {
                crew.look();
            }
            let work = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = shift.next() => match next {
                    Some(next) => next,
                    None => break,
                },
                () = at(look.into_iter().chain(thin).min()) => continue,
            };
            shift.begin(work);
        }
        shift.stopping.store(true, Ordering::Release);
        pool.queue.shutdown();
        crew.close();
        tokio::select! {
            biased;
            () = crew.ended() => {}
            () = abort.cancelled() => {
                // What was aborted ends at its next await; nothing of it may outlive the pool.
                crew.abort();
                crew.ended().await;
            }
        }
    }

    /// Names the reconcile that runs longest if that is too long, and tells when to look again:
    /// when the next one can be.
    fn complain(&self) -> Duration {
        let Some((key, took)) = self.queue.longest() else { return SLOW };
        if took < SLOW {
            return (SLOW - took).max(LOOKS_APART);
        }
        tracing::warn!(
            controller = %self.shared.controller,
            controllerGroup = self.shared.kind.group(),
            controllerKind = self.shared.kind.kind(),
            namespace = key.namespace().unwrap_or_default(),
            name = key.name(),
            ?took,
            "Reconcile does not return"
        );
        SLOW
    }

    async fn one(&self, work: &Work<Key>, abort: &CancellationToken, desk: &mut Desk<K>) {
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
        let mut attempt = pin!(self.attempt(key, abort, desk).instrument(span));
        let (result, took) = attempt.as_mut().await;
        let span = attempt.span();
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

    async fn attempt(
        &self,
        key: &Key,
        abort: &CancellationToken,
        desk: &mut Desk<K>,
    ) -> (Result<Next>, Duration) {
        let underway = Underway { metrics: &self.metrics, abort };
        let began = Instant::now();
        self.metrics.started();
        tracing::trace!("Reconciling");
        // Everything of the author's is within: how the object decodes, the reconcile, its drop.
        let caught = AssertUnwindSafe(self.reconcile(key, desk)).catch_unwind().await;
        let result = caught.unwrap_or_else(|panic| {
            self.metrics.panicked();
            Err(Error::Panic(panic_text(&*panic)))
        });
        std::mem::forget(underway);
        (result, began.elapsed())
    }

    /// Records that an object does not decode. There is no retry: the next change of the object
    /// brings the key back.
    fn undecodable(&self, key: &Key, malformed: &Malformed) -> Error {
        let shared = &self.shared;
        let regarding = key.object_reference(&shared.kind.api_resource());
        let note = format!("the object cannot be read: {}", malformed.message);
        shared.recorder.publish(EventType::Warning, regarding, "Undecodable", "Reconcile", note);
        let what = format!("{} {key}", shared.kind);
        let source = serde::de::Error::custom(&malformed.message);
        Error::terminal(Error::Decode { what, source })
    }

    async fn reconcile(&self, key: &Key, desk: &mut Desk<K>) -> Result<Next> {
        let failures = self.queue.failures(key);
        let before = desk.cx.take();
        let cx = Context::new(before, &self.shared, &self.reader, key.clone(), failures)
            .map_err(|malformed| self.undecodable(key, &malformed))?;
        let run = self.reconciler.clone().run(cx.clone(), &mut desk.run);
        let result = match self.timeout {
            None => run.await,
            // In a box, so that a reconcile without a deadline has no room for a timer.
            Some(limit) => match Box::pin(tokio::time::timeout(limit, run)).await {
                Ok(result) => result,
                Err(_) => {
                    desk.run = None;
                    self.metrics.timed_out();
                    Err(Error::Timeout { action: format!("reconcile {key}"), after: limit })
                }
            },
        };
        desk.cx = cx.cleared();
        result
    }

    /// Files the outcome: forget, again later, or back off.
    fn settle(&self, work: &Work<Key>, result: Result<Next>, took: Duration) {
        let (key, priority) = (work.key(), work.priority());
        if result.as_ref().is_err_and(Error::is_conflict) {
            self.metrics.conflicted();
        }
        match result {
            Ok(Next::Done) => {
                self.metrics.ended(Outcome::Success, took);
                self.queue.forget(key);
                tracing::trace!("Reconcile successful");
            }
            Ok(Next::After(Duration::ZERO)) => {
                self.metrics.ended(Outcome::RequeueAfter, took);
                let add = Add { priority, after: None, rate_limited: true };
                let retry = self.queue.add_with(key, add);
                tracing::trace!(?retry, "Reconcile successful");
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

/// Tells whether it is time for the next look at what is `there`, and sets the one after.
fn due(look: &mut Option<Instant>, there: bool, now: Instant) -> bool {
    let due = look.is_some_and(|at| now >= at);
    *look = look.filter(|_| there && !due).or_else(|| there.then_some(now + SLOW));
    due
}

/// Waits until a moment, or for ever.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Returns the message of a caught panic, with its file and line if they are known.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        *text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no text"
    };
    match crate::panic::location() {
        Some(location) => format!("{text} (at {location})"),
        None => text.to_string(),
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
