//! Definitions: established, changed, in conflict, deleted.

use futures::{AsyncBufReadExt, TryStreamExt};
use serde_json::{Value, json};

use crate::asked::{Asked, DEFINITIONS, boat, boats, boats_path, version};

const BOATS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.sea.example";

fn sails() -> Value {
    json!([version("v1", true, json!({"sails": {"type": "integer"}}))])
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array().unwrap();
    list.iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_definition_is_served_when_its_create_returns() {
    let asked = Asked::new();
    asked.define(boats(sails())).await;
    let created = asked.post(&boats_path("v1"), boat("v1", "a", json!({"sails": 2}))).await.good();
    assert_eq!(created["metadata"]["generation"], 1);
    let list = asked.get("/apis/sea.example/v1/boats").await.good();
    assert_eq!(list["kind"], "BoatList");
    assert_eq!(list["metadata"]["continue"], "");
    assert_eq!(list["items"][0]["spec"]["sails"], 2);
}

#[tokio::test]
async fn the_server_owns_the_status_of_definitions() {
    let asked = Asked::new();
    asked.define(boats(sails())).await;
    let stored = asked.get(BOATS).await.good();
    assert_eq!(condition(&stored, "Established")["status"], "True");
    assert!(stored["metadata"].get("finalizers").is_none());
    let fields = crate::asked::owned(&stored, "kube-apiserver", "Update", "status").unwrap();
    assert!(fields["f:status"]["f:acceptedNames"]["f:plural"].is_object(), "{fields}");
}

#[tokio::test]
async fn names_that_are_taken_are_accepted_when_their_owner_is_deleted() {
    let asked = Asked::new();
    asked.define(boats(sails())).await;
    let mut other = boats(sails());
    other["metadata"]["name"] = "ships.sea.example".into();
    other["spec"]["names"] = json!({"plural": "ships", "kind": "Boat"});
    asked.define(other).await;
    let ships = format!("{DEFINITIONS}/ships.sea.example");
    let waiting = asked.get(&ships).await.good();
    assert_eq!(condition(&waiting, "NamesAccepted")["reason"], "ListKindConflict");
    assert_eq!(asked.get("/apis/sea.example/v1/ships").await.code, 404);
    asked.delete(BOATS).await.good();
    let served = asked.get(&ships).await.good();
    assert_eq!(condition(&served, "Established")["status"], "True");
    asked.get("/apis/sea.example/v1/ships").await.good();
}

#[tokio::test]
async fn a_deleted_definition_waits_for_held_objects_and_takes_no_new_ones() {
    let asked = Asked::new();
    asked.define(boats(sails())).await;
    let path = boats_path("v1");
    asked.post(&path, boat("v1", "free", json!({}))).await.good();
    let mut held = boat("v1", "held", json!({}));
    held["metadata"]["finalizers"] = json!(["sea.example/hold"]);
    asked.post(&path, held).await.good();
    let marked = asked.delete(BOATS).await.good();
    assert_eq!(condition(&marked, "Terminating")["reason"], "InstanceDeletionPending");
    assert!(marked["metadata"].get("deletionGracePeriodSeconds").is_none());
    assert_eq!(asked.get(&format!("{path}/free")).await.code, 404);
    let late = asked.post(&path, boat("v1", "late", json!({}))).await;
    assert_eq!(late.code, 403);
    assert!(late.message().ends_with("while custom resource definition is terminating"));
    let groups = asked.get("/apis/sea.example/v1").await.good();
    assert!(!groups["resources"][0]["verbs"].as_array().unwrap().contains(&json!("create")));
    let free = json!({"metadata": {"finalizers": null}});
    asked.merge(&format!("{path}/held"), free).await.good();
    assert_eq!(asked.get(BOATS).await.code, 404);
    assert_eq!(asked.get(&path).await.code, 404);
    asked.define(boats(sails())).await;
    assert_eq!(asked.get(&path).await.good()["items"], json!([]));
}

#[tokio::test]
async fn a_watch_reports_the_deletion_of_all_objects_before_it_ends() {
    let asked = Asked::new();
    asked.define(boats(sails())).await;
    let created = asked.post(&boats_path("v1"), boat("v1", "a", json!({}))).await.good();
    let from = created["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{}?watch=1&resourceVersion={from}", boats_path("v1"));
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let stream = asked.server.client().request_stream(request).await.unwrap();
    asked.delete(BOATS).await.good();
    let lines: Vec<String> = stream.lines().try_collect().await.unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let event: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_watch_ends_when_the_schema_changes_but_not_with_the_status() {
    let asked = Asked::new();
    asked.define(boats(sails())).await;
    let path = format!("{}?watch=1&timeoutSeconds=30", boats_path("v1"));
    let request = || http::Request::get(path.as_str()).body(Vec::new()).unwrap();
    let client = asked.server.client();
    let stream = client.request_stream(request()).await.unwrap();
    asked.merge(BOATS, json!({"metadata": {"labels": {"a": "b"}}})).await.good();
    asked.post(&boats_path("v1"), boat("v1", "a", json!({}))).await.good();
    let more = version("v1", true, json!({"oars": {"type": "integer"}}));
    asked.merge(BOATS, json!({"spec": {"versions": [more]}})).await.good();
    let lines: Vec<String> = stream.lines().try_collect().await.unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[tokio::test]
async fn many_definitions_come_and_go() {
    let asked = Asked::new();
    for n in 0..40 {
        let mut definition = boats(sails());
        definition["metadata"]["name"] = format!("kinds{n}.g{}.example", n % 4).into();
        definition["spec"]["group"] = format!("g{}.example", n % 4).into();
        definition["spec"]["names"] =
            json!({"plural": format!("kinds{n}"), "kind": format!("Kind{n}")});
        asked.define(definition).await;
    }
    for n in (0..40).step_by(2) {
        let name = format!("kinds{n}.g{}.example", n % 4);
        asked.delete(&format!("{DEFINITIONS}/{name}")).await.good();
    }
    for n in 0..40 {
        let code = asked.get(&format!("/apis/g{}.example/v1/kinds{n}", n % 4)).await.code;
        assert_eq!(code, if n % 2 == 0 { 404 } else { 200 }, "{n}");
    }
    let copy = asked.server.fork();
    let request = http::Request::get("/apis/g1.example/v1/kinds1").body(Vec::new()).unwrap();
    let text = copy.client().request_text(request).await.unwrap();
    assert!(text.contains("Kind1List"), "a fork serves what its definitions say: {text}");
}
