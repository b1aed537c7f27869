//! What generated requests have shown to differ from a real server.

use serde_json::{Value, json};

use crate::asked::Asked;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn map(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// Returns `true` if somebody owns a field of an object's metadata.
fn is_owned(object: &Value, field: &str) -> bool {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.map(|entry| &entry["fieldsV1"]["f:metadata"]).any(|meta| meta.get(field).is_some())
}

#[tokio::test]
async fn a_grace_period_is_dropped_by_a_create_kept_by_an_apply_and_never_changed() {
    let asked = Asked::new();
    let made = map(json!({"name": "made", "deletionGracePeriodSeconds": 5}));
    let made = asked.post(MAPS, made).await.good();
    assert!(made["metadata"].get("deletionGracePeriodSeconds").is_none(), "{made}");
    assert!(!is_owned(&made, "f:deletionGracePeriodSeconds"), "{made}");
    let path = format!("{MAPS}/applied");
    let applied = map(json!({"name": "applied", "deletionGracePeriodSeconds": 5}));
    let applied = asked.apply(&path, "one", applied).await.good();
    assert_eq!(applied["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(is_owned(&applied, "f:deletionGracePeriodSeconds"), "{applied}");
    for name in ["made", "applied"] {
        let change = json!({"metadata": {"deletionGracePeriodSeconds": 7}});
        let refused = asked.merge(&format!("{MAPS}/{name}"), change).await;
        assert_eq!(refused.code, 422);
        assert!(refused.message().contains("7: field is immutable"), "{}", refused.message());
    }
}

#[tokio::test]
async fn nobody_owns_fields_of_an_object_with_an_item_that_has_no_key() {
    let asked = Asked::new();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "a"}, "secrets": [{"namespace": "x"}]});
    let made = asked.post(accounts, account).await.good();
    assert!(made["metadata"].get("managedFields").is_none(), "{made}");
    let account = json!({"metadata": {"name": "b"}, "secrets": [{"name": "x"}]});
    let made = asked.post(accounts, account).await.good();
    assert!(made["metadata"].get("managedFields").is_some(), "{made}");
}

#[tokio::test]
async fn the_configuration_of_a_node_is_not_kept_any_more() {
    let asked = Asked::new();
    let source = json!({"configMap": {"namespace": "a", "name": "b", "kubeletConfigKey": "c"}});
    let node = json!({"metadata": {"name": "n"}, "spec": {"configSource": source}});
    let made = asked.post("/api/v1/nodes", node).await.good();
    assert!(made["spec"].get("configSource").is_none(), "{made}");
    let change = json!({"spec": {"configSource": source}});
    let changed = asked.merge("/api/v1/nodes/n", change).await.good();
    assert!(changed["spec"].get("configSource").is_none(), "{changed}");
}

#[tokio::test]
async fn amounts_of_resources_are_rounded_up_and_bytes_are_whole() {
    let asked = Asked::new();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "100u"}}});
    assert_eq!(asked.post(quotas, quota).await.good()["spec"]["hard"]["cpu"], "1m");
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5"}}}});
    let answer = asked.post(CLAIMS, claim).await;
    let expected = "spec.resources.requests[storage]: fractional byte value \\\"1500m\\\" is \
                    invalid, must be an integer";
    assert_eq!(answer.warnings, [format!("299 - \"{expected}\"")]);
}

#[tokio::test]
async fn a_strategic_patch_cuts_numbers_to_their_size() {
    let asked = Asked::new();
    let labels = json!({"app": "web"});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec}}});
    asked.post(DEPLOYMENTS, deployment).await.good();
    let path = format!("{DEPLOYMENTS}/web");
    let patch = json!({"spec": {"replicas": 4_294_967_298_i64}}).to_string();
    let media = "application/strategic-merge-patch+json";
    let cut = asked.send(http::Method::PATCH, &path, media, patch.clone().into()).await.good();
    assert_eq!(cut["spec"]["replicas"], 2);
    let media = "application/merge-patch+json";
    let refused = asked.send(http::Method::PATCH, &path, media, patch.into()).await;
    assert_eq!(refused.code, 422);
}

#[tokio::test]
async fn a_lease_may_have_finalizers_without_a_domain() {
    let asked = Asked::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "finalizers": ["foo"]}});
    let applied = asked.apply(path, "one", lease).await.good();
    assert_eq!(applied["metadata"]["finalizers"], json!(["foo"]));
}

#[tokio::test]
async fn an_update_lists_the_errors_of_every_round() {
    let asked = Asked::new();
    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp"}}});
    asked.post("/api/v1/persistentvolumes", volume).await.good();
    let change = json!({"spec": {"accessModes": []}});
    let refused = asked.merge("/api/v1/persistentvolumes/v", change).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap().len();
    assert_eq!(causes, 2, "{}", refused.body);
}
