//! Conditions made of other schemas: `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! An alternative or condition is never looked into: it is the same, or it is another one.

use serde_json::{Map, Value, json};

use super::Report;
use crate::schema::INT_OR_STRING;

type Schema = Map<String, Value>;

pub(super) fn compare(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    for rule in ["allOf", "anyOf", "oneOf"] {
        let (before, after) = (conditions(old, rule), conditions(new, rule));
        let gone = before.iter().filter(|one| !after.contains(one)).count();
        let more: Vec<&Value> = after.iter().copied().filter(|one| !before.contains(one)).collect();
        match (before.is_empty(), after.is_empty()) {
            _ if gone == 0 && more.is_empty() => {}
            (false, true) => report.safe(path, rule, format!("the condition {rule} is removed")),
            (true, false) => {
                let message =
                    format!("the condition {rule} is added, so values that fitted may be refused");
                report.breaking(path, rule, message);
            }
            _ if rule == "allOf" && more.is_empty() => {
                report.safe(path, rule, "values have to meet fewer conditions of allOf");
            }
            _ if rule == "anyOf" && gone == 0 => {
                report.safe(path, rule, "anyOf has more alternatives, and still all that it had");
            }
            _ if rule == "oneOf"
                && gone == 0
                && more.iter().all(|one| needs_new(one, old, new)) =>
            {
                let message = "oneOf has more alternatives, for fields that no stored object has";
                report.safe(path, rule, message);
            }
            _ => {
                let message =
                    format!("the condition {rule} changes, so values that fitted may be refused");
                report.breaking(path, rule, message);
            }
        }
    }
    match (old.get("not"), new.get("not")) {
        (before, after) if before == after => {}
        (Some(_), None) => report.safe(path, "not", "the condition not is removed"),
        (before, _) => {
            let verb = if before.is_none() { "is added" } else { "changes" };
            let message = format!("the condition not {verb}, so values that fitted may be refused");
            report.breaking(path, "not", message);
        }
    }
}

/// The conditions of a keyword, without the one that only repeats `x-kubernetes-int-or-string`.
fn conditions<'a>(schema: &'a Schema, rule: &str) -> Vec<&'a Value> {
    let all: Vec<&Value> =
        schema.get(rule).and_then(Value::as_array).into_iter().flatten().collect();
    if schema.get(INT_OR_STRING).is_none_or(|set| set != true) {
        return all;
    }
    let is_either = |alternatives: &[&Value]| {
        let types = [json!({"type": "integer"}), json!({"type": "string"})];
        alternatives.len() == 2 && types.iter().all(|one| alternatives.contains(&one))
    };
    match rule {
        "anyOf" if is_either(&all) => Vec::new(),
        "allOf" => {
            let repeats = |one: &Value| {
                let inner = one.get("anyOf").and_then(Value::as_array).into_iter().flatten();
                one.as_object().is_some_and(|fields| fields.len() == 1)
                    && is_either(&inner.collect::<Vec<_>>())
            };
            all.into_iter().filter(|one| !repeats(one)).collect()
        }
        _ => all,
    }
}

/// Returns `true` if an alternative requires a field that the old schema does not have, so that it
/// fits no stored object.
fn needs_new(alternative: &Value, old: &Schema, new: &Schema) -> bool {
    let has = |schema: &Schema, name: &str| {
        schema.get("properties").is_some_and(|fields| fields.get(name).is_some())
    };
    let closed = !super::schema::keeps_unknown(old);
    let required = super::texts(alternative.get("required").unwrap_or(&Value::Null));
    closed && required.iter().any(|name| !has(old, name) && has(new, name))
}
