//! What the status of a job may say.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shared;
use crate::builtin::rules::value::{flag, int, items, text};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// Problems of a new status; what did not change is not asked again.
pub fn validate(job: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let status = &job["status"];
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    shared::all_non_negative(&mut errors, status, "status", &counts);
    uncounted(&mut errors, status);
    finished(&mut errors, job, old);
    indexes(&mut errors, job, old);
    let (ready, active) = (count(job, "ready"), count(job, "active"));
    if ready > active && (changed(job, old, "ready") || changed(job, old, "active")) {
        let why = "cannot set more ready pods than active";
        errors.push(FieldError::invalid("status.ready", &ready.into(), why));
    }
    let met = is(job, "SuccessCriteriaMet");
    for other in ["Failed", "FailureTarget"] {
        let why = format!("cannot set SuccessCriteriaMet=True and {other}=true conditions");
        conditions(&mut errors, met && is(job, other), &why);
    }
    kept(&mut errors, job, old);
    errors
}

fn is(job: &Value, kind: &str) -> bool {
    let mut all = items(job, "status.conditions").iter();
    all.any(|c| c["type"] == kind && c["status"] == "True")
}

fn is_finished(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

fn count(job: &Value, key: &str) -> i64 {
    int(&job["status"], key).unwrap_or_default()
}

fn changed(job: &Value, old: &Value, key: &str) -> bool {
    job["status"][key] != old["status"][key]
}

fn conditions(errors: &mut FieldErrors, wrong: bool, why: &str) {
    if wrong {
        errors.push(FieldError::raw(FieldErrorKind::Invalid, "status.conditions", "", why));
    }
}

fn uncounted(errors: &mut FieldErrors, status: &Value) {
    let mut seen = BTreeSet::new();
    for list in ["succeeded", "failed"] {
        let uids = items(&status["uncountedTerminatedPods"], list);
        for (i, uid) in uids.iter().filter_map(Value::as_str).enumerate() {
            let field = format!("status.uncountedTerminatedPods.{list}[{i}]");
            if uid.is_empty() {
                errors.push(FieldError::invalid_str(field, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(field, &uid.into()));
            }
        }
    }
}

/// The fields that belong to the conditions that end a job.
fn finished(errors: &mut FieldErrors, job: &Value, old: &Value) {
    let status = &job["status"];
    let turned = |kind: &str| is(job, kind) != is(old, kind);
    let (complete, failed) = (is(job, "Complete"), is(job, "Failed"));
    let ends = is_finished(job);
    let ended = is_finished(job) != is_finished(old);
    conditions(
        errors,
        complete && failed && (turned("Complete") || turned("Failed")),
        "cannot set Complete=True and Failed=true conditions",
    );
    conditions(
        errors,
        complete && is(job, "FailureTarget") && (turned("Complete") || turned("FailureTarget")),
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    let time = &status["completionTime"];
    let timed = turned("Complete") || changed(job, old, "completionTime");
    if timed && !time.is_null() && !complete {
        let why = "cannot set completionTime when there is no Complete=True condition";
        errors.push(FieldError::invalid("status.completionTime", time, why));
    }
    if timed && time.is_null() && complete {
        let why = "completionTime is required for Complete jobs";
        errors.push(FieldError::required("status.completionTime", why));
    }
    let times = timed || changed(job, old, "startTime");
    // Times of one form sort as text.
    if times && !time.is_null() && text(status, "completionTime") < text(status, "startTime") {
        let why = "must be equal to or after `startTime`";
        errors.push(FieldError::invalid("status.completionTime", time, why));
    }
    conditions(
        errors,
        failed && !is(job, "FailureTarget") && turned("Failed"),
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    conditions(
        errors,
        complete && !is(job, "SuccessCriteriaMet") && turned("Complete"),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    let active = count(job, "active");
    if ends && active > 0 && (ended || changed(job, old, "active")) {
        let why = "active>0 is invalid for finished job";
        errors.push(FieldError::invalid("status.active", &active.into(), why));
    }
    let empty = flag(job, "spec.suspend") && int(job, "spec.completions") == Some(0);
    let started = ended || changed(job, old, "startTime");
    if ends && status["startTime"].is_null() && started && !empty {
        let why = "startTime is required for finished job";
        errors.push(FieldError::required("status.startTime", why));
    }
    let terminating = count(job, "terminating");
    if ends && terminating > 0 && (ended || changed(job, old, "terminating")) {
        let why = "terminating>0 is invalid for finished job";
        errors.push(FieldError::invalid("status.terminating", &terminating.into(), why));
    }
}

fn indexes(errors: &mut FieldErrors, job: &Value, old: &Value) {
    let completed = text(&job["status"], "completedIndexes");
    let indexed = job["spec"]["completionMode"] == "Indexed";
    if !completed.is_empty() && !indexed && changed(job, old, "completedIndexes") {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(FieldError::invalid_str("status.completedIndexes", completed, why));
    }
    let failed = &job["status"]["failedIndexes"];
    let limited = !job["spec"]["backoffLimitPerIndex"].is_null();
    if !failed.is_null() && !limited && changed(job, old, "failedIndexes") {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(FieldError::invalid("status.failedIndexes", failed, why));
    }
}

/// What a later status may not take back.
fn kept(errors: &mut FieldErrors, job: &Value, old: &Value) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        let why = format!("cannot disable the terminal {kind}=True condition");
        conditions(errors, is(old, kind) && !is(job, kind), &why);
    }
    // The number of indexes of an elastic job may go down.
    let elastic = job["spec"]["completionMode"] == "Indexed"
        && job["spec"]["completions"] == job["spec"]["parallelism"];
    for (key, asked) in [("failed", true), ("succeeded", !elastic)] {
        if asked && count(job, key) < count(old, key) {
            let why = format!("cannot decrease the {key} counter");
            errors.push(FieldError::invalid(format!("status.{key}"), &count(job, key).into(), why));
        }
    }
    let (end, was) = (&job["status"]["completionTime"], &old["status"]["completionTime"]);
    if !end.is_null() && !was.is_null() && end != was {
        errors.push(FieldError::invalid("status.completionTime", end, "field is immutable"));
    }
    let (start, was) = (&job["status"]["startTime"], &old["status"]["startTime"]);
    let resumes = is(old, "Suspended") && !is(job, "Suspended");
    if !was.is_null() && start != was && !resumes && !flag(job, "spec.suspend") {
        let why = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid("status.startTime", start, why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(new: Value, old: Value) -> Vec<String> {
        let job = |status: Value| json!({"spec": {}, "status": status});
        validate(&job(new), &job(old)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn counters_do_not_go_down() {
        assert_eq!(
            problems(json!({"failed": 1}), json!({"failed": 2})),
            ["status.failed: Invalid value: 1: cannot decrease the failed counter"]
        );
    }

    #[test]
    fn a_running_job_keeps_its_start() {
        let old = json!({"startTime": "2026-01-01T00:00:00Z"});
        let shown = problems(json!({"startTime": "2027-01-01T00:00:00Z"}), old);
        assert_eq!(shown.len(), 1);
        assert!(shown[0].ends_with("field is immutable for unsuspended job once set"));
    }

    #[test]
    fn pods_are_counted_once() {
        let new = json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a", ""]}});
        assert_eq!(
            problems(new, json!({})),
            [
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
                "status.uncountedTerminatedPods.failed[1]: Invalid value: \"\": must not be empty",
            ]
        );
    }

    #[test]
    fn success_and_failure_exclude_each_other() {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let new =
            json!({"conditions": [condition("SuccessCriteriaMet"), condition("FailureTarget")]});
        assert_eq!(
            problems(new, json!({})),
            ["status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and \
              FailureTarget=true conditions"]
        );
    }
}
