//! StatefulSets and the claims of their pods: whose they are, and what happens to them.

use serde_json::{Value, json};

use crate::batch_world::{World, template};

fn set(replicas: i32, retention: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template(json!({"app": "db"}), "Always"),
            "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": retention,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim()}],
        },
    })
}

fn claim() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    })
}

fn owner(claim: &Value) -> Value {
    let mut owner = claim["metadata"]["ownerReferences"][0].clone();
    if let Some(owner) = owner.as_object_mut() {
        owner.remove("uid");
    }
    owner
}

fn controlled_by(version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": version, "kind": kind, "name": name, "controller": true,
        "blockOwnerDeletion": true,
    })
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_set_or_with_the_pod_that_is_scaled_away() {
    let world = World::new().await;
    world.create(set(2, json!({"whenDeleted": "Delete", "whenScaled": "Delete"}))).await;
    world.until_names("Pod", &["db-0", "db-1"]).await;
    world.until_names("PersistentVolumeClaim", &["data-db-0", "data-db-1"]).await;
    let kept = world.get("PersistentVolumeClaim", "data-db-0").await;
    assert_eq!(owner(&kept), controlled_by("apps/v1", "StatefulSet", "db"));
    for pod in ["db-0", "db-1"] {
        world.ready(pod).await;
    }
    world.patch("Pod", "db-1", json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    world.patch("StatefulSet", "db", json!({"spec": {"replicas": 1}})).await;
    let by_pod = || async {
        owner(&world.get("PersistentVolumeClaim", "data-db-1").await)
            == controlled_by("v1", "Pod", "db-1")
    };
    world.until("the claim belongs to its pod", by_pod).await;
    let free = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["test/hold"]}});
    world.patch("Pod", "db-1", free).await;
    world.until_names("PersistentVolumeClaim", &["data-db-0"]).await;
    world.delete("StatefulSet", "db").await;
    world.until_names("PersistentVolumeClaim", &[]).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_changes_is_carried_to_the_claims_of_running_pods() {
    let world = World::new().await;
    world.create(set(1, json!({"whenDeleted": "Retain", "whenScaled": "Retain"}))).await;
    world.until_names("Pod", &["db-0"]).await;
    world.ready("db-0").await;
    world.until_field("StatefulSet", "db", "/status/readyReplicas", json!(1)).await;
    assert_eq!(owner(&world.get("PersistentVolumeClaim", "data-db-0").await), Value::Null);
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
    let patch = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
    world.patch("StatefulSet", "db", patch).await;
    let owned = || async {
        owner(&world.get("PersistentVolumeClaim", "data-db-0").await)
            == controlled_by("apps/v1", "StatefulSet", "db")
    };
    world.until("the claim belongs to the set", owned).await;
    let event = "SuccessfulUpdate: Update Pod db-0 in StatefulSet db successful";
    let published = || async { world.events().await.iter().any(|e| e == event) };
    world.until("an event reports the update", published).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_delays_its_pod_and_is_reported() {
    let world = World::new().await;
    let held = json!({"name": "data-db-0", "finalizers": ["test/hold"]});
    world
        .create(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": held, "spec": claim(),
        }))
        .await;
    world.delete("PersistentVolumeClaim", "data-db-0").await;
    world.create(set(1, json!({"whenDeleted": "Retain", "whenScaled": "Retain"}))).await;
    let event = "FailedCreate: Create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is \
                being deleted";
    let published = || async { world.events().await.iter().any(|e| e == event) };
    world.until("an event reports the reason", published).await;
    assert_eq!(world.names("Pod").await, Vec::<String>::new());
    let free = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["test/hold"]}});
    world.patch("PersistentVolumeClaim", "data-db-0", free).await;
    world.until_names("Pod", &["db-0"]).await;
    world.cluster.stop().await;
}
