//! Subresources: status, scale, binding, eviction, token, log.

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::support::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A pod that runs and is ready.
async fn running_pod() -> ApiServer {
    let server = pod_server().await;
    ask(&server, &format!("POST {PODS}"), pod("a")).await.ok();
    let bind = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    ask(&server, &format!("POST {PODS}/a/binding"), bind).await.ok();
    let ready = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    patch(&server, &format!("{PODS}/a/status"), MERGE_PATCH, ready).await.ok();
    server
}

fn eviction() -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}})
}

async fn budget(server: &ApiServer, allowed: i64) {
    let body = json!({
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    ask(server, &format!("POST {BUDGETS}"), body).await.ok();
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 1,
    }});
    patch(server, &format!("{BUDGETS}/guard/status"), MERGE_PATCH, status).await.ok();
}

#[tokio::test]
async fn status_and_spec_are_written_apart() {
    let server = server();
    let mut made = ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web");
    made["spec"]["replicas"] = json!(9);
    made["status"] = json!({"replicas": 5, "observedGeneration": 1});
    let status = ask(&server, &format!("PUT {path}/status"), made.clone()).await.ok();
    assert_eq!(
        (&status["spec"]["replicas"], &status["status"]["replicas"]),
        (&json!(2), &json!(5))
    );
    made["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    made["status"]["replicas"] = json!(7);
    let main = ask(&server, &format!("PUT {path}"), made).await.ok();
    assert_eq!((&main["spec"]["replicas"], &main["status"]["replicas"]), (&json!(9), &json!(5)));
    let read = ask(&server, &format!("GET {path}/status"), json!(null)).await.ok();
    assert_eq!(version(&read), version(&main));
}

#[tokio::test]
async fn scale_reads_and_writes_the_replicas() {
    let server = server();
    ask(&server, &format!("POST {DEPLOYMENTS}"), deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web/scale");
    let mut scale = ask(&server, &format!("GET {path}"), json!(null)).await.ok();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = json!(4);
    ask(&server, &format!("PUT {path}"), scale.clone()).await.ok();
    let stale = ask(&server, &format!("PUT {path}"), scale).await;
    assert_eq!(stale.code, 409, "{}", stale.text());
    let patched = patch(&server, &path, MERGE_PATCH, json!({"spec": {"replicas": 6}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 6);
    let read = ask(&server, &format!("GET {DEPLOYMENTS}/web"), json!(null)).await.ok();
    assert_eq!(
        (&read["spec"]["replicas"], &read["metadata"]["generation"]),
        (&json!(6), &json!(3))
    );
    let low = patch(&server, &path, MERGE_PATCH, json!({"spec": {"replicas": -1}})).await;
    assert!(low.fails(422).contains("must be greater than or equal to 0"), "{}", low.text());
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let server = running_pod().await;
    let read = ask(&server, &format!("GET {PODS}/a"), json!(null)).await.ok();
    assert_eq!(read["spec"]["nodeName"], "n1");
    let conditions = read["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Ready"));
    let bind = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n2"}});
    let again = ask(&server, &format!("POST {PODS}/a/binding"), bind).await;
    assert!(again.fails(409).contains("pod a is already assigned to node \"n1\""));
    let none = json!({"metadata": {"name": "a"}, "target": {"kind": "Node"}});
    let none = ask(&server, &format!("POST {PODS}/a/binding"), none).await;
    assert!(none.text().contains("target.name: Required value"), "{}", none.text());
}

#[tokio::test]
async fn an_eviction_without_a_budget_is_a_deletion() {
    let server = running_pod().await;
    let done = ask(&server, &format!("POST {PODS}/a/eviction"), eviction()).await;
    assert_eq!((done.code.as_u16(), &done.ok()["status"]), (201, &json!("Success")));
    let read = ask(&server, &format!("GET {PODS}/a"), json!(null)).await.ok();
    assert!(read["metadata"]["deletionTimestamp"].is_string());
    let conditions = read["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "DisruptionTarget"));
}

#[tokio::test]
async fn a_budget_refuses_an_eviction_or_pays_for_it() {
    let server = running_pod().await;
    budget(&server, 0).await;
    let refused = ask(&server, &format!("POST {PODS}/a/eviction"), eviction()).await;
    let text = refused.fails(429);
    assert_eq!(text, "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &refused.json()["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    let server = running_pod().await;
    budget(&server, 1).await;
    ask(&server, &format!("POST {PODS}/a/eviction"), eviction()).await.ok();
    let paid = ask(&server, &format!("GET {BUDGETS}/guard"), json!(null)).await.ok();
    assert_eq!(paid["status"]["disruptionsAllowed"], 0);
    assert!(paid["status"]["disruptedPods"]["a"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_until_it_expires() {
    let server = server();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    ask(&server, &format!("POST {accounts}"), json!({"metadata": {"name": "robot"}})).await.ok();
    let request = json!({"spec": {"expirationSeconds": 600}});
    let made = ask(&server, &format!("POST {accounts}/robot/token"), request).await.ok();
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    let who = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = ask_as(&server, &token, who, json!({})).await.ok();
    let user = &me["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let denied = ask_as(&server, &token, &format!("GET {MAPS}"), json!(null)).await;
    assert!(denied.fails(403).contains("User \"system:serviceaccount:default:robot\" cannot list"));
    tokio::time::advance(std::time::Duration::from_secs(700)).await;
    assert_eq!(ask_as(&server, &token, who, json!({})).await.fails(401), "Unauthorized");
    let short = json!({"spec": {"expirationSeconds": 5}});
    let short = ask(&server, &format!("POST {accounts}/robot/token"), short).await;
    assert!(short.fails(422).contains("may not specify a duration less than 10 minutes"));
}

#[tokio::test]
async fn a_token_ends_with_its_account() {
    let server = server();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    ask(&server, &format!("POST {accounts}"), json!({"metadata": {"name": "robot"}})).await.ok();
    let made = ask(&server, &format!("POST {accounts}/robot/token"), json!({})).await.ok();
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    ask(&server, &format!("DELETE {accounts}/robot"), json!(null)).await.ok();
    ask_as(&server, &token, "GET /version", json!(null)).await.fails(401);
}

#[tokio::test]
async fn a_log_asks_for_a_container_that_is_there() {
    let server = pod_server().await;
    let mut two = pod("a");
    let side = json!({"name": "side", "image": "side:1"});
    two["spec"]["containers"].as_array_mut().unwrap().push(side);
    ask(&server, &format!("POST {PODS}"), two).await.ok();
    let which = ask(&server, &format!("GET {PODS}/a/log"), json!(null)).await;
    assert!(which.fails(400).contains("choose one of: [main side]"), "{}", which.text());
    let odd = ask(&server, &format!("GET {PODS}/a/log?container=x"), json!(null)).await;
    assert_eq!(odd.fails(400), "container x is not valid for pod a");
    let lines = ask(&server, &format!("GET {PODS}/a/log?tailLines=-1"), json!(null)).await;
    assert!(lines.fails(422).contains("must be greater than or equal to 0"));
}

#[tokio::test]
async fn a_subresource_nobody_has_is_not_found() {
    let server = server();
    create_map(&server, "a", "1").await;
    for path in ["status", "scale", "nonsense"] {
        let answer = ask(&server, &format!("GET {MAPS}/a/{path}"), json!(null)).await;
        assert_eq!(answer.fails(404), "the server could not find the requested resource");
    }
}

#[tokio::test]
async fn a_signing_request_names_its_user_and_is_decided_apart() {
    let server = server();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = crate::certificates::request("alice", &[]);
    let body = json!({"metadata": {"name": "r"}, "spec": {"request": request, "username": "eve",
        "signerName": "example.com/s", "usages": ["client auth"]}});
    let made = ask(&server, &format!("POST {requests}"), body).await.ok();
    assert_eq!(made["spec"]["username"], "admin");
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let status = format!("{requests}/r/status");
    assert_eq!(
        patch(&server, &status, MERGE_PATCH, approved.clone()).await.fails(422),
        "CertificateSigningRequest.certificates.k8s.io \"r\" is invalid: status.conditions: \
         Forbidden: updates may not add a condition of type \"Approved\""
    );
    let decided = patch(&server, &format!("{requests}/r/approval"), MERGE_PATCH, approved).await;
    let condition = decided.ok()["status"]["conditions"][0].take();
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
}

#[tokio::test]
async fn a_status_update_changes_no_labels_where_the_real_server_keeps_them() {
    let server = server();
    let schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let body = json!({"metadata": {"name": "s"}, "spec": {
        "priorityLevelConfiguration": {"name": "catch-all"}}});
    ask(&server, &format!("POST {schemas}"), body).await.ok();
    let change = json!({"metadata": {"labels": {"a": "b"}}, "status": {"conditions": [
        {"type": "Dangling", "status": "False"}]}});
    let kept = patch(&server, &format!("{schemas}/s/status"), MERGE_PATCH, change).await.ok();
    assert!(kept["metadata"]["labels"].is_null(), "{kept}");
    assert_eq!(kept["status"]["conditions"][0]["type"], "Dangling");
}

#[tokio::test]
async fn the_load_balancer_of_a_service_ends_with_its_type() {
    let server = server();
    let services = "/api/v1/namespaces/default/services";
    let body = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer",
        "ports": [{"port": 80}]}});
    ask(&server, &format!("POST {services}"), body).await.ok();
    let status = format!("{services}/s/status");
    let ingress = |list: Value| json!({"status": {"loadBalancer": {"ingress": list}}});
    let bad = ingress(json!([{"hostname": "a.b", "ipMode": "VIP"}]));
    assert_eq!(
        patch(&server, &status, MERGE_PATCH, bad).await.fails(422),
        "Service \"s\" is invalid: status.loadBalancer.ingress[0].ipMode: Forbidden: may not be \
         specified when `ip` is not set"
    );
    patch(&server, &status, MERGE_PATCH, ingress(json!([{"ip": "1.2.3.4"}]))).await.ok();
    let service = format!("{services}/s");
    let plain = json!({"spec": {"type": "ClusterIP"}});
    let plain = patch(&server, &service, MERGE_PATCH, plain).await.ok();
    assert_eq!(plain["status"]["loadBalancer"], json!({}));
    let late = patch(&server, &status, MERGE_PATCH, ingress(json!([{"ip": "1.2.3.4"}]))).await;
    assert_eq!(
        late.fails(422),
        "Service \"s\" is invalid: status.loadBalancer.ingress: Forbidden: may only be used when \
         `spec.type` is 'LoadBalancer'"
    );
}
