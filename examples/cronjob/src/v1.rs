//! The version that is stored.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass::{api, k8s};

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
    column("Age", ".metadata.creationTimestamp")
)]
pub struct CronJobSpec {
    /// When jobs run: five fields as in crontab, or `@hourly` and the like, in UTC.
    #[k8s(min_length = 1, max_length = 256)]
    pub schedule: String,
    /// How late a job may start, in seconds. One that would be later is left out.
    #[k8s(min = 0)]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a job is due while another one runs; `Allow` by default.
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Whether no further jobs start.
    pub suspend: Option<bool>,
    /// The jobs.
    pub job_template: JobTemplateSpec,
    /// How many successful jobs are kept; 3 by default.
    #[k8s(min = 0)]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed jobs are kept; 1 by default.
    #[k8s(min = 0)]
    pub failed_jobs_history_limit: Option<i32>,
}

/// What happens when a job is due while another one runs.
#[k8s]
#[derive(Copy, Default, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Both run.
    #[default]
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

// === impl CronJobSpec ===

impl CronJobSpec {
    /// Returns how many successful jobs are kept.
    pub fn successful_jobs_kept(&self) -> i32 {
        self.successful_jobs_history_limit.unwrap_or(3)
    }

    /// Returns how many failed jobs are kept.
    pub fn failed_jobs_kept(&self) -> i32 {
        self.failed_jobs_history_limit.unwrap_or(1)
    }
}
