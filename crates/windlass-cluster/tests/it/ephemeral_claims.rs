//! Ephemeral volumes: the claim is created and deleted with the pod.

use serde_json::{Value, json};

use crate::support_world::World;

const CLAIM: &str = "/api/v1/namespaces/a/persistentvolumeclaims/p-scratch";
const CLAIMS: &str = "/api/v1/namespaces/a/persistentvolumeclaims";

fn claim() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "resources": {"requests": {"storage": "1Gi"}},
    })
}

async fn pod(world: &World) {
    let template = json!({"metadata": {"labels": {"type": "scratch"}}, "spec": claim()});
    let volume = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}});
    let body = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "volumes": [volume],
    }});
    world.create("/api/v1/namespaces/a/pods", body).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_brings_its_claim_and_takes_it_along() {
    let world = World::start().await;
    pod(&world).await;
    let made = world.until(CLAIM, |c| c["kind"] == "PersistentVolumeClaim").await;
    assert_eq!(made["metadata"]["labels"], json!({"type": "scratch"}));
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Pod"), &json!("p")));
    assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    world.delete("/api/v1/namespaces/a/pods/p").await;
    world.until(CLAIM, |c| c["code"] == 404).await;
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_another_owner_is_left_alone_and_reported_on_the_pod() {
    let world = World::start().await;
    world.create(CLAIMS, json!({"metadata": {"name": "p-scratch"}, "spec": claim()})).await;
    pod(&world).await;
    let events = world.events("a", "p").await;
    let event = "FailedBinding: ephemeral volume scratch: PVC a/p-scratch was not created for pod \
                a/p (pod is not owner)";
    assert!(events.iter().any(|e| e == event), "{events:?}");
    assert_eq!(world.get(CLAIM).await["metadata"]["ownerReferences"], Value::Null);
    world.cluster.stop().await;
}
