//! Cron jobs.

use serde_json::{Value, json};

use super::{cron_schedule, job, shared};
use crate::builtin::Strategy;
use crate::builtin::rules::selector;
use crate::builtin::rules::value::{default_to, flag, object_mut, text};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `CronJob`.
pub struct CronJobs;

/// Names of its jobs get 11 characters more, and have to fit a label.
const NAME_MAX: usize = 52;

impl Strategy for CronJobs {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "concurrencyPolicy", "Allow");
        default_to(spec, "suspend", false);
        default_to(spec, "successfulJobsHistoryLimit", 3);
        default_to(spec, "failedJobsHistoryLimit", 1);
        if let Some(template) = object_mut(spec, "jobTemplate") {
            object_mut(template, "metadata");
            if let Some(spec) = object_mut(template, "spec") {
                job::job_spec_defaults(spec);
            }
        }
        shared::status_with(object, &[]);
    }

    fn prepare_create(&self, object: &mut Value) {
        shared::start(object, json!({}));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"];
        shared::keep(object, old, changed);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = validate_spec(&object["spec"], None);
        let name = text(object, "metadata.name");
        if name.len() > NAME_MAX {
            let why = format!("must be no more than {NAME_MAX} characters");
            errors.push(FieldError::invalid_str("metadata.name", name, why));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        validate_spec(&object["spec"], Some(&old["spec"]))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        let template = &object["spec"]["jobTemplate"]["spec"]["template"];
        if old.is_none_or(|old| &old["spec"]["jobTemplate"]["spec"]["template"] != template) {
            out = super::pod::spec_warnings(template, "spec.jobTemplate.spec.template");
        }
        if text(object, "spec.schedule").contains("TZ") {
            out.push(
                "CRON_TZ or TZ used in spec.schedule is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more \
                 details"
                    .to_owned(),
            );
        }
        out
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn validate_spec(spec: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let tz_allowed = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
    schedule(&mut errors, spec, tz_allowed);
    shared::all_non_negative(&mut errors, spec, "spec", &["startingDeadlineSeconds"]);
    if old.is_none_or(|old| old["timeZone"] != spec["timeZone"]) {
        time_zone(&mut errors, &spec["timeZone"]);
    }
    let policy = &spec["concurrencyPolicy"];
    match policy.as_str().unwrap_or_default() {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.push(FieldError::required("spec.concurrencyPolicy", "")),
        _ => errors.push(FieldError::not_supported(
            "spec.concurrencyPolicy",
            policy,
            &["Allow", "Forbid", "Replace"],
        )),
    }
    let job_spec = &spec["jobTemplate"]["spec"];
    job::validate_spec_at(&mut errors, job_spec, "spec.jobTemplate.spec");
    if !job_spec["selector"].is_null() {
        errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.jobTemplate.spec.selector",
            selector::show(&job_spec["selector"]),
            "`selector` will be auto-generated",
        ));
    }
    if flag(job_spec, "manualSelector") {
        errors.push(FieldError::not_supported(
            "spec.jobTemplate.spec.manualSelector",
            &job_spec["manualSelector"],
            &["nil", "false"],
        ));
    }
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    shared::all_non_negative(&mut errors, spec, "spec", &limits);
    errors
}

fn schedule(errors: &mut FieldErrors, spec: &Value, tz_allowed: bool) {
    const FIELD: &str = "spec.schedule";
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required(FIELD, ""));
        return;
    }
    if let Err(why) = cron_schedule::check(schedule) {
        errors.push(FieldError::invalid_str(FIELD, schedule, why));
    }
    if !schedule.contains("TZ") {
        return;
    }
    if !tz_allowed {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid_str(FIELD, schedule, why));
    } else if !spec["timeZone"].is_null() {
        let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(FieldError::invalid_str(FIELD, schedule, why));
    }
}

fn time_zone(errors: &mut FieldErrors, zone: &Value) {
    let Some(name) = zone.as_str() else { return };
    if name.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in \
                   https://www.iana.org/time-zones";
        errors.push(FieldError::invalid_str("spec.timeZone", name, why));
    }
    let why = if name.is_empty() {
        "timeZone must be nil or non-empty string".to_owned()
    } else if name == "Local" {
        return;
    } else if jiff::tz::TimeZone::get(name).is_err() {
        format!("unknown time zone {name}")
    } else {
        return;
    };
    errors.push(FieldError::invalid_str("spec.timeZone", name, why));
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::{create, update};
    use super::*;

    fn nightly() -> Value {
        json!({"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * *", "jobTemplate": {
            "spec": {"template": {"spec": {"restartPolicy": "OnFailure",
                "containers": [{"name": "c", "image": "n:1"}]}}}}}})
    }

    #[test]
    fn job_defaults_do_not_reach_the_template_of_a_cron_job() {
        let stored = create(&CronJobs, nightly()).unwrap();
        assert!(stored["spec"]["jobTemplate"]["spec"].get("backoffLimit").is_none());
        assert_eq!(stored["spec"]["failedJobsHistoryLimit"], 1);
    }

    #[test]
    fn zones_and_long_names_are_checked() {
        let mut object = nightly();
        object["metadata"]["name"] = json!("n".repeat(53));
        object["spec"]["timeZone"] = json!("Nowhere/City");
        let errors = create(&CronJobs, object).unwrap_err();
        assert_eq!(
            errors[0],
            "spec.timeZone: Invalid value: \"Nowhere/City\": unknown time zone Nowhere/City"
        );
        assert!(errors[1].ends_with("must be no more than 52 characters"));
    }

    #[test]
    fn an_update_may_not_bring_a_zone_into_the_schedule() {
        let old = create(&CronJobs, nightly()).unwrap();
        let mut new = old.clone();
        new["spec"]["schedule"] = json!("CRON_TZ=UTC 0 3 * * *");
        assert_eq!(update(&CronJobs, new, &old).unwrap_err().len(), 1);
    }
}
