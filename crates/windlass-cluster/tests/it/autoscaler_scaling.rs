//! Autoscalers with injected numbers, and without any.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};
use windlass_cluster::controllers::Settings;
use windlass_cluster::controllers::support::Metrics;

use crate::support_world::World;

const SCALER: &str = "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers/h";

#[derive(Debug, Default)]
struct Load(AtomicI64);

impl Metrics for Load {
    fn resource(&self, _: &str, _: &str, _: Option<&str>, _: &str) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

async fn scaler(world: &World) {
    let target = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"});
    let metric = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    let body = json!({"metadata": {"name": "h"}, "spec": {
        "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5, "metrics": [metric],
    }});
    world.create("/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers", body).await;
}

async fn target(world: &World, replicas: i32) {
    let body = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
        }},
    }});
    world.create("/apis/apps/v1/namespaces/a/replicasets", body).await;
}

fn reason(scaler: &Value, type_: &str) -> String {
    let conditions = scaler["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|c| c["type"] == type_);
    found.and_then(|c| c["reason"].as_str()).unwrap_or_default().to_string()
}

#[tokio::test(start_paused = true)]
async fn without_metrics_nothing_is_scaled_and_the_reason_is_reported() {
    let world = World::start().await;
    scaler(&world).await;
    world.until(SCALER, |h| reason(h, "AbleToScale") == "FailedGetScale").await;
    target(&world, 2).await;
    let found =
        world.until(SCALER, |h| reason(h, "ScalingActive") == "FailedGetResourceMetric").await;
    assert_eq!(reason(&found, "AbleToScale"), "SucceededGetScale");
    assert_eq!(found["status"]["currentReplicas"], 2);
    assert_eq!(found["status"]["desiredReplicas"], 0);
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn load_above_the_target_scales_up() {
    let load = Arc::new(Load(AtomicI64::new(90)));
    let settings = Settings { metrics: Some(load.clone()), ..Settings::default() };
    let world = World::with(settings).await;
    for name in ["one", "two"] {
        world.pod(name, "web", None, "10.0.0.1", true).await;
    }
    target(&world, 2).await;
    scaler(&world).await;
    let path = "/apis/apps/v1/namespaces/a/replicasets/web";
    world.until(path, |set| set["spec"]["replicas"].as_i64() > Some(2)).await;
    let events = world.events("a", "h").await;
    let text = "SuccessfulRescale: New size: 4; reason: cpu resource utilization (percentage of \
                request) above target";
    assert!(events.iter().any(|e| e == text), "{events:?}");
    world.cluster.stop().await;
}

async fn scaler_of(world: &World, name: &str, metric: Value) {
    let target = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"});
    let body = json!({"metadata": {"name": name}, "spec": {
        "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5, "metrics": [metric],
    }});
    world.create("/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers", body).await;
}

#[tokio::test(start_paused = true)]
async fn unavailable_metrics_are_reported_in_full() {
    let world = World::start().await;
    target(&world, 2).await;
    let metric = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"q": "jobs"}}},
        "target": {"type": "AverageValue", "averageValue": "5"},
    }});
    scaler_of(&world, "h", metric).await;
    let found =
        world.until(SCALER, |h| reason(h, "ScalingActive") == "FailedGetExternalMetric").await;
    assert_eq!(found["status"]["currentMetrics"], json!([{"type": ""}]));
    let events = world.events("a", "h").await;
    let event = "FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error \
                is: failed to get queue external metric value: failed to get queue external \
                metric: unable to get external metric a/queue/&LabelSelector{MatchLabels:\
                map[string]string{q: jobs,},MatchExpressions:[]LabelSelectorRequirement{},}: \
                unable to fetch metrics from external metrics API: no external metrics API \
                (external.metrics.k8s.io) registered";
    assert!(events.iter().any(|e| e == event), "{events:#?}");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_autoscalers_of_one_target_do_nothing_and_say_so() {
    let world = World::start().await;
    target(&world, 2).await;
    let pods = "/api/v1/namespaces/a/pods";
    world.until(pods, |list| list["items"].as_array().is_some_and(|l| l.len() == 2)).await;
    let metric = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    scaler_of(&world, "h", metric.clone()).await;
    world.until(SCALER, |h| reason(h, "ScalingActive") == "FailedGetResourceMetric").await;
    scaler_of(&world, "i", metric).await;
    let rival = "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers/i";
    for path in [rival, SCALER] {
        let found = world.until(path, |h| reason(h, "ScalingActive") == "AmbiguousSelector").await;
        let conditions = found["status"]["conditions"].to_string();
        let expected = "pods by selector app=web are controlled by multiple HPAs: [{h a} {i a}]";
        assert!(conditions.contains(expected), "{conditions}");
    }
    world.delete(rival).await;
    world.until(SCALER, |h| reason(h, "ScalingActive") == "FailedGetResourceMetric").await;
    world.cluster.stop().await;
}
