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
async fn without_metrics_nothing_is_scaled_and_the_reason_is_told() {
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
