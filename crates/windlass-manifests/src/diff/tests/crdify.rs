//! The cases of crdify, the gate of OLM, by the names of their directories.
//!
//! The definitions here are of our own and have the same change. Where the verdicts differ, the last
//! column says why.

use serde_json::json;

use super::*;

/// A field of every type that has bounds, with these bounds.
fn bounds(lower: Option<i64>, upper: Option<i64>) -> Value {
    let mut fields = json!({
        "config": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "ports": {"type": "array", "items": {"type": "integer"}},
        "size": {"type": "integer"},
    });
    for (field, what) in
        [("config", "Properties"), ("name", "Length"), ("ports", "Items"), ("size", "imum")]
    {
        for (side, bound) in [("min", lower), ("max", upper)] {
            if let Some(bound) = bound {
                fields[field][format!("{side}{what}")] = json!(bound);
            }
        }
    }
    json!({"type": "object", "properties": fields})
}

fn mode(more: Value) -> Value {
    let mut mode = json!({"type": "string"});
    mode.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"type": "object", "properties": {"mode": mode}})
}

fn required(mut schema: Value) -> Value {
    schema["required"] = json!(["mode"]);
    schema
}

/// The name, both schemas, whether crdify refuses the change, and why it is safe here nevertheless.
type Case = (&'static str, Value, Value, bool, &'static str);

const AGREED: &str = "";
const STILL_FITS: &str = "what is stored still fits";

fn with(key: &str, value: Value) -> Value {
    mode(json!({key: value}))
}

fn text() -> Value {
    mode(json!({}))
}

fn values(values: &[&str]) -> Value {
    mode(json!({"enum": values}))
}

/// Changes of what a text may be.
fn of_values() -> Vec<Case> {
    let (lower, upper) = (json!("^[a-z]+$"), json!("^[A-Z]+$"));
    let lower = || with("pattern", lower.clone());
    let default = |value: &str| with("default", json!(value));
    let nullable = || with("nullable", json!(true));
    let described = |text: &str| with("description", json!(text));
    let documentation = "documentation affects no object; OLM turns this rule off";
    let more = "what is stored still fits; OLM allows it too";
    vec![
        ("defaultvaluechanged", default("a"), default("b"), true, AGREED),
        ("defaultvaluenetnew", text(), default("a"), true, AGREED),
        ("defaultvalueremoved", default("a"), text(), true, AGREED),
        ("descriptionchanged", described("a"), described("b"), true, documentation),
        ("enumnetnew", text(), values(&["a"]), true, AGREED),
        ("enumvalueadded", values(&["a"]), values(&["a", "b"]), true, more),
        ("enumvalueremoved", values(&["a", "b"]), values(&["a"]), true, AGREED),
        ("nullableadded", text(), nullable(), true, STILL_FITS),
        ("nullableremoved", nullable(), text(), true, AGREED),
        ("patternadded", text(), lower(), true, AGREED),
        ("patternchanged", lower(), with("pattern", upper), true, AGREED),
        ("patternremoved", lower(), text(), true, STILL_FITS),
    ]
}

/// Changes of fields, types and bounds.
fn of_fields() -> Vec<Case> {
    let number =
        json!({"type": "object", "properties": {"mode": {"type": "integer", "format": "int32"}}});
    let mut added = text();
    added["properties"]["animal"] = json!({"type": "string"});
    added["properties"]["region"] = json!({"type": "string", "enum": ["East", "West"]});
    added["properties"]["config"] = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}}});
    let none = || bounds(None, None);
    vec![
        ("existingfieldremoved", text(), json!({"type": "object"}), true, AGREED),
        ("maxnetnew", none(), bounds(None, Some(10)), true, AGREED),
        ("maxvaluedecreased", bounds(None, Some(10)), bounds(None, Some(5)), true, AGREED),
        ("minnetnew", none(), bounds(Some(2), None), true, AGREED),
        ("minvalueincreased", bounds(Some(2), None), bounds(Some(4), None), true, AGREED),
        ("requiredfieldadded", text(), required(text()), true, AGREED),
        ("typechanged", number, text(), true, AGREED),
        ("validchanges", text(), added, false, AGREED),
    ]
}

#[test]
fn the_cases_of_crdify_have_its_verdicts_unless_there_is_a_reason() {
    for (name, old, new, refused, reason) in of_values().into_iter().chain(of_fields()) {
        let wanted = refused && reason.is_empty();
        assert_eq!(breaks(&diff(&definition(&old), &definition(&new))), wanted, "{name}: {reason}");
    }
    // Every bound of these cases is a change of its own.
    let narrower = diff(&definition(&bounds(None, None)), &definition(&bounds(Some(2), Some(10))));
    assert_eq!(narrower.iter().filter(|change| change.effect == Effect::Breaking).count(), 8);

    let mut cluster = definition(&text());
    cluster["spec"]["scope"] = json!("Cluster");
    let scope = effects(&definition(&text()), &cluster);
    assert_eq!(scope, ["breaking scope"], "scopechanged");
    let (old, mut new) = (bounds(Some(1), Some(3)), bounds(Some(4), Some(9)));
    new["required"] = json!(["size"]);
    let mut moved = definition(&new);
    moved["spec"]["scope"] = json!("Cluster");
    let all = effects(&definition(&old), &moved);
    let breaking: Vec<&String> = all.iter().filter(|line| line.starts_with("breaking")).collect();
    assert_eq!(breaking.len(), 6, "multipleincompatible: {all:#?}");
}

#[test]
fn what_crdify_does_not_know_is_judged_by_what_it_does() {
    // It refuses all of these as unhandled changes, except for the last two, which it allows.
    let of = |more: Value| mode(more);
    let rule = json!([{"rule": "self != ''"}]);
    let safe = [
        (of(json!({"format": "date"})), of(json!({}))),
        (of(json!({"x-kubernetes-validations": rule})), of(json!({}))),
        (of(json!({"anyOf": [{"minLength": 1}]})), of(json!({}))),
    ];
    for (old, new) in safe {
        assert!(!breaks(&diff(&definition(&old), &definition(&new))), "{old} -> {new}");
        assert!(breaks(&diff(&definition(&new), &definition(&old))), "{new} -> {old}");
    }
    let wider = (mode(json!({"enum": ["a"]})), mode(json!({})));
    assert!(
        !breaks(&diff(&definition(&wider.0), &definition(&wider.1))),
        "an enum that is removed"
    );
    let filled = required(mode(json!({"default": "a"})));
    let optional = mode(json!({"default": "a"}));
    assert!(
        !breaks(&diff(&definition(&optional), &definition(&filled))),
        "required with a default"
    );
    let mut closed = definition(&optional);
    closed["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    assert!(breaks(&diff(&definition(&optional), &closed)), "the subresource status");
    let mut unserved = definition(&optional);
    unserved["spec"]["versions"][0]["served"] = json!(false);
    assert!(breaks(&diff(&definition(&optional), &unserved)), "no longer served");
}
