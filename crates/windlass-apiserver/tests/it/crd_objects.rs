//! Objects of a definition: kinds, numbers, patches, warnings.

use http::Method;
use serde_json::{Value, json};

use crate::asked::{Answer, Asked, boat, boats, boats_path, version};

async fn any_boats() -> Asked {
    let asked = Asked::new();
    let spec = json!({
        "n": {"type": "integer"}, "s": {"type": "string"},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    asked.define(boats(json!([version("v1", true, spec)]))).await;
    asked
}

#[tokio::test]
async fn another_kind_is_refused_under_its_own_name() {
    let asked = any_boats().await;
    let mut other = boat("v1", "a", json!({}));
    other["kind"] = "Raft".into();
    let answer = asked.post(&boats_path("v1"), other).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().starts_with("Raft.sea.example \"a\" is invalid: kind: "));
    let mut other = boat("v1", "a", json!({}));
    other.as_object_mut().unwrap().remove("apiVersion");
    let answer = asked.post(&boats_path("v1"), other).await;
    assert_eq!(
        answer.message(),
        "the API version in the data () does not match the expected API version (sea.example/v1)"
    );
}

#[tokio::test]
async fn a_finalizer_without_a_domain_is_taken_with_a_warning() {
    let asked = any_boats().await;
    let mut object = boat("v1", "a", json!({}));
    object["metadata"]["finalizers"] = json!(["keep"]);
    let answer = asked.post(&boats_path("v1"), object).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert!(answer.warnings[0].contains("prefer a domain-qualified finalizer name"));
}

#[tokio::test]
async fn what_needs_a_namespace_or_a_name_says_so() {
    let asked = any_boats().await;
    let create = asked.post("/apis/sea.example/v1/boats", boat("v1", "a", json!({}))).await;
    assert_eq!((create.code, create.body), (404, Value::from("404 page not found\n")));
    let update = asked.put(&boats_path("v1"), boat("v1", "a", json!({}))).await;
    assert_eq!((update.code, update.message()), (400, "name must be provided"));
}

#[tokio::test]
async fn numbers_beyond_64_bits_keep_their_digits() {
    let asked = any_boats().await;
    let text = r#"{"apiVersion":"sea.example/v1","kind":"Boat","metadata":{"name":"a"},
        "spec":{"any":{"big":9223372036854775808,"whole":2.0,"huge":1e300}}}"#;
    let media = "application/json";
    let Answer { code, body, .. } =
        asked.send(Method::POST, &boats_path("v1"), media, text.into()).await;
    assert_eq!(code, 201, "{body}");
    assert_eq!(body["spec"]["any"]["big"], json!(9_223_372_036_854_776_000_u64));
    assert_eq!(body["spec"]["any"]["whole"], json!(2));
    let patch = json!([{"op": "test", "path": "/spec/any/whole", "value": 2.0}]);
    let tested = asked.json_patch(&format!("{}/a", boats_path("v1")), patch).await;
    assert_eq!(tested.code, 422, "a patch compares numbers as they are written");
}

#[tokio::test]
async fn a_patch_may_not_change_what_identifies_an_object() {
    let asked = any_boats().await;
    let path = format!("{}/a", boats_path("v1"));
    asked.post(&boats_path("v1"), boat("v1", "a", json!({"n": 1}))).await.good();
    let kind = asked.merge(&path, json!({"kind": "Raft"})).await;
    assert!(kind.message().contains("kind: Invalid value: \"Raft\": must be Boat"));
    let uid = asked.merge(&path, json!({"metadata": {"uid": "1"}})).await;
    assert_eq!(uid.code, 422);
    assert_eq!(uid.body["details"]["causes"].as_array().unwrap().len(), 2, "reported twice");
    let wrong = asked.merge(&path, json!({"metadata": {"labels": {"a": 1}}})).await;
    assert_eq!((wrong.code, wrong.body["reason"].as_str()), (422, Some("Invalid")));
}

#[tokio::test]
async fn odd_keys_of_a_json_patch_are_reported() {
    let asked = any_boats().await;
    let path = format!("{}/a", boats_path("v1"));
    asked.post(&boats_path("v1"), boat("v1", "a", json!({"n": 1}))).await.good();
    let patch = json!([{"op": "replace", "path": "/spec/n", "value": 2, "why": "more"}]);
    let warned = asked.json_patch(&path, patch.clone()).await;
    assert_eq!(warned.warnings, ["299 - \"json patch unknown field \\\"[0].why\\\"\""]);
    let strict = asked.json_patch(&format!("{path}?fieldValidation=Strict"), patch).await;
    assert!(strict.message().ends_with("json patch unknown field \"[0].why\""));
}

#[tokio::test]
async fn lists_over_all_namespaces_are_in_the_order_of_paths() {
    let asked = any_boats().await;
    for namespace in ["ab", "a-b", "a"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        asked.post("/api/v1/namespaces", object).await.good();
        let path = format!("/apis/sea.example/v1/namespaces/{namespace}/boats");
        asked.post(&path, boat("v1", "x", json!({}))).await.good();
    }
    let list = asked.get("/apis/sea.example/v1/boats").await.good();
    let names = list["items"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|b| b["metadata"]["namespace"].as_str().unwrap()).collect();
    assert_eq!(names, ["a-b", "a", "ab"]);
}

#[tokio::test]
async fn an_integer_written_as_a_large_float_is_none() {
    let asked = any_boats().await;
    let text = r#"{"apiVersion":"sea.example/v1","kind":"Boat","metadata":{"name":"a"},
        "spec":{"n":1e18}}"#;
    let answer = asked.send(Method::POST, &boats_path("v1"), "application/json", text.into()).await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    assert!(
        answer.message().ends_with(
            "spec.n: Invalid value: \"number\": spec.n in body must be of type integer: \"number\""
        ),
        "{}",
        answer.message()
    );
}
