//! What becomes of hostile and unusual definitions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::types;

fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Lamp", "plural": "lamps", "singular": "lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "required": ["spec"], "properties": {
                    "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                    "metadata": {"type": "object"}, "spec": spec,
                },
            }}}],
        },
    })
}

fn lost(spec: Value) -> Vec<String> {
    types(&[definition(spec)], "input").unwrap().lost.lines
}

#[test]
fn a_schema_that_is_nested_too_deeply_is_refused() {
    let mut spec = json!({"type": "string"});
    for _ in 0..60 {
        spec = json!({"type": "object", "properties": {"a": spec}});
    }
    assert!(types(&[definition(spec.clone())], "input").is_ok());
    for _ in 0..10 {
        spec = json!({"type": "object", "properties": {"a": spec}});
    }
    let failure = types(&[definition(spec)], "input").err().unwrap().to_string();
    assert!(failure.starts_with("input: lamps.example.com: .spec.a"), "{failure}");
    assert!(failure.ends_with("is nested too deeply"), "{failure}");
}

#[test]
fn a_kind_that_no_struct_can_have_is_refused() {
    for kind in ["la-mp", "lamp", "String", "Self", ""] {
        let mut definition = definition(json!({"type": "object"}));
        definition["spec"]["names"]["kind"] = json!(kind);
        let failure = types(&[definition], "input").err().unwrap().to_string();
        assert!(failure.contains("cannot be the name of a struct"), "{failure}");
    }
}

#[test]
fn what_the_attributes_cannot_say_is_listed() {
    let cases = [
        (
            json!({"type": "string", "minimum": 1}),
            "v1 .spec.a: `minimum` has no attribute for this type",
        ),
        (
            json!({"type": "string", "pattern": "("}),
            "v1 .spec.a: `pattern` has no attribute for this type",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self =="}]}),
            "v1 .spec.a: the rule `self ==` is not an expression of CEL",
        ),
        (
            json!({"type": "array", "items": {"type": "string", "default": "x"}}),
            "v1 .spec.a[]: the default of an item or value has no attribute",
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            "v1 .spec.a: `additionalProperties: true` is written as a schema",
        ),
        (
            json!({"type": "array"}),
            "v1 .spec.a: a list without `items` is a list of values of any type",
        ),
        (
            json!({"type": "integer", "maximum": 1.5}),
            "v1 .spec.a: `maximum` has no attribute for this type",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(lost(json!({"type": "object", "properties": {"a": schema}})), [expected]);
    }
    assert_eq!(lost(json!({"type": "object", "properties": {"a": {"type": "string"}}})), [""; 0]);
}

#[test]
fn equal_objects_share_one_struct() {
    let point =
        json!({"type": "object", "properties": {"x": {"type": "integer", "format": "int32"}}});
    let spec = json!({"type": "object", "properties": {"from": point, "to": point}});
    let code = types(&[definition(spec)], "input").unwrap().code;
    assert_eq!(code.matches("pub struct ").count(), 2, "{code}");
}

#[test]
fn ten_thousand_fields_of_one_name_get_numbers() {
    // Every one of these names is `a` in Rust.
    let name = |at: u32| format!("a{}", format!("{at:b}").replace('0', "-").replace('1', "."));
    let properties: serde_json::Map<String, Value> =
        (0..10_000).map(|at| (name(at), json!({"type": "string"}))).collect();
    let spec = json!({"type": "object", "properties": properties});
    let code = types(&[definition(spec)], "input").unwrap().code;
    assert!(code.contains("pub a10000: "));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever texts a definition has, the code can be parsed: nothing ends a literal or a comment.
    #[test]
    fn no_text_breaks_the_code(
        name in ".{0,20}", text in "(?s).{0,60}", value in ".{0,10}", group in "[ -~]{0,12}",
    ) {
        let spec = json!({"type": "object", "description": text, "properties": {
            &name: {
                "type": "object", "description": text, "title": text, "default": {&name: value},
                "x-kubernetes-validations": [{"rule": "true", "message": text}],
                "properties": {&name: {"type": "string", "enum": [value], "description": text}},
            },
            "list": {"type": "array", "items": {"type": "object", "description": text}},
        }});
        let mut definition = definition(spec);
        definition["metadata"]["annotations"] = json!({&group: text});
        definition["spec"]["names"]["shortNames"] = json!([name]);
        definition["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": text, "type": "string", "jsonPath": format!(".spec.{name}")}]);
        prop_assert!(types(&[definition], "input").is_ok());
    }
}
