//! Filing what ended: first into the status, then off with the finalizers, then the counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use windlass::Result;

use super::{Sync, condition, indexed, pods, policy};
use crate::controllers::{amount, pod};

/// The most pods the status names at once.
const UNCOUNTED_MAX: usize = 500;

// === impl Sync ===

impl Sync<'_> {
    /// Counts what ended and ends the job if it is over.
    pub async fn track(&mut self) -> Result<()> {
        let mut tracked: BTreeSet<String> =
            self.pods.iter().filter(|p| pods::is_tracked(p)).map(|p| uid(p)).collect();
        self.settle(&tracked);
        let leaving = self.file();
        let full = leaving.len() >= UNCOUNTED_MAX;
        if indexed(self.spec) {
            self.status.succeeded = amount::counted(self.indexes.len());
            self.status.completed_indexes = text(&self.indexes);
            if let Some(failed) = &self.failed_indexes {
                self.status.failed_indexes = Some(failed.to_string());
            }
        }
        let last = self.interim();
        self.write().await?;
        let mut outcome = Ok(());
        for done in leaving {
            match pods::release(self.cx.client(), &done).await {
                Ok(()) => {
                    tracked.remove(&uid(&done));
                }
                Err(error) => outcome = Err(error),
            }
        }
        self.settle(&tracked);
        if outcome.is_ok() && !full {
            self.finish(last.as_ref());
        }
        let over = condition::is_finished(&self.status);
        self.write().await?;
        if let Some(last) = last.filter(|_| over) {
            self.publish_end(&last);
        }
        outcome
    }

    /// Lists the finished pods in the status and returns those whose finalizer is to be removed.
    fn file(&mut self) -> Vec<Arc<Pod>> {
        let mut uncounted = self.status.uncounted_terminated_pods.take().unwrap_or_default();
        let good = uncounted.succeeded.get_or_insert_default();
        let bad = uncounted.failed.get_or_insert_default();
        let failing = self.finished.as_ref().is_some_and(|f| f.type_ != "SuccessCriteriaMet");
        let mut leaving = Vec::new();
        for ended in self.pods.iter().filter(|p| pods::is_tracked(p)) {
            let failed = pods::is_failed(ended, self.spec);
            if !self.may_leave(ended, failed) {
                continue;
            }
            if leaving.len() >= UNCOUNTED_MAX {
                break;
            }
            leaving.push(ended.clone());
            let id = uid(ended);
            if pod::phase(ended) == "Succeeded" && !bad.contains(&id) {
                if !indexed(self.spec) && !good.contains(&id) {
                    good.push(id);
                }
            } else if (failed || failing) && !bad.contains(&id) && self.has_place(ended) {
                let policy = self.spec.pod_failure_policy.is_some();
                if !policy || policy::of_failure(self.spec, ended).counts() {
                    bad.push(id);
                }
            }
        }
        self.status.uncounted_terminated_pods = Some(uncounted);
        leaving
    }

    fn may_leave(&self, ended: &Pod, failed: bool) -> bool {
        let over = self.job.metadata.deletion_timestamp.is_some() || self.finished.is_some();
        if over || pod::phase(ended) == "Succeeded" {
            return true;
        }
        let delayed = pods::index(ended).and_then(|at| self.delayed.get(&at));
        failed && delayed.is_none_or(|d| d.metadata.uid != ended.metadata.uid)
    }

    /// Moves pods that lost their finalizer from the names to the counts.
    fn settle(&mut self, tracked: &BTreeSet<String>) {
        let Some(uncounted) = &mut self.status.uncounted_terminated_pods else { return };
        for (names, count) in [
            (&mut uncounted.succeeded, &mut self.status.succeeded),
            (&mut uncounted.failed, &mut self.status.failed),
        ] {
            let all = names.take().unwrap_or_default();
            let before = all.len();
            let left: Vec<String> = all.into_iter().filter(|id| tracked.contains(id)).collect();
            let more = amount::number(before - left.len());
            if more > 0 {
                *count = Some(count.unwrap_or(0).saturating_add(more));
            }
            *names = Some(left).filter(|left| !left.is_empty());
        }
    }

    /// Says in the status what the job ends with; returns the condition that ends it.
    fn interim(&mut self) -> Option<JobCondition> {
        let finished = self.finished.as_ref()?;
        let conditions = self.status.conditions.get_or_insert_default();
        if !conditions.iter().any(|c| c.type_ == finished.type_) {
            conditions.push(finished.clone());
        }
        let last = if finished.type_ == "SuccessCriteriaMet" { "Complete" } else { "Failed" };
        Some(condition::as_type(finished, last, self.now))
    }

    /// Ends the job once everything is counted and nothing runs any more.
    fn finish(&mut self, last: Option<&JobCondition>) {
        let Some(last) = last else { return };
        let uncounted = self.status.uncounted_terminated_pods.clone().unwrap_or_default();
        if uncounted.succeeded.is_some() || uncounted.failed.is_some() {
            return;
        }
        if self.status.terminating.unwrap_or(0) > 0 {
            return;
        }
        self.status.conditions.get_or_insert_default().push(last.clone());
        if last.type_ == "Complete" {
            self.status.completion_time = last.last_transition_time.clone();
        }
    }

    fn publish_end(&self, last: &JobCondition) {
        if last.type_ == "Complete" {
            let succeeded = self.status.succeeded.unwrap_or(0);
            if self.spec.completions.is_some_and(|wanted| succeeded > wanted) {
                let text = "Too many succeeded pods running after completion count reached";
                self.cx.warn("TooManySucceededPods", text);
            }
            self.cx.event("Completed", "Job completed");
        } else {
            let text = last.message.clone().unwrap_or_default();
            self.cx.warn(last.reason.as_deref().unwrap_or_default(), text);
        }
    }

    async fn write(&self) -> Result<()> {
        let wanted = self.status.clone();
        self.cx.status_as::<JobStatus>(|stored| *stored = wanted.clone()).await.map(drop)
    }
}

fn uid(of: &Pod) -> String {
    of.metadata.uid.clone().unwrap_or_default()
}

fn text(indexes: &super::Indexes) -> Option<String> {
    Some(indexes.to_string()).filter(|text| !text.is_empty())
}
