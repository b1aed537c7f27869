//! Conditions of a status, in the common form (`metav1.Condition`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::each_invalid;
use super::names::{qualified_name, regex_error};
use super::value::text;
use crate::status::{FieldError, FieldErrors};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Checks a list of conditions.
pub fn validate(errors: &mut FieldErrors, conditions: &[Value], field: &str) {
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let kind = text(condition, "type");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(format!("{field}.type"), &kind.into()));
        }
        check(errors, condition, &field);
    }
}

fn check(errors: &mut FieldErrors, condition: &Value, field: &str) {
    let (kind, status) = (text(condition, "type"), text(condition, "status"));
    each_invalid(errors, &format!("{field}.type"), kind, qualified_name(kind));
    let known = ["False", "True", "Unknown"];
    if !known.contains(&status) {
        let field = format!("{field}.status");
        errors.push(FieldError::not_supported(field, &status.into(), &known));
    }
    let generation = &condition["observedGeneration"];
    if generation.as_i64().is_some_and(|number| number < 0) {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(format!("{field}.observedGeneration"), generation, why));
    }
    if text(condition, "lastTransitionTime").is_empty() {
        errors.push(FieldError::required(format!("{field}.lastTransitionTime"), ""));
    }
    let reason = text(condition, "reason");
    if reason.is_empty() {
        errors.push(FieldError::required(format!("{field}.reason"), ""));
    } else {
        each_invalid(errors, &format!("{field}.reason"), reason, reason_problems(reason));
        if reason.len() > REASON_BYTES_MAX {
            errors.push(FieldError::too_long(format!("{field}.reason"), REASON_BYTES_MAX));
        }
    }
    if text(condition, "message").len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(format!("{field}.message"), MESSAGE_BYTES_MAX));
    }
}

fn reason_problems(reason: &str) -> Vec<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"_,:".contains(&b);
    let last = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = reason.as_bytes();
    let good = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(|b| inner(*b))
        && bytes.last().is_some_and(|b| last(*b));
    match good {
        true => Vec::new(),
        false => vec![regex_error(
            "a condition reason must start with alphabetic character, optionally followed by a \
             string of alphanumeric characters or '_,:', and must end with an alphanumeric \
             character or '_'",
            "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
            &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
        )],
    }
}

/// Sets a condition of the status by its type; times change only with the status.
pub fn set_condition(object: &mut Value, condition: Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(list) = object["status"]["conditions"].as_array_mut() else { return };
    match list.iter_mut().find(|c| c["type"] == condition["type"]) {
        None => list.push(condition),
        Some(old) => {
            let same = old["status"] == condition["status"];
            let since = old["lastTransitionTime"].clone();
            *old = condition;
            if same {
                old["lastTransitionTime"] = since;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_needs_type_status_reason_and_time() {
        let good = json!({"type": "Ready", "status": "True", "reason": "All_Good",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut errors = FieldErrors::default();
        validate(&mut errors, std::slice::from_ref(&good), "status.conditions");
        assert_eq!(errors, []);
        let bad = json!({"type": "Ready", "status": "Maybe", "reason": "1st",
            "observedGeneration": -1});
        validate(&mut errors, &[good, bad], "c");
        let texts: Vec<_> = errors.iter().map(|e| (e.field.as_str(), e.kind.cause())).collect();
        assert_eq!(
            texts,
            [
                ("c[1].type", "FieldValueDuplicate"),
                ("c[1].status", "FieldValueNotSupported"),
                ("c[1].observedGeneration", "FieldValueInvalid"),
                ("c[1].lastTransitionTime", "FieldValueRequired"),
                ("c[1].reason", "FieldValueInvalid"),
            ]
        );
    }
}
