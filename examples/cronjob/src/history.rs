//! The jobs of a CronJob: which ones run, and which ones have ended.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ObjectReference;

/// The annotation of a job with the time that it was made for.
pub const SCHEDULED_AT: &str = "batch.tutorial.kubebuilder.io/scheduled-at";

/// The jobs of a CronJob, each list from the oldest to the newest.
#[derive(Debug, Default)]
pub struct History {
    /// Jobs that run.
    pub active: Vec<Arc<Job>>,
    /// Jobs that have succeeded.
    pub successful: Vec<Arc<Job>>,
    /// Jobs that have failed.
    pub failed: Vec<Arc<Job>>,
}

// === impl History ===

impl History {
    /// Divides jobs by how they ended.
    pub fn of(mut jobs: Vec<Arc<Job>>) -> Self {
        jobs.sort_by_key(|job| (scheduled_at(job), job.metadata.name.clone()));
        let mut history = Self::default();
        for job in jobs {
            let ended = |how: &str| {
                let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
                conditions.into_iter().any(|c| c.type_ == how && c.status == "True")
            };
            match (ended("Complete"), ended("Failed")) {
                (true, _) => history.successful.push(job),
                (_, true) => history.failed.push(job),
                _ => history.active.push(job),
            }
        }
        history
    }

    /// Returns the latest time that a job was made for.
    pub fn last(&self) -> Option<Timestamp> {
        let all = self.active.iter().chain(&self.successful).chain(&self.failed);
        all.filter_map(|job| scheduled_at(job)).max()
    }

    /// Returns references to the jobs that run.
    pub fn references(&self) -> Vec<ObjectReference> {
        let reference = |job: &Arc<Job>| ObjectReference {
            api_version: Some("batch/v1".into()),
            kind: Some("Job".into()),
            name: job.metadata.name.clone(),
            namespace: job.metadata.namespace.clone(),
            uid: job.metadata.uid.clone(),
            ..ObjectReference::default()
        };
        self.active.iter().map(reference).collect()
    }

    /// Returns the ended jobs that exceed the limits, the oldest first.
    pub fn superfluous(&self, successful: i32, failed: i32) -> impl Iterator<Item = &Arc<Job>> {
        beyond(&self.successful, successful).iter().chain(beyond(&self.failed, failed))
    }
}

/// Returns all but the newest jobs.
fn beyond(jobs: &[Arc<Job>], kept: i32) -> &[Arc<Job>] {
    let kept = usize::try_from(kept).unwrap_or_default();
    &jobs[..jobs.len().saturating_sub(kept)]
}

fn scheduled_at(job: &Job) -> Option<Timestamp> {
    job.metadata.annotations.as_ref()?.get(SCHEDULED_AT)?.parse().ok()
}
