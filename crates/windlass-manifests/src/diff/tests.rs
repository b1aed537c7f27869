use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use windlass_apiserver::custom::{Part, compile};

use super::*;
use crate::generate;

mod crdify;
mod pairs;
mod versions;

/// A definition with one version and this schema of the spec.
fn definition(spec: &Value) -> Value {
    with_versions(json!([version("v1", true, spec)]))
}

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    let root = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": spec,
    }});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": root}})
}

fn with_versions(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
            "versions": versions,
        },
    })
}

fn diff(old: &Value, new: &Value) -> Vec<Change> {
    definitions(std::slice::from_ref(old), std::slice::from_ref(new))
}

fn breaks(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.effect == Effect::Breaking)
}

/// The changes of a spec, as `effect rule path`.
fn of_spec(old: Value, new: Value) -> Vec<String> {
    let changes = diff(&definition(&old), &definition(&new));
    let line = |c: &Change| format!("{:?} {} {}", c.effect, c.rule, c.path).to_lowercase();
    changes.iter().map(line).collect()
}

fn field(schema: Value) -> Value {
    json!({"type": "object", "properties": {"x": schema}})
}

#[test]
fn every_rule_of_a_field_knows_both_directions() {
    let text = |more: Value| {
        let mut schema = json!({"type": "string"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field(schema)
    };
    let number = |more: Value| {
        let mut schema = json!({"type": "integer"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field(schema)
    };
    let object = |more: Value| {
        let mut schema = json!({"type": "object"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field(schema)
    };
    let wider = [
        ("enum", text(json!({"enum": ["a"]})), text(json!({"enum": ["a", "b"]}))),
        ("enum", text(json!({"enum": ["a"]})), text(json!({}))),
        ("pattern", text(json!({"pattern": "^a$"})), text(json!({}))),
        ("format", text(json!({"format": "date"})), text(json!({}))),
        ("format", number(json!({"format": "int32"})), number(json!({"format": "int64"}))),
        ("minlength", text(json!({"minLength": 2})), text(json!({"minLength": 1}))),
        ("maxlength", text(json!({"maxLength": 2})), text(json!({"maxLength": 3}))),
        ("maxlength", text(json!({"maxLength": 2})), text(json!({}))),
        ("minimum", number(json!({"minimum": 2})), number(json!({"minimum": 1}))),
        (
            "minimum",
            number(json!({"minimum": 2, "exclusiveMinimum": true})),
            number(json!({"minimum": 2})),
        ),
        ("maximum", number(json!({"maximum": 2})), number(json!({}))),
        ("multipleof", number(json!({"multipleOf": 6})), number(json!({"multipleOf": 3}))),
        ("nullable", text(json!({})), text(json!({"nullable": true}))),
        (
            "preserveunknownfields",
            object(json!({})),
            object(json!({"x-kubernetes-preserve-unknown-fields": true})),
        ),
        ("maxproperties", object(json!({"maxProperties": 2})), object(json!({}))),
        (
            "x-kubernetes-validations",
            text(json!({"x-kubernetes-validations": [{"rule": "self != ''"}]})),
            text(json!({})),
        ),
        ("anyof", text(json!({"anyOf": [{"minLength": 1}]})), text(json!({}))),
        (
            "additionalproperties",
            object(json!({})),
            object(json!({"additionalProperties": {"type": "string"}})),
        ),
    ];
    for (rule, tight, wide) in wider {
        let there = of_spec(tight.clone(), wide.clone());
        assert_eq!(there, [format!("safe {rule} .spec.x")], "{tight} -> {wide}");
        let back = of_spec(wide.clone(), tight.clone());
        assert_eq!(back, [format!("breaking {rule} .spec.x")], "{wide} -> {tight}");
    }
    let either = [
        ("type", text(json!({})), number(json!({}))),
        ("pattern", text(json!({"pattern": "^a$"})), text(json!({"pattern": "^b$"}))),
        ("default", text(json!({})), text(json!({"default": "a"}))),
        ("default", text(json!({"default": "b"})), text(json!({"default": "a"}))),
        (
            "x-kubernetes-list-type",
            field(json!({"type": "array", "items": {"type": "string"}})),
            field(
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            ),
        ),
        (
            "x-kubernetes-map-type",
            object(json!({})),
            object(json!({"x-kubernetes-map-type": "atomic"})),
        ),
        (
            "x-kubernetes-embedded-resource",
            object(json!({})),
            object(json!({"x-kubernetes-embedded-resource": true})),
        ),
        ("multipleof", number(json!({"multipleOf": 4})), number(json!({"multipleOf": 6}))),
        ("unknown", text(json!({})), text(json!({"x-kubernetes-unheard-of": 1}))),
    ];
    for (rule, one, other) in either {
        for (one, other) in [(&one, &other), (&other, &one)] {
            let found = of_spec(one.clone(), other.clone());
            assert_eq!(found, [format!("breaking {rule} .spec.x")], "{one} -> {other}");
        }
    }
}

#[test]
fn fields_come_and_go() {
    let one = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let two =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    assert_eq!(of_spec(one.clone(), two.clone()), ["safe field .spec.b"]);
    assert_eq!(of_spec(two.clone(), one.clone()), ["breaking field .spec.b"]);
    let mut required = two.clone();
    required["required"] = json!(["b"]);
    assert_eq!(of_spec(two.clone(), required.clone()), ["breaking required .spec.b"]);
    assert_eq!(of_spec(required.clone(), two), ["safe required .spec.b"]);
    let mut filled = required.clone();
    filled["properties"]["b"]["default"] = json!("x");
    assert_eq!(of_spec(one, filled), ["safe required .spec.b", "safe field .spec.b"]);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(
        of_spec(
            open,
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}})
        ),
        ["breaking field .spec.a"]
    );
    let map = json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}});
    let mut gone = map.clone();
    gone["additionalProperties"]["properties"] = json!({});
    assert_eq!(of_spec(map, gone), ["breaking field .spec.*.a"]);
}

#[test]
fn what_only_looks_like_a_change_is_none() {
    let either = json!({"x-kubernetes-int-or-string": true});
    let mut spelled = either.clone();
    spelled["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    let mut nested = either.clone();
    nested["allOf"] =
        json!([{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"minLength": 1}]);
    let mut bounded = either.clone();
    bounded["allOf"] = json!([{"minLength": 1}]);
    let plain = json!({"type": "integer"});
    let text = json!({"type": "string"});
    for (one, other) in [
        (either, spelled),
        (nested, bounded),
        (plain.clone(), json!({"type": "integer", "format": "int64"})),
        (text.clone(), json!({"type": "string", "format": "ipv8"})),
        (text.clone(), json!({"type": "string", "minLength": 0, "description": "new"})),
        (
            json!({"type": "array", "items": text}),
            json!({"type": "array", "items": text, "x-kubernetes-list-type": "atomic"}),
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'"}]}),
            json!({"type": "string", "x-kubernetes-validations":
                [{"rule": "self != 'a'", "message": "not a", "reason": "FieldValueForbidden"}]}),
        ),
    ] {
        for (one, other) in [(&one, &other), (&other, &one)] {
            let found = of_spec(field(one.clone()), field(other.clone()));
            assert_eq!(found, [] as [String; 0], "{one} -> {other}");
        }
    }
}

#[test]
fn conditions_may_get_wider_and_a_union_may_grow() {
    let union = |names: &[&str]| {
        let fields: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        let one_of: Vec<Value> = names.iter().map(|name| json!({"required": [name]})).collect();
        field(json!({"type": "object", "properties": fields, "oneOf": one_of}))
    };
    assert_eq!(
        of_spec(union(&["a", "b"]), union(&["a", "b", "c"])),
        ["safe oneof .spec.x", "safe field .spec.x.c"]
    );
    assert!(
        of_spec(union(&["a", "b", "c"]), union(&["a", "b"]))
            .contains(&"breaking oneof .spec.x".into())
    );
    // An object with both fields fitted, and fits no longer.
    let mut both = union(&["a", "b"]);
    both["properties"]["x"]["oneOf"] = json!([{"required": ["a"]}]);
    assert_eq!(of_spec(both, union(&["a", "b"])), ["breaking oneof .spec.x"]);
    let of = |rule: &str, conditions: Value| field(json!({"type": "string", rule: conditions}));
    let (one, two) = (json!({"minLength": 1}), json!({"pattern": "^a"}));
    for (rule, tight, wide) in [
        ("anyof", of("anyOf", json!([one])), of("anyOf", json!([two, one]))),
        ("allof", of("allOf", json!([one, two])), of("allOf", json!([two]))),
    ] {
        assert_eq!(of_spec(tight.clone(), wide.clone()), [format!("safe {rule} .spec.x")]);
        assert_eq!(of_spec(wide, tight), [format!("breaking {rule} .spec.x")]);
    }
    for (rule, keyword) in [("oneof", "oneOf"), ("not", "not")] {
        let (one, two) = match keyword {
            "not" => (one.clone(), two.clone()),
            _ => (json!([one]), json!([one, two])),
        };
        let found = of_spec(of(keyword, one), of(keyword, two));
        assert_eq!(found, [format!("breaking {rule} .spec.x")]);
    }
}

#[test]
fn rules_about_the_old_value_are_explained() {
    let with = |rule: Value| field(json!({"type": "string", "x-kubernetes-validations": [rule]}));
    let messages = |old: Value, new: Value| -> Vec<String> {
        let line = |c: &Change| format!("{:?}: {}", c.effect, c.message);
        diff(&definition(&old), &definition(&new)).iter().map(line).collect()
    };
    let none = field(json!({"type": "string"}));
    let added = messages(none.clone(), with(json!({"rule": "self != ''"})));
    assert_eq!(
        added,
        [
            "Breaking: the rule `self != ''` is added, so objects that break it are refused; stored ones \
          can be updated as long as this value stays as it is"
        ]
    );
    let fixed = json!({"rule": "self == oldSelf"});
    assert_eq!(
        messages(none, with(fixed.clone())),
        ["Breaking: the rule `self == oldSelf` is added, so updates that break it are refused"]
    );
    let mut optional = fixed.clone();
    optional["optionalOldSelf"] = json!(true);
    let tighter = messages(with(fixed.clone()), with(optional.clone()));
    assert!(tighter[0].starts_with("Breaking: the rule `self == oldSelf` is checked for new"));
    let wider = messages(with(optional), with(fixed));
    assert_eq!(wider, ["Safe: the rule `self == oldSelf` is no longer checked for new values"]);
}

#[test]
fn numbers_that_a_float_cannot_tell_apart_are_compared_exactly() {
    let number = |max: i64| field(json!({"type": "integer", "maximum": max}));
    let (large, larger) = (9_007_199_254_740_992, 9_007_199_254_740_993);
    assert_eq!(of_spec(number(larger), number(large)), ["breaking maximum .spec.x"]);
    assert_eq!(of_spec(number(large), number(larger)), ["safe maximum .spec.x"]);
}

#[test]
fn a_type_that_gets_wider_keeps_stored_values_but_not_clients() {
    let wide = json!({"x-kubernetes-int-or-string": true});
    let found = diff(&definition(&field(json!({"type": "integer"}))), &definition(&field(wide)));
    assert_eq!(
        found[0].to_string(),
        "v1 .spec.x: the type changes from integer to integer or string: stored values still fit, but \
         clients may read what they do not expect"
    );
    assert_eq!((found.len(), found[0].effect), (1, Effect::Breaking));
}

#[test]
fn a_default_goes_with_a_field_that_is_no_longer_described() {
    let open = |fields: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": fields});
    let plain = open(json!({"a": {"type": "string"}}));
    assert_eq!(of_spec(plain, open(json!({}))), ["safe field .spec.a"]);
    let filled = open(json!({"a": {"type": "string", "default": "x"}}));
    assert_eq!(
        of_spec(filled, open(json!({}))),
        ["safe field .spec.a", "breaking default .spec.a"]
    );
}

fn effects(old: &Value, new: &Value) -> Vec<String> {
    let line = |c: &Change| format!("{:?} {} {} {}", c.effect, c.rule, c.version, c.path);
    diff(old, new).iter().map(|c| line(c).trim_end().to_lowercase()).collect()
}

// === Properties ===

/// A schema of limited depth.
fn schema() -> impl Strategy<Value = Value> {
    let bound = |name: &'static str| (0..2_u8, 0..5_i64).prop_map(move |(on, n)| (name, on, n));
    let leaf = prop_oneof![
        (bound("minLength"), bound("maxLength")).prop_map(|((a, on, n), (b, also, m))| {
            let mut schema = json!({"type": "string"});
            if on == 1 {
                schema[a] = json!(n);
            }
            if also == 1 {
                schema[b] = json!(n + m);
            }
            schema
        }),
        (bound("minimum"), bound("maximum")).prop_map(|((a, on, n), (b, also, m))| {
            let mut schema = json!({"type": "integer"});
            if on == 1 {
                schema[a] = json!(n);
            }
            if also == 1 {
                schema[b] = json!(n + m);
            }
            schema
        }),
        prop::sample::subsequence(vec!["a", "b", "c"], 1..3)
            .prop_map(|values| json!({"type": "string", "enum": values})),
        Just(json!({"type": "boolean"})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::btree_map("[a-d]", inner.clone(), 1..4), any::<u8>()).prop_map(
                |(properties, bits)| {
                    let names: Vec<&String> = properties.keys().collect();
                    let required: Vec<&&String> = names
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| bits >> at & 1 == 1)
                        .map(|(_, n)| n)
                        .collect();
                    json!({"type": "object", "properties": properties, "required": required})
                }
            ),
            (inner.clone(), 0..3_i64)
                .prop_map(|(items, n)| json!({"type": "array", "items": items, "minItems": n})),
            inner.prop_map(|of| json!({"type": "object", "additionalProperties": of})),
        ]
    })
}

/// Every change that widens some place of a schema, by name.
fn widenings(schema: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Value)| {
        let mut wider = schema.clone();
        change(&mut wider);
        if wider != *schema {
            found.push(wider);
        }
    };
    for bound in ["minLength", "minimum", "minItems"] {
        if schema[bound].as_i64().is_some_and(|n| n > 0) {
            with(&|wider| wider[bound] = json!(schema[bound].as_i64().unwrap() - 1));
        }
    }
    for bound in ["maxLength", "maximum"] {
        if let Some(n) = schema[bound].as_i64() {
            with(&|wider| wider[bound] = json!(n + 1));
            with(&|wider| drop(wider.as_object_mut().unwrap().remove(bound)));
        }
    }
    if schema["enum"].is_array() {
        with(&|wider| wider["enum"].as_array_mut().unwrap().push(json!("more")));
        with(&|wider| drop(wider.as_object_mut().unwrap().remove("enum")));
    }
    with(&|wider| wider["nullable"] = json!(true));
    if schema["properties"].is_object() {
        with(&|wider| wider["properties"]["added"] = json!({"type": "string"}));
        for at in 0..schema["required"].as_array().map_or(0, Vec::len) {
            with(&|wider| drop(wider["required"].as_array_mut().unwrap().remove(at)));
        }
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        for inner in widenings(of) {
            with(&|wider| wider["properties"][name] = inner.clone());
        }
    }
    for key in ["items", "additionalProperties"] {
        for inner in if schema[key].is_object() { widenings(&schema[key]) } else { Vec::new() } {
            with(&|wider| wider[key] = inner.clone());
        }
    }
    found
}

/// Problems that a server with this definition has with an object: lost fields and errors.
fn problems(definition: &Value, object: &Value) -> Vec<String> {
    let versions = compile(&Arc::new(definition.clone()));
    let mut object = object.clone();
    let mut found = versions[0].decode(&mut object).unwrap_or_else(|error| vec![error]);
    versions[0].default(&mut object);
    let verdict = versions[0].validate(&object, None, Part::Main);
    found.extend(verdict.errors.iter().map(ToString::to_string));
    found
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_definition_does_not_differ_from_itself(spec in schema()) {
        prop_assert_eq!(diff(&definition(&spec), &definition(&spec)), []);
    }

    #[test]
    fn a_widening_is_safe_and_its_reverse_is_breaking(spec in schema()) {
        let old = definition(&spec);
        for wider in widenings(&spec) {
            let new = definition(&wider);
            let there = diff(&old, &new);
            prop_assert!(!there.is_empty() && !breaks(&there), "{} -> {}: {:?}", spec, wider, there);
            prop_assert!(breaks(&diff(&new, &old)), "{} -> {}", wider, spec);
        }
    }

    /// The model is the API server: what it accepted before a safe change, it accepts afterwards, and
    /// it drops nothing.
    #[test]
    fn a_server_accepts_every_old_object_after_a_safe_change(
        before in schema(), after in schema(), seed in any::<u64>(),
    ) {
        let mut candidates = widenings(&before);
        candidates.push(after);
        let old = definition(&before);
        for candidate in candidates {
            let new = definition(&candidate);
            if breaks(&diff(&old, &new)) {
                continue;
            }
            for seed in seed..seed.saturating_add(4) {
                let Some(spec) = generate::value(&before, seed) else { continue };
                let object = object(spec);
                prop_assert_eq!(problems(&old, &object), Vec::<String>::new(), "{} {}", before, object);
                let found = problems(&new, &object);
                prop_assert!(found.is_empty(), "{} -> {}: {} {:?}", before, candidate, object, found);
            }
        }
    }
}
