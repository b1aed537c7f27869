//! Differences between two masked answers.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::server::Answer;

/// Lists whose order follows the clock, or a hash map.
const UNORDERED: [&str; 4] = ["/managedFields", "/causes", "/resourceRules", "/nonResourceRules"];

/// Where two answers differ: one sentence per place, at most twenty.
pub fn answers(real: &Answer, ours: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if real.status != ours.status {
        found.push(format!("status: real {}, ours {}", real.status, ours.status));
    }
    values("", &real.body, &ours.body, &mut found);
    let (left, right): (BTreeSet<_>, BTreeSet<_>) =
        (real.warnings.iter().collect(), ours.warnings.iter().collect());
    if left != right {
        found.push(format!("warnings: real {left:?}, ours {right:?}"));
    }
    found.truncate(20);
    found
}

fn values(path: &str, real: &Value, ours: &Value, found: &mut Vec<String>) {
    match (real, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let path = format!("{path}/{name}");
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => values(&path, left, right, found),
                    (Some(left), None) => found.push(format!("{path}: only real: {}", short(left))),
                    (None, Some(right)) => {
                        found.push(format!("{path}: only ours: {}", short(right)));
                    }
                    (None, None) => {}
                }
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            let (mut left, mut right): (Vec<_>, Vec<_>) =
                (left.iter().collect(), right.iter().collect());
            if UNORDERED.iter().any(|end| path.ends_with(end)) {
                left.sort_by_key(|value| value.to_string());
                right.sort_by_key(|value| value.to_string());
            }
            if left.len() != right.len() {
                found.push(format!("{path}: real has {}, ours {} items", left.len(), right.len()));
                return;
            }
            for (index, (left, right)) in left.into_iter().zip(right).enumerate() {
                values(&format!("{path}/{index}"), left, right, found);
            }
        }
        (Value::String(left), Value::String(right)) if path.ends_with("/message") => {
            if left != right && parts(left) != parts(right) && !stopped_somewhere(left, right) {
                found.push(format!("{path}:\n        real {left}\n        ours {right}"));
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push(format!("{path}: real {}, ours {}", short(left), short(right))),
    }
}

/// Returns `true` for two refusals of an applied object that name different fields, where one is a
/// field that the schema does not have: the real server goes through fields in the order of a hash
/// map, and stops at such a field.
fn stopped_somewhere(left: &str, right: &str) -> bool {
    let prefix = |text: &str| {
        let (prefix, _) = text.split_once("): ")?;
        let undeclared = text.contains(": field not declared in schema");
        (prefix.starts_with("failed to create typed patch object") && undeclared)
            .then(|| prefix.to_owned())
    };
    prefix(left).is_some_and(|left| prefix(right) == Some(left))
}

/// The single errors of a message; their order may follow a hash map.
fn parts(message: &str) -> Vec<String> {
    let mut parts: Vec<String> = message
        .replace(['[', ']'], "")
        .replace("\n  ", ", ")
        .replace("is invalid: ", "is invalid, ")
        .split(", ")
        .map(str::to_owned)
        .collect();
    parts.sort();
    parts
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: Value) -> Answer {
        Answer { status, body, warnings: Vec::new() }
    }

    #[test]
    fn the_order_of_errors_does_not_matter_and_their_texts_do() {
        let real =
            answer(422, json!({"message": "is invalid: [a: Required value, b: Invalid value]"}));
        let same =
            answer(422, json!({"message": "is invalid: [b: Invalid value, a: Required value]"}));
        assert_eq!(answers(&real, &same), Vec::<String>::new());
        let other = answer(422, json!({"message": "is invalid: a: Required value"}));
        assert_eq!(answers(&real, &other).len(), 1);
    }

    #[test]
    fn an_apply_may_stop_at_any_field_that_is_not_declared() {
        let refused = |errors: &str| {
            let prefix = "failed to create typed patch object (x/a; v1, Kind=Pod): ";
            answer(500, json!({"message": format!("{prefix}{errors}")}))
        };
        let one = refused(".a: field not declared in schema");
        let both = refused("errors:\n  .b: expected map\n  .a: field not declared in schema");
        assert_eq!(answers(&one, &both), Vec::<String>::new());
        assert_eq!(answers(&one, &refused(".a: expected map")).len(), 1);
    }

    #[test]
    fn each_place_that_differs_is_named() {
        let real = answer(200, json!({"spec": {"a": 1, "b": [1, 2]}}));
        let ours = answer(201, json!({"spec": {"a": 2, "b": [1], "c": true}}));
        let expected = [
            "status: real 200, ours 201",
            "/spec/a: real 1, ours 2",
            "/spec/b: real has 2, ours 1 items",
            "/spec/c: only ours: true",
        ];
        assert_eq!(answers(&real, &ours), expected);
    }
}
