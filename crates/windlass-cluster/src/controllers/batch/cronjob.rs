//! CronJobs: a job at every moment the schedule names.
//!
//! **Invariant:** a moment leads to one job at most: its name is the moment.

mod schedule;

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job, JobStatus};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PropagationPolicy;
use windlass::cache::Key;
use windlass::client::Deletion;
use windlass::{Context, Controller, Error, Manager, Next, Reconciler, Result, owner};

use crate::controllers::Shared;

use crate::controllers::{amount, pod};
use schedule::{Missed, Schedule};

/// The annotation of a job with the moment it belongs to.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Adds the controller.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let jobs = CronJobs { shared: shared.clone() };
    builder.add(Controller::<CronJob>::builder("cronjob-controller").owns::<Job>().build_with(jobs))
}

struct CronJobs {
    shared: Shared,
}

/// Everything one reconcile knows about a cron job.
struct Sync<'a> {
    cx: &'a Context<CronJob>,
    cron: &'a CronJob,
    spec: &'a CronJobSpec,
    now: Timestamp,
    status: CronJobStatus,
    jobs: Vec<Arc<Job>>,
}

// === impl CronJobs ===

impl Reconciler<CronJob> for CronJobs {
    type Error = Error;

    async fn reconcile(&self, cx: Context<CronJob>) -> Result<Next, Error> {
        let Some(cron) = cx.object() else { return Ok(Next::Done) };
        let spec = &cron.spec;
        let status = cron.status.clone().unwrap_or_default();
        let jobs = cx.list::<Job>().owned().items()?;
        let now = self.shared.server.clock().now();
        let mut sync = Sync { cx: &cx, cron: &cron, spec, now, status, jobs };
        // No event reports the completion of a job that is deleted here.
        let cleaned = sync.clean().await;
        let next = sync.run().await;
        let Sync { mut status, .. } = sync;
        status.active = status.active.filter(|active| !active.is_empty());
        cx.status_as::<CronJobStatus>(|stored| *stored = status.clone()).await?;
        cleaned?;
        Ok(next?.map_or(Next::Done, Next::After))
    }
}

// === impl Sync ===

impl Sync<'_> {
    /// Tracks the jobs and starts one if it is due. Returns when to look again.
    async fn run(&mut self) -> Result<Option<Duration>> {
        self.follow().await?;
        if self.cron.metadata.deletion_timestamp.is_some() || self.spec.suspend == Some(true) {
            return Ok(None);
        }
        let Some(schedule) = self.schedule() else { return Ok(None) };
        let deadline = self.spec.starting_deadline_seconds;
        let latest = schedule.latest(self.since(deadline), self.now);
        let next = Some(self.wait(&schedule));
        let moment = match latest.moment {
            Some(moment) if moment <= self.now => moment,
            _ => return Ok(next),
        };
        if latest.missed == Missed::Many {
            let text = "too many missed start times. Set or decrease \
                        .spec.startingDeadlineSeconds or check clock skew";
            self.cx.warn("TooManyMissedTimes", text);
        }
        let late = self.now.duration_since(moment);
        if deadline.is_some_and(|d| late > SignedDuration::from_secs(d)) {
            let when = moment.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let text = format!("Missed scheduled time to start a job: {when}");
            self.cx.warn("MissSchedule", text);
            return Ok(next);
        }
        let name = format!("{}-{}", self.cx.name(), moment.as_second().div_euclid(60));
        let done = self.status.last_schedule_time.as_ref().is_some_and(|t| t.0 == moment);
        if done || self.active().iter().any(|r| r.name.as_ref() == Some(&name)) {
            return Ok(next);
        }
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !self.active().is_empty() => {
                let text = "Not starting job because prior execution is running and concurrency \
                            policy is Forbid";
                self.cx.event("JobAlreadyActive", text);
                return Ok(next);
            }
            Some("Replace") => self.replace().await?,
            _ => {}
        }
        self.start(moment, name).await?;
        Ok(Some(self.wait(&schedule)))
    }

    fn active(&self) -> &[ObjectReference] {
        self.status.active.as_deref().unwrap_or_default()
    }

    fn is_listed(&self, job: &Job) -> bool {
        self.active().iter().any(|r| r.uid.is_some() && r.uid == job.metadata.uid)
    }

    fn unlist(&mut self, uid: Option<&String>) {
        self.status.active.get_or_insert_default().retain(|r| r.uid.as_ref() != uid);
    }

    /// Removes jobs that have ended or are deleted from the list of running jobs.
    async fn follow(&mut self) -> Result<()> {
        for job in self.jobs.clone() {
            let name = job.metadata.name.as_deref().unwrap_or_default();
            let over = finished(&job);
            match (self.is_listed(&job), over) {
                (false, None) => {
                    let text = "Saw a job that the controller did not create or forgot";
                    self.cx.warn("UnexpectedJob", format!("{text}: {name}"));
                }
                (true, Some(condition)) => {
                    self.unlist(job.metadata.uid.as_ref());
                    let text = format!("Saw completed job: {name}, condition: {condition}");
                    self.cx.event("SawCompletedJob", text);
                }
                _ => {}
            }
            if over == Some("Complete") {
                let ended = job.status.as_ref().and_then(|s| s.completion_time.clone());
                let known = self.status.last_successful_time.as_ref().map(|t| t.0);
                if ended.as_ref().map(|t| t.0) > known {
                    self.status.last_successful_time = ended;
                }
            }
        }
        for reference in self.active().to_vec() {
            let known = self.jobs.iter().any(|j| j.metadata.uid == reference.uid);
            let name = reference.name.clone().unwrap_or_default();
            let key = Key::new(self.cx.namespace(), &name);
            if !known && self.cx.client().api::<Job>().get(&key).await?.is_none() {
                self.cx.event("MissingJob", format!("Active job went missing: {name}"));
                self.unlist(reference.uid.as_ref());
            }
        }
        Ok(())
    }

    fn schedule(&self) -> Option<Schedule> {
        let zone = match self.spec.time_zone.as_deref() {
            None => TimeZone::UTC,
            Some(name) => match TimeZone::get(name) {
                Ok(zone) => zone,
                Err(_) => {
                    let text = format!("invalid timeZone: {name:?}: unknown time zone {name}");
                    self.cx.warn("UnknownTimeZone", text);
                    return None;
                }
            },
        };
        match Schedule::parse(&self.spec.schedule, zone) {
            Ok(schedule) => Some(schedule),
            Err(why) => {
                let text = format!("unparseable schedule: {:?} : {why}", self.spec.schedule);
                self.cx.warn("UnparseableSchedule", text);
                None
            }
        }
    }

    /// From when on moments count.
    fn since(&self, deadline: Option<i64>) -> Timestamp {
        let born = self.cron.metadata.creation_timestamp.as_ref().map_or(self.now, |t| t.0);
        let since = self.status.last_schedule_time.as_ref().map_or(born, |t| t.0);
        let reach = deadline.map(SignedDuration::from_secs);
        let reach = reach.and_then(|reach| self.now.checked_sub(reach).ok());
        reach.map_or(since, |reach| reach.max(since))
    }

    /// How long until the next moment, and a little more.
    fn wait(&self, schedule: &Schedule) -> Duration {
        let since = self.since(None);
        let latest = schedule.latest(since, self.now);
        let from = match (latest.moment, latest.missed) {
            (Some(moment), _) => moment,
            (None, Missed::None) => since,
            (None, _) => self.now,
        };
        // A schedule that never matches is looked at once a year.
        let year = Duration::from_secs(366 * 86_400);
        let Some(next) = schedule.next(from) else { return year };
        let left = Duration::try_from(next.duration_since(self.now)).unwrap_or_default();
        left.saturating_add(Duration::from_millis(100))
    }

    /// Deletes the running jobs, because the concurrency policy is to replace them.
    async fn replace(&mut self) -> Result<()> {
        for reference in self.active().to_vec() {
            let name = reference.name.clone().unwrap_or_default();
            let key = Key::new(self.cx.namespace(), &name);
            match self.cx.client().api::<Job>().get(&key).await {
                Ok(Some(job)) => self.delete(&job).await?,
                Ok(None) => self.unlist(reference.uid.as_ref()),
                Err(error) => {
                    self.cx.warn("FailedGet", format!("Get job: {}", pod::message(&error)));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn start(&mut self, moment: Timestamp, name: String) -> Result<()> {
        let wanted = self.new_job(moment, name)?;
        let made = match self.cx.client().api().create(&wanted).await {
            Ok(made) => {
                let name = made.metadata.name.as_deref().unwrap_or_default();
                self.cx.event("SuccessfulCreate", format!("Created job {name}"));
                made
            }
            Err(error) if error.is_already_exists() => {
                let there = self.cx.client().api::<Job>().get(&Key::of(&wanted)).await?;
                let mine = |job: &&Arc<Job>| owner::is_controlled_by(&***job, self.cron);
                match there.as_ref().filter(mine) {
                    Some(job) if !self.is_listed(job) => (**job).clone(),
                    _ => return Ok(()),
                }
            }
            Err(error) => {
                let text = format!("Error creating job: {}", pod::message(&error));
                self.cx.warn("FailedCreate", text);
                return Err(error);
            }
        };
        self.status.last_schedule_time = Some(amount::time(moment));
        self.status.active.get_or_insert_default().push(ObjectReference {
            api_version: Some("batch/v1".into()),
            kind: Some("Job".into()),
            namespace: made.metadata.namespace,
            name: made.metadata.name,
            uid: made.metadata.uid,
            resource_version: made.metadata.resource_version,
            ..ObjectReference::default()
        });
        Ok(())
    }

    fn new_job(&self, moment: Timestamp, name: String) -> Result<Job> {
        let template = &self.spec.job_template;
        let meta = template.metadata.clone().unwrap_or_default();
        let mut annotations = meta.annotations.unwrap_or_default();
        let zone = self.spec.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok());
        let local = moment.to_zoned(zone.unwrap_or(TimeZone::UTC));
        let offset = if local.offset().is_zero() { "Z" } else { "%:z" };
        let text = local.strftime(&format!("%Y-%m-%dT%H:%M:%S{offset}")).to_string();
        annotations.insert(SCHEDULED.into(), text);
        let mut job = Job {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.cx.namespace().map(Into::into),
                labels: meta.labels,
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        owner::set_controller(self.cron, &mut job)?;
        Ok(job)
    }

    /// Deletes the oldest jobs that are over, beyond what is to be kept.
    async fn clean(&mut self) -> Result<()> {
        let limits = [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ];
        for (condition, limit) in limits {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let over = self.jobs.iter().filter(|j| finished(j) == Some(condition));
            let mut over: Vec<Arc<Job>> = over.cloned().collect();
            over.sort_by_cached_key(|job| {
                let began = job.status.as_ref().and_then(|s| s.start_time.as_ref().map(|t| t.0));
                // Those that never began are kept longest.
                (began.is_none(), began, job.metadata.name.clone())
            });
            let surplus = over.len().saturating_sub(limit);
            for job in over.into_iter().take(surplus) {
                if job.metadata.deletion_timestamp.is_none() {
                    self.delete(&job).await?;
                }
            }
        }
        Ok(())
    }

    async fn delete(&mut self, job: &Job) -> Result<()> {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let how = Deletion::only(job).propagation(PropagationPolicy::Background);
        match self.cx.client().api::<Job>().delete(how).await {
            Ok(_) => {
                self.unlist(job.metadata.uid.as_ref());
                self.cx.event("SuccessfulDelete", format!("Deleted job {name}"));
                Ok(())
            }
            Err(error) => {
                let text = format!("Deleted job: {}", pod::message(&error));
                self.cx.warn("FailedDelete", text);
                Err(error)
            }
        }
    }
}

/// How a job ended; `None` while it runs.
fn finished(job: &Job) -> Option<&'static str> {
    let holds = |status: &JobStatus, type_: &str| {
        status.conditions.iter().flatten().any(|c| c.type_ == type_ && c.status == "True")
    };
    let status = job.status.as_ref()?;
    ["Complete", "Failed"].into_iter().find(|type_| holds(status, type_))
}
