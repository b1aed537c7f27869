//! ReplicaSets: adoption, release, and which pods go.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use windlass::client::Patch;
use windlass::owner;
use windlass_cluster::Cluster;

use crate::common::{client, key, object, pods_of, until, value};

fn set(replicas: i32) -> ReplicaSet {
    object(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "rs"}},
            "template": {
                "metadata": {"labels": {"app": "rs"}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            },
        },
    }))
}

#[tokio::test(start_paused = true)]
async fn a_matching_pod_without_owner_is_adopted_and_a_changed_one_released() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut lone = value(&crate::common::pod("lone", json!({})));
    lone["metadata"]["labels"] = json!({"app": "rs"});
    client.api().create(&object::<Pod>(lone)).await.expect("created");
    client.api().create(&set(2)).await.expect("created");
    until::<ReplicaSet>(&client, &key("rs"), |rs| rs["status"]["readyReplicas"] == 2).await;
    assert_eq!(pods_of(&client, "rs").await.len(), 2);
    let lone = client.api::<Pod>().get(&key("lone")).await.expect("read").expect("is there");
    assert_eq!(owner::controller_of(&*lone).map(|o| o.name.as_str()), Some("rs"));

    let relabel = Patch::Merge(json!({"metadata": {"labels": {"app": "debug"}}}));
    client.api::<Pod>().patch(&key("lone"), &relabel).await.expect("patched");
    let freed = |p: &serde_json::Value| p["metadata"]["ownerReferences"].is_null();
    until::<Pod>(&client, &key("lone"), freed).await;
    until::<ReplicaSet>(&client, &key("rs"), |rs| rs["status"]["readyReplicas"] == 2).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_ready_go_first() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&set(4)).await.expect("created");
    until::<ReplicaSet>(&client, &key("rs"), |rs| rs["status"]["readyReplicas"] == 4).await;
    let sick = pods_of(&client, "rs").await[2].metadata.name.clone().expect("has a name");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"windlass.dev/ready": "false"}}}));
    client.api::<Pod>().patch(&key(&sick), &patch).await.expect("patched");
    until::<ReplicaSet>(&client, &key("rs"), |rs| rs["status"]["readyReplicas"] == 3).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    client.api::<ReplicaSet>().patch(&key("rs"), &patch).await.expect("scaled");
    until::<Pod>(&client, &key(&sick), serde_json::Value::is_null).await;
    assert_eq!(pods_of(&client, "rs").await.len(), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_is_not_adopted() {
    let world = crate::batch_world::World::new().await;
    let spec = json!({"containers": [{"name": "c", "image": "nginx:1"}], "restartPolicy": "Never"});
    let meta = json!({"name": "done", "labels": {"app": "rs"}});
    world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})).await;
    world.ended("done", 1).await;
    world.create(value(&set(1))).await;
    world.until_field("ReplicaSet", "rs", "/status/replicas", json!(1)).await;
    let done = world.get("Pod", "done").await;
    assert_eq!(done["metadata"]["ownerReferences"], json!(null));
}
