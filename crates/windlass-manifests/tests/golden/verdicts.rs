//! The check and the API server agree about generated definitions.
//!
//! The two are separate on purpose: the server answers with the texts of the real one and validates updates of
//! stored definitions, while the check speaks of attributes and finds more. This test keeps their verdicts equal.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use windlass_apiserver::server::ApiServer;

/// What the check finds although an API server accepts it: it cannot work.
const USELESS: &[&str] = &[
    "applies to",
    "no value is possible",
    "of `enum`",
    "is required, but there is no such field",
    "an int-or-string has no other type",
    "names items of what is no list",
    "has not the format",
];

static KINDS: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", ""];

/// Keywords with values that are right in some schemas.
fn keywords() -> Vec<(&'static str, Value)> {
    vec![
        ("default", json!("a")),
        ("default", json!(1)),
        ("default", json!(1.5)),
        ("default", json!({})),
        ("default", json!({ "a": "x" })),
        ("default", json!([])),
        ("default", json!(["a"])),
        ("default", json!(null)),
        ("enum", json!(["a", "b"])),
        ("enum", json!([1])),
        ("nullable", json!(true)),
        ("pattern", json!("^a")),
        ("pattern", json!("(")),
        ("format", json!("date")),
        ("minimum", json!(1)),
        ("maximum", json!(5)),
        ("exclusiveMaximum", json!(true)),
        ("multipleOf", json!(2)),
        ("minLength", json!(1)),
        ("maxLength", json!(3)),
        ("minItems", json!(1)),
        ("maxItems", json!(3)),
        ("minProperties", json!(1)),
        ("maxProperties", json!(3)),
        ("uniqueItems", json!(true)),
        ("required", json!(["a"])),
        ("allOf", json!([{ "minLength": 1 }])),
        ("anyOf", json!([{ "type": "integer" }, { "type": "string" }])),
        ("oneOf", json!([{ "required": ["a"] }, { "required": ["b"] }])),
        ("not", json!({ "properties": { "a": { "enum": ["x"] } } })),
        ("x-kubernetes-int-or-string", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-list-type", json!("set")),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-type", json!("atomic")),
        ("x-kubernetes-list-map-keys", json!(["a"])),
        ("x-kubernetes-map-type", json!("atomic")),
        ("x-kubernetes-map-type", json!("granular")),
        ("x-kubernetes-validations", json!([{ "rule": "true" }])),
        ("x-kubernetes-validations", json!([{ "rule": "self == oldSelf" }])),
        ("x-kubernetes-validations", json!([{ "rule": "has(self.a)", "fieldPath": ".a" }])),
        ("x-kubernetes-validations", json!([{ "rule": "self.all(x, x == x)" }])),
        ("title", json!("A title")),
        ("example", json!("x")),
    ]
}

/// A schema: often right, sometimes wrong.
fn schema() -> impl Strategy<Value = Value> {
    let extra = || proptest::collection::vec(proptest::sample::select(keywords()), 0..3);
    let with = |kind: &str, extra: Vec<(&'static str, Value)>| {
        let mut schema = Map::new();
        if !kind.is_empty() {
            schema.insert("type".into(), kind.into());
        }
        schema.extend(extra.into_iter().map(|(key, value)| (key.to_owned(), value)));
        schema
    };
    let leaf = (proptest::sample::select(&KINDS[..5]), extra())
        .prop_map(move |(kind, extra)| Value::Object(with(kind, extra)));
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (proptest::sample::select(&KINDS[..]), extra(), inner.clone(), inner, 0_u8..8).prop_map(
            move |(kind, extra, one, other, children)| {
                let mut schema = with(kind, extra);
                match (kind, children) {
                    ("array", 0) => {}
                    ("array", _) => {
                        schema.insert("items".into(), one);
                    }
                    ("object", 0) => {
                        schema.insert("additionalProperties".into(), one);
                    }
                    ("object", 1) => {
                        schema.insert("properties".into(), json!({ "a": one }));
                        schema.insert("additionalProperties".into(), other);
                    }
                    ("object", _) => {
                        schema.insert("properties".into(), json!({ "a": one, "b": other }));
                    }
                    _ => {}
                }
                Value::Object(schema)
            },
        )
    })
}

fn definition(spec: &Value) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "lamps.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Lamp", "listKind": "LampList", "plural": "lamps", "singular": "lamp" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
            }],
        },
    }))
    .unwrap()
}

#[test]
fn the_check_and_the_api_server_agree_about_generated_definitions() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let context = runtime.enter();
    let server = ApiServer::start();
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    drop(context);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&schema(), |spec| {
        let crd = definition(&spec);
        let refused = runtime.block_on(definitions.create(&dry_run, &crd)).err();
        let problems = windlass::crd::check_crd(&crd).err();
        match (refused, problems) {
            (Some(refused), None) => prop_assert!(false, "the check accepts {spec}: {refused}"),
            (None, Some(problems)) => {
                let real = problems.problems.iter().find(|problem| {
                    !USELESS.iter().any(|useless| problem.message.contains(useless))
                });
                prop_assert!(real.is_none(), "the server accepts {spec}: {real:?}");
            }
            _ => {}
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
