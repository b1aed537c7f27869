//! Jobs: pods that run to completion, as many as the spec asks for.
//!
//! One reconcile counts the pods that ended, decides whether the job is over ([`verdict`]), starts
//! or deletes pods ([`manage`]) and files the result ([`track`]).
//!
//! **Invariant:** a pod keeps its finalizer until the status says that it is to be counted, so that
//! no end is counted twice or lost.

mod backoff;
mod condition;
mod finalizers;
mod indexes;
mod manage;
mod pods;
mod policy;
mod track;
mod ttl;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use windlass::cache::{Index, Selection};
use windlass::{Context, Controller, Error, Kind, Manager, Next, Reconciler, Result};

use crate::controllers::Shared;

use crate::controllers::orphans;
use crate::controllers::{amount, pod};
use backoff::Record;
use indexes::Indexes;

pub use ttl::add as add_ttl;

/// The finalizer of pods that are still to be counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label of a pod with its index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The controller that manages jobs without `managedBy`.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Adds the controllers of jobs and of pods that lost their job.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let jobs = Jobs { shared: shared.clone() };
    let controller = Controller::<Job>::builder("job-controller")
        .owns::<Pod>()
        .watch(orphans::watch(Kind::of::<Pod>(), &by_selector()))
        .build_with(jobs);
    builder.add(controller).add(finalizers::controller())
}

/// Jobs by their selectors.
fn by_selector() -> Index<Job, Selection> {
    Index::selectors("selector", |job: &Job| job.spec.as_ref()?.selector.clone())
}

struct Jobs {
    shared: Shared,
}

/// Everything one reconcile knows about a job.
struct Sync<'a> {
    cx: &'a Context<Job>,
    job: &'a Job,
    spec: &'a JobSpec,
    now: Timestamp,
    pods: Vec<Arc<Pod>>,
    active: Vec<Arc<Pod>>,
    status: JobStatus,
    counts: Counts,
    succeeded: i32,
    failed: i32,
    before: Indexes,
    indexes: Indexes,
    failed_indexes: Option<Indexes>,
    /// Failed pods that stay until their index has a new pod, for the count they carry.
    delayed: BTreeMap<i32, Arc<Pod>>,
    finished: Option<JobCondition>,
    record: Record,
    again: Option<Duration>,
}

/// What the status shows of running pods.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    active: i32,
    ready: i32,
    terminating: i32,
}

// === impl Jobs ===

impl Reconciler<Job> for Jobs {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Job>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(job) = cx.object() else {
            finalizers::release_of(cx).await?;
            return Ok(Next::Done);
        };
        let Some(spec) = &job.spec else { return Ok(Next::Done) };
        if !ours(spec) {
            return Ok(Next::Done);
        }
        let status = job.status.clone().unwrap_or_default();
        if condition::is_finished(&status) {
            return Ok(Next::Done);
        }
        if !matches!(mode(spec), "NonIndexed" | "Indexed") {
            return Ok(Next::Done);
        }
        let selector = spec.selector.clone().unwrap_or_default();
        let found = cx.claim(selector, Some(FINALIZER), |_: &Pod| true).await?;
        let now = self.shared.server.clock().now();
        let backoff = cx.memory::<Mutex<Record>>();
        let record = backoff.lock().clone();
        let mut sync = Sync::new(cx, &job, spec, now, found, record);
        sync.run().await?;
        let Sync { record, again, .. } = sync;
        *backoff.lock() = record;
        Ok(again.map_or(Next::Done, Next::After))
    }
}

// === impl Sync ===

impl<'a> Sync<'a> {
    fn new(
        cx: &'a Context<Job>,
        job: &'a Job,
        spec: &'a JobSpec,
        now: Timestamp,
        found: Vec<Arc<Pod>>,
        record: Record,
    ) -> Self {
        let mut status = job.status.clone().unwrap_or_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        let active: Vec<_> = found.iter().filter(|p| pod::is_active(p)).cloned().collect();
        let going = |p: &&Arc<Pod>| pod::is_terminating(p) && !pod::is_finished(p);
        let counts = Counts {
            active: amount::number(active.len()),
            ready: amount::number(active.iter().filter(|p| pod::is_ready(p)).count()),
            terminating: amount::number(found.iter().filter(going).count()),
        };
        Self {
            cx,
            job,
            spec,
            now,
            pods: found,
            active,
            status,
            counts,
            succeeded: 0,
            failed: 0,
            before: Indexes::default(),
            indexes: Indexes::default(),
            failed_indexes: None,
            delayed: BTreeMap::new(),
            finished: None,
            record,
            again: None,
        }
    }

    async fn run(&mut self) -> Result<()> {
        self.count();
        if self.status.start_time.is_none() && !suspended(self.spec) {
            self.status.start_time = Some(amount::time(self.now));
        }
        self.finished = self.verdict();
        let managed =
            if self.finished.is_some() { self.end_active().await } else { self.go_on().await };
        self.status.active = Some(self.counts.active).filter(|n| *n != 0);
        self.status.ready = Some(self.counts.ready);
        self.status.terminating = Some(self.counts.terminating);
        self.track().await?;
        managed
    }

    /// The job is over: what runs has to end.
    async fn end_active(&mut self) -> Result<()> {
        let mut deleted = 0;
        let mut outcome = Ok(());
        for running in self.active.clone() {
            match pod::delete(self.cx, &running).await {
                Ok(()) => {
                    deleted += 1;
                    self.counts.ready -= i32::from(pod::is_ready(&running));
                }
                Err(error) => outcome = Err(error),
            }
        }
        if deleted != self.counts.active {
            self.finished = None;
        }
        self.counts.active -= deleted;
        self.counts.terminating += deleted;
        outcome
    }

    /// The job is not over: starts or deletes pods and looks whether it is over now.
    async fn go_on(&mut self) -> Result<()> {
        let living = self.job.metadata.deletion_timestamp.is_none();
        let managed = if living { self.manage().await } else { Ok(()) };
        let done = match self.spec.completions {
            None => self.succeeded > 0,
            Some(wanted) => self.succeeded >= wanted,
        };
        if done && self.counts.active == 0 {
            self.finished = Some(condition::new(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
                self.now,
            ));
        } else if living {
            self.publish_suspension();
        }
        managed
    }

    fn publish_suspension(&mut self) {
        let suspended = suspended(self.spec);
        let conditions = self.status.conditions.get_or_insert_default();
        // A condition that is missing is not added just to be false.
        let (event, reason, text) = match suspended {
            true => ("Suspended", "JobSuspended", "Job suspended"),
            false if conditions.iter().all(|c| c.type_ != "Suspended") => {
                self.status.conditions = self.status.conditions.take().filter(|c| !c.is_empty());
                return;
            }
            false => ("Resumed", "JobResumed", "Job resumed"),
        };
        let condition = self.cx.condition("Suspended", suspended).reason(reason).message(text);
        if condition.set(conditions) {
            let changed = conditions.iter_mut().filter(|c| c.type_ == "Suspended");
            changed.for_each(|c| c.last_probe_time.clone_from(&c.last_transition_time));
            self.status.start_time = Some(amount::time(self.now)).filter(|_| !suspended);
            self.cx.event(event, text);
        }
    }
}

/// Returns `true` if this controller manages the job.
fn ours(spec: &JobSpec) -> bool {
    spec.managed_by.as_deref().is_none_or(|manager| manager == MANAGER)
}

fn mode(spec: &JobSpec) -> &str {
    spec.completion_mode.as_deref().unwrap_or("NonIndexed")
}

fn indexed(spec: &JobSpec) -> bool {
    mode(spec) == "Indexed"
}

fn suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

/// Returns `true` if a pod that is being deleted is replaced only after it has ended.
fn replaces_failed_only(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed")
}
