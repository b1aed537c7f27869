//! Selectors of nodes, in the affinity of pods and of volumes.

use serde_json::Value;

use super::value::{items, text};
use super::{each_invalid, names};
use crate::status::{FieldError, FieldErrors};

/// Problems of a selector with its terms.
pub fn validate(errors: &mut FieldErrors, selector: &Value, field: &str) {
    let field = format!("{field}.nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        let why = "must have at least one node selector term";
        errors.push(FieldError::required(&*field, why));
    }
    for (i, term) in terms.iter().enumerate() {
        validate_term(errors, term, &format!("{field}[{i}]"));
    }
}

/// Problems of one term.
pub fn validate_term(errors: &mut FieldErrors, term: &Value, field: &str) {
    for (i, requirement) in items(term, "matchExpressions").iter().enumerate() {
        by_label(errors, requirement, &format!("{field}.matchExpressions[{i}]"));
    }
    for (i, requirement) in items(term, "matchFields").iter().enumerate() {
        by_field(errors, requirement, &format!("{field}.matchFields[{i}]"));
    }
}

fn by_label(errors: &mut FieldErrors, requirement: &Value, at: &str) {
    let values = items(requirement, "values");
    let field = format!("{at}.values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &*field,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            &*field,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Gt" | "Lt" if values.len() != 1 => errors.push(FieldError::required(
            &*field,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => unknown_operator(errors, at, other),
    }
    let key = text(requirement, "key");
    each_invalid(errors, &format!("{at}.key"), key, names::qualified_name(key));
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        each_invalid(errors, &format!("{field}[{i}]"), value, names::label_value(value));
    }
}

fn by_field(errors: &mut FieldErrors, requirement: &Value, at: &str) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => errors.push(FieldError::required(
            format!("{at}.values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        other => unknown_operator(errors, at, other),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        let why = "not a valid field selector key";
        errors.push(FieldError::invalid_str(format!("{at}.key"), key, why));
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        each_invalid(errors, &format!("{at}.values[{i}]"), value, names::dns_subdomain(value));
    }
}

fn unknown_operator(errors: &mut FieldErrors, at: &str, operator: &str) {
    let why = "not a valid selector operator";
    errors.push(FieldError::invalid_str(format!("{at}.operator"), operator, why));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_selector_takes_one_name() {
        let mut errors = FieldErrors::default();
        let term = json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
            {"key": "spec.x", "operator": "Exists"},
        ]});
        validate_term(&mut errors, &term, "term");
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(shown[0].starts_with("term.matchFields[0].values: Required value"));
        assert!(shown[1].contains("not a valid selector operator"));
        assert!(shown[2].contains("not a valid field selector key"));
    }

    #[test]
    fn values_of_labels_are_checked() {
        let mut errors = FieldErrors::default();
        let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["ok", "not ok!"]},
        ]}]});
        validate(&mut errors, &selector, "required");
        assert_eq!(errors.len(), 1);
        let shown = errors[0].to_string();
        assert!(shown.starts_with("required.nodeSelectorTerms[0].matchExpressions[0].values[1]"));
    }
}
