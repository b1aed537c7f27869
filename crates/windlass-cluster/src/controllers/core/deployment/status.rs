//! The status of a Deployment: counters, conditions, and when to look again.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus, ReplicaSet};
use windlass::Result;
use windlass::controller::Next;

use super::{Rollout, actual, available, numbers, soon, wanted};
use crate::controllers::amount;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";
/// The rollout is done.
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

// === impl Rollout ===

impl Rollout<'_> {
    pub(super) fn has_deadline(&self) -> bool {
        !matches!(self.spec().progress_deadline_seconds, None | Some(i32::MAX))
    }

    pub(super) fn progress(&self) -> Option<&DeploymentCondition> {
        find(self.deployment.status.as_ref()?, PROGRESSING)
    }

    pub(super) fn set_progress(&mut self, holds: Option<bool>, reason: &str, message: String) {
        let mut status = self.deployment.status.take().unwrap_or_default();
        self.set(&mut status, PROGRESSING, holds, reason, message);
        self.deployment.status = Some(status);
    }

    /// Sets a condition, unless it has this reason already; the condition that was set last is the
    /// last one.
    fn set(
        &self,
        status: &mut DeploymentStatus,
        type_: &str,
        holds: impl Into<Option<bool>>,
        reason: &str,
        message: String,
    ) {
        let conditions = status.conditions.get_or_insert_default();
        let known = conditions.iter().find(|c| c.type_ == type_);
        if known.and_then(|c| c.reason.as_deref()) != Some(reason) {
            self.cx.condition(type_, holds).reason(reason).message(message).set(conditions);
            conditions.sort_by_key(|c| c.type_ == type_);
        }
    }

    /// Records that the rollout is paused, or resumed.
    pub(super) async fn note_pause(&mut self) -> Result<()> {
        let reason = self.progress().and_then(|c| c.reason.as_deref());
        if !self.has_deadline() || reason == Some(TIMED_OUT) {
            return Ok(());
        }
        let noted = reason == Some(PAUSED);
        match self.spec().paused == Some(true) {
            true if !noted => self.set_progress(None, PAUSED, "Deployment is paused".into()),
            false if noted => {
                let text = "Deployment is resumed".into();
                self.set_progress(None, "DeploymentResumed", text);
            }
            _ => return Ok(()),
        }
        self.save().await
    }

    /// Brings the status up to date. Returns when to look again during a rollout.
    pub(super) async fn write_status(&mut self, rollout: bool) -> Result<Next> {
        let before = self.deployment.status.clone().unwrap_or_default();
        let mut status = self.count(&before);
        if rollout {
            self.judge(&before, &mut status);
        }
        if status == before {
            return Ok(if rollout { self.look_again(&status) } else { Next::Done });
        }
        self.deployment.status = Some(status.clone());
        self.save().await?;
        Ok(if rollout { self.look_again(&status) } else { Next::Done })
    }

    fn count(&self, before: &DeploymentStatus) -> DeploymentStatus {
        let current = self.current().map(|at| &self.sets[at]);
        let sum = |number: &dyn Fn(&ReplicaSet) -> i32| self.sets.iter().map(number).sum::<i32>();
        let works = sum(&available);
        let ready = sum(&|set| set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0));
        let leaving = self
            .sets
            .iter()
            .map(|set| set.status.as_ref().and_then(|s| s.terminating_replicas))
            .try_fold(0_i32, |total, count| count.map(|count| total + count));
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: amount::non_zero(sum(&actual)),
            updated_replicas: amount::non_zero(current.map_or(0, actual)),
            ready_replicas: amount::non_zero(ready),
            available_replicas: amount::non_zero(works),
            unavailable_replicas: amount::non_zero((sum(&wanted) - works).max(0)),
            terminating_replicas: leaving,
            collision_count: before.collision_count,
            conditions: before.conditions.clone(),
        };
        let (_, unavailable) = numbers::bounds(self.spec());
        if works >= self.replicas() - unavailable {
            let text = "Deployment has minimum availability.".into();
            self.set(&mut status, AVAILABLE, true, "MinimumReplicasAvailable", text);
        } else {
            let text = "Deployment does not have minimum availability.".into();
            self.set(&mut status, AVAILABLE, false, "MinimumReplicasUnavailable", text);
        }
        status
    }

    /// Says whether the rollout is done, moves or is stuck.
    fn judge(&self, before: &DeploymentStatus, status: &mut DeploymentStatus) {
        if !self.has_deadline() {
            remove(status, PROGRESSING);
        }
        let current = find(before, PROGRESSING).cloned();
        let was_done = current.as_ref().and_then(|c| c.reason.as_deref()) == Some(DONE);
        let settled = was_done && status.replicas == status.updated_replicas;
        if self.has_deadline() && !settled {
            if self.complete(status) {
                let text = self.what("has successfully progressed.");
                self.set(status, PROGRESSING, true, DONE, text);
            } else if progressing(before, status) {
                let text = self.what("is progressing.");
                let conditions = status.conditions.get_or_insert_default();
                let moving = self.cx.condition(PROGRESSING, true).reason("ReplicaSetUpdated");
                moving.message(text).set(conditions);
                conditions.sort_by_key(|c| c.type_ == PROGRESSING);
                // The deadline counts from here, although the condition may say the same as before.
                if let Some(condition) = conditions.last_mut() {
                    condition.last_update_time = Some(self.cx.clock().time());
                }
            } else if self.timed_out(status) {
                let text = self.what("has timed out progressing.");
                self.set(status, PROGRESSING, false, TIMED_OUT, text);
            }
        }
        let failure = self.failure();
        let known = find(status, FAILURE).map(|c| (&c.status, &c.reason));
        if known != failure.as_ref().map(|c| (&c.status, &c.reason)) {
            remove(status, FAILURE);
            status.conditions.get_or_insert_default().extend(failure);
        }
    }

    fn what(&self, happens: &str) -> String {
        match self.current().and_then(|at| self.sets[at].metadata.name.as_deref()) {
            Some(name) => format!("ReplicaSet \"{name}\" {happens}"),
            None => format!("Deployment \"{}\" {happens}", self.name()),
        }
    }

    /// The status as stored says that the rollout is done.
    pub(super) fn complete_as_stored(&self) -> bool {
        self.deployment.status.as_ref().is_some_and(|status| self.complete(status))
    }

    fn complete(&self, status: &DeploymentStatus) -> bool {
        let all = self.replicas();
        let counts = [status.updated_replicas, status.replicas, status.available_replicas];
        counts.iter().all(|count| count.unwrap_or(0) == all)
            && status.observed_generation >= self.deployment.metadata.generation
    }

    fn timed_out(&self, status: &DeploymentStatus) -> bool {
        let Some(condition) = find(status, PROGRESSING) else { return false };
        match condition.reason.as_deref() {
            Some(DONE) => false,
            Some(TIMED_OUT) => true,
            _ => self.left(condition).is_some_and(|left| left.is_zero()),
        }
    }

    /// The time until the deadline; zero once it has passed.
    fn left(&self, condition: &DeploymentCondition) -> Option<Duration> {
        let from = condition.last_update_time.as_ref()?.0;
        let deadline = self.spec().progress_deadline_seconds?;
        let deadline = from + Duration::from_secs(u64::try_from(deadline).unwrap_or(0));
        Some(Duration::try_from(deadline.duration_since(self.cx.clock().now())).unwrap_or_default())
    }

    fn look_again(&self, status: &DeploymentStatus) -> Next {
        let Some(condition) = find(status, PROGRESSING).filter(|_| self.has_deadline()) else {
            return Next::Done;
        };
        if self.complete(status) || condition.reason.as_deref() == Some(TIMED_OUT) {
            return Next::Done;
        }
        self.left(condition).map_or(Next::Done, soon)
    }

    /// Why a ReplicaSet cannot create pods; that of the current one comes first.
    fn failure(&self) -> Option<DeploymentCondition> {
        let of = |set: &ReplicaSet| {
            let conditions = set.status.as_ref().and_then(|s| s.conditions.as_ref());
            conditions.into_iter().flatten().find(|c| c.type_ == FAILURE).cloned()
        };
        let current = self.current().and_then(|at| of(&self.sets[at]));
        let found = current.or_else(|| self.sets.iter().find_map(of))?;
        Some(DeploymentCondition {
            type_: found.type_,
            status: found.status,
            reason: found.reason,
            message: found.message,
            last_update_time: found.last_transition_time.clone(),
            last_transition_time: found.last_transition_time,
        })
    }
}

fn progressing(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let number = |count: Option<i32>| count.unwrap_or(0);
    let old = |s: &DeploymentStatus| number(s.replicas) - number(s.updated_replicas);
    number(after.updated_replicas) > number(before.updated_replicas)
        || old(after) < old(before)
        || number(after.ready_replicas) > number(before.ready_replicas)
        || number(after.available_replicas) > number(before.available_replicas)
}

fn find<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == type_)
}

fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|c| c.type_ != type_);
    }
}
