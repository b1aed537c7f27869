//! Pod disruption budgets.

use serde_json::{Value, json};

use super::shared;
use crate::builtin::Strategy;
use crate::builtin::rules::value::{has, items, object_mut};
use crate::builtin::rules::{conditions, selector};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The group of budgets.
pub const GROUP: &str = "policy";
/// The plural of budgets.
pub const PLURAL: &str = "poddisruptionbudgets";

/// The rules of `PodDisruptionBudget`.
pub struct Budgets;

const COUNTS: [&str; 4] =
    ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

impl Strategy for Budgets {
    fn defaults(&self, object: &mut Value) {
        object_mut(object, "spec");
        shared::status_with(object, &COUNTS);
    }

    fn prepare_create(&self, object: &mut Value) {
        shared::start(object, json!({}));
        shared::status_with(object, &COUNTS);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"];
        shared::keep(object, old, changed);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn checks_meta(&self) -> bool {
        false
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &object["spec"];
        if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
            errors.push(FieldError::raw(
                FieldErrorKind::Invalid,
                "spec",
                show_spec(spec),
                "minAvailable and maxUnavailable cannot be both set",
            ));
        }
        for key in ["minAvailable", "maxUnavailable"] {
            let field = format!("spec.{key}");
            shared::int_or_percent(&mut errors, &spec[key], &field);
            shared::at_most_100_percent(&mut errors, &spec[key], &field);
        }
        selector::validate(&mut errors, &spec["selector"], "spec.selector");
        let policy = &spec["unhealthyPodEvictionPolicy"];
        if let Some(text) = policy.as_str()
            && !["AlwaysAllow", "IfHealthyBudget"].contains(&text)
        {
            errors.push(FieldError::not_supported(
                "spec.unhealthyPodEvictionPolicy",
                policy,
                &["AlwaysAllow", "IfHealthyBudget"],
            ));
        }
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let conditions = items(&object["status"], "conditions");
        conditions::validate(&mut errors, conditions, "status.conditions");
        shared::all_non_negative(&mut errors, &object["status"], "status", &COUNTS);
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// The spec as the real server shows it: its own struct, with Go's field names.
fn show_spec(spec: &Value) -> String {
    format!(
        "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
         \"UnhealthyPodEvictionPolicy\":{}}}",
        spec["minAvailable"],
        selector::show(&spec["selector"]),
        spec["maxUnavailable"],
        spec["unhealthyPodEvictionPolicy"],
    )
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::create;
    use super::*;

    #[test]
    fn an_empty_budget_is_fine() {
        let stored = create(&Budgets, json!({"metadata": {"name": "b"}})).unwrap();
        assert_eq!(stored["spec"], json!({}));
        assert_eq!(stored["status"]["expectedPods"], 0);
    }

    #[test]
    fn both_bounds_at_once_are_refused() {
        let spec = json!({"minAvailable": "10%", "maxUnavailable": "200%"});
        let errors = create(&Budgets, json!({"metadata": {}, "spec": spec})).unwrap_err();
        assert_eq!(
            errors,
            [
                "spec: Invalid value: {\"MinAvailable\":\"10%\",\"Selector\":null,\
                 \"MaxUnavailable\":\"200%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable \
                 and maxUnavailable cannot be both set",
                "spec.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%",
            ]
        );
    }
}
