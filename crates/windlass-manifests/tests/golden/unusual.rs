//! Shapes of APIs that are rare: nested lists and maps, named types of them, names that are words of
//! CEL, generic structs, defaults of unions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use windlass::{api, k8s};

use crate::judge::Judge;

/// A port.
#[k8s]
pub struct Port {
    #[k8s(max_length = 15)]
    pub name: String,
    #[k8s(min = 1, max = 65535)]
    pub number: u16,
}

/// All ports, by name.
#[k8s(list = map("name"), max_items = 8)]
pub struct Ports(pub Vec<Port>);

/// Labels of one team.
#[k8s(max_properties = 4, values(max_length = 5), map = atomic)]
pub struct Labels(pub BTreeMap<String, String>);

#[api(group = "unusual.example.com", version = "v1", kind = "Nesting")]
pub struct NestingSpec {
    #[k8s(max_properties = 3, values(max_items = 2, items(max_length = 3)))]
    pub lists: Option<BTreeMap<String, Vec<String>>>,
    #[k8s(max_items = 2, items(max_properties = 1, values(max = 5)))]
    pub maps: Option<Vec<BTreeMap<String, i32>>>,
    #[k8s(items(items(pattern = "^[a-z]$")))]
    pub grid: Option<Vec<Vec<String>>>,
    #[k8s(max_items = 2)]
    pub ports: Option<Ports>,
    #[k8s(min_properties = 1)]
    pub labels: Option<Labels>,
    pub quantities: Option<HashMap<String, BTreeMap<String, Quantity>>>,
    pub hash: Option<[u8; 4]>,
    pub anything: Option<HashMap<String, Value>>,
    #[k8s(items(nullable))]
    pub holes: Option<Vec<Option<i32>>>,
    pub twice: Option<Option<Box<str>>>,
}

#[tokio::test(start_paused = true)]
async fn lists_and_maps_may_be_nested_and_named() {
    let judge = Judge::of::<Nesting>().await;
    for spec in [
        json!({ "lists": { "a": ["x", "abc"] }, "maps": [{ "a": 5 }], "grid": [["a"], []] }),
        json!({ "ports": [{ "name": "http", "number": 80 }], "labels": { "a": "b" } }),
        json!({ "quantities": { "a": { "cpu": "100m" } }, "hash": [1, 2, 3, 4] }),
        json!({ "anything": { "a": [1, { "b": null }] }, "holes": [1, null], "twice": "x" }),
    ] {
        judge.accepts::<NestingSpec>(spec).await;
    }
    for (spec, why) in [
        (json!({ "lists": { "a": ["abcd"] } }), "more than 3"),
        (json!({ "lists": { "a": ["a", "b", "c"] } }), "at most 2"),
        (json!({ "maps": [{ "a": 6 }] }), "equal to 5"),
        (json!({ "grid": [["A"]] }), "^[a-z]$"),
        (
            json!({ "ports": [{ "name": "a", "number": 80 }, { "name": "a", "number": 81 }] }),
            "Duplicate",
        ),
        (json!({ "ports": [{ "name": "a", "number": 0 }] }), "equal to 1"),
        (json!({ "labels": {} }), "at least 1"),
        (json!({ "labels": { "a": "abcdef" } }), "more than 5"),
        (json!({ "hash": [1, 2, 3] }), "at least 4"),
        (json!({ "hash": [1, 2, 3, 256] }), "equal to 255"),
    ] {
        judge.refuses(spec, why).await;
    }
}

/// Something that is one of several, under names that are words of CEL.
#[k8s(exactly_one_of(r#in, namespace, r#type, dashed), at_most_one_of(r#in, other))]
pub struct Words {
    pub r#in: Option<String>,
    pub namespace: Option<String>,
    pub r#type: Option<String>,
    #[serde(rename = "with-dash")]
    pub dashed: Option<String>,
    #[serde(rename = "a.b/c")]
    #[k8s(immutable)]
    pub other: Option<String>,
}

#[api(
    group = "unusual.example.com",
    version = "v1",
    kind = "Word",
    selectable = ".spec.words.namespace",
    column("Dash", ".spec.words.with-dash")
)]
pub struct WordSpec {
    pub words: Words,
}

#[tokio::test(start_paused = true)]
async fn fields_may_have_names_that_are_words_of_cel() {
    let judge = Judge::of::<Word>().await;
    for words in [
        json!({ "in": "a" }),
        json!({ "namespace": "a", "a.b/c": "x" }),
        json!({ "type": "a" }),
        json!({ "with-dash": "a" }),
    ] {
        judge.accepts::<WordSpec>(json!({ "words": words })).await;
    }
    judge.refuses(json!({ "words": {} }), "exactly one of the fields").await;
    let two = json!({ "words": { "in": "a", "with-dash": "b" } });
    judge.refuses(two, "exactly one of the fields").await;
    let other = json!({ "words": { "in": "a", "a.b/c": "b" } });
    judge.refuses(other, "at most one of the fields").await;
}

/// A reference to something.
#[k8s]
pub struct Reference<T> {
    pub name: String,
    pub value: Option<T>,
}

#[k8s(max_length = 3)]
pub struct Short(pub Cow<'static, str>);

#[api(group = "unusual.example.com", version = "v1", kind = "Generics")]
pub struct GenericsSpec {
    pub number: Reference<i64>,
    pub text: Reference<Short>,
    pub list: Option<Reference<Vec<Short>>>,
}

#[tokio::test(start_paused = true)]
async fn generic_structs_have_a_schema_for_each_of_their_types() {
    let judge = Judge::of::<Generics>().await;
    let spec = |number: Value, text: Value| json!({ "number": { "name": "a", "value": number }, "text": { "name": "b", "value": text } });
    judge.accepts::<GenericsSpec>(spec(json!(3), json!("abc"))).await;
    judge.refuses(spec(json!("3"), json!("abc")), "number.value").await;
    judge.refuses(spec(json!(3), json!("abcd")), "more than 3").await;
}

/// Where data is.
#[k8s]
pub enum Storage {
    Disk { path: String, size: Option<u32> },
    Memory,
}

#[k8s]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Strategy {
    RollingUpdate { max_surge: Option<u32>, storage: Option<Storage> },
    Recreate(Grace),
    OnDelete,
}

#[k8s]
pub struct Grace {
    #[k8s(min = 1)]
    pub seconds: i64,
    #[serde(flatten)]
    pub more: Option<More>,
}

#[k8s]
pub struct More {
    pub reason: String,
    pub code: i32,
}

#[k8s]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum Day {
    #[serde(rename = "")]
    Any,
    Monday,
    Tuesday,
}

#[api(group = "unusual.example.com", version = "v1", kind = "Unions")]
pub struct UnionsSpec {
    #[k8s(default = { disk: { path: "/data" } })]
    pub storage: Option<Storage>,
    pub strategy: Option<Strategy>,
    #[k8s(max_items = 3)]
    pub days: Option<BTreeSet<Day>>,
    #[k8s(default = "")]
    pub day: Option<Day>,
    #[k8s(max_items = 4, list = map("name"))]
    pub volumes: Option<Vec<Volume>>,
    #[k8s(enum = [1, 2, 4])]
    pub power: Option<i32>,
    pub at: Option<Time>,
}

/// A volume, whose kind is beside its name.
#[k8s]
pub struct Volume {
    #[k8s(max_length = 20)]
    pub name: String,
    #[serde(flatten)]
    pub storage: Storage,
}

#[tokio::test(start_paused = true)]
async fn unions_may_be_nested_flattened_and_have_defaults() {
    let judge = Judge::of::<Unions>().await;
    let whole = |more: Value| {
        let mut spec = json!({ "storage": { "memory": {} }, "day": "" });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    for spec in [
        json!({}),
        json!({ "strategy": { "mode": "rolling-update", "maxSurge": 1 } }),
        json!({ "strategy": { "mode": "rolling-update", "storage": { "disk": { "path": "/" } } } }),
        json!({ "strategy": { "mode": "recreate", "seconds": 3 } }),
        json!({ "strategy": { "mode": "recreate", "seconds": 3, "reason": "x", "code": 1 } }),
        json!({ "strategy": { "mode": "on-delete" }, "days": ["Monday"], "power": 4 }),
        json!({ "volumes": [{ "name": "a", "memory": {} }], "at": "2026-01-01T00:00:00Z" }),
    ] {
        judge.accepts::<UnionsSpec>(whole(spec)).await;
    }
    for (spec, why) in [
        (json!({ "strategy": { "mode": "recreate" } }), "seconds must be set"),
        (json!({ "strategy": { "mode": "recreate", "seconds": 0 } }), "equal to 1"),
        (json!({ "strategy": { "mode": "recreate", "seconds": 1, "code": 1 } }), "[reason code]"),
        (json!({ "strategy": { "mode": "on-delete", "maxSurge": 1 } }), "may only be set"),
        (
            json!({ "strategy": { "mode": "rolling-update", "storage": {} } }),
            "exactly one of the fields",
        ),
        (json!({ "days": ["Monday", "Monday"] }), "Duplicate"),
        (json!({ "days": ["Sunday"] }), "Sunday"),
        (json!({ "volumes": [{ "name": "a" }] }), "exactly one of the fields"),
        (json!({ "power": 3 }), "power"),
        (json!({ "at": "yesterday" }), "date-time"),
    ] {
        judge.refuses(whole(spec), why).await;
    }
}

/// What is left out is filled in, from the outside to the inside.
#[k8s]
pub struct Limits {
    #[k8s(default = 5)]
    pub most: i32,
    #[k8s(default = true)]
    pub strict: bool,
    #[k8s(default = { "a b": [1, -2], c: null })]
    pub raw: Value,
}

impl Default for Limits {
    fn default() -> Self {
        Self { most: 7, strict: false, raw: json!({ "a": 1 }) }
    }
}

#[api(group = "unusual.example.com", version = "v1", kind = "Defaults", optional_spec)]
#[derive(Default)]
#[serde(default)]
pub struct DefaultsSpec {
    #[k8s(default = {})]
    pub filled: Limits,
    #[k8s(default = Limits::default())]
    pub computed: Limits,
    #[k8s(default = ["a", "b"], list = set, items(max_length = 1))]
    pub list: Vec<String>,
    #[k8s(default = -1, min = -1)]
    pub number: i32,
}

#[tokio::test(start_paused = true)]
async fn defaults_are_filled_in_from_the_outside_to_the_inside() {
    let judge = Judge::of::<Defaults>().await;
    let stored = judge.store(&json!({})).await.unwrap();
    assert_eq!(stored["filled"]["most"], 5);
    assert_eq!(stored["filled"]["raw"]["a b"], json!([1, -2]));
    assert_eq!(stored["computed"], json!({ "most": 7, "strict": false, "raw": { "a": 1 } }));
    assert_eq!((&stored["list"], &stored["number"]), (&json!(["a", "b"]), &json!(-1)));
    let read: DefaultsSpec = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), stored);
}

#[k8s]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[k8s]
pub struct Empty {}

#[api(group = "unusual.example.com", version = "v1", kind = "Refused")]
pub struct RefusedSpec {
    pub one_or_many: OneOrMany,
    #[k8s(list = map("name"))]
    pub by_name: Vec<Empty>,
    #[k8s(default = "x")]
    pub ports: Ports,
    #[k8s(exclusive_min = 1, max = 2)]
    pub fine: i32,
}

#[test]
fn what_has_no_schema_is_refused_with_a_reason() {
    let problems = windlass::crd::check::<Refused>().unwrap_err().problems;
    let found: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let expected = ["v1 .spec.byName", "v1 .spec.oneOrMany", "v1 .spec.ports"];
    assert_eq!(found, expected, "{problems:?}");
}

#[test]
fn definitions_of_unusual_types_are_named_after_their_kinds() {
    assert_eq!(Nesting::crd_name(), "nestings.unusual.example.com");
}
