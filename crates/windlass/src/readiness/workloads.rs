//! The rules of workloads: kinds that run pods.

use super::{Readiness, Subject};

/// The value of `progressDeadlineSeconds` that stands for no deadline.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// Returns "not yet" with a reason if fewer are there than wanted.
fn less(reason: &str, what: &str, there: i64, wanted: i64) -> Option<Readiness> {
    (there < wanted).then(|| Readiness::in_progress(reason, format!("{what}: {there} of {wanted}")))
}

/// Returns "not yet" if there are replicas that have to go.
fn extra(there: i64, wanted: i64) -> Option<Readiness> {
    let text = || format!("replicas that have to terminate: {}", there.saturating_sub(wanted));
    (there > wanted).then(|| Readiness::in_progress("ExtraPods", text()))
}

fn suspended(what: &str) -> Option<Readiness> {
    Some(Readiness::unknown("Suspended", what))
}

// === impl Subject ===

impl Subject<'_> {
    /// Decides about a kind that runs pods; `None` for all other kinds.
    pub(super) fn of_workload(&self, group: &str) -> Option<Readiness> {
        let problem = match (group, self.kind) {
            ("apps", "Deployment") => self.deployment(),
            ("apps", "StatefulSet") => self.stateful_set(),
            ("apps", "DaemonSet") => self.daemon_set(),
            ("apps", "ReplicaSet") | ("", "ReplicationController") => self.replica_set(),
            ("batch", "Job") => self.job(),
            _ => return None,
        };
        Some(problem.unwrap_or(Readiness::Ready))
    }

    fn wanted(&self) -> i64 {
        self.number("/spec/replicas").unwrap_or(1)
    }

    fn is_true(&self, pointer: &str) -> bool {
        self.object.pointer(pointer).and_then(serde_json::Value::as_bool) == Some(true)
    }

    fn deployment(&self) -> Option<Readiness> {
        if self.is_true("/spec/paused") {
            return suspended("the deployment is paused");
        }
        let progressing = self.condition("Progressing");
        if let Some(late) = &progressing
            && late.reason() == "ProgressDeadlineExceeded"
        {
            return Some(Readiness::failed("ProgressDeadlineExceeded", late.message()));
        }
        let wanted = self.wanted();
        let there = self.count("/status/replicas");
        let updated = self.count("/status/updatedReplicas");
        let deadline = self.number("/spec/progressDeadlineSeconds");
        let progressed = deadline.is_none_or(|seconds| seconds == NO_DEADLINE)
            || progressing.is_some_and(|c| c.is("True") && c.reason() == "NewReplicaSetAvailable");
        let available = self.condition("Available").is_some_and(|c| c.is("True"));
        self.never_observed()
            .or_else(|| less("LessReplicas", "replicas", there, wanted))
            .or_else(|| less("LessUpdated", "updated replicas", updated, wanted))
            .or_else(|| extra(there, wanted))
            .or_else(|| {
                let available = self.count("/status/availableReplicas");
                less("LessAvailable", "available replicas", available, updated)
            })
            .or_else(|| less("LessReady", "ready replicas", self.ready_replicas(), wanted))
            .or_else(|| {
                let text = "the new replica set is not available yet";
                (!progressed).then(|| Readiness::in_progress("ReplicaSetNotAvailable", text))
            })
            .or_else(|| {
                let text = "the deployment is not available yet";
                (!available).then(|| Readiness::in_progress("DeploymentNotAvailable", text))
            })
    }

    fn ready_replicas(&self) -> i64 {
        self.count("/status/readyReplicas")
    }

    fn stateful_set(&self) -> Option<Readiness> {
        let wanted = self.wanted();
        let there = self.count("/status/replicas");
        let problem = self
            .never_observed()
            .or_else(|| less("LessReplicas", "replicas", there, wanted))
            .or_else(|| less("LessReady", "ready replicas", self.ready_replicas(), wanted))
            .or_else(|| extra(there, wanted));
        if problem.is_some() || self.text("/spec/updateStrategy/type") == Some("OnDelete") {
            return problem;
        }
        if let Some(partition) = self.number("/spec/updateStrategy/rollingUpdate/partition") {
            // The current revision follows only when all pods are updated.
            let updated = self.count("/status/updatedReplicas");
            let wanted = wanted.saturating_sub(partition);
            return less("PartitionRollout", "updated replicas", updated, wanted);
        }
        let current = self.count("/status/currentReplicas");
        let revisions = (self.text("/status/currentRevision"), self.text("/status/updateRevision"));
        less("LessCurrent", "current replicas", current, wanted).or_else(|| {
            let text = "not all pods have the newest revision";
            (revisions.0 != revisions.1).then(|| Readiness::in_progress("RevisionMismatch", text))
        })
    }

    fn daemon_set(&self) -> Option<Readiness> {
        let Some(wanted) = self.number("/status/desiredNumberScheduled") else {
            let text = "the number of nodes that need a pod is not known yet";
            return Some(Readiness::in_progress("NoDesiredNumber", text));
        };
        let count = |name: &str| self.count(&format!("/status/{name}"));
        self.never_observed()
            .or_else(|| {
                less("LessCurrent", "scheduled pods", count("currentNumberScheduled"), wanted)
            })
            .or_else(|| {
                less("LessUpdated", "updated pods", count("updatedNumberScheduled"), wanted)
            })
            .or_else(|| less("LessAvailable", "available pods", count("numberAvailable"), wanted))
            .or_else(|| less("LessReady", "ready pods", count("numberReady"), wanted))
    }

    fn replica_set(&self) -> Option<Readiness> {
        let wanted = self.wanted();
        let there = self.count("/status/replicas");
        let labeled = self.count("/status/fullyLabeledReplicas");
        let available = self.count("/status/availableReplicas");
        let failure = self.condition("ReplicaFailure").filter(|c| c.is("True"));
        self.never_observed()
            .or_else(|| Some(Readiness::in_progress("ReplicaFailure", failure?.message())))
            .or_else(|| less("LessLabelled", "fully labeled replicas", labeled, wanted))
            .or_else(|| less("LessAvailable", "available replicas", available, wanted))
            .or_else(|| less("LessReady", "ready replicas", self.ready_replicas(), wanted))
            .or_else(|| extra(there, wanted))
    }

    fn job(&self) -> Option<Readiness> {
        if self.condition("Complete").is_some_and(|c| c.is("True")) {
            return None;
        }
        if let Some(failed) = self.condition("Failed").filter(|c| c.is("True")) {
            return Some(Readiness::failed("JobFailed", failed.message()));
        }
        if self.is_true("/spec/suspend") {
            return suspended("the job is suspended");
        }
        if self.text("/status/startTime").is_none() {
            return Some(Readiness::in_progress("JobNotStarted", "the job has not started yet"));
        }
        let count = |name: &str| self.count(&format!("/status/{name}"));
        let (active, succeeded, failed) = (count("active"), count("succeeded"), count("failed"));
        let text = format!("job runs: {active} active, {succeeded} succeeded, {failed} failed");
        Some(Readiness::in_progress("JobInProgress", text))
    }
}
