//! Webhooks: who is called, and what their answers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::tools::*;

const URL: &str = "https://hook.example.com/path";

fn by_url() -> Value {
    json!({"url": URL})
}

#[tokio::test]
async fn a_webhook_over_https_changes_and_the_result_is_defaulted() {
    let server = server();
    let (address, ca) = webhook("127.0.0.1", |review: Value| {
        let ports =
            json!([{"op": "add", "path": "/spec/ports/-", "value": {"port": 9, "name": "b"}}]);
        patch(&review, ports).to_string().into_bytes()
    })
    .await;
    let config = json!({"url": format!("https://{address}/mutate"), "caBundle": ca});
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["services"]}]);
    configure(&server, true, "m", config, json!({"rules": rules})).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 1, "name": "a"}]}});
    let made = made(&server, "/api/v1/namespaces/default/services", service).await;
    assert_eq!(
        made["spec"]["ports"][1],
        json!({"name": "b", "port": 9, "protocol": "TCP", "targetPort": 9})
    );
}

#[tokio::test]
async fn a_service_is_reached_by_its_route_under_its_own_name() {
    let server = server();
    let (address, ca) = webhook("hook.ops.svc", |review: Value| {
        answer(&review, json!({"allowed": false})).to_string().into_bytes()
    })
    .await;
    let config = json!({"service": {"namespace": "ops", "name": "hook"}, "caBundle": ca});
    configure(&server, false, "v", config, json!({})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://hook.ops.svc:443/?timeout=10s\": service \"hook\" not found"
    );
    server.route_service("ops", "hook", address);
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.message(),
        "admission webhook \"v.example.com\" denied the request without explanation"
    );
}

#[tokio::test]
async fn a_webhook_that_is_not_trusted_or_too_talkative_fails_the_call() {
    let server = server();
    let (address, ca) = webhook("127.0.0.1", |_| vec![b' '; 10 << 20]).await;
    let url = format!("https://{address}/x");
    configure(&server, false, "v", json!({"url": url, "caBundle": ca}), json!({})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(refused.code, 500);
    assert!(refused.message().contains("the answer has more than 8388608 bytes"), "{refused:?}");
    let other = windlass_apiserver::pki::Ca::generate("other", jiff::Timestamp::now()).unwrap();
    let ca =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, other.certificate());
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    let wrong = json!({"webhooks": [{"name": "v.example.com", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": ca},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
            "resources": ["configmaps"]}]}]});
    let changed = send(&server, "PATCH", path, wrong).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(
        refused.message(),
        format!(
            "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"{url}?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_is_given_up_after_its_timeout() {
    let server = server();
    server.register_webhook(URL, |_| std::future::pending());
    configure(&server, false, "v", by_url(), json!({"timeoutSeconds": 3})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(
        refused.message(),
        "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://hook.example.com/path?timeout=3s\": context deadline exceeded"
    );
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    let mut config = get(&server, path).await.body;
    config["webhooks"][0]["failurePolicy"] = "Ignore".into();
    assert_eq!(send(&server, "PUT", path, config).await.code, 200);
    assert_eq!(post(&server, MAPS, config_map("a")).await.code, 201);
}

#[tokio::test]
async fn a_denial_and_its_warnings_reach_the_client() {
    let server = server();
    server.register_webhook(URL, |review| async move {
        let status = json!({"message": "not on Mondays", "code": 403, "reason": "Forbidden"});
        answer(&review, json!({"allowed": false, "status": status, "warnings": ["mind the gap"]}))
    });
    configure(&server, false, "v", by_url(), json!({})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        refused.message(),
        "admission webhook \"v.example.com\" denied the request: not on Mondays"
    );
    assert_eq!(refused.warnings, ["299 - \"mind the gap\""]);
}

#[tokio::test]
async fn an_answer_for_another_request_is_no_answer() {
    let server = server();
    server.register_webhook(URL, |_| async {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": "other", "allowed": true}})
    });
    configure(&server, true, "m", by_url(), json!({})).await;
    let refused = post(&server, MAPS, config_map("a")).await;
    assert_eq!(refused.code, 500);
    let head = "Internal error occurred: failed calling webhook \"m.example.com\": received invalid webhook response: expected response.uid=\"";
    assert!(refused.message().starts_with(head), "{refused:?}");
    assert!(refused.message().ends_with("\", got \"other\""), "{refused:?}");
}

#[tokio::test]
async fn a_dry_run_needs_a_webhook_without_side_effects() {
    let server = server();
    server.register_webhook(URL, |review| async move {
        assert_eq!(review["request"]["dryRun"], true);
        answer(&review, json!({"allowed": true}))
    });
    configure(&server, false, "v", by_url(), json!({"sideEffects": "NoneOnDryRun"})).await;
    let path = format!("{MAPS}?dryRun=All");
    assert_eq!(post(&server, &path, config_map("a")).await.code, 201);
    assert_eq!(get(&server, &format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test]
async fn an_earlier_webhook_is_called_again_when_a_later_one_changed_something() {
    let server = server();
    let calls: Arc<Mutex<Vec<&str>>> = Arc::default();
    for (name, url) in [("a", "https://a.example.com/x"), ("b", "https://b.example.com/x")] {
        let calls = calls.clone();
        server.register_webhook(url, move |review| {
            calls.lock().push(name);
            async move {
                let path = format!("/data/{name}");
                let data = &review["request"]["object"]["data"];
                if data.get(name).is_some() {
                    return answer(&review, json!({"allowed": true}));
                }
                let seen = data.as_object().map_or(0, |data| data.len()).to_string();
                let start = json!({"op": "add", "path": "/data", "value": {}});
                let add = json!({"op": "add", "path": path, "value": seen});
                let ops = if data.is_null() { json!([start, add]) } else { json!([add]) };
                patch(&review, ops)
            }
        });
        let more = json!({"reinvocationPolicy": "IfNeeded"});
        configure(&server, true, name, json!({"url": url}), more).await;
    }
    let made = made(&server, MAPS, config_map("m")).await;
    assert_eq!(made["data"], json!({"a": "0", "b": "1"}));
    assert_eq!(*calls.lock(), ["a", "b", "a"]);
}

#[tokio::test]
async fn requests_are_shown_whole_and_only_where_they_match() {
    let server = server();
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = seen.clone();
    server.register_webhook(URL, move |review| {
        log.lock().push(review["request"].clone());
        async move { answer(&review, json!({"allowed": true})) }
    });
    let more = json!({
        "rules": [
            {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
                "resources": ["deployments/scale"]},
            {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"], "scope": "Namespaced"},
            {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"],
                "resources": ["pods/eviction", "pods/binding"]},
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    configure(&server, false, "v", by_url(), more).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    made(&server, deployments, deployment).await;
    let scale = json!({"spec": {"replicas": 3}});
    assert_eq!(send(&server, "PATCH", &format!("{deployments}/d/scale"), scale).await.code, 200);
    made(&server, MAPS, config_map("a")).await;
    assert_eq!(send(&server, "DELETE", &format!("{MAPS}/a"), Value::Null).await.code, 200);
    let system = "/api/v1/namespaces/kube-system/configmaps";
    made(&server, system, config_map("a")).await;
    assert_eq!(send(&server, "DELETE", &format!("{system}/a"), Value::Null).await.code, 200);
    made(&server, PODS, pod("p")).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    made(&server, &format!("{PODS}/p/eviction"), eviction).await;
    let seen = seen.lock();
    let shown: Vec<String> = seen
        .iter()
        .map(|r| {
            let text = |key: &str| r[key].as_str().unwrap_or_default();
            let kind = r["kind"]["kind"].as_str().unwrap();
            format!("{} {kind} {} {}", text("operation"), text("subResource"), text("name"))
        })
        .collect();
    assert_eq!(
        shown,
        ["UPDATE Scale scale d", "DELETE ConfigMap  a", "CREATE Eviction eviction p"]
    );
    assert_eq!(seen[0]["object"]["spec"]["replicas"], 3);
    assert_eq!(seen[0]["oldObject"]["spec"]["replicas"], 1);
    assert_eq!(seen[0]["userInfo"]["username"], "admin");
    assert_eq!(seen[1]["object"], Value::Null);
    assert_eq!(seen[1]["oldObject"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn configurations_are_exempt_and_deletions_can_not_be_patched() {
    let server = server();
    server.register_webhook(URL, |review| async move {
        patch(&review, json!([{"op": "add", "path": "/x", "value": 1}]))
    });
    made(&server, MAPS, config_map("a")).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*/*"]}]);
    configure(&server, true, "m", by_url(), json!({"rules": rules})).await;
    let refused = send(&server, "DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "Internal error occurred: admission webhook \"m.example.com\" attempted to modify the object, which is not supported for this operation"
    );
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/m";
    assert_eq!(send(&server, "DELETE", path, Value::Null).await.code, 200);
    assert_eq!(send(&server, "DELETE", &format!("{MAPS}/a"), Value::Null).await.code, 200);
}

#[tokio::test]
async fn validating_webhooks_run_at_the_same_time() {
    let server = server();
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let count = Arc::new(AtomicUsize::new(0));
    for name in ["a", "b"] {
        let url = format!("https://{name}.example.com/x");
        let (barrier, count) = (barrier.clone(), count.clone());
        server.register_webhook(&url, move |review| {
            let (barrier, count) = (barrier.clone(), count.clone());
            async move {
                barrier.wait().await;
                count.fetch_add(1, Ordering::SeqCst);
                answer(&review, json!({"allowed": true}))
            }
        });
        configure(&server, false, name, json!({"url": url}), json!({})).await;
    }
    made(&server, MAPS, config_map("a")).await;
    assert_eq!(count.load(Ordering::SeqCst), 2);
}
