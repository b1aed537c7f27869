//! Budgets and the evictions they allow.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support_world::World;

const BUDGET: &str = "/apis/policy/v1/namespaces/a/poddisruptionbudgets/b";

async fn evict(world: &World, pod: &str) -> Value {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    world.post(&format!("/api/v1/namespaces/a/pods/{pod}/eviction"), body).await
}

#[tokio::test(start_paused = true)]
async fn one_pod_may_go_and_the_next_may_not() {
    let world = World::start().await;
    for name in ["p", "q"] {
        world.pod(name, "x", Some("far"), "10.0.0.1", true).await;
    }
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}});
    let body = json!({"metadata": {"name": "b"}, "spec": spec});
    world.create("/apis/policy/v1/namespaces/a/poddisruptionbudgets", body).await;
    let budget = world.until(BUDGET, |b| b["status"]["disruptionsAllowed"] == 1).await;
    assert_eq!(budget["status"]["currentHealthy"], 2);
    assert_eq!(budget["status"]["expectedPods"], 2);
    let condition = &budget["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("SufficientPods"))
    );
    assert_eq!(evict(&world, "p").await["code"], 201);
    world.until(BUDGET, |b| b["status"]["currentHealthy"] == 1).await;
    let refused = evict(&world, "q").await;
    assert_eq!(refused["code"], 429, "{refused}");
    let budget = world.get(BUDGET).await;
    assert_eq!(budget["status"]["conditions"][0]["reason"], "InsufficientPods");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_let_go_and_stays_counts_again_after_two_minutes() {
    let world = World::start().await;
    world.pod("p", "x", Some("far"), "10.0.0.1", true).await;
    let spec = json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}});
    let body = json!({"metadata": {"name": "b"}, "spec": spec});
    world.create("/apis/policy/v1/namespaces/a/poddisruptionbudgets", body).await;
    world.create("/api/v1/nodes", json!({"metadata": {"name": "far"}})).await;
    world.until(BUDGET, |b| b["status"]["currentHealthy"] == 1).await;
    let now = world.cluster.server().clock().stamp();
    let status = json!({"status": {"disruptedPods": {"p": now}}});
    world.merge(&format!("{BUDGET}/status"), status).await;
    world.until(BUDGET, |b| b["status"]["currentHealthy"] == 0).await;
    tokio::time::sleep(Duration::from_secs(125)).await;
    let budget = world.until(BUDGET, |b| b["status"]["currentHealthy"] == 1).await;
    assert_eq!(budget["status"]["disruptedPods"], Value::Null);
    world.cluster.stop().await;
}

async fn budget(world: &World, name: &str, spec: Value) {
    let body = json!({"metadata": {"name": name}, "spec": spec});
    world.create("/apis/policy/v1/namespaces/a/poddisruptionbudgets", body).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_over_pods_without_a_controller_reports_its_selector() {
    let world = World::start().await;
    world.pod("p", "x", Some("far"), "10.0.0.1", true).await;
    budget(&world, "b", json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}}))
        .await;
    let events = world.events("a", "b").await;
    let event = "UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: \
                &LabelSelector{MatchLabels:map[string]string{app: x,},MatchExpressions:\
                []LabelSelectorRequirement{},}) were found to be unmanaged.";
    assert!(events.iter().any(|e| e.starts_with(event)), "{events:?}");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_two_budgets_is_reported_when_it_changes() {
    let world = World::start().await;
    for name in ["b", "c"] {
        let spec = json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}});
        budget(&world, name, spec).await;
    }
    world.until(BUDGET, |b| b["status"]["observedGeneration"] == 1).await;
    world.pod("p", "x", Some("far"), "10.0.0.1", true).await;
    let events = world.events("a", "p").await;
    let event = "MultiplePodDisruptionBudgets: Pod \"a\"/\"p\" matches multiple \
                PodDisruptionBudgets.  Chose \"b\" arbitrarily.";
    assert!(events.iter().any(|e| e == event), "{events:?}");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_to_go_and_did_not_is_no_target_after_two_minutes() {
    let world = World::start().await;
    world.create("/api/v1/nodes", json!({"metadata": {"name": "far"}})).await;
    world.pod("p", "x", Some("far"), "10.0.0.1", true).await;
    let now = world.cluster.server().clock().stamp();
    let target = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": now,
    });
    let path = "/api/v1/namespaces/a/pods/p";
    world.merge(&format!("{path}/status"), json!({"status": {"conditions": [target]}})).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.get(path).await["status"]["conditions"][0]["status"], "True");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let condition = &world.get(path).await["status"]["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &Value::Null));
    world.cluster.stop().await;
}
