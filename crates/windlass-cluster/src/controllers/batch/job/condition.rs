//! The conditions of jobs.
//!
//! They are added once and never change, and each one has the time of a probe, which
//! `ConditionBuilder` leaves to those who probe.

use crate::controllers::amount;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

/// A condition that is true.
pub fn new(type_: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.into(),
        status: "True".into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(amount::time(now)),
        last_transition_time: Some(amount::time(now)),
    }
}

/// The same fact under another type.
pub fn as_type(condition: &JobCondition, type_: &str, now: Timestamp) -> JobCondition {
    let reason = condition.reason.as_deref().unwrap_or_default();
    new(type_, reason, condition.message.as_deref().unwrap_or_default(), now)
}

/// A condition that holds.
pub fn find<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    let all = status.conditions.iter().flatten();
    all.into_iter().find(|c| c.type_ == type_ && c.status == "True")
}

/// The condition that says that a job is over.
pub fn finished(status: &JobStatus) -> Option<&JobCondition> {
    find(status, "Complete").or_else(|| find(status, "Failed"))
}

/// Returns `true` if a job has finished.
pub fn is_finished(status: &JobStatus) -> bool {
    finished(status).is_some()
}
