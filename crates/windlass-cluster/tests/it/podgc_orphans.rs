//! Pods that only the pod garbage collector deletes.

use std::time::Duration;

use serde_json::json;

use crate::support_world::World;

#[tokio::test(start_paused = true)]
async fn pods_of_a_missing_node_go_after_a_while() {
    let world = World::start().await;
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    world.pod("lost", "x", Some("nowhere"), "10.0.0.1", true).await;
    world.pod("kept", "x", Some("n"), "10.0.0.2", true).await;
    let waiting = json!({"metadata": {"name": "waiting"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
    }});
    world.create("/api/v1/namespaces/a/pods", waiting).await;
    tokio::time::sleep(Duration::from_secs(55)).await;
    assert_eq!(world.get("/api/v1/namespaces/a/pods/lost").await["kind"], "Pod");
    world.until("/api/v1/namespaces/a/pods/lost", |p| p["code"] == 404).await;
    assert_eq!(world.get("/api/v1/namespaces/a/pods/kept").await["kind"], "Pod");
    assert_eq!(world.get("/api/v1/namespaces/a/pods/waiting").await["kind"], "Pod");
    world.cluster.stop().await;
}
