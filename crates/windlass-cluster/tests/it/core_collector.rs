//! The garbage collector.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PropagationPolicy;
use serde_json::{Value, json};
use windlass::Client;
use windlass::client::Deletion;
use windlass_cluster::Cluster;

use crate::common::{available, client, deployment, events, gone, key, object, pods_of, until};

async fn map(client: &Client, name: &str, owners: &[(&str, &ConfigMap, bool)]) -> ConfigMap {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(kind, owner, blocks)| {
            json!({"apiVersion": "v1", "kind": kind, "name": owner.metadata.name,
                   "uid": owner.metadata.uid, "blockOwnerDeletion": blocks})
        })
        .collect();
    let map = object::<ConfigMap>(json!({
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}}));
    client.api().create(&map).await.expect("created")
}

async fn delete(client: &Client, name: &str, policy: PropagationPolicy) {
    let how = Deletion::from(&key(name)).propagation(policy);
    client.api::<ConfigMap>().delete(how).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn dependents_of_all_depths_go_with_their_owner() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 2)).await.expect("created");
    available(&client, "web", 2).await;
    client.api::<Deployment>().delete(&key("web")).await.expect("deleted");
    for _ in 0..1_000 {
        let sets =
            client.api::<ReplicaSet>().list().namespace("default").items().await.expect("listed");
        if sets.is_empty() && pods_of(&client, "web").await.is_empty() {
            cluster.stop().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("something is left");
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_what_blocks_it() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let owner = map(&client, "owner", &[]).await;
    map(&client, "plain", &[("ConfigMap", &owner, false)]).await;
    let held = map(&client, "held", &[("ConfigMap", &owner, true)]).await;
    let mut held = held.clone();
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    client.api().update(&held).await.expect("updated");
    delete(&client, "owner", PropagationPolicy::Foreground).await;
    gone::<ConfigMap>(&client, &key("plain")).await;
    let owner = client.api::<ConfigMap>().get(&key("owner")).await.expect("read").expect("waits");
    assert_eq!(owner.metadata.finalizers, Some(vec!["foregroundDeletion".into()]));
    let free = windlass::client::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client.api::<ConfigMap>().patch(&key("held"), &free).await.expect("patched");
    gone::<ConfigMap>(&client, &key("owner")).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_without_their_reference() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let owner = map(&client, "owner", &[]).await;
    map(&client, "child", &[("ConfigMap", &owner, true)]).await;
    delete(&client, "owner", PropagationPolicy::Orphan).await;
    gone::<ConfigMap>(&client, &key("owner")).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let child = client.api::<ConfigMap>().get(&key("child")).await.expect("read").expect("stays");
    assert_eq!(child.metadata.owner_references, None);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_owner_keeps_an_object_until_it_is_deleted_too() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let one = map(&client, "one", &[]).await;
    let two = map(&client, "two", &[]).await;
    map(&client, "child", &[("ConfigMap", &one, false), ("ConfigMap", &two, false)]).await;
    delete(&client, "one", PropagationPolicy::Background).await;
    let single = |c: &Value| c["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1);
    until::<ConfigMap>(&client, &key("child"), single).await;
    delete(&client, "two", PropagationPolicy::Background).await;
    gone::<ConfigMap>(&client, &key("child")).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_the_wrong_kind_counts_as_none_and_an_unknown_kind_is_left_alone() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let owner = map(&client, "owner", &[]).await;
    map(&client, "wrong", &[("Secret", &owner, false)]).await;
    map(&client, "unknown", &[("Nothing", &owner, false)]).await;
    gone::<ConfigMap>(&client, &key("wrong")).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(client.api::<ConfigMap>().get(&key("unknown")).await.expect("read").is_some());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_another_namespace_is_none_and_a_warning_says_so() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let away = object::<ConfigMap>(json!({
        "metadata": {"name": "owner", "namespace": "kube-system"}}));
    let away = client.api().create(&away).await.expect("created");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    map(&client, "child", &[("ConfigMap", &away, false)]).await;
    gone::<ConfigMap>(&client, &key("child")).await;
    let uid = away.metadata.uid.expect("has a UID");
    let text = format!(
        "OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: \
         {uid}] does not exist in namespace \"default\""
    );
    assert_eq!(events(&client, "child").await, [text]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_owned() {
    a_custom_resource_owns("example.com", "Widget", "widgets").await;
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_with_the_name_of_a_built_in_one_is_followed() {
    a_custom_resource_owns("batch.tutorial.kubebuilder.io", "CronJob", "cronjobs").await;
}

async fn a_custom_resource_owns(group: &str, kind: &str, plural: &str) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let definition = object::<extensions::CustomResourceDefinition>(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }));
    client.api().create(&definition).await.expect("created");
    let api_version = format!("{group}/v1");
    let served = windlass::Kind::new(group, "v1", kind, plural);
    let api = client.api_of::<kube::core::DynamicObject>(&served);
    let widget = object(json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": "w", "namespace": "default"}}));
    let widget = api.create(&widget).await.expect("created");
    let made = object::<Pod>(json!({
        "metadata": {"name": "made", "namespace": "default", "ownerReferences": [{
            "apiVersion": api_version, "kind": kind, "name": "w",
            "uid": widget.metadata.uid, "controller": true}]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }));
    client.api().create(&made).await.expect("created");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(client.api::<Pod>().get(&key("made")).await.expect("read").is_some());
    api.delete(&key("w")).await.expect("deleted");
    gone::<Pod>(&client, &key("made")).await;
    cluster.stop().await;
}
