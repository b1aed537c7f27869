//! Tests of compiled versions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn version(schema: Value) -> Arc<Version> {
    let definition = json!({
        "metadata": {"name": "forks.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "forks", "singular": "fork", "kind": "Fork", "listKind": "ForkList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": schema, "status": {"type": "object",
                        "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}},
                }},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
                "selectableFields": [{"jsonPath": ".spec.size"}],
            }],
        },
    });
    compile(&Arc::new(definition)).remove(0)
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Fork", "metadata": {"name": "a"}, "spec": spec})
}

fn errors(version: &Version, object: &Value, old: Option<&Value>) -> Vec<String> {
    let found = version.validate(object, old, Part::Main).errors;
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let version = version(json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "integer"}}}},
    }}));
    let mut body = object(json!({"list": [{"k": 1.0, "j": 2}], "lost": 1}));
    body["metadata"]["foo"] = 1.into();
    let unknown = version.decode(&mut body).unwrap();
    assert_eq!(unknown, ["metadata.foo", "spec.list[0].j", "spec.lost"]);
    assert_eq!(body["spec"].to_string(), r#"{"list":[{"k":1}]}"#);
}

#[test]
fn metadata_of_the_wrong_type_is_refused_as_go_does() {
    let version = version(json!({"type": "object"}));
    let mut body = object(json!({}));
    body["metadata"]["labels"] = json!({"a": 5});
    assert_eq!(
        version.decode(&mut body).unwrap_err(),
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    );
    body["metadata"] = json!(-1.5);
    assert_eq!(
        version.decode(&mut body).unwrap_err(),
        "json: cannot unmarshal number into Go value of type v1.ObjectMeta"
    );
}

#[test]
fn several_errors_are_reported_together() {
    let version = version(json!({"type": "object", "required": ["need"], "properties": {
        "a": {"type": "integer", "minimum": 1},
        "b": {"type": "string", "maxLength": 1},
        "i": {"x-kubernetes-int-or-string": true},
        "l": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
    }}));
    let body = object(json!({"a": 0, "b": "long", "i": true, "l": ["y"]}));
    assert_eq!(
        errors(&version, &body, None),
        [
            "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1",
            "spec.b: Too long: may not be more than 1 byte",
            "spec.i: Invalid value: \"boolean\": spec.i in body must be of type integer,string: \
             \"boolean\"",
            "spec.l[0]: Unsupported value: \"y\": supported values: \"x\"",
            "spec.need: Required value",
        ]
    );
}

#[test]
fn one_of_reports_the_closest_branch() {
    let version = version(json!({"type": "object", "properties": {"one": {"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }}}));
    assert_eq!(
        errors(&version, &object(json!({"one": {}})), None),
        [
            "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema \
             (oneOf). Found none valid",
            "spec.one.a: Required value",
        ]
    );
}

#[test]
fn unchanged_faults_are_forgiven_on_update() {
    let version = version(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 2}, "b": {"type": "string"},
        "set": {"type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "string", "maxLength": 1}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {
                "k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
    }}));
    let old = object(json!({"a": "long", "set": ["xx", "y"],
        "map": [{"k": "p", "v": 7}, {"k": "q", "v": 8}]}));
    let mut new = old.clone();
    new["spec"]["b"] = "changed".into();
    new["spec"]["map"] = json!([{"k": "q", "v": 8}, {"k": "p", "v": 7}]);
    assert!(errors(&version, &new, Some(&old)).is_empty());
    new["spec"]["set"] = json!(["y", "xx"]);
    new["spec"]["map"][1]["v"] = 9.into();
    assert_eq!(
        errors(&version, &new, Some(&old)),
        [
            "spec.map[1].v: Invalid value: 9: spec.map[1].v in body should be less than or equal \
             to 1",
            "spec.set[1]: Too long: may not be more than 1 byte",
        ]
    );
}

#[test]
fn status_is_split_from_the_rest_and_counts_no_generation() {
    let version = version(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut old = object(json!({"size": 1}));
    old["status"] = json!({"phase": "Old"});
    version.prepare_create(&mut old);
    assert!(old.get("status").is_none());
    let mut main = old.clone();
    main["status"] = json!({"phase": "New"});
    version.prepare_update(&mut main, &old);
    assert_eq!((&main["metadata"]["generation"], main.get("status")), (&json!(1), None));
    let mut status = old.clone();
    status["spec"] = json!({});
    status["status"] = json!({"phase": 5});
    version.prepare_status(&mut status, &old);
    assert_eq!(status["spec"], old["spec"]);
    let found = version.validate(&status, Some(&old), Part::Status).errors;
    assert_eq!(
        found[0].to_string(),
        "status.phase: Invalid value: \"integer\": phase in body must be of type string: \"integer\""
    );
    assert_eq!(version.selectable_values(&old), [("spec.size".to_owned(), "1".to_owned())]);
}

#[test]
fn scale_reads_and_writes_replicas() {
    let version = version(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let scale = version.scale.as_ref().unwrap();
    let mut fork = object(json!({}));
    assert_eq!(
        scale.read(&fork).unwrap_err().message,
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let unset = scale.read_for_update(&fork).unwrap();
    assert_eq!(
        scale.write(&mut fork, &unset).unwrap_err().message,
        "the spec replicas field \".spec.replicas\" cannot be empty"
    );
    scale.write(&mut fork, &json!({"spec": {"replicas": 3}})).unwrap();
    assert_eq!(scale.read(&fork).unwrap()["spec"], json!({"replicas": 3}));
    fork["spec"]["replicas"] = "x".into();
    assert_eq!(
        scale.validate_spec(&fork)[0].to_string(),
        ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, \
         expected int64"
    );
}

#[test]
fn a_conversion_webhook_may_change_labels_but_not_the_name() {
    let original =
        json!({"kind": "Fork", "metadata": {"name": "a", "uid": "1", "labels": {"x": "y"}}});
    let mut converted = original.clone();
    converted["metadata"] =
        json!({"name": "a", "uid": "1", "labels": {"n": "ew"}, "generation": 9});
    convert::check_converted(&original, &mut converted).unwrap();
    assert_eq!(converted["metadata"], json!({"name": "a", "uid": "1", "labels": {"n": "ew"}}));
    converted["metadata"]["name"] = "b".into();
    let refusal = convert::check_converted(&original, &mut converted).unwrap_err();
    assert_eq!(refusal, convert::Refusal::Object("must have the same name: a != b".into()));
}

#[test]
fn names_are_accepted_unless_another_definition_has_them() {
    let definition = |plural: &str, kind: &str| {
        json!({"metadata": {"name": format!("{plural}.example.com")}, "status": {}, "spec": {
            "group": "example.com", "versions": [],
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List")}}})
    };
    let mut first = definition("kegs", "Keg");
    assert!(names::update_status(&mut first, &[], true, "now"));
    assert!(names::is_true(&first, "Established"));
    assert!(!names::update_status(&mut first.clone(), &[&first], true, "later"));
    let mut second = definition("kegbs", "Keg");
    names::update_status(&mut second, &[&first], true, "now");
    let conditions = &second["status"]["conditions"];
    assert_eq!(conditions[0]["reason"], "ListKindConflict");
    assert_eq!(conditions[0]["message"], "\"KegList\" is already in use");
    assert_eq!(conditions[1]["reason"], "NotAccepted");
    assert_eq!(second["status"]["acceptedNames"], json!({"plural": "kegbs", "kind": ""}));
    names::update_status(&mut second, &[], true, "later");
    assert!(names::is_true(&second, "Established"));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|metadata|kind", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "pattern": "^a", "maxLength": 2})),
        Just(json!({"type": "string", "format": "date-time", "nullable": true})),
        Just(json!({"type": "integer", "minimum": 1, "multipleOf": 2, "default": 4})),
        Just(json!({"type": "number", "maximum": 0.5, "exclusiveMaximum": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        any_value(),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let fields = prop::collection::btree_map("[a-c]", inner.clone(), 0..3);
        prop_oneof![
            fields.prop_map(|p| json!({"type": "object", "properties": p, "required": ["a"],
                "default": {}})),
            inner.clone().prop_map(|s| json!({"type": "object", "additionalProperties": s,
                "minProperties": 1})),
            inner.clone().prop_map(|s| json!({"type": "array", "items": s, "maxItems": 1,
                "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|s| json!({"type": "array", "items": s,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
            (inner.clone(), inner)
                .prop_map(|(a, b)| json!({"oneOf": [a, b], "not": b, "anyOf": [a],
                "x-kubernetes-embedded-resource": true})),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent_and_validation_never_panics(
        schema in any_schema(), spec in any_value(), old in any_value(),
    ) {
        let version = version(schema);
        let mut once = object(spec);
        let old = object(old);
        prop_assume!(version.decode(&mut once).is_ok());
        let mut twice = once.clone();
        prop_assert!(version.decode(&mut twice).unwrap().is_empty());
        prop_assert_eq!(&once, &twice);
        version.default(&mut once);
        let mut twice = once.clone();
        version.default(&mut twice);
        prop_assert_eq!(&once, &twice);
        version.prepare_update(&mut twice, &old);
        version.validate(&once, None, Part::Main);
        version.validate(&twice, Some(&old), Part::Main);
        version.validate(&twice, Some(&old), Part::Status);
        prop_assert!(version.validate(&old, Some(&old), Part::Main).errors.iter()
            .all(|error| error.field.contains("apiVersion") || error.field.contains("kind")
                || error.field.contains("replicas") || error.field.contains("metadata")));
    }

    #[test]
    fn no_definition_panics(spec in any_value(), schema in any_schema()) {
        let mut broken = json!({"spec": spec, "metadata": {"name": "x"}});
        let mut whole = json!({"metadata": {"name": "x"}, "spec": {"versions": [
            {"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        for object in [&mut broken, &mut whole] {
            let strategy = definition::strategy();
            strategy.defaults(object);
            strategy.prepare_create(object);
            strategy.validate(object);
            strategy.warnings(object, None);
            names::update_status(object, &[], true, "now");
            compile(&Arc::new(object.clone()));
        }
    }
}
