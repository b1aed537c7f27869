//! Conditions become taints, and taints make pods leave.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support_world::World;

const NODE: &str = "/api/v1/nodes/n";

fn conditions(list: &[(&str, &str)]) -> Value {
    let time = "2024-01-01T00:00:00Z";
    let list = list.iter().map(|(type_, status)| {
        json!({
            "type": type_, "status": status,
            "lastHeartbeatTime": time, "lastTransitionTime": time,
        })
    });
    json!({"conditions": list.collect::<Vec<_>>()})
}

fn taints(node: &Value) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
    let mut keys: Vec<String> =
        list.iter().map(|t| format!("{}:{}", text(&t["key"]), text(&t["effect"]))).collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn conditions_become_taints_and_go_again() {
    let world = World::start().await;
    let node = json!({"metadata": {"name": "n"}, "status": conditions(&[("Ready", "True")])});
    world.create("/api/v1/nodes", node).await;
    let ttl = "node.alpha.kubernetes.io/ttl";
    world.until(NODE, |n| taints(n).is_empty() && n["metadata"]["annotations"][ttl] == "0").await;
    let bad = conditions(&[("Ready", "False"), ("DiskPressure", "True")]);
    world.merge(&format!("{NODE}/status"), json!({"status": bad})).await;
    let wanted = [
        "node.kubernetes.io/disk-pressure:NoSchedule",
        "node.kubernetes.io/not-ready:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
    ];
    world.until(NODE, |n| taints(n) == wanted).await;
    let good = json!({"status": conditions(&[("Ready", "True")])});
    world.merge(&format!("{NODE}/status"), good).await;
    world.merge(NODE, json!({"spec": {"unschedulable": true}})).await;
    world.until(NODE, |n| taints(n) == ["node.kubernetes.io/unschedulable:NoSchedule"]).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_when_their_toleration_ends() {
    let world = World::start().await;
    let node = json!({"metadata": {"name": "n"}, "status": conditions(&[("Ready", "True")])});
    world.create("/api/v1/nodes", node).await;
    world.until(NODE, |n| taints(n).is_empty()).await;
    let toleration = json!({"key": "drain", "operator": "Exists", "effect": "NoExecute"});
    let mut brief = toleration.clone();
    brief["tolerationSeconds"] = json!(4);
    for (name, list) in
        [("weak", json!([])), ("strong", json!([toleration])), ("brief", json!([brief]))]
    {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "containers": [{"name": "c", "image": "i"}], "nodeName": "n", "tolerations": list,
        }});
        world.create("/api/v1/namespaces/a/pods", pod).await;
    }
    let taint = json!([{"key": "drain", "effect": "NoExecute"}]);
    world.merge(NODE, json!({"spec": {"taints": taint}})).await;
    let path = |name: &str| format!("/api/v1/namespaces/a/pods/{name}");
    let going = |p: &Value| p["metadata"]["deletionTimestamp"].is_string();
    let weak = world.until(&path("weak"), going).await;
    let conditions = weak["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().any(|c| c["reason"] == "DeletionByTaintManager"), "{weak}");
    assert!(!going(&world.get(&path("brief")).await));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(going(&world.get(&path("brief")).await));
    assert!(!going(&world.get(&path("strong")).await));
    let events = world.events("a", "weak").await;
    assert!(
        events.contains(&"TaintManagerEviction: Marking for deletion Pod a/weak".into()),
        "{events:?}"
    );
    world.cluster.stop().await;
}
