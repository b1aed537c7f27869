//! Priority classes.

use serde_json::{Value, json};

use crate::builtin::Strategy;
use crate::builtin::rules::immutable;
use crate::builtin::rules::value::{default_absent, int, text};
use crate::status::{FieldError, FieldErrors};

/// The highest priority a user may define.
const USER_MAX: i64 = 1_000_000_000;

/// The classes the system brings itself, with their values.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The rules of `PriorityClass`.
pub struct PriorityClasses;

impl Strategy for PriorityClasses {
    fn defaults(&self, object: &mut Value) {
        default_absent(object, "preemptionPolicy", "PreemptLowerPriority");
        super::spec_defaults::zero(object, &[("value", 0.into())]);
    }

    fn prepare_create(&self, object: &mut Value) {
        // It starts at 1, but no change ever counts it up.
        object["metadata"]["generation"] = json!(1);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        super::shared::bump(object, old, false);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let (name, value) = (text(object, "metadata.name"), int(object, "value").unwrap_or(0));
        if name.starts_with("system-") {
            if let Some(why) = not_of_the_system(name, value, &object["globalDefault"]) {
                errors.push(FieldError::forbidden(
                    "metadata.name",
                    format!(
                        "priority class names with 'system-' prefix are reserved for system use \
                         only. error: {why}"
                    ),
                ));
            }
        } else if value > USER_MAX {
            errors.push(FieldError::forbidden(
                "value",
                format!("maximum allowed value of a user defined priority is {USER_MAX}"),
            ));
        }
        let policy = &object["preemptionPolicy"];
        match policy.as_str() {
            Some("") => errors.push(FieldError::required("preemptionPolicy", "")),
            None | Some("PreemptLowerPriority" | "Never") => {}
            Some(_) => errors.push(FieldError::not_supported(
                "preemptionPolicy",
                policy,
                &["PreemptLowerPriority", "Never"],
            )),
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if object["value"] != old["value"] {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        let (new, old) = (&object["preemptionPolicy"], &old["preemptionPolicy"]);
        immutable(&mut errors, new, old, "preemptionPolicy");
        errors
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn not_of_the_system(name: &str, value: i64, default: &Value) -> Option<String> {
    let Some((_, expected)) = SYSTEM.iter().find(|(system, _)| *system == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if *expected != value {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    let is_default = default.as_bool().unwrap_or_default();
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::create;
    use super::*;

    #[test]
    fn system_names_and_high_values_are_reserved() {
        let class = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value});
        assert!(create(&PriorityClasses, class("mine", 7)).is_ok());
        assert!(create(&PriorityClasses, class("system-node-critical", 2_000_001_000)).is_ok());
        assert!(create(&PriorityClasses, class("system-mine", 1)).is_err());
        assert_eq!(
            create(&PriorityClasses, class("mine", USER_MAX + 1)).unwrap_err(),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
    }
}
