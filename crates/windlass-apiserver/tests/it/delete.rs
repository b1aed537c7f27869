//! Deletion: grace, finalizers, preconditions, propagation, collections.

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::support::*;

async fn bound_pod(name: &str) -> ApiServer {
    let server = pod_server().await;
    ask(&server, &format!("POST {PODS}"), pod(name)).await.ok();
    let bind = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    ask(&server, &format!("POST {PODS}/{name}/binding"), bind).await.ok();
    server
}

async fn delete(server: &ApiServer, path: &str, options: Value) -> Answer {
    ask(server, &format!("DELETE {path}"), options).await
}

#[tokio::test]
async fn a_deletion_returns_what_was_deleted() {
    let server = server();
    let made = create_map(&server, "a", "1").await;
    let gone = delete(&server, &format!("{MAPS}/a"), json!(null)).await.ok();
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(gone["details"]["uid"], made["metadata"]["uid"]);
    let again = delete(&server, &format!("{MAPS}/a"), json!(null)).await;
    assert_eq!(again.fails(404), "configmaps \"a\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_has_its_grace() {
    let server = bound_pod("a").await;
    let path = format!("{PODS}/a");
    let marked = delete(&server, &path, json!(null)).await.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let shorter = delete(&server, &path, json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = delete(&server, &path, json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    delete(&server, &path, json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(ask(&server, &format!("GET {path}"), json!(null)).await.code, 404);
}

#[tokio::test]
async fn a_pod_without_a_node_is_deleted_at_once() {
    let server = pod_server().await;
    ask(&server, &format!("POST {PODS}"), pod("a")).await.ok();
    delete(&server, &format!("{PODS}/a"), json!(null)).await.ok();
    assert_eq!(ask(&server, &format!("GET {PODS}/a"), json!(null)).await.code, 404);
}

#[tokio::test]
async fn no_grace_is_too_long_for_the_calendar() {
    for grace in [i64::MAX, i64::MAX / 1000, 1 << 40, -1, i64::MIN] {
        let server = bound_pod("a").await;
        let path = format!("{PODS}/a");
        let answer = delete(&server, &path, json!({"gracePeriodSeconds": grace})).await;
        assert!(!answer.code.is_server_error(), "{grace}: {}", answer.text());
        let again = delete(&server, &path, json!({"gracePeriodSeconds": 1})).await;
        assert!(!again.code.is_server_error(), "{grace}: {}", again.text());
    }
}

#[tokio::test]
async fn finalizers_keep_an_object_until_the_last_one_is_removed() {
    let server = server();
    let mut body = map("a", "1");
    body["metadata"]["finalizers"] = json!(["example.com/x", "example.com/y"]);
    ask(&server, &format!("POST {MAPS}"), body).await.ok();
    let path = format!("{MAPS}/a");
    let marked = delete(&server, &path, json!(null)).await.ok();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let stamp = marked["metadata"]["deletionTimestamp"].clone();
    let again = delete(&server, &path, json!(null)).await.ok();
    assert_eq!(again["metadata"]["deletionTimestamp"], stamp);
    let one = json!({"metadata": {"finalizers": ["example.com/y"]}});
    patch(&server, &path, MERGE_PATCH, one).await.ok();
    let added = json!({"metadata": {"finalizers": ["example.com/y", "example.com/z"]}});
    let text = patch(&server, &path, MERGE_PATCH, added).await.fails(422);
    assert!(text.contains("no new finalizers can be added if the object is being deleted"));
    let none = json!({"metadata": {"finalizers": null}});
    patch(&server, &path, MERGE_PATCH, none).await.ok();
    assert_eq!(ask(&server, &format!("GET {path}"), json!(null)).await.code, 404);
}

#[tokio::test]
async fn preconditions_guard_a_deletion() {
    let server = server();
    let made = create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    let other = json!({"preconditions": {"uid": "x"}});
    let text = delete(&server, &path, other).await.fails(409);
    assert!(text.contains("the UID in the precondition (x) does not match"), "{text}");
    let old = json!({"preconditions": {"resourceVersion": "1"}});
    let text = delete(&server, &path, old).await.fails(409);
    assert!(text.contains("the ResourceVersion in the precondition (1)"), "{text}");
    let right = json!({"preconditions": {
        "uid": made["metadata"]["uid"], "resourceVersion": version(&made).to_string(),
    }});
    delete(&server, &path, right).await.ok();
}

#[tokio::test]
async fn propagation_leaves_its_finalizer_for_the_collector() {
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let server = server();
        ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
        let path = format!("{DEPLOYMENTS}/web");
        let marked = delete(&server, &path, json!({"propagationPolicy": policy})).await.ok();
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
    }
    let server = server();
    ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web");
    let odd = delete(&server, &path, json!({"propagationPolicy": "Sideways"})).await;
    assert!(odd.fails(422).contains("propagationPolicy: Unsupported value: \"Sideways\""));
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let text = delete(&server, &path, both).await.fails(422);
    assert!(text.contains("orphanDependents and deletionPropagation cannot be both set"));
    delete(&server, &path, json!({"propagationPolicy": "Background"})).await.ok();
    assert_eq!(ask(&server, &format!("GET {path}"), json!(null)).await.code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_selector() {
    let server = server();
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let body = json!({"metadata": {"name": name, "labels": {"app": app}}});
        ask(&server, &format!("POST {MAPS}"), body).await.ok();
    }
    let gone = delete(&server, &format!("{MAPS}?labelSelector=app%3Dweb"), json!(null)).await.ok();
    assert_eq!(
        (names(&gone), &gone["kind"]),
        (vec!["a".into(), "b".into()], &json!("ConfigMapList"))
    );
    let left = ask(&server, &format!("GET {MAPS}"), json!(null)).await.ok();
    assert_eq!(names(&left), ["c"]);
    delete(&server, MAPS, json!(null)).await.ok();
    assert!(names(&ask(&server, &format!("GET {MAPS}"), json!(null)).await.ok()).is_empty());
}

#[tokio::test]
async fn an_odd_body_of_a_deletion_is_refused() {
    let server = server();
    create_map(&server, "a", "1").await;
    let path = format!("{MAPS}/a");
    let kind = delete(&server, &path, json!({"kind": "Pod", "apiVersion": "v1"})).await;
    assert!(kind.code.is_client_error(), "{}", kind.text());
    let grace = delete(&server, &path, json!({"gracePeriodSeconds": "x"})).await;
    assert_eq!(grace.code, 400, "{}", grace.text());
    let query = delete(&server, &format!("{path}?gracePeriodSeconds=x"), json!(null)).await;
    assert_eq!(query.code, 400, "{}", query.text());
}

#[tokio::test]
async fn a_namespace_is_deleted_when_it_is_finalized() {
    let server = server();
    ask(&server, "POST /api/v1/namespaces", json!({"metadata": {"name": "x"}})).await.ok();
    let marked = delete(&server, "/api/v1/namespaces/x", json!(null)).await.ok();
    assert_eq!(marked["spec"]["finalizers"], json!(["kubernetes"]));
    let mut done = marked;
    done["spec"]["finalizers"] = json!([]);
    ask(&server, "PUT /api/v1/namespaces/x/finalize", done).await.ok();
    assert_eq!(ask(&server, "GET /api/v1/namespaces/x", json!(null)).await.code, 404);
    let kept = delete(&server, "/api/v1/namespaces/default", json!(null)).await;
    assert!(kept.fails(403).contains("this namespace may not be deleted"), "{}", kept.text());
}
