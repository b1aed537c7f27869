//! The form of rules, and of the parts of `allOf` and its like.

use serde_json::{Map, Value};

use super::{Report, is_set};
use crate::crd::path::{Target, resolve};
use crate::schema::INT_OR_STRING;

/// How deep the parts of `allOf` and its like are followed.
const DEPTH_MAX: usize = 32;

/// What belongs to the schema itself, and not into its parts.
const FORBIDDEN: [&str; 14] = [
    "type",
    "description",
    "default",
    "nullable",
    "title",
    "example",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Why a rule can refuse a value.
const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate"];

/// Checks the texts of the rules of a schema.
pub(super) fn rules(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for rule in rules.into_iter().flatten() {
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let expression = text("rule").trim();
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let message = text("message").trim();
        if expression.is_empty() {
            report.add(path, "a rule has no expression");
        } else if !text("message").is_empty() && message.is_empty() {
            report.add(path, format_args!("the message of the rule `{expression}` is blank"));
        } else if breaks(message) {
            report.add(
                path,
                format_args!("the message of the rule `{expression}` has several lines"),
            );
        } else if breaks(expression) && message.is_empty() {
            report.add(
                path,
                format_args!(
                    "the rule `{expression}` has several lines and therefore needs a message"
                ),
            );
        }
        let reason = text("reason");
        if !reason.is_empty() && !REASONS.contains(&reason) {
            let known = REASONS.join(", ");
            report.add(
                path,
                format_args!("the reason `{reason}` of `{expression}` is not one of {known}"),
            );
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            report.add(path, format_args!("the message expression of `{expression}` is blank"));
        }
        if !text("fieldPath").is_empty() {
            field_path(schema, text("fieldPath"), path, report);
        }
    }
}

fn field_path(schema: &Map<String, Value>, wanted: &str, path: &str, report: &mut Report) {
    let into_list = wanted.contains('[') && !wanted.contains(['\'', '"']);
    match resolve(schema, wanted) {
        _ if into_list => {
            report.add(path, format_args!("the path `{wanted}` of a rule leads into a list"));
        }
        Target::Field(_) => {}
        Target::Open => {
            report.add(path, format_args!("no schema describes the path `{wanted}` of a rule"));
        }
        Target::Missing(_, name, _) => report.add(
            path,
            format_args!("the path `{wanted}` of a rule leads nowhere, there is no field `{name}`"),
        ),
        Target::Malformed(why) => {
            report.add(path, format_args!("the path `{wanted}` of a rule cannot be read, {why}"));
        }
    }
}

/// Checks the parts of `allOf` and its like: they narrow values, and say nothing else.
pub(super) fn logic(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    parts(schema, schema, path, 0, report);
}

fn parts(
    schema: &Map<String, Value>,
    part: &Map<String, Value>,
    path: &str,
    depth: usize,
    report: &mut Report,
) {
    if depth > DEPTH_MAX {
        report.add(path, "`allOf` and its like are nested too deeply");
        return;
    }
    let types = part.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let types: Vec<&Value> = types.filter_map(|branch| branch.get("type")).collect();
    if is_set(schema, INT_OR_STRING) && !types.is_empty() && types != ["integer", "string"] {
        report.add(path, "the types of an int-or-string are integer and string, in this order");
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for inner in part.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            one(schema, inner, keyword, path, depth, report);
        }
    }
    if let Some(inner) = part.get("not") {
        if inner.as_object().is_some_and(Map::is_empty) {
            report.add(path, "an empty `not` refuses every value");
        }
        one(schema, inner, "not", path, depth, report);
    }
}

fn one(
    schema: &Map<String, Value>,
    part: &Value,
    keyword: &str,
    path: &str,
    depth: usize,
    report: &mut Report,
) {
    let Some(part) = part.as_object() else { return };
    let is_int_or_string = is_set(schema, INT_OR_STRING) && part.len() == 1;
    for forbidden in FORBIDDEN {
        if part.contains_key(forbidden) && !(forbidden == "type" && is_int_or_string) {
            report.add(path, format_args!("`{forbidden}` is not allowed inside of `{keyword}`"));
        }
    }
    let known = schema.get("properties").and_then(Value::as_object);
    for (name, inner) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
        match known.and_then(|known| known.get(name)).and_then(Value::as_object) {
            Some(property) => {
                one(property, inner, keyword, &format!("{path}.{name}"), depth + 1, report);
            }
            None => report.add(
                path,
                format_args!("`{keyword}` names a field `{name}` that the type does not have"),
            ),
        }
    }
    match (part.get("items"), schema.get("items").and_then(Value::as_object)) {
        (Some(inner), Some(items)) => {
            one(items, inner, keyword, &format!("{path}[]"), depth + 1, report);
        }
        (Some(_), None) => {
            report.add(path, format_args!("`{keyword}` names items of what is no list"));
        }
        (None, _) => {}
    }
    if let Some(pattern) = part.get("pattern").and_then(Value::as_str)
        && let Err(why) = windlass_text::pattern::compile(pattern)
    {
        report.add(
            path,
            format_args!("the pattern `{pattern}` is not a regular expression of Go, {why}"),
        );
    }
    parts(schema, part, path, depth + 1, report);
}
