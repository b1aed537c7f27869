//! Counting what ended, and whether the job is over by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::api::core::v1::Pod;

use super::{Indexes, Sync, condition, indexed, pods, policy, suspended};
use crate::controllers::{amount, pod};
use policy::Meaning;

// === impl Sync ===

impl Sync<'_> {
    /// Counts the pods that ended, those counted before included.
    pub fn count(&mut self) {
        let uncounted = self.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let known_good = uncounted.succeeded.unwrap_or_default();
        let known_bad = uncounted.failed.unwrap_or_default();
        let uid = |p: &Pod| p.metadata.uid.clone().unwrap_or_default();
        let fresh: Vec<&Pod> = self
            .pods
            .iter()
            .map(|p| &**p)
            .filter(|p| pods::is_tracked(p) && self.has_place(p))
            .collect();
        let good = |p: &&&Pod| pod::phase(p) == "Succeeded" && !known_good.contains(&uid(p));
        let good: Vec<&Pod> = fresh.iter().filter(good).copied().collect();
        let bad = |p: &&&Pod| pods::is_failed(p, self.spec) && !known_bad.contains(&uid(p));
        let bad: Vec<&Pod> = fresh.iter().filter(bad).copied().collect();
        let counted = bad.iter().filter(|p| policy::of_failure(self.spec, p).counts()).count();
        let sum = |stored: Option<i32>, more: usize| {
            stored.unwrap_or(0).saturating_add(amount::number(more))
        };
        let record = self.record.with(&good, &bad, self.now);
        let succeeded = sum(self.status.succeeded, good.len() + known_good.len());
        let failed = sum(self.status.failed, counted + known_bad.len());
        (self.record, self.succeeded, self.failed) = (record, succeeded, failed);
        if indexed(self.spec) {
            self.count_indexes();
        }
    }

    fn count_indexes(&mut self) {
        let end = self.spec.completions.unwrap_or(0);
        self.before =
            Indexes::parse(self.status.completed_indexes.as_deref().unwrap_or_default(), end);
        self.indexes = self.before.clone();
        for done in self.pods.iter().filter(|p| pod::phase(p) == "Succeeded") {
            if let Some(at) = pods::index(done).filter(|at| *at < end)
                && pods::is_tracked(done)
            {
                self.indexes.insert(at);
            }
        }
        self.succeeded = amount::number(self.indexes.len());
        if let Some(limit) = self.spec.backoff_limit_per_index {
            self.count_failed_indexes(end, limit);
            self.delayed = self.delayed_pods();
        }
    }

    fn count_failed_indexes(&mut self, end: i32, limit: i32) {
        let stored = self.status.failed_indexes.as_deref().unwrap_or_default();
        let mut failed = Indexes::parse(stored, end);
        for bad in self.pods.iter().filter(|p| pods::is_failed(p, self.spec)) {
            let Some(at) = pods::index(bad).filter(|at| *at < end) else { continue };
            let (counted, _) = pods::failures(bad);
            let spent = i64::from(counted) >= i64::from(limit);
            let over = match policy::of_failure(self.spec, bad) {
                Meaning::FailsIndex => true,
                meaning => meaning.counts() && spent,
            };
            if pods::is_tracked(bad) && over && !self.indexes.contains(at) {
                failed.insert(at);
            }
        }
        self.failed_indexes = Some(failed);
    }

    /// The last failed pod of each index that has to be tried again.
    fn delayed_pods(&self) -> BTreeMap<i32, Arc<Pod>> {
        let mut delayed: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        let running: Vec<i32> = self.active.iter().filter_map(|p| pods::index(p)).collect();
        for bad in self.pods.iter().filter(|p| pods::is_failed(p, self.spec)) {
            let Some(at) = pods::index(bad) else { continue };
            let over = self.indexes.contains(at)
                || self.failed_indexes.as_ref().is_some_and(|f| f.contains(at));
            if !pods::is_tracked(bad) || !self.has_place(bad) || running.contains(&at) || over {
                continue;
            }
            let rank = |p: &Pod| {
                let (counted, ignored) = pods::failures(p);
                (counted.saturating_add(ignored), super::backoff::ended(p, self.now))
            };
            if delayed.get(&at).is_none_or(|last| rank(last) <= rank(bad)) {
                delayed.insert(at, bad.clone());
            }
        }
        delayed
    }

    /// Decides whether the job is over, and why.
    pub fn verdict(&mut self) -> Option<JobCondition> {
        if let Some(met) = condition::find(&self.status, "SuccessCriteriaMet") {
            return Some(met.clone());
        }
        if let Some(target) = condition::find(&self.status, "FailureTarget") {
            return Some(target.clone());
        }
        let failed = |reason: &str, text: &str| {
            Some(condition::new("FailureTarget", reason, text, self.now))
        };
        let bad = self.pods.iter().filter(|p| pods::is_failed(p, self.spec));
        for bad in bad {
            if let Meaning::FailsJob(why) = policy::of_failure(self.spec, bad) {
                return failed("PodFailurePolicy", &why);
            }
        }
        if self.failed > self.spec.backoff_limit.unwrap_or(6) || self.restarted_too_often() {
            let text = "Job has reached the specified backoff limit";
            return failed("BackoffLimitExceeded", text);
        }
        if let Some(left) = self.deadline() {
            if left.is_zero() {
                let text = "Job was active longer than specified deadline";
                return failed("DeadlineExceeded", text);
            }
            self.again_after(left);
        }
        if indexed(self.spec) { self.indexed_verdict() } else { None }
    }

    fn indexed_verdict(&self) -> Option<JobCondition> {
        let end = self.spec.completions.unwrap_or(0);
        let failed = |reason: &str, text: &str| {
            Some(condition::new("FailureTarget", reason, text, self.now))
        };
        if let Some(indexes) = &self.failed_indexes {
            let count = amount::number(indexes.len());
            if self.spec.max_failed_indexes.is_some_and(|max| count > max) {
                let text = "Job has exceeded the specified maximal number of failed indexes";
                return failed("MaxFailedIndexesExceeded", text);
            }
            if count > 0 && count.saturating_add(self.succeeded) >= end {
                return failed("FailedIndexes", "Job has failed indexes");
            }
        }
        let policy = self.spec.success_policy.as_ref()?;
        let why = policy::of_success(policy, end, &self.indexes)?;
        Some(condition::new("SuccessCriteriaMet", "SuccessPolicy", &why, self.now))
    }

    /// Returns `true` if restarts of containers have exceeded the limit.
    fn restarted_too_often(&self) -> bool {
        let policy = self.spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
        if policy != Some("OnFailure") {
            return false;
        }
        let alive = |p: &&Arc<Pod>| matches!(pod::phase(p), "Running" | "Pending");
        let restarts = self.pods.iter().filter(alive).map(|p| pod::restarts(p));
        let restarts = restarts.fold(0, i32::saturating_add);
        restarts > 0 && restarts >= self.spec.backoff_limit.unwrap_or(6)
    }

    /// How long the job may still run.
    fn deadline(&self) -> Option<Duration> {
        let seconds = self.spec.active_deadline_seconds?;
        let start = self.status.start_time.as_ref()?.0;
        if suspended(self.spec) {
            return None;
        }
        let left =
            SignedDuration::from_secs(seconds).checked_sub(self.now.duration_since(start))?;
        Some(Duration::try_from(left).unwrap_or_default())
    }
}
