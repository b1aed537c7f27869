//! The CronJob operator: a job at every time that a schedule names.
//!
//! [`CronJob`] is the custom resource as it is stored, and [`v2`] another version of it;
//! [`reconcile`] does one round, [`history`] sorts the jobs that exist, and [`webhook`] completes,
//! checks and converts objects.

pub mod history;
pub mod v1;
pub mod v2;
pub mod webhook;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PropagationPolicy;
use serde_json::json;
use windlass::client::Deletion;
use windlass::schedule::Schedule;
use windlass::{Context, Controller, Error, Next, Operator, Result};

use crate::history::{History, SCHEDULED_AT};
pub use crate::v1::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus};

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    let template = serde_json::from_value(json!({"spec": {"template": {"spec": {
        "restartPolicy": "OnFailure",
        "containers": [{"name": "hello", "image": "busybox", "args": ["date"]}],
    }}}}));
    let spec = CronJobSpec {
        schedule: "*/1 * * * *".into(),
        starting_deadline_seconds: Some(60),
        concurrency_policy: None,
        suspend: None,
        job_template: template.expect("is a template of jobs"),
        successful_jobs_history_limit: None,
        failed_jobs_history_limit: None,
    };
    Operator::new("cronjob-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<CronJob>()
        .api::<v2::CronJob>()
        .conversion(webhook::conversion())
        .webhook(webhook::webhook())
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
    for job in history.superfluous(spec.successful_jobs_kept(), spec.failed_jobs_kept()) {
        delete(&cx, job).await?;
    }

    let schedule = Schedule::new(&spec.schedule, "UTC").map_err(Error::terminal)?;
    if spec.suspend == Some(true) {
        return Ok(Next::Done);
    }
    let created = cron_job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let now = cx.clock().now();
    if let Some(due) = schedule.missed(last.or(created).unwrap_or(now), now) {
        start(&cx, spec, &history, due, now).await?;
    }
    Ok(schedule.next(now))
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
    match spec.concurrency_policy.unwrap_or_default() {
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
