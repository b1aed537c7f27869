//! Changes that are easily judged wrongly, each with what is reported about it.

use super::*;

/// A name, a definition, what it becomes, and the changes.
type Case = (&'static str, Value, Value, &'static [&'static str]);

/// Two versions of one schema.
fn several(versions: &[(&str, bool, bool)]) -> Value {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let all = versions.iter().map(|(name, served, storage)| {
        let mut one = version(name, *storage, &spec);
        one["served"] = json!(served);
        one
    });
    with_versions(all.collect())
}

fn converted(mut definition: Value, strategy: &str, stored: &[&str]) -> Value {
    definition["spec"]["conversion"] = json!({"strategy": strategy});
    if !stored.is_empty() {
        definition["status"]["storedVersions"] = json!(stored);
    }
    definition
}

fn scaled(paths: Value) -> Value {
    let mut one = several(&[("v1", true, true)]);
    one["spec"]["versions"][0]["subresources"] = json!({"scale": paths});
    one
}

fn selectable(paths: &[&str]) -> Value {
    let mut one = several(&[("v1", true, true)]);
    let fields: Vec<Value> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
    one["spec"]["versions"][0]["selectableFields"] = json!(fields);
    one
}

fn of_definitions() -> Vec<Case> {
    let both = several(&[("v1", true, false), ("v2", true, true)]);
    let unserved = several(&[("v1", false, false), ("v2", true, true)]);
    let one = several(&[("v2", true, true)]);
    let mut clustered = one.clone();
    clustered["spec"]["scope"] = json!("Cluster");
    let paths = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    let mut moved = paths.clone();
    moved["specReplicasPath"] = json!(".spec.m");
    let mut selector = paths.clone();
    selector["labelSelectorPath"] = json!(".status.selector");
    vec![
        ("the scope", one.clone(), clustered, &["breaking scope"]),
        ("a served version is removed", both.clone(), one.clone(), &["breaking version v1"]),
        (
            "a version with stored objects is removed",
            converted(unserved.clone(), "None", &["v1", "v2"]),
            one.clone(),
            &["breaking version v1"],
        ),
        (
            "a version that was migrated is removed",
            converted(unserved.clone(), "None", &["v2"]),
            one.clone(),
            &["safe version v1"],
        ),
        (
            "conversion ends while versions are served",
            converted(both.clone(), "Webhook", &["v2"]),
            converted(both.clone(), "None", &["v2"]),
            &["breaking conversion"],
        ),
        (
            "conversion ends while objects are stored in two versions",
            converted(unserved.clone(), "Webhook", &["v1", "v2"]),
            converted(unserved.clone(), "None", &[]),
            &["breaking conversion"],
        ),
        (
            "conversion ends together with the version that needed it",
            converted(unserved, "Webhook", &["v2"]),
            converted(one.clone(), "None", &[]),
            &["safe conversion", "safe version v1"],
        ),
        (
            "conversion by a webhook begins",
            converted(both.clone(), "None", &[]),
            converted(both, "Webhook", &[]),
            &["safe conversion"],
        ),
        (
            "the status subresource is added to one of two versions",
            one.clone(),
            {
                let mut new = one;
                new["spec"]["versions"][0]["subresources"] = json!({"status": {}});
                new
            },
            &["breaking subresources v2"],
        ),
        ("a path of scale", scaled(paths.clone()), scaled(moved), &["breaking subresources v1"]),
        (
            "a selector for scale",
            scaled(paths.clone()),
            scaled(selector.clone()),
            &["safe subresources v1"],
        ),
        ("no selector for scale", scaled(selector), scaled(paths), &["breaking subresources v1"]),
        (
            "selectable fields",
            selectable(&[".spec.a", ".spec.b"]),
            selectable(&[".spec.b", ".spec.c"]),
            &["breaking selectablefields v1 .spec.a", "safe selectablefields v1 .spec.c"],
        ),
    ]
}

/// Pairs that differ in the schema of a field `x` alone.
fn of_fields() -> Vec<Case> {
    let rules = |rules: Value| json!({"type": "string", "x-kubernetes-validations": rules});
    let rule = |text: &str| rules(json!([{"rule": text}]));
    let list = |more: Value| {
        let mut list = json!({"type": "array", "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "e": {"type": "string", "enum": ["a", "b"]}}}});
        list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        list
    };
    let mut narrow = list(json!({}));
    narrow["items"]["properties"]["e"]["enum"] = json!(["b"]);
    let mut needs = list(json!({}));
    needs["items"]["required"] = json!(["k", "e"]);
    let mut filled = needs.clone();
    filled["items"]["properties"]["e"]["default"] = json!("a");
    let object = |more: Value| {
        let mut object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    const KEEPS: &str = "x-kubernetes-preserve-unknown-fields";
    const LIST: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let either = json!({"x-kubernetes-int-or-string": true});
    let text = json!({"type": "string"});
    let integer = |key: &str, bound: i64, exclusive: bool| {
        let flag = if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
        json!({"type": "integer", key: bound, flag: exclusive})
    };
    vec![
        ("an enum in a list", list(json!({})), narrow, &["breaking enum v1 .spec.x[*].e"]),
        (
            "a required field of items",
            list(json!({})),
            needs.clone(),
            &["breaking required v1 .spec.x[*].e"],
        ),
        (
            "a required field of items with a default",
            list(json!({})),
            filled.clone(),
            &["safe required v1 .spec.x[*].e", "breaking default v1 .spec.x[*].e"],
        ),
        (
            "the default of a required field ends",
            filled,
            needs,
            &["breaking default v1 .spec.x[*].e"],
        ),
        (
            "pruning begins",
            object(json!({KEEPS: true})),
            object(json!({})),
            &["breaking preserveunknownfields v1 .spec.x"],
        ),
        (
            "pruning ends",
            object(json!({})),
            object(json!({KEEPS: true})),
            &["safe preserveunknownfields v1 .spec.x"],
        ),
        (
            "a field is described no more, and kept",
            object(json!({})),
            json!({"type": "object", KEEPS: true}),
            &["safe preserveunknownfields v1 .spec.x", "safe field v1 .spec.x.a"],
        ),
        (
            "a list becomes a map",
            list(json!({})),
            list(json!({LIST: "map", KEYS: ["k"]})),
            &["breaking x-kubernetes-list-type v1 .spec.x"],
        ),
        (
            "a map becomes a list",
            list(json!({LIST: "map", KEYS: ["k"]})),
            list(json!({LIST: "atomic"})),
            &["breaking x-kubernetes-list-type v1 .spec.x"],
        ),
        (
            "the keys of a map",
            list(json!({LIST: "map", KEYS: ["k"]})),
            list(json!({LIST: "map", KEYS: ["k", "e"]})),
            &["breaking x-kubernetes-list-map-keys v1 .spec.x"],
        ),
        (
            "the order of the keys",
            list(json!({LIST: "map", KEYS: ["e", "k"]})),
            list(json!({LIST: "map", KEYS: ["k", "e"]})),
            &[],
        ),
        ("either becomes a text", either.clone(), text.clone(), &["breaking type v1 .spec.x"]),
        ("a text becomes either", text.clone(), either, &["breaking type v1 .spec.x"]),
        (
            "null is refused",
            json!({"type": "string", "nullable": true}),
            text.clone(),
            &["breaking nullable v1 .spec.x"],
        ),
        (
            "the default of an object in an object",
            object(json!({"default": {"a": "x"}})),
            object(json!({"default": {"a": "y"}})),
            &["breaking default v1 .spec.x"],
        ),
        (
            "a rule is added",
            text.clone(),
            rule("self != ''"),
            &["breaking x-kubernetes-validations v1 .spec.x"],
        ),
        (
            "a rule is removed",
            rule("self != ''"),
            text.clone(),
            &["safe x-kubernetes-validations v1 .spec.x"],
        ),
        (
            "a rule is written on two lines",
            rule("self != '' &&\n  self != 'a  b'"),
            rule("self != '' && self != 'a  b'"),
            &[],
        ),
        (
            "the spaces of a text in a rule",
            rule("self != 'a  b'"),
            rule("self != 'a b'"),
            &[
                "breaking x-kubernetes-validations v1 .spec.x",
                "safe x-kubernetes-validations v1 .spec.x",
            ],
        ),
        (
            "a quote in a text in a rule",
            rule(r"self != 'a\'  b'"),
            rule(r"self != 'a\' b'"),
            &[
                "breaking x-kubernetes-validations v1 .spec.x",
                "safe x-kubernetes-validations v1 .spec.x",
            ],
        ),
        (
            "a rule about updates covers creations",
            rule("self == oldSelf"),
            rules(json!([{"rule": "self == oldSelf", "optionalOldSelf": true}])),
            &["breaking x-kubernetes-validations v1 .spec.x"],
        ),
        (
            "a rule about updates is said to be one",
            rule("self == oldSelf"),
            rules(json!([{"rule": "self == oldSelf", "optionalOldSelf": false}])),
            &[],
        ),
        (
            "a pattern becomes a length",
            json!({"type": "string", "pattern": "^.{0,5}$"}),
            json!({"type": "string", "maxLength": 5}),
            &["breaking maxlength v1 .spec.x", "safe pattern v1 .spec.x"],
        ),
        (
            "integers above 2 are those from 3 on",
            integer("minimum", 2, true),
            integer("minimum", 3, false),
            &[],
        ),
        (
            "integers below 2 are those up to 1",
            integer("maximum", 2, true),
            integer("maximum", 1, false),
            &[],
        ),
        (
            "an integer is excluded",
            integer("maximum", 2, false),
            integer("maximum", 2, true),
            &["breaking maximum v1 .spec.x"],
        ),
        (
            "multiples of 1",
            json!({"type": "integer"}),
            json!({"type": "integer", "multipleOf": 1}),
            &[],
        ),
        (
            "numbers have to be whole",
            json!({"type": "number"}),
            json!({"type": "number", "multipleOf": 1}),
            &["breaking multipleof v1 .spec.x"],
        ),
    ]
}

#[test]
fn each_pair_is_judged_as_the_api_server_and_clients_see_it() {
    let fields = of_fields().into_iter().map(|(name, old, new, expected)| {
        (name, definition(&field(old)), definition(&field(new)), expected)
    });
    for (name, old, new, expected) in of_definitions().into_iter().chain(fields) {
        assert_eq!(effects(&old, &new), expected, "{name}");
    }
}
