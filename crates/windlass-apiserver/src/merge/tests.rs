//! Shared pieces of the tests of this module, and its behaviour as a whole.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::walk::{compare, remove_items};
use super::*;
use crate::resource::Gvk;
use crate::shape::{Field, List, ListMerge, Object, Scalar, Shape, ShapeKind, ShapeRef};
use crate::status::Status;

/// Small JSON values.
pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[a-c]".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

/// A shape from a few words of OpenAPI: `type`, `properties`, `items`, `listType`, `keys`, ...
pub(super) fn shape(schema: &Value) -> ShapeRef {
    let text = |key: &str| schema[key].as_str().unwrap_or_default();
    let go_type = schema["go"].as_str().unwrap_or("Thing").to_owned();
    let kind = match text("type") {
        "string" => ShapeKind::Scalar(Scalar::String),
        "integer" => ShapeKind::Scalar(Scalar::Int64),
        "boolean" => ShapeKind::Scalar(Scalar::Boolean),
        "array" => ShapeKind::List(List {
            item: shape(&schema["items"]),
            merge: match text("listType") {
                "set" => ListMerge::Set,
                "map" => ListMerge::Map(strings(&schema["keys"])),
                _ => ListMerge::Atomic,
            },
        }),
        "object" => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            ShapeKind::Object(Object {
                fields: fields.map(|(name, schema)| (name.clone(), field(schema))).collect(),
                rest: schema.get("rest").map(shape),
                preserve_unknown: schema["preserve"] == true,
                atomic: schema["atomic"] == true,
                embedded: false,
            })
        }
        _ => ShapeKind::Any,
    };
    ShapeRef::new(Shape { go_type, kind })
}

fn field(schema: &Value) -> Field {
    Field {
        shape: shape(schema),
        default: schema.get("default").cloned(),
        required: false,
        patch_strategy: strings(&schema["strategy"]),
        patch_merge_key: schema["mergeKey"].as_str().map(str::to_owned),
    }
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn text_map() -> Value {
    json!({"type": "object", "rest": {"type": "string"}})
}

fn thing() -> ShapeRef {
    let item = json!({"type": "object", "go": "Item", "properties": {
        "name": {"type": "string"}, "proto": {"type": "string", "default": "TCP"},
        "v": {"type": "integer"}, "w": {"type": "string"},
        "tags": {"type": "array", "listType": "set", "items": {"type": "string"}},
    }});
    shape(&json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {
            "name": {"type": "string"}, "namespace": {"type": "string"},
            "uid": {"type": "string"},
            "labels": text_map(), "annotations": text_map(),
            "finalizers": {"type": "array", "listType": "set", "items": {"type": "string"},
                "strategy": ["merge"]},
        }},
        "data": text_map(),
        "spec": {"type": "object", "go": "Spec", "properties": {
            "n": {"type": "integer"}, "flag": {"type": "boolean"},
            "items": {"type": "array", "listType": "map", "keys": ["name", "proto"],
                "items": item, "strategy": ["merge"], "mergeKey": "name"},
            "set": {"type": "array", "listType": "set", "items": {"type": "string"}},
            "atom": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "atomic": true, "rest": {"type": "string"}},
            "loose": {"type": "object", "preserve": true},
            "strategy": {"type": "object", "strategy": ["retainKeys"], "properties": {
                "type": {"type": "string"}, "rolling": {"type": "object", "preserve": true}}},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }}))
}

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn body(fields: Value) -> Value {
    let mut out = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    merge_patch(&mut out, &fields).unwrap();
    out
}

const NOW: &str = "2026-01-01T00:00:00Z";

fn applied(
    live: Option<&Value>,
    manager: &str,
    fields: Value,
    force: bool,
) -> Result<Value, Status> {
    apply(&ApplyRequest {
        live,
        patch: &body(fields),
        shape: &thing(),
        gvk: &gvk(),
        subresource: "",
        manager,
        force,
        now: NOW,
        reset: &PathSet::of(&["status"]),
        convert: &|value, _| Some((value.clone(), thing())),
    })
}

fn updated(live: Option<&Value>, manager: &str, mut new: Value) -> Value {
    let request = UpdateRequest {
        live,
        shape: &thing(),
        gvk: &gvk(),
        subresource: "",
        manager,
        now: NOW,
        reset: &PathSet::of(&["status"]),
        convert: &|value, _| Some((value.clone(), thing())),
    };
    track_update(&request, &mut new);
    new
}

/// The fields each manager owns, as `manager/Operation`.
fn owners(object: &Value) -> BTreeMap<String, Value> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let name = |e: &Value| {
        format!("{}/{}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap())
    };
    entries.iter().map(|e| (name(e), e["fieldsV1"].clone())).collect()
}

fn owner(object: &Value, name: &str) -> Value {
    owners(object).remove(name).unwrap_or_default()
}

fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("u");
    object
}

#[test]
fn a_conflict_names_the_owner_and_force_takes_the_field() {
    let one = stored(applied(None, "one", json!({"data": {"k": "1", "j": "1"}}), false).unwrap());
    let error = applied(Some(&one), "two", json!({"data": {"k": "2"}}), false).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    let error = applied(Some(&one), "two", json!({"data": {"k": "2", "j": "2"}}), false);
    assert_eq!(
        error.unwrap_err().message,
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.j\n- .data.k"
    );
    let two = applied(Some(&one), "two", json!({"data": {"k": "2"}}), true).unwrap();
    assert_eq!(owner(&two, "one/Apply"), json!({"f:data": {"f:j": {}}}));
    assert_eq!(owner(&two, "two/Apply"), json!({"f:data": {"f:k": {}}}));
    assert_eq!(two["data"], json!({"j": "1", "k": "2"}));
}

#[test]
fn a_field_that_no_manager_applies_any_more_is_removed() {
    let one = stored(applied(None, "one", json!({"data": {"k": "1", "j": "1"}}), false).unwrap());
    let two = applied(Some(&one), "two", json!({"data": {"j": "1"}}), false).unwrap();
    let less = applied(Some(&two), "one", json!({"spec": {"n": 1}}), false).unwrap();
    assert_eq!(less["data"], json!({"j": "1"}));
    let none = applied(Some(&less), "two", json!({}), false).unwrap();
    assert!(none.get("data").is_none_or(Value::is_null), "{none}");
    assert_eq!(owners(&none).len(), 1);
}

#[test]
fn an_update_owner_keeps_a_field_its_applier_drops() {
    let made = stored(updated(None, "maker", body(json!({"data": {"k": "1"}}))));
    assert_eq!(owner(&made, "maker/Update"), json!({"f:data": {".": {}, "f:k": {}}}));
    let both = applied(Some(&made), "one", json!({"data": {"k": "1", "j": "1"}}), false).unwrap();
    let less = applied(Some(&both), "one", json!({"data": {"j": "1"}}), false).unwrap();
    assert_eq!(less["data"], json!({"j": "1", "k": "1"}));
    let none = applied(Some(&less), "one", json!({}), true).unwrap();
    assert_eq!(none["data"], json!({"k": "1"}));
    assert_eq!(owner(&none, "maker/Update"), json!({"f:data": {".": {}, "f:k": {}}}));
    let error = applied(Some(&made), "one", json!({"data": {"k": "2"}}), false).unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"maker\" using v1: .data.k";
    assert_eq!(error.message, text);
}

#[test]
fn items_merge_by_their_keys_and_defaults() {
    let one = json!({"spec": {"items": [{"name": "a", "v": 1}]}});
    let one = stored(applied(None, "one", one, false).unwrap());
    let fields = json!({"f:spec": {"f:items": {
        "k:{\"name\":\"a\",\"proto\":\"TCP\"}": {".": {}, "f:name": {}, "f:v": {}}}}});
    assert_eq!(owner(&one, "one/Apply"), fields);
    let items = json!([{"name": "b", "v": 2}, {"name": "a", "proto": "UDP", "v": 3}]);
    let two = applied(Some(&one), "two", json!({"spec": {"items": items}}), false).unwrap();
    let names: Vec<_> = two["spec"]["items"].as_array().unwrap().iter().map(|i| &i["v"]).collect();
    assert_eq!(names, [1, 2, 3]);
    let error =
        applied(Some(&two), "three", json!({"spec": {"items": [{"name": "a", "v": 9}]}}), false);
    assert!(error.unwrap_err().message.ends_with(".spec.items[name=\"a\",proto=\"TCP\"].v"));
}

#[test]
fn the_order_of_items_is_that_of_the_applied_list() {
    let list = |names: &[&str]| {
        let items: Vec<Value> = names.iter().map(|n| json!({"name": n, "v": 1})).collect();
        json!({"spec": {"items": items}})
    };
    let order = |object: &Value| -> String {
        let items = object["spec"]["items"].as_array().unwrap().iter();
        items.map(|i| i["name"].as_str().unwrap()).collect()
    };
    let one = stored(applied(None, "one", list(&["a", "b", "c"]), false).unwrap());
    let one = applied(Some(&one), "one", list(&["c", "a", "b"]), false).unwrap();
    assert_eq!(order(&one), "cab");
    let two = applied(Some(&one), "two", list(&["d", "c", "x"]), false).unwrap();
    assert_eq!(order(&two), "dcabx");
    let less = applied(Some(&two), "one", list(&["a", "b"]), false).unwrap();
    assert_eq!(order(&less), "dcabx");
}

#[test]
fn sets_keep_the_items_of_all_managers() {
    let set = |items: &[&str]| json!({"spec": {"set": items}});
    let one = stored(applied(None, "one", set(&["a", "b"]), false).unwrap());
    let two = applied(Some(&one), "two", set(&["c", "b"]), false).unwrap();
    assert_eq!(two["spec"]["set"], json!(["a", "c", "b"]));
    let fields = json!({"f:spec": {"f:set": {"v:\"b\"": {}, "v:\"c\"": {}}}});
    assert_eq!(owner(&two, "two/Apply"), fields);
    let less = applied(Some(&two), "two", set(&["z"]), false).unwrap();
    assert_eq!(less["spec"]["set"], json!(["a", "b", "z"]));
}

#[test]
fn faults_of_the_applied_body_have_the_texts_of_the_real_server() {
    let table = [
        (
            json!({"data": {"k": 5}}),
            ".data.k: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (json!({"data": ["k"]}), ".data: expected map, got &{[k]}"),
        (json!({"unknown": 1}), ".unknown: field not declared in schema"),
        (json!({"spec": {"n": "x"}}), ".spec.n: expected numeric (int or float), got string"),
        (json!({"spec": {"flag": "x"}}), ".spec.flag: expected boolean, got &{x}"),
        (json!({"spec": {"set": ["d", "d"]}}), ".spec.set: duplicate entries for key [=\"d\"]"),
        (
            json!({"spec": {"items": [{"name": "q"}, {"name": "q", "proto": "TCP"}]}}),
            ".spec.items: duplicate entries for key [name=\"q\",proto=\"TCP\"]",
        ),
        (
            json!({"spec": {"set": ["x", 5]}}),
            ".spec.set[=5]: expected string, got &value.valueUnstructured{Value:5}",
        ),
    ];
    for (fields, want) in table {
        let error = applied(None, "one", fields, false).unwrap_err();
        let start = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): ";
        assert_eq!((error.code, error.message), (500, format!("{start}{want}")));
    }
    let sent = json!({"metadata": {"managedFields": [{"manager": "x"}]}});
    assert_eq!(applied(None, "one", sent, false).unwrap_err().code, 400);
}

#[test]
fn an_apply_that_changes_nothing_has_no_time_of_its_own() {
    let one = stored(applied(None, "one", json!({"data": {"k": "1"}}), false).unwrap());
    let two = applied(Some(&one), "two", json!({"data": {"k": "1"}}), false).unwrap();
    assert_eq!(two["metadata"]["managedFields"][0].get("time"), None);
    assert_eq!(two["metadata"]["managedFields"][0]["manager"], "two");
}

#[test]
fn untracked_objects_belong_to_before_first_apply() {
    let live = stored(body(json!({"data": {"k": "1"}})));
    let one = applied(Some(&live), "one", json!({"data": {"k": "1"}}), false).unwrap();
    let before = json!({"f:data": {".": {}, "f:k": {}}});
    assert_eq!(owner(&one, "before-first-apply/Update"), before);
    assert_eq!(updated(Some(&live), "m", body(json!({"data": {"k": "2"}}))).get("x"), None);
    assert!(owners(&updated(Some(&live), "m", live.clone())).is_empty());
}

#[test]
fn an_update_takes_fields_and_drops_removed_ones() {
    let one = stored(applied(None, "one", json!({"data": {"k": "1", "j": "1"}}), false).unwrap());
    let mut new = one.clone();
    new["data"] = json!({"k": "2", "z": "1"});
    new["status"] = json!({"ready": 1});
    let after = updated(Some(&one), "hand", new.clone());
    assert_eq!(owners(&after).len(), 1);
    assert_eq!(owner(&after, "hand/Update"), json!({"f:data": {"f:k": {}, "f:z": {}}}));
    new["metadata"]["managedFields"] = json!([]);
    assert!(owners(&updated(Some(&one), "hand", new)).is_empty());
}

#[test]
fn atomic_places_are_owned_as_a_whole() {
    let fields = json!({"spec": {"whole": {"a": "1"}, "atom": ["x"], "loose": {"d": {"e": [1]}}}});
    let one = stored(applied(None, "one", fields, false).unwrap());
    let want = json!({"f:spec": {"f:whole": {}, "f:atom": {}, "f:loose": {
        "f:d": {".": {}, "f:e": {}}}}});
    assert_eq!(owner(&one, "one/Apply"), want);
    let more = json!({"spec": {"whole": {"b": "1"}}});
    assert_eq!(applied(Some(&one), "two", more, false).unwrap_err().code, 409);
}

#[test]
fn other_versions_are_compared_in_their_own_terms() {
    let one = stored(applied(None, "one", json!({"data": {"k": "1"}}), false).unwrap());
    let mut old = one.clone();
    old["metadata"]["managedFields"][0]["apiVersion"] = json!("v0");
    let error = applied(Some(&old), "two", json!({"data": {"k": "2"}}), false).unwrap_err();
    assert_eq!(error.code, 409);
    let dropped = apply(&ApplyRequest {
        live: Some(&old),
        patch: &body(json!({"data": {"k": "2"}})),
        shape: &thing(),
        gvk: &gvk(),
        subresource: "",
        manager: "two",
        force: false,
        now: NOW,
        reset: &PathSet::default(),
        convert: &|value, version| (version == "v1").then(|| (value.clone(), thing())),
    });
    assert_eq!(owners(&dropped.unwrap()).len(), 1);
}

#[test]
fn kubectl_may_take_over_what_it_applied_from_the_client() {
    let last = body(json!({"data": {"k": "1"}})).to_string();
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let mut live = body(json!({"data": {"k": "1"}}));
    live["metadata"]["annotations"] = json!({ key: last });
    let live = stored(updated(None, "kubectl-client-side-apply", live));
    let new = applied(Some(&live), "kubectl", json!({"data": {"k": "2"}}), false).unwrap();
    assert_eq!(new["data"]["k"], "2");
    let annotation = new["metadata"]["annotations"][key].as_str().unwrap();
    assert!(annotation.contains("\"k\":\"2\"") && annotation.ends_with('\n'), "{annotation}");
    assert_eq!(
        applied(Some(&live), "one", json!({"data": {"k": "2"}}), false).unwrap_err().code,
        409
    );
}

#[test]
fn equal_objects_keep_their_times() {
    let one = applied(None, "one", json!({"data": {"k": "1"}}), false).unwrap();
    let mut new = one.clone();
    new["metadata"]["managedFields"][0]["time"] = json!("2027-01-01T00:00:00Z");
    let mut other = new.clone();
    assert!(keep_times(&one, &mut new));
    assert_eq!(new, one);
    other["data"]["k"] = json!("2");
    assert!(!keep_times(&one, &mut other));
}

fn item(name: &str, v: i64) -> Value {
    json!({"name": name, "v": v})
}

fn strategic_live() -> Value {
    json!({"metadata": {"finalizers": ["1", "2"], "annotations": {"a": "b"}}, "spec": {
        "items": [item("a", 1), item("b", 2), item("c", 3)],
        "strategy": {"type": "Rolling", "rolling": {"x": 1}}}})
}

#[test]
fn strategic_directives_do_what_they_say() {
    let live = strategic_live();
    let order = json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]);
    let table = [
        (
            json!({"spec": {"items": [{"name": "a", "v": 9}]}}),
            "/spec/items",
            json!([item("a", 9), item("b", 2), item("c", 3)]),
        ),
        (json!({"spec": {"items": [{"name": "z", "v": 9}]}}), "/spec/items/0", item("z", 9)),
        (
            json!({"spec": {"items": [{"name": "b", "$patch": "delete"}]}}),
            "/spec/items",
            json!([item("a", 1), item("c", 3)]),
        ),
        (
            json!({"spec": {"items": [{"$patch": "replace"}, item("z", 1)]}}),
            "/spec/items",
            json!([item("z", 1)]),
        ),
        (
            json!({"spec": {"$setElementOrder/items": order, "items": [{"name": "a", "v": 9}]}}),
            "/spec/items",
            json!([item("c", 3), item("a", 9), item("b", 2)]),
        ),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Re"}}}),
            "/spec/strategy",
            json!({"type": "Re"}),
        ),
        (
            json!({"metadata": {"finalizers": ["3"]}}),
            "/metadata/finalizers",
            json!(["3", "1", "2"]),
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["1"]}}),
            "/metadata/finalizers",
            json!(["2"]),
        ),
        (
            json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["2"], "finalizers": ["4"]}}),
            "/metadata/finalizers",
            json!(["4", "1"]),
        ),
        (
            json!({"metadata": {"annotations": {"$patch": "replace", "n": "1"}}}),
            "/metadata/annotations",
            json!({"n": "1"}),
        ),
        (
            json!({"metadata": {"annotations": {"$patch": "delete"}}}),
            "/metadata/annotations",
            json!({}),
        ),
        (json!({"spec": {"whole": {"$patch": "nonsense"}}}), "/spec/items/0", item("a", 1)),
    ];
    for (patch, at, want) in table {
        let merged = strategic_patch(live.clone(), patch.clone(), &thing()).unwrap();
        assert_eq!(merged.pointer(at), Some(&want), "{patch}");
    }
}

#[test]
fn strategic_faults_have_the_texts_of_the_real_server() {
    let table = [
        (
            json!({"spec": {"items": [{"v": 1}]}}),
            500,
            "map: map[v:1] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rolling": {}}}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"metadata": {"annotations": {"$patch": "merge"}}}),
            500,
            "unknown patch type: merge in map: map[$patch:merge]",
        ),
    ];
    for (patch, code, message) in table {
        let error = strategic_patch(strategic_live(), patch, &thing()).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

/// Configurations without empty maps and lists: their ownership depends on other owners.
fn any_config() -> impl Strategy<Value = Value> {
    let item = ("[a-c]", prop::option::of("[AB]"), prop::option::of(0..3i64));
    let item = item.prop_map(
        |(name, proto, v)| json!({"name": name, "proto": proto.unwrap_or("TCP".into()), "v": v}),
    );
    (
        prop::collection::btree_map("[a-c]", "[xy]", 1..3),
        prop::collection::btree_set("[a-d]", 1..4),
        prop::collection::vec(item, 1..4),
        prop::option::of(0..3i64),
    )
        .prop_map(|(data, set, mut items, n)| {
            let mut seen = std::collections::BTreeSet::new();
            items.retain(|i| seen.insert((i["name"].to_string(), i["proto"].to_string())));
            let mut out = json!({"data": data, "spec": {"set": set, "items": items}});
            if let Some(n) = n {
                out["spec"]["n"] = json!(n);
            }
            out
        })
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(a in any_config(), b in any_config(), c in any_config()) {
        let one = stored(applied(None, "one", a, false).unwrap());
        let two = applied(Some(&one), "two", b, true).unwrap();
        let once = applied(Some(&two), "one", c.clone(), true).unwrap();
        let twice = applied(Some(&once), "one", c, false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn managers_of_disjoint_fields_commute(
        a in prop::collection::btree_map("a[a-c]", "[xy]", 1..3),
        b in prop::collection::btree_map("b[a-c]", "[xy]", 1..3),
    ) {
        let live = stored(applied(None, "base", json!({"spec": {"n": 1}}), false).unwrap());
        let (a, b) = (json!({"data": a}), json!({"data": b}));
        let ab = applied(Some(&live), "one", a.clone(), false).unwrap();
        let ab = applied(Some(&ab), "two", b.clone(), false).unwrap();
        let ba = applied(Some(&live), "two", b, false).unwrap();
        let ba = applied(Some(&ba), "one", a, false).unwrap();
        prop_assert_eq!(ab, ba);
    }

    #[test]
    fn nothing_panics_on_any_value(live in any_json(), patch in any_json(), other in any_json()) {
        let shape = thing();
        let spec = json!({"items": patch, "set": other, "$setElementOrder/items": other});
        let patch = json!({"spec": spec, "metadata": patch});
        let live = json!({"spec": {"items": live, "set": live}, "metadata": live});
        let _ = strategic_patch(live.clone(), patch.clone(), &shape);
        let _ = applied(Some(&live), "m", json!({"spec": patch["spec"]}), true);
        let changes = compare(&live, &patch, &shape);
        let _ = remove_items(&live, &changes.removed, &shape);
        prop_assert!(compare(&live, &live, &shape).is_same());
        let _ = updated(Some(&live), "m", patch);
    }
}
