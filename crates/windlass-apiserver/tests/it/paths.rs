//! Paths and parameters that look right and are not.

use serde_json::{Value, json};

use crate::support::*;

async fn get(path: &str) -> Answer {
    ask(&server(), &format!("GET {path}"), Value::Null).await
}

#[tokio::test]
async fn a_timeout_that_is_no_duration_is_refused_before_anybody_asks_who() {
    let server = server();
    let path = format!("GET {MAPS}?timeout=abc");
    assert_eq!(
        ask(&server, &path, Value::Null).await.fails(400),
        "invalid timeout specified in the request URL - time: invalid duration \"abc\""
    );
    assert!(ask_as(&server, "nonsense", &path, Value::Null).await.fails(400).contains("timeout"));
    let unit = get(&format!("{MAPS}?timeout=10")).await.fails(400);
    assert!(unit.ends_with("time: missing unit in duration \"10\""), "{unit}");
    get(&format!("{MAPS}?timeout=10s")).await.ok();
    let mut watch = Watch::open(&server, &format!("{MAPS}?timeout=abc&timeoutSeconds=1")).await;
    watch.rest().await;
}

#[tokio::test]
async fn a_path_does_not_begin_with_two_slashes() {
    let answer = get("//api/v1").await;
    assert_eq!((answer.code.as_u16(), answer.text().trim_end()), (404, "404 page not found"));
}

#[tokio::test]
async fn there_are_no_paths_below_resources_that_can_only_be_created() {
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let missing = "the server could not find the requested resource";
    assert_eq!(get(&format!("{reviews}/x")).await.fails(404), missing);
    assert_eq!(
        get("/apis/authorization.k8s.io/v1/localsubjectaccessreviews").await.fails(404),
        missing
    );
    get(reviews).await.fails(405);
    get("/api/v1/namespaces/default/bindings").await.fails(405);
    get("/api/v1/bindings").await.fails(404);
}

#[tokio::test]
async fn reviews_keep_their_managers_but_self_reviews_are_new_objects() {
    let server = server();
    let ask_for = async |kind: &str, spec: Value| {
        let path = format!("POST /apis/authorization.k8s.io/v1/{kind}?fieldManager=m");
        ask(&server, &path, json!({"metadata": {}, "spec": spec})).await.ok()
    };
    let attributes = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let access = ask_for("selfsubjectaccessreviews", attributes).await;
    let entry = &access["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("m"), &json!("Update")));
    assert!(entry["fieldsV1"]["f:spec"]["f:resourceAttributes"]["f:verb"].is_object(), "{entry}");
    let rules = ask_for("selfsubjectrulesreviews", json!({"namespace": "default"})).await;
    assert_eq!((&rules["metadata"], &rules["spec"]), (&json!({}), &json!({})));
}

#[tokio::test]
async fn a_token_request_shows_its_requester() {
    let server = pod_server().await;
    let path = "POST /api/v1/namespaces/default/serviceaccounts/default/token?fieldManager=m";
    let token = ask(&server, path, json!({"spec": {"audiences": ["a"]}})).await.ok();
    let entry = &token["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["subresource"]), (&json!("m"), &json!("token")));
    assert_eq!(entry["apiVersion"], "authentication.k8s.io/v1");
    assert!(entry["fieldsV1"]["f:spec"]["f:audiences"].is_object(), "{entry}");
}
