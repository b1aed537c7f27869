//! Patches of the four kinds, and what is refused.

use serde_json::json;
use windlass_apiserver::ApiServer;

use crate::support::*;

async fn with_deployment() -> (ApiServer, String) {
    let server = server();
    ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    (server, format!("{DEPLOYMENTS}/web"))
}

#[tokio::test]
async fn a_json_patch_does_its_operations_in_order() {
    let server = server();
    create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    let operations = json!([
        {"op": "test", "path": "/data/key", "value": "1"},
        {"op": "replace", "path": "/data/key", "value": "2"},
        {"op": "copy", "from": "/data/key", "path": "/data/copy"},
        {"op": "move", "from": "/data/key", "path": "/data/moved"},
        {"op": "add", "path": "/data/a~1b", "value": "x"},
    ]);
    let text = patch(&server, &path, JSON_PATCH, operations).await;
    // A slash is no part of a key.
    assert!(text.fails(422).contains("data[a/b]: Invalid value"), "{}", text.text());
    let operations = json!([
        {"op": "copy", "from": "/data/key", "path": "/data/copy"},
        {"op": "remove", "path": "/data/key"},
    ]);
    let done = patch(&server, &path, JSON_PATCH, operations).await.ok();
    assert_eq!(done["data"], json!({"copy": "1"}));
}

#[tokio::test]
async fn a_json_patch_that_can_not_be_done_changes_nothing() {
    let server = server();
    let made = create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    for (operations, code) in [
        (json!([{"op": "test", "path": "/data/key", "value": "9"}]), 422),
        (json!([{"op": "remove", "path": "/data/nothing"}]), 422),
        (json!([{"op": "replace", "path": "/nothing/at/all", "value": 1}]), 422),
        (json!({"op": "remove"}), 400),
        (json!("x"), 400),
    ] {
        let text = patch(&server, &path, JSON_PATCH, operations.clone()).await.fails(code);
        assert!(!text.is_empty(), "{operations}");
    }
    let read = ask(&server, &format!("GET {path}"), json!(null)).await.ok();
    assert_eq!(version(&read), version(&made));
}

#[tokio::test]
async fn a_merge_patch_sets_and_removes() {
    let server = server();
    create_map(&server, "a", "1").await;
    let change = json!({"data": {"key": null, "other": "2"}});
    let done = patch(&server, &format!("{MAPS}/a"), MERGE_PATCH, change).await.ok();
    assert_eq!(done["data"], json!({"other": "2"}));
    let wrong = patch(&server, &format!("{MAPS}/a"), MERGE_PATCH, json!({"data": [1]})).await;
    assert!(wrong.code.is_client_error(), "{}", wrong.text());
}

#[tokio::test]
async fn a_strategic_patch_merges_lists_by_their_keys() {
    let (server, path) = with_deployment().await;
    let containers = json!([{"name": "side", "image": "side:1"}]);
    let change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let done = patch(&server, &path, STRATEGIC_PATCH, change).await.ok();
    let containers = done["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let named: Vec<_> = containers.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["side", "main"]);
    let removal = json!([{"name": "side", "$patch": "delete"}]);
    let change = json!({"spec": {"template": {"spec": {"containers": removal}}}});
    let done = patch(&server, &path, STRATEGIC_PATCH, change).await.ok();
    let containers = done["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
}

#[tokio::test]
async fn a_merge_patch_replaces_lists_whole() {
    let (server, path) = with_deployment().await;
    let containers = json!([{"name": "side", "image": "side:1"}]);
    let change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let done = patch(&server, &path, MERGE_PATCH, change).await.ok();
    let containers = done["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), &containers[0]["name"]), (1, &json!("side")));
}

#[tokio::test]
async fn an_apply_creates_owns_and_takes_back() {
    let server = server();
    let path = format!("{MAPS}/a?fieldManager=one");
    let mut body = map("a", "1");
    body["apiVersion"] = json!("v1");
    body["kind"] = json!("ConfigMap");
    body["data"]["more"] = json!("x");
    let made = patch(&server, &path, APPLY_PATCH, body.clone()).await;
    assert_eq!(made.code, 201);
    let managers = made.ok()["metadata"]["managedFields"].clone();
    assert_eq!(managers[0]["manager"], "one");
    assert_eq!(managers[0]["operation"], "Apply");
    body["data"].as_object_mut().unwrap().remove("more");
    let less = patch(&server, &path, APPLY_PATCH, body.clone()).await.ok();
    assert_eq!(less["data"], json!({"key": "1"}));
    let again = patch(&server, &path, APPLY_PATCH, body.clone()).await.ok();
    assert_eq!(version(&again), version(&less));
    body["data"]["key"] = json!("2");
    let other = format!("{MAPS}/a?fieldManager=two");
    let conflict = patch(&server, &other, APPLY_PATCH, body.clone()).await;
    let text = conflict.fails(409);
    assert!(text.contains("conflict with \"one\": .data.key"), "{text}");
    let forced = format!("{other}&force=true");
    assert_eq!(patch(&server, &forced, APPLY_PATCH, body).await.ok()["data"]["key"], "2");
}

#[tokio::test]
async fn options_of_patches_are_checked() {
    let server = server();
    create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    let text = patch(&server, &path, APPLY_PATCH, map("a", "1")).await.fails(422);
    assert!(text.contains("fieldManager: Required value: is required for apply patch"), "{text}");
    let forced = patch(&server, &format!("{path}?force=true"), MERGE_PATCH, json!({})).await;
    assert!(forced.fails(422).contains("may not be specified for non-apply patch"));
    let media = patch(&server, &path, "application/json", json!({})).await;
    assert_eq!(media.fails(415), "415: Unsupported Media Type");
}

#[tokio::test]
async fn a_patch_can_not_rename_and_respects_a_version() {
    let server = server();
    let made = create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    let renamed = patch(&server, &path, MERGE_PATCH, json!({"metadata": {"name": "b"}})).await;
    assert!(!renamed.fails(400).is_empty());
    let old = json!({"metadata": {"resourceVersion": "1"}, "data": {"key": "2"}});
    let stale = patch(&server, &path, MERGE_PATCH, old).await;
    assert!(stale.fails(409).contains("the object has been modified"));
    let now =
        json!({"metadata": {"resourceVersion": version(&made).to_string()}, "data": {"key": "2"}});
    patch(&server, &path, MERGE_PATCH, now).await.ok();
    let missing = patch(&server, &format!("{MAPS}/no"), MERGE_PATCH, json!({})).await;
    assert_eq!(missing.fails(404), "configmaps \"no\" not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_that_race_all_arrive() {
    let server = server();
    create_map(&server, "a", "1").await;
    let tasks = (0..40).map(|index| {
        let server = server.clone();
        tokio::spawn(async move {
            let change = json!({"data": {format!("k{index}"): "1"}});
            patch(&server, &format!("{MAPS}/a"), MERGE_PATCH, change).await.code
        })
    });
    let mut done = 0;
    for code in futures::future::join_all(tasks).await {
        let code = code.unwrap();
        // A patch that lost too many races in a row says so.
        assert!(code == 200 || code == 409, "{code}");
        done += usize::from(code == 200);
    }
    let read = ask(&server, &format!("GET {MAPS}/a"), json!(null)).await.ok();
    assert_eq!(read["data"].as_object().unwrap().len(), done + 1);
}
