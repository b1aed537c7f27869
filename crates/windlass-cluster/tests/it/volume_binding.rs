//! Claims and volumes find each other and let go.

use serde_json::{Value, json};

use crate::support_world::World;

const CLAIMS: &str = "/api/v1/namespaces/a/persistentvolumeclaims";
const DATA: &str = "/api/v1/namespaces/a/persistentvolumeclaims/data";

async fn volume(world: &World, name: &str, size: &str, policy: &str) {
    let body = json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"}, "storageClassName": "c",
        "persistentVolumeReclaimPolicy": policy,
    }});
    world.create("/api/v1/persistentvolumes", body).await;
}

async fn claim(world: &World, size: &str) -> Value {
    let body = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "resources": {"requests": {"storage": size}},
    }});
    world.create(CLAIMS, body).await
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_smallest_volume_and_releases_it() {
    let world = World::start().await;
    for (name, size) in [("big", "10Gi"), ("mid", "3Gi"), ("tiny", "1Gi")] {
        volume(&world, name, size, "Retain").await;
    }
    claim(&world, "2Gi").await;
    let bound = world.until(DATA, |c| c["status"]["phase"] == "Bound").await;
    assert_eq!(bound["spec"]["volumeName"], "mid");
    assert_eq!(bound["status"]["capacity"]["storage"], "3Gi");
    let marks = json!({
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
    });
    assert_eq!(bound["metadata"]["annotations"], marks);
    assert_eq!(bound["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mid =
        world.until("/api/v1/persistentvolumes/mid", |v| v["status"]["phase"] == "Bound").await;
    assert_eq!(mid["spec"]["claimRef"]["name"], "data");
    world.delete(DATA).await;
    world.until(DATA, |c| c["code"] == 404).await;
    world.until("/api/v1/persistentvolumes/mid", |v| v["status"]["phase"] == "Released").await;
    claim(&world, "2Gi").await;
    let again = world.until(DATA, |c| c["status"]["phase"] == "Bound").await;
    assert_eq!(again["spec"]["volumeName"], "big");
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_and_its_volume_stay() {
    let world = World::start().await;
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    volume(&world, "v", "1Gi", "Retain").await;
    claim(&world, "1Gi").await;
    world.until(DATA, |c| c["status"]["phase"] == "Bound").await;
    let pod = json!({"metadata": {"name": "user"}, "spec": {
        "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
    }});
    world.create("/api/v1/namespaces/a/pods", pod).await;
    world.delete(DATA).await;
    world.delete("/api/v1/persistentvolumes/v").await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(world.get(DATA).await["metadata"]["deletionTimestamp"].is_string());
    assert!(world.get("/api/v1/persistentvolumes/v").await["metadata"]["name"].is_string());
    world.delete("/api/v1/namespaces/a/pods/user").await;
    world.until(DATA, |c| c["code"] == 404).await;
    world.until("/api/v1/persistentvolumes/v", |v| v["code"] == 404).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_class_is_reported_and_a_simulated_one_provisions() {
    let world = World::start().await;
    claim(&world, "1Gi").await;
    let events = world.events("a", "data").await;
    assert_eq!(events, ["ProvisioningFailed: storageclass.storage.k8s.io \"c\" not found"]);
    let class = json!({
        "metadata": {"name": "c"}, "provisioner": "windlass.dev/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    world.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(world.get(DATA).await["status"]["phase"], "Pending");
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let pod = json!({"metadata": {"name": "user"}, "spec": {
        "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
    }});
    world.create("/api/v1/namespaces/a/pods", pod).await;
    let bound = world.until(DATA, |c| c["status"]["phase"] == "Bound").await;
    let path = format!(
        "/api/v1/persistentvolumes/{}",
        bound["spec"]["volumeName"].as_str().unwrap_or_default()
    );
    world.delete("/api/v1/namespaces/a/pods/user").await;
    world.delete(DATA).await;
    world.until(&path, |v| v["code"] == 404).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_names_a_taken_volume_waits_and_is_reported() {
    let world = World::start().await;
    volume(&world, "v", "1Gi", "Retain").await;
    claim(&world, "1Gi").await;
    world.until(DATA, |c| c["status"]["phase"] == "Bound").await;
    let body = json!({"metadata": {"name": "late"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "c", "volumeName": "v",
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.create(CLAIMS, body).await;
    let events = world.events("a", "late").await;
    assert_eq!(events, ["FailedBinding: volume \"v\" already bound to a different claim."]);
    let late = world.get(&format!("{CLAIMS}/late")).await;
    assert_eq!(late["status"]["phase"], "Pending");
    world.cluster.stop().await;
}
