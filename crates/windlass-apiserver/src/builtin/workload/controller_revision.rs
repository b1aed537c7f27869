//! Controller revisions: immutable snapshots.

use serde_json::Value;

use crate::builtin::Strategy;
use crate::builtin::rules::{immutable, non_negative};
use crate::status::{FieldError, FieldErrors};

/// The rules of `ControllerRevision`.
pub struct ControllerRevisions;

impl Strategy for ControllerRevisions {
    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        non_negative(&mut errors, object["revision"].as_i64(), "revision");
        match &object["data"] {
            Value::Null => errors.push(FieldError::required("data", "data is mandatory")),
            Value::Object(_) => {}
            _ => errors.push(FieldError::required("data", "data must be a valid JSON object")),
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        non_negative(&mut errors, object["revision"].as_i64(), "revision");
        immutable(&mut errors, &object["data"], &old["data"], "data");
        errors
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::texts;
    use super::*;
    use serde_json::json;

    #[test]
    fn data_is_needed_and_never_changes() {
        assert_eq!(
            texts(&ControllerRevisions.validate(&json!({"revision": -3}))),
            [
                "revision: Invalid value: -3: must be greater than or equal to 0",
                "data: Required value: data is mandatory",
            ]
        );
        let (new, old) = (json!({"data": {"a": 1}}), json!({"data": {"a": 2}}));
        assert_eq!(
            texts(&ControllerRevisions.validate_update(&new, &old)),
            ["data: Invalid value: {\"a\":1}: field is immutable"]
        );
    }
}
