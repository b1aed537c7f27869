//! Conversion webhooks: one object in two versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass_apiserver::ApiServer;

use crate::tools::*;

const URL: &str = "https://convert.example.com/x";

fn definition() -> Value {
    let version = |name: &str, field: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object",
                "properties": {field: {"type": "string"}}}}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1", "host", true), version("v2", "address", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": URL}, "conversionReviewVersions": ["v1"]}}}})
}

/// What a good webhook makes of a review: the field has another name in each version.
fn convert(review: &Value) -> Value {
    let to = review["request"]["desiredAPIVersion"].as_str().unwrap().to_owned();
    let (from_field, to_field) =
        if to.ends_with("v2") { ("host", "address") } else { ("address", "host") };
    let objects = review["request"]["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = to.as_str().into();
        object["spec"] = json!({to_field: object["spec"][from_field]});
        object
    });
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {
        "uid": review["request"]["uid"], "result": {"status": "Success"},
        "convertedObjects": objects.collect::<Vec<_>>()}})
}

fn path(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/things")
}

fn thing(version: &str, name: &str, field: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing",
        "metadata": {"name": name}, "spec": {field: "h"}})
}

async fn defined(server: &ApiServer) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    made(server, definitions, definition()).await;
}

#[tokio::test]
async fn an_object_is_read_written_and_listed_in_every_version() {
    let server = server();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    server.register_webhook(URL, move |review| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { convert(&review) }
    });
    defined(&server).await;
    made(&server, &path("v1"), thing("v1", "a", "host")).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let read = get(&server, &format!("{}/a", path("v2"))).await.body;
    assert_eq!(read["spec"], json!({"address": "h"}));
    assert_eq!(read["apiVersion"], "example.com/v2");
    let made = made(&server, &path("v2"), thing("v2", "b", "address")).await;
    assert_eq!(made["spec"], json!({"address": "h"}));
    let stored = get(&server, &format!("{}/b", path("v1"))).await.body;
    assert_eq!(stored["spec"], json!({"host": "h"}));
    let before = calls.load(Ordering::SeqCst);
    let list = get(&server, &path("v2")).await.body;
    assert_eq!(calls.load(Ordering::SeqCst), before + 1);
    let specs: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|item| &item["spec"]).collect();
    assert_eq!(specs, [&json!({"address": "h"}), &json!({"address": "h"})]);
    let patch = json!({"spec": {"address": "other"}});
    let patched = send(&server, "PATCH", &format!("{}/a", path("v2")), patch).await;
    assert_eq!(patched.body["spec"], json!({"address": "other"}), "{patched:?}");
    let stored = get(&server, &format!("{}/a", path("v1"))).await.body;
    assert_eq!(stored["spec"], json!({"host": "other"}));
}

#[tokio::test]
async fn objects_stay_readable_when_the_stored_version_changes() {
    let server = server();
    server.register_webhook(URL, |review| async move { convert(&review) });
    defined(&server).await;
    made(&server, &path("v1"), thing("v1", "a", "host")).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
    let mut now = get(&server, definitions).await.body;
    now["spec"]["versions"][0]["storage"] = false.into();
    now["spec"]["versions"][1]["storage"] = true.into();
    let changed = send(&server, "PUT", definitions, now).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    for (version, field) in [("v1", "host"), ("v2", "address")] {
        let read = get(&server, &format!("{}/a", path(version))).await.body;
        assert_eq!(read["spec"], json!({field: "h"}), "{version}");
    }
}

#[tokio::test]
async fn a_watch_shows_its_own_version() {
    let server = server();
    server.register_webhook(URL, |review| async move { convert(&review) });
    defined(&server).await;
    made(&server, &path("v1"), thing("v1", "a", "host")).await;
    let request = http::Request::builder()
        .uri(format!("{}?watch=1&resourceVersion=0", path("v2")))
        .header("authorization", "Bearer t")
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let mut body = server.clone().oneshot(request).await.unwrap().into_body();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["spec"], json!({"address": "h"}));
}

#[tokio::test]
async fn a_webhook_that_lies_about_an_object_is_not_believed() {
    let server = server();
    server.register_webhook(URL, |review| async move {
        let mut answer = convert(&review);
        answer["response"]["convertedObjects"][0]["metadata"]["name"] = "other".into();
        answer
    });
    defined(&server).await;
    made(&server, &path("v1"), thing("v1", "a", "host")).await;
    let refused = get(&server, &format!("{}/a", path("v2"))).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "conversion webhook for example.com/v1, Kind=Thing returned invalid object: must have the same name: a != other"
    );
    server.register_webhook(URL, |review| async move {
        let mut answer = convert(&review);
        answer["response"]["convertedObjects"] = json!([]);
        answer
    });
    let refused = get(&server, &format!("{}/a", path("v2"))).await;
    assert_eq!(
        refused.message(),
        "conversion webhook for example.com/v1, Kind=Thing returned 0 objects, expected 1"
    );
    server.register_webhook(URL, |_| async { json!({}) });
    let refused = get(&server, &format!("{}/a", path("v2"))).await;
    assert_eq!(
        refused.message(),
        "conversion webhook for example.com/v1, Kind=Thing failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="
    );
}

#[tokio::test]
async fn what_is_read_gets_the_defaults_of_the_version_it_is_stored_in() {
    let server = server();
    server.register_webhook(URL, |review| async move { convert(&review) });
    let mut definition = definition();
    for (index, size) in [(0, 3), (1, 7)] {
        let schema = &mut definition["spec"]["versions"][index]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["size"] =
            json!({"type": "integer", "default": size});
    }
    made(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    made(&server, &path("v1"), thing("v1", "a", "host")).await;
    let stored = get(&server, &format!("{}/a", path("v1"))).await.body;
    assert_eq!(stored["spec"], json!({"host": "h", "size": 3}));
    let converted = get(&server, &format!("{}/a", path("v2"))).await.body;
    assert_eq!(converted["spec"], json!({"address": "h"}));
}

#[tokio::test(start_paused = true)]
async fn a_write_past_admission_is_completed_after_its_client_has_disconnected() {
    let server = server();
    let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (count, opened) = (asked.clone(), gate.clone());
    server.register_webhook(URL, move |review| {
        let (count, opened) = (count.clone(), opened.clone());
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            opened.notified().await;
            convert(&review)
        }
    });
    defined(&server).await;
    let things = path("v2");
    let create = made(&server, &things, thing("v2", "a", "address"));
    let left = tokio::time::timeout(std::time::Duration::from_secs(1), create).await;
    left.expect_err("the webhook has not answered yet");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    gate.notify_one();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let stored = get(&server, &format!("{}/a", path("v1"))).await.body;
    assert_eq!(stored["spec"], json!({"host": "h"}));
}
