//! What a worker does with one key: reconcile the object and record the outcome.
//!
//! **Invariant:** nothing of the author's can end the worker: a panic is caught and retried, and a
//! reconcile that exceeds its timeout is dropped.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, ReusableBoxFuture};
use tracing::Instrument;

use super::attempt_id::AttemptIds;
use super::cause::{Causes, flag};
use super::cause_table::CauseTable;
use super::conflicts::Conflicts;
use super::context::Shared;
use super::rule::with_rule;
use super::runs::{Run as PastRun, Runs};
use super::switches::Switches;
use super::write_loop::WriteLoopDetector;
use super::{Context, Next, Reconciler};
use crate::cache::{Cached, Key, Malformed, Reader};
use crate::client::Requests;
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::kind::Object;
use crate::metrics::{ControllerMetrics, Outcome};
use crate::queue::{Add, Work, WorkQueue};

/// A reconcile that runs for longer is logged, again and again.
const SLOW: Duration = Duration::from_secs(60);

/// Reconciles of one worker at one instant after which those of each key are counted.
const AT_ONCE_FEW: u32 = 500;

/// The shortest time between two checks for slow reconciles.
const CHECKS_APART: Duration = Duration::from_secs(5);

/// A reconciler of any type.
pub(crate) trait DynReconciler<K: Object>: Send + Sync {
    /// Creates the future of a reconcile, in the memory of the one before if there is any.
    fn run(self: Arc<Self>, cx: Context<K>, memory: &mut Option<Run>) -> &mut Run;
}

/// The future of a reconcile, whose memory is used again.
type Run = ReusableBoxFuture<'static, Result<Next>>;

impl<K: Object, R: Reconciler<K>> DynReconciler<K> for R {
    fn run(self: Arc<Self>, cx: Context<K>, memory: &mut Option<Run>) -> &mut Run {
        // Inside an async block, so that a panic before the first await is caught as well.
        let run = async move { self.reconcile(cx).await.map_err(Error::other) };
        match memory.take() {
            Some(mut old) => {
                old.set(run);
                memory.insert(old)
            }
            None => memory.insert(Run::new(run)),
        }
    }
}

/// Reconciles keys of one controller; shared by all tasks of its pool.
pub(crate) struct Worker<K: Object> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<WorkQueue<Key>>,
    pub(crate) reader: Reader<K>,
    pub(crate) reconciler: Arc<dyn DynReconciler<K>>,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) timeout: Option<Duration>,
    /// Whether the conditions of the object are written after each reconcile.
    pub(crate) conditions: bool,
    pub(super) conflicts: Conflicts,
    pub(super) causes: Arc<CauseTable>,
    pub(super) runs: Arc<Runs>,
    pub(super) loops: Arc<WriteLoopDetector>,
    pub(crate) ids: AttemptIds,
}

/// Memory that a task uses again for its next reconcile: with many in flight, allocating it would
/// be a fifth of the cost of each.
pub(super) struct Scratch<K: Object> {
    cx: Option<Context<K>>,
    run: Option<Run>,
    /// The object of the current reconcile.
    object: Option<Cached<K>>,
    requests: Arc<Requests>,
    /// What is known about the current reconcile, besides its result.
    causes: Causes,
    reads: u32,
    /// The write that was not sent because the object is paused.
    paused: Option<String>,
    /// When the last reconcile ended, and how many before it ended at the same instant.
    ended: Option<Instant>,
    at_once: u32,
}

/// How a reconcile ended.
struct Ended {
    outcome: &'static str,
    error: Option<String>,
    /// After which time the key is reconciled again.
    next: Option<Duration>,
}

/// Logs and counts a reconcile that is dropped before it has ended.
struct AttemptGuard<'a> {
    metrics: &'a ControllerMetrics,
    abort: &'a CancellationToken,
}

// === impl Scratch ===

impl<K: Object> Default for Scratch<K> {
    fn default() -> Self {
        let (requests, causes) = (Arc::default(), Causes::default());
        Self {
            cx: None,
            run: None,
            object: None,
            requests,
            causes,
            reads: 0,
            paused: None,
            ended: None,
            at_once: 0,
        }
    }
}

impl<K: Object> Scratch<K> {
    /// Counts the reconciles between which no time passed.
    fn count(&mut self, ended: Instant) {
        let again = self.ended.replace(ended) == Some(ended);
        self.at_once = if again { self.at_once.saturating_add(1) } else { 0 };
    }
}

// === impl AttemptGuard ===

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        if self.abort.is_cancelled() {
            self.metrics.abandoned();
            tracing::warn!("reconcile dropped: the grace period is over");
        }
    }
}

// === impl Worker ===

impl<K: Object> Worker<K> {
    /// Logs the reconcile that has been running for the longest time, if that is too long. Returns
    /// the time until the next one can be slow.
    pub(super) fn warn_if_slow(&self) -> Duration {
        let Some((key, took)) = self.queue.longest() else { return SLOW };
        if took < SLOW {
            return (SLOW - took).max(CHECKS_APART);
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

    /// Reconciles a key and queues it again if it has to be.
    pub(super) async fn work_on(
        &self,
        work: &Work<Key>,
        abort: &CancellationToken,
        scratch: &mut Scratch<K>,
    ) {
        let shared = &self.shared;
        let key = work.key();
        if scratch.at_once > AT_ONCE_FEW {
            Box::pin(self.hold_back(key, scratch)).await;
        }
        let (flags, causes) = (work.flags(), self.causes.take(key, work.flags()));
        scratch.object = self.reader.object(key);
        let log_level = scratch.object.as_ref().and_then(|object| self.log_level(object));
        let span = tracing::info_span!(
            "reconcile",
            controller = %shared.controller,
            controllerGroup = shared.kind.group(),
            controllerKind = shared.kind.kind(),
            namespace = key.namespace().unwrap_or_default(),
            name = key.name(),
            reconcileID = tracing::field::Empty,
            causes = tracing::field::Empty,
            logLevel = log_level,
        );
        if !span.is_disabled() {
            span.record("reconcileID", tracing::field::display(self.ids.next()));
            span.record("causes", causes.text());
        }
        (scratch.causes, scratch.reads) = (causes, 0);
        let (result, took) = self.attempt(key, abort, scratch).instrument(span.clone()).await;
        self.forget_deleted(key);
        let settled =
            catch_unwind(AssertUnwindSafe(|| span.in_scope(|| self.record(work, result, took))));
        let mut causes = std::mem::take(&mut scratch.causes);
        causes.flags = flags;
        let ended = settled.unwrap_or_else(|panic| {
            // Only the author's limiter can panic here; the key must not be lost.
            self.metrics.panicked();
            let panic = panic_text(&*panic);
            span.in_scope(|| {
                tracing::error!(panic, "the limiter panicked; the key is retried in a second");
            });
            let next = Duration::from_secs(1);
            self.queue.add_with(key, Add::default().priority(work.priority()).after(next));
            Ended { outcome: "panic", error: Some(panic), next: Some(next) }
        });
        let Ended { outcome, error, next } = match scratch.paused.take() {
            Some(refused) => Ended { outcome: "paused", error: Some(refused), ..ended },
            None => ended,
        };
        let (reads, requests) = (scratch.reads, scratch.requests.take());
        let (key, ended) = (key.clone(), Instant::now());
        scratch.count(ended);
        self.runs.add(PastRun { key, ended, took, causes, reads, requests, outcome, error, next });
    }

    /// Lets time pass before the reconcile of a key that is reconciled again and again without it.
    async fn hold_back(&self, key: &Key, scratch: &mut Scratch<K>) {
        let delay = self.loops.reconcile(key, || self.runs.last_requests(key));
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
            // Time has passed by this delay only, so the count continues.
            scratch.ended = Some(Instant::now());
        }
    }

    /// Drops what is remembered about an object that does not exist any more. It may have been
    /// deleted during the reconcile.
    fn forget_deleted(&self, key: &Key) {
        if self.shared.memory.is_used() {
            let object = self.reader.object(key);
            self.shared.memory.keep_only(key, object.as_ref().map(|object| object.uid()));
        }
    }

    /// Returns the level from which on reconciles of an object are logged, if it has one of its own.
    fn log_level(&self, object: &Cached<K>) -> Option<&'static str> {
        let prefix = &self.shared.switch_prefix;
        let level = Switches::of(object, prefix)?.log_level(prefix).ok()??;
        #[cfg(feature = "log")]
        crate::log::raise(level);
        Some(level.as_str())
    }

    async fn attempt(
        &self,
        key: &Key,
        abort: &CancellationToken,
        scratch: &mut Scratch<K>,
    ) -> (Result<Next>, Duration) {
        let guard = AttemptGuard { metrics: &self.metrics, abort };
        let began = Instant::now();
        self.metrics.started();
        tracing::trace!("Reconciling");
        // All code of the author runs in here: decoding, the reconcile and its drop.
        let requests = scratch.requests.clone();
        let run = AssertUnwindSafe(self.reconcile(key, scratch)).catch_unwind();
        let caught = requests.of(run).await;
        let result = match caught {
            Ok(result) => result,
            Err(panic) => {
                self.metrics.panicked();
                let text = panic_text(&*panic);
                drop(panic);
                // If it was the decoding that panicked, it may panic again.
                let reported = self.report_panic(key, Error::Panic(text.clone()));
                let caught = AssertUnwindSafe(Box::pin(reported)).catch_unwind().await;
                caught.unwrap_or(Err(Error::Panic(text)))
            }
        };
        std::mem::forget(guard);
        (result, began.elapsed())
    }

    /// Records that an object does not decode. There is no retry: the next change of the object
    /// brings the key back.
    fn undecodable(&self, key: &Key, malformed: &Malformed) -> Error {
        let shared = &self.shared;
        let regarding = key.object_reference(&shared.kind);
        let note = format!("the object cannot be read: {}", malformed.message);
        shared.recorder.publish(EventType::Warning, regarding, "Undecodable", "Reconcile", note);
        let what = format!("{} {key}", shared.kind);
        let source = serde::de::Error::custom(&malformed.message);
        Error::terminal(Error::Decode { what, source })
    }

    async fn reconcile(&self, key: &Key, scratch: &mut Scratch<K>) -> Result<Next> {
        let failures = self.queue.failures(key);
        let (before, object) = (scratch.cx.take(), scratch.object.take());
        let causes = std::mem::take(&mut scratch.causes);
        let cx = Context::new(before, &self.shared, object, key.clone(), failures, causes)
            .map_err(|malformed| self.undecodable(key, &malformed))?;
        cx.heed(&self.shared.switch_prefix);
        let run = self.reconciler.clone().run(cx.clone(), &mut scratch.run);
        let result = match self.timeout {
            None => run.await,
            // Boxed, so that a reconcile without a timeout needs no memory for a timer.
            Some(limit) => match Box::pin(tokio::time::timeout(limit, run)).await {
                Ok(result) => result,
                Err(_) => {
                    scratch.run = None;
                    self.metrics.timed_out();
                    Err(Error::Timeout { action: format!("reconcile {key}"), after: limit })
                }
            },
        };
        let result = result.map(|next| cx.next(next)).map_err(with_rule);
        let result = self.report(&cx, result).await.map_err(with_rule);
        cx.settle_references(result.is_ok());
        let result = match result {
            Err(error) if error.is_paused() => {
                let refused = error.chain();
                tracing::debug!(refused, "Paused");
                cx.event("Paused", refused.clone());
                scratch.paused = Some(refused);
                Ok(cx.next(Next::Done))
            }
            result => result,
        };
        (scratch.cx, scratch.causes, scratch.reads) = cx.cleared();
        result
    }

    /// Writes the conditions of the object, if this controller does.
    async fn report(&self, cx: &Context<K>, result: Result<Next>) -> Result<Next> {
        if !self.conditions {
            return result;
        }
        // Boxed, so that other controllers need no memory for it.
        match (Box::pin(cx.write_conditions(&result)).await, result) {
            (Err(error), Ok(_)) => Err(error),
            // Otherwise nobody would write the condition of a pause before the next change.
            (Err(error), Err(refused)) if refused.is_paused() => Err(error),
            (Err(error), result) => {
                tracing::debug!(error = error.chain(), "the conditions cannot be written");
                result
            }
            (Ok(()), result) => result,
        }
    }

    /// Reports a reconcile that panicked: its own context is lost.
    async fn report_panic(&self, key: &Key, error: Error) -> Result<Next> {
        let failures = self.queue.failures(key);
        let causes = Causes::default();
        let object = self.reader.object(key);
        match Context::new(None, &self.shared, object, key.clone(), failures, causes) {
            Ok(cx) if self.conditions => self.report(&cx, Err(error)).await,
            _ => Err(error),
        }
    }

    /// Records the outcome: forget the failures, queue the key again later, or back off.
    fn record(&self, work: &Work<Key>, result: Result<Next>, took: Duration) -> Ended {
        let (key, add) = (work.key(), Add::default().priority(work.priority()));
        if let Err(error) = &result
            && error.is_conflict()
        {
            self.metrics.conflicted();
            if let Some(wait) = self.conflicts.wait(key).filter(|_| !error.is_terminal()) {
                self.metrics.ended(Outcome::RequeueAfter, took);
                tracing::debug!(error = error.chain(), ?wait, "Conflict, reconciling again");
                self.causes.failed(key, &error.chain());
                self.queue.add_with(key, add.flags(flag::RETRY).after(wait));
                return Ended::failed("conflict", error, Some(wait));
            }
        } else {
            self.conflicts.forget(key);
        }
        match result {
            // A context has turned a time into a wait.
            Ok(Next::Done | Next::At(_)) => {
                self.metrics.ended(Outcome::Success, took);
                self.queue.forget(key);
                tracing::trace!(took = format_args!("{took:.1?}"), "Reconcile successful");
                Ended { outcome: "done", error: None, next: None }
            }
            Ok(Next::After(after)) => {
                self.metrics.ended(Outcome::RequeueAfter, took);
                let add = add.flags(flag::DUE);
                if after.is_zero() {
                    let retry = self.queue.add_with(key, add.rate_limited());
                    tracing::trace!(
                        took = format_args!("{took:.1?}"),
                        ?retry,
                        "Reconcile successful"
                    );
                    return Ended { outcome: "done", error: None, next: Some(retry) };
                }
                self.queue.forget(key);
                tracing::trace!(took = format_args!("{took:.1?}"), ?after, "Reconcile successful");
                self.queue.add_with(key, add.after(after));
                Ended { outcome: "done", error: None, next: Some(after) }
            }
            Err(error) if error.is_terminal() => {
                self.metrics.ended(Outcome::Terminal, took);
                tracing::error!(error = error.chain(), "Reconciler error, not retried");
                Ended::failed("terminal error", &error, None)
            }
            Err(error) => {
                self.metrics.ended(Outcome::Error, took);
                self.causes.failed(key, &error.chain());
                let retry = self.queue.add_with(key, add.flags(flag::RETRY).rate_limited());
                if error.is_fenced() {
                    tracing::debug!(error = error.chain(), ?retry, "Reconciler error");
                } else {
                    tracing::error!(error = error.chain(), ?retry, "Reconciler error");
                }
                Ended::failed("error", &error, Some(retry))
            }
        }
    }
}

// === impl Ended ===

impl Ended {
    fn failed(outcome: &'static str, error: &Error, next: Option<Duration>) -> Self {
        Self { outcome, error: Some(error.chain()), next }
    }
}

/// Returns the message of a caught panic, with its file and line if they are known.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        *text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    };
    match crate::panic::location() {
        Some(location) => format!("{text} (at {location})"),
        None => text.to_string(),
    }
}
