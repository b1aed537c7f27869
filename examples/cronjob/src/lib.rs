//! The CronJob operator: a job at every time that a schedule names.
//!
//! [`CronJob`] is the custom resource, [`reconcile`] does one round, [`schedule`] decides what is
//! due, and [`history`] sorts the jobs that exist.

pub mod history;
pub mod schedule;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobTemplateSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::PropagationPolicy;
use serde_json::json;
use windlass::client::Deletion;
use windlass::{Context, Controller, Error, Next, Operator, Result, api, k8s};

use crate::history::{History, SCHEDULED_AT};
use crate::schedule::Schedule;

/// Jobs on a schedule.
#[api(
    group = "batch.tutorial.kubebuilder.io",
    version = "v1",
    kind = "CronJob",
    status = CronJobStatus,
    column("Schedule", ".spec.schedule"),
    column("Suspend", ".spec.suspend"),
    column("Active", ".status.active[*].name"),
    column("Last schedule", ".status.lastScheduleTime", type = "date"),
    column("Age", ".metadata.creationTimestamp"),
    cel("size(self.metadata.name) <= 52", message = "the name is part of the names of jobs: at most 52 characters")
)]
pub struct CronJobSpec {
    /// When jobs run: five fields as in crontab, or `@hourly` and the like, in UTC.
    #[k8s(min_length = 1, max_length = 256)]
    pub schedule: String,
    /// How late a job may start, in seconds. One that would be later is left out.
    #[k8s(min = 0)]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a job is due while another one runs.
    #[k8s(default = ConcurrencyPolicy::Allow)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Whether no further jobs start.
    #[k8s(default = false)]
    pub suspend: bool,
    /// The jobs.
    pub job_template: JobTemplateSpec,
    /// How many successful jobs are kept.
    #[k8s(min = 0, default = 3)]
    pub successful_jobs_history_limit: i32,
    /// How many failed jobs are kept.
    #[k8s(min = 0, default = 1)]
    pub failed_jobs_history_limit: i32,
}

/// What happens when a job is due while another one runs.
#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Both run.
    Allow,
    /// The new one waits for the old one.
    Forbid,
    /// The old one is deleted.
    Replace,
}

/// What the operator reports.
#[k8s(optional)]
#[derive(Default)]
pub struct CronJobStatus {
    /// The jobs that run.
    #[k8s(list = atomic)]
    pub active: Vec<ObjectReference>,
    /// The latest time for which a job was made.
    pub last_schedule_time: Option<Time>,
    /// `Ready` is true while the schedule is valid and the last reconcile has succeeded.
    #[k8s(list = map("type"))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that the conditions are about.
    pub observed_generation: Option<i64>,
}

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    let template = serde_json::from_value(json!({"spec": {"template": {"spec": {
        "restartPolicy": "OnFailure",
        "containers": [{"name": "hello", "image": "busybox", "args": ["date"]}],
    }}}}));
    let spec = CronJobSpec {
        schedule: "*/1 * * * *".into(),
        starting_deadline_seconds: Some(60),
        concurrency_policy: ConcurrencyPolicy::Allow,
        suspend: false,
        job_template: template.expect("is a template of jobs"),
        successful_jobs_history_limit: 3,
        failed_jobs_history_limit: 1,
    };
    Operator::new("cronjob-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<CronJob>()
        .sample(&CronJob::new("cronjob-sample", spec))
        .controller(controller())
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<CronJob> {
    Controller::builder("cronjob").owns::<Job>().deletes::<Job>().conditions().build(reconcile)
}

/// Does one round for one CronJob: reports, cleans up, and starts the job that is due.
///
/// # Errors
///
/// Fails if the schedule is invalid, which no retry changes, or if the API server refuses a request.
pub async fn reconcile(cx: Context<CronJob>) -> Result<Next> {
    let Some(cron_job) = cx.object() else { return Ok(Next::Done) };
    if cron_job.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Done); // the garbage collector deletes the jobs
    }
    let spec = &cron_job.spec;
    let history = History::of(cx.list::<Job>().owned().items()?);
    let mut last = None;
    cx.status(|status| {
        // Jobs are cleaned up, and the time of the last one has to outlive them.
        let known = status.last_schedule_time.as_ref().map(|time| time.0);
        last = history.last().max(known);
        status.last_schedule_time = last.map(Time);
        status.active = history.references();
    })
    .await?;
    let limits = (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit);
    for job in history.superfluous(limits.0, limits.1) {
        delete(&cx, job).await?;
    }

    let schedule = Schedule::new(&spec.schedule).map_err(Error::terminal)?;
    if spec.suspend {
        return Ok(Next::Done);
    }
    let created = cron_job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let now = cx.clock().now();
    if let Some(due) = schedule.missed(last.or(created).unwrap_or(now), now) {
        start(&cx, spec, &history, due, now).await?;
    }
    Ok(next(&schedule, now))
}

/// Starts the job of a time, unless it is too late or another job is in the way.
async fn start(
    cx: &Context<CronJob>,
    spec: &CronJobSpec,
    history: &History,
    due: Timestamp,
    now: Timestamp,
) -> Result<()> {
    let late = now.duration_since(due);
    if spec.starting_deadline_seconds.is_some_and(|most| late > SignedDuration::from_secs(most)) {
        cx.warn("TooLate", format!("the job of {due} was not started in time"));
        return Ok(());
    }
    match spec.concurrency_policy {
        ConcurrencyPolicy::Allow => {}
        // Its end leads to another reconcile, which finds the same time due.
        ConcurrencyPolicy::Forbid if !history.active.is_empty() => return Ok(()),
        ConcurrencyPolicy::Forbid => {}
        ConcurrencyPolicy::Replace => {
            for job in &history.active {
                delete(cx, job).await?;
            }
        }
    }
    cx.apply(&job(cx.name(), spec, due)).await?;
    cx.event("Started", format!("the job of {due}"));
    cx.status(|status| status.last_schedule_time = Some(Time(due))).await?;
    Ok(())
}

/// The job of a time. Its name is the time, so that there can be only one.
fn job(cron_job: &str, spec: &CronJobSpec, due: Timestamp) -> Job {
    let template = spec.job_template.clone();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(format!("{cron_job}-{}", due.as_second()));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(SCHEDULED_AT.into(), due.to_string());
    Job { metadata, spec: template.spec, status: None }
}

async fn delete(cx: &Context<CronJob>, job: &Job) -> Result<()> {
    let deletion = Deletion::only(job).propagation(PropagationPolicy::Background);
    cx.client().api::<Job>().delete(deletion).await.map(drop)
}

/// Returns when to look again: at the next time of the schedule.
fn next(schedule: &Schedule, now: Timestamp) -> Next {
    let until = schedule.after(now).map(|next| next.duration_since(now));
    match until.and_then(|until| Duration::try_from(until).ok()) {
        Some(until) => Next::After(until),
        None => Next::Done,
    }
}
