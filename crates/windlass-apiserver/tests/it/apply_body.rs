//! Bodies of applies: YAML, identity, what can not be decoded.

use http::Method;
use serde_json::json;

use crate::asked::{Answer, Asked};

const MAP: &str = "/api/v1/namespaces/default/configmaps/m";

async fn apply_yaml(asked: &Asked, options: &str, text: &str) -> Answer {
    let path = format!("{MAP}?fieldManager=one{options}");
    asked.send(Method::PATCH, &path, "application/apply-patch+yaml", text.into()).await
}

#[tokio::test]
async fn a_version_in_an_apply_that_creates_does_not_matter() {
    let asked = Asked::new();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "resourceVersion": "77"}, "data": {"k": "v"}});
    assert_eq!(asked.apply(MAP, "one", object.clone()).await.code, 201);
    assert_eq!(asked.apply(MAP, "one", object).await.code, 409, "now it does");
}

#[tokio::test]
async fn only_the_first_document_of_yaml_counts() {
    let asked = Asked::new();
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n---\nkind: Other\n";
    assert_eq!(apply_yaml(&asked, "", text).await.code, 201);
}

#[tokio::test]
async fn duplicate_keys_are_reported_with_their_line() {
    let asked = Asked::new();
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: one\n  a: two\n";
    let warned = apply_yaml(&asked, "", text).await;
    assert_eq!(warned.warnings, ["299 - \"line 6: key \\\"a\\\" already set in map\""]);
    assert_eq!(warned.good()["data"]["a"], "two");
    let strict = apply_yaml(&asked, "&fieldValidation=Strict", text).await;
    assert_eq!(strict.code, 400);
    assert!(strict.message().starts_with("error strict decoding YAML: "));
    assert!(apply_yaml(&asked, "&fieldValidation=Ignore", text).await.warnings.is_empty());
}

#[tokio::test]
async fn a_value_that_can_not_be_decoded_is_an_error_of_the_conversion() {
    let asked = Asked::new();
    let path = "/api/v1/namespaces/default/secrets/s";
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"a": "no base64!"}});
    let answer = asked.apply(path, "one", object).await;
    assert_eq!(answer.code, 500);
    assert!(answer.message().starts_with("failed to convert new object (/s; /v1, Kind=Secret)"));
}

#[tokio::test]
async fn the_status_of_a_kind_that_puts_create_can_be_applied_first() {
    let asked = Asked::new();
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let status = "/api/v1/namespaces/default/services/s/status";
    let answer = asked.apply(status, "one", object).await;
    assert_eq!(answer.message(), "Service \"s\" is invalid: spec.ports: Required value");
}
