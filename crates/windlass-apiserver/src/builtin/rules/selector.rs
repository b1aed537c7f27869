//! Label selectors (`metav1.LabelSelector`): their rules, what they match, how they are written.

use serde_json::Value;

use super::value::{entries, items, text};
use super::{each_invalid, meta, names};
use crate::status::{FieldError, FieldErrors};

/// Problems of a label selector; none if there is no selector.
pub fn validate(errors: &mut FieldErrors, selector: &Value, field: &str) {
    meta::labels(errors, &selector["matchLabels"], &format!("{field}.matchLabels"));
    for (i, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        validate_requirement(errors, requirement, &format!("{field}.matchExpressions[{i}]"));
    }
}

fn validate_requirement(errors: &mut FieldErrors, requirement: &Value, field: &str) {
    let operator = text(requirement, "operator");
    if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator) {
        let why = "not a valid selector operator";
        errors.push(FieldError::invalid_str(format!("{field}.operator"), operator, why));
    }
    validate_known(errors, requirement, field);
}

/// Problems of a requirement whose operator may be one that is not known yet.
pub fn validate_known(errors: &mut FieldErrors, requirement: &Value, field: &str) {
    validate_count(errors, requirement, field);
    let key = text(requirement, "key");
    each_invalid(errors, &format!("{field}.key"), key, names::qualified_name(key));
    for (i, value) in items(requirement, "values").iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        each_invalid(errors, &format!("{field}.values[{i}]"), value, names::label_value(value));
    }
}

/// Problems with how many values a requirement has.
pub fn validate_count(errors: &mut FieldErrors, requirement: &Value, field: &str) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            format!("{field}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            format!("{field}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        _ => {}
    }
}

/// Returns `true` if a selector has no requirement at all; an absent one counts too.
pub fn is_empty(selector: &Value) -> bool {
    entries(selector, "matchLabels").next().is_none()
        && items(selector, "matchExpressions").is_empty()
}

/// Returns `true` if a selector matches labels; an absent selector matches nothing.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    selector.is_object()
        && entries(selector, "matchLabels").all(|(key, value)| label(key) == value.as_str())
        && items(selector, "matchExpressions").iter().all(|requirement| {
            let found = label(text(requirement, "key"));
            let listed = found.is_some_and(|v| items(requirement, "values").iter().any(|w| w == v));
            match text(requirement, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Returns the selector as a query parameter writes it: `app=web,tier in (a,b)`.
pub fn to_query(selector: &Value) -> String {
    let mut parts: Vec<(&str, String)> = entries(selector, "matchLabels")
        .map(|(key, value)| (key, format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in items(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let mut values: Vec<_> =
            items(requirement, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key,
            match text(requirement, "operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            },
        ));
    }
    parts.sort_by(|a, b| a.0.cmp(b.0));
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}

/// Returns the selector as errors show it: its labels first, and expressions as key, operator,
/// values.
pub fn show(selector: &Value) -> String {
    if !selector.is_object() {
        return selector.to_string();
    }
    let mut parts = Vec::new();
    if entries(selector, "matchLabels").next().is_some() {
        parts.push(format!("\"matchLabels\":{}", selector["matchLabels"]));
    }
    let expressions = items(selector, "matchExpressions");
    if !expressions.is_empty() {
        let shown: Vec<_> = expressions
            .iter()
            .map(|e| super::value::show_ordered(e, &["key", "operator", "values"]))
            .collect();
        parts.push(format!("\"matchExpressions\":[{}]", shown.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_operator_matches_as_it_says() {
        let labels = json!({"tier": "db", "zone": "a"});
        let one = |op: &str, key: &str, values: Value| {
            let e = json!({"key": key, "operator": op, "values": values});
            matches(&json!({"matchExpressions": [e]}), &labels)
        };
        assert!(one("In", "tier", json!(["db", "web"])) && !one("In", "none", json!(["db"])));
        assert!(one("NotIn", "none", json!(["x"])) && !one("NotIn", "tier", json!(["db"])));
        assert!(one("Exists", "zone", json!(null)) && one("DoesNotExist", "none", json!(null)));
        assert!(matches(&json!({}), &labels) && !matches(&Value::Null, &labels));
    }

    #[test]
    fn wrong_requirements_are_reported_field_by_field() {
        let selector = json!({"matchExpressions": [
            {"key": "a b", "operator": "In"},
            {"key": "ok", "operator": "Exists", "values": ["x"]},
            {"key": "ok", "operator": "Near"},
        ]});
        let mut errors = FieldErrors::default();
        validate(&mut errors, &selector, "spec.selector");
        let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.selector.matchExpressions[0].values",
                "spec.selector.matchExpressions[0].key",
                "spec.selector.matchExpressions[1].values",
                "spec.selector.matchExpressions[2].operator",
            ]
        );
    }

    #[test]
    fn queries_are_sorted_by_key() {
        let selector = json!({"matchLabels": {"z": "1"}, "matchExpressions": [
            {"key": "m", "operator": "NotIn", "values": ["b", "a"]},
            {"key": "a", "operator": "DoesNotExist"},
        ]});
        assert_eq!(to_query(&selector), "!a,m notin (a,b),z=1");
        assert_eq!(
            show(&selector),
            r#"{"matchLabels":{"z":"1"},"matchExpressions":[{"key":"m","operator":"NotIn","values":["b","a"]},{"key":"a","operator":"DoesNotExist"}]}"#
        );
    }
}
