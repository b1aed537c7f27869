//! The operator on the embedded cluster, in virtual time.

#[path = "../../chapter.rs"]
mod chapter;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::{CustomResourceExt, ResourceExt};
use memcached_operator::{Memcached, MemcachedSpec, controller, operator, v1beta1};
use serde_json::json;
use windlass::client::Patch;
use windlass::manager::Running;
use windlass::{Client, Key, Manager, Object, Result, condition};
use windlass_cluster::{Cluster, OperatorTest};

async fn start() -> (Cluster, Running, Client) {
    let cluster = Cluster::start().await;
    let client = Client::new(cluster.client());
    client.api().create(&Memcached::crd()).await.expect("the definition is valid");
    let operator = Manager::new(cluster.client()).add(controller()).spawn().expect("starts");
    (cluster, operator, client)
}

fn sample(size: i32) -> Memcached {
    let mut sample = Memcached::new("sample", MemcachedSpec { size });
    sample.metadata.namespace = Some("default".into());
    sample
}

fn key() -> Key {
    Key::namespaced("default", "sample")
}

async fn until<K>(client: &Client, what: &str, holds: impl Fn(&K) -> bool) -> Arc<K>
where
    K: Object<DynamicType = ()>,
{
    for _ in 0..1_000 {
        if let Some(object) = client.api::<K>().get(&key()).await.expect("can be read")
            && holds(&object)
        {
            return object;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come true within 10 s");
}

async fn settled(client: &Client, size: usize) -> Arc<Memcached> {
    until(client, "all pods", |m: &Memcached| {
        let status = m.status.clone().unwrap_or_default();
        status.nodes.len() == size && condition::is_true(&status.conditions, "Available")
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn the_status_names_all_pods_and_follows_the_size() {
    let (cluster, operator, client) = start().await;
    client.api().create(&sample(3)).await.expect("created");
    let three = settled(&client, 3).await;
    let pods = client.api::<Pod>().list().namespace("default").items().await.expect("listed");
    let names: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(three.status.as_ref().expect("has a status").nodes, names);
    let grow = Patch::Merge(json!({"spec": {"size": 5}}));
    client.api::<Memcached>().patch(&key(), &grow).await.expect("patched");
    settled(&client, 5).await;
    operator.stop().await.expect("stops");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_size_beyond_five_is_refused_by_the_api_server() {
    let (cluster, operator, client) = start().await;
    let error = client.api().create(&sample(9)).await.expect_err("too large");
    assert!(
        matches!(error.status(), Some(status) if status.code == 422)
            && error.to_string().contains("spec.size"),
        "{error}"
    );
    operator.stop().await.expect("stops");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_deployment_is_put_right() {
    let (cluster, operator, client) = start().await;
    client.api().create(&sample(2)).await.expect("created");
    settled(&client, 2).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    client.api::<Deployment>().patch(&key(), &patch).await.expect("scaled");
    until(&client, "two replicas again", |d: &Deployment| {
        d.spec.as_ref().and_then(|s| s.replicas) == Some(2)
    })
    .await;
    client.api::<Deployment>().delete(&key()).await.expect("deleted");
    settled(&client, 2).await;
    operator.stop().await.expect("stops");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_runs_the_finalizer_and_leaves_nothing() {
    let (cluster, operator, client) = start().await;
    client.api().create(&sample(1)).await.expect("created");
    settled(&client, 1).await;
    client.api::<Memcached>().delete(&key()).await.expect("deleted");
    for _ in 0..1_000 {
        let gone = client.api::<Memcached>().get(&key()).await.expect("read").is_none();
        let pods = client.api::<Pod>().list().namespace("default").items().await.expect("listed");
        if gone && pods.is_empty() {
            operator.stop().await.expect("stops");
            cluster.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("something is left");
}

#[tokio::test(start_paused = true)]
async fn events_say_when_all_pods_are_available_and_when_the_end_begins() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    test.client().api().create(&sample(2)).await?;
    settled(test.client(), 2).await;
    test.client().api::<Memcached>().delete(&key()).await?;
    test.until_none::<Memcached>().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let events = test.client().api::<Event>().list().namespace("default").items().await?;
    let of_sample = |event: &&Arc<Event>| {
        event.regarding.as_ref().and_then(|object| object.kind.as_deref()) == Some("Memcached")
    };
    let notes: BTreeSet<_> =
        events.iter().filter(of_sample).filter_map(|event| event.note.as_deref()).collect();
    assert_eq!(notes, BTreeSet::from(["2 pods are available", "sample is being deleted"]));
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_memory_is_a_field_in_one_version_and_an_annotation_in_the_other() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let (older, newer) =
        (test.client().api::<Memcached>(), test.client().api::<v1beta1::Memcached>());
    let spec = v1beta1::MemcachedSpec { size: 1, memory_megabytes: Some(128) };
    let mut created = v1beta1::Memcached::new("sample", spec);
    created.metadata.namespace = Some("default".into());
    newer.create(&created).await?;
    let limit = |megabytes: i32| {
        move |deployment: &Deployment| {
            let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
            let args = pod.and_then(|pod| pod.containers[0].args.as_ref());
            let limit = format!("--memory-limit={megabytes}");
            args.is_some_and(|args| args.contains(&limit))
        }
    };
    test.until("128 MB", &key(), limit(128)).await?;
    let stored = older.get(&key()).await?.expect("exists");
    assert_eq!(stored.annotations().get(v1beta1::MEMORY).map(String::as_str), Some("128"));

    let annotate =
        |text: &str| Patch::Merge(json!({"metadata": {"annotations": {v1beta1::MEMORY: text}}}));
    older.patch(&key(), &annotate("256")).await?;
    test.until("256 MB", &key(), limit(256)).await?;
    let read = newer.get(&key()).await?.expect("exists");
    assert_eq!(read.spec.memory_megabytes, Some(256));
    assert_eq!(read.annotations().get(v1beta1::MEMORY), None, "it is a field here");

    older.patch(&key(), &annotate("plenty")).await?;
    test.until("the default", &key(), limit(v1beta1::DEFAULT_MEMORY)).await?;
    let read = newer.get(&key()).await?.expect("exists");
    assert_eq!(read.spec.memory_megabytes, None);
    newer.patch(&key(), &Patch::Merge(json!({"spec": {"size": 2}}))).await?;
    let stored = settled(test.client(), 2).await;
    assert_eq!(stored.annotations().get(v1beta1::MEMORY).map(String::as_str), Some("plenty"));
    test.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_chapter_shows_what_happens() -> Result<()> {
    let test = OperatorTest::start(operator).await?;
    let mut printed = Vec::new();
    let show = async |resource: &str, group: &str| {
        let path = format!("/{group}/namespaces/default/{resource}");
        let table = test.cluster().table(&path).await.expect("can be listed");
        format!("$ kubectl get {resource}\n{table}")
    };
    let ten_seconds = async || tokio::time::sleep(Duration::from_secs(10)).await;
    test.client().api().create(&sample(3)).await?;
    let name = "memcached.cache.example.com/sample";
    printed.push(format!("$ kubectl apply -f sample.yaml\n{name} created"));
    ten_seconds().await;
    printed.push(show("memcacheds", "apis/cache.example.com/v1alpha1").await);
    printed.push(show("pods", "api/v1").await);
    let three = settled(test.client(), 3).await;
    let nodes = three.status.clone().unwrap_or_default().nodes;
    let nodes_shown: String = nodes.iter().map(|node| format!("  - {node}\n")).collect();
    printed.push(format!("status:\n  nodes:\n{nodes_shown}"));

    test.client().api::<Pod>().delete(&Key::namespaced("default", &nodes[0])).await?;
    printed.push(format!("$ kubectl delete pod {0}\npod \"{0}\" deleted", nodes[0]));
    ten_seconds().await;
    printed.push(show("pods", "api/v1").await);
    let five = Patch::Merge(json!({"spec": {"size": 5}}));
    test.client().api::<Memcached>().patch(&key(), &five).await?;
    printed.push(format!("$ kubectl edit memcached sample\n{name} edited"));
    ten_seconds().await;
    printed.push(show("memcacheds", "apis/cache.example.com/v1alpha1").await);
    settled(test.client(), 5).await;
    let nine = Patch::Merge(json!({"spec": {"size": 9}}));
    let refused = test.client().api::<Memcached>().patch(&key(), &nine).await;
    let refused = refused.expect_err("is too large");
    printed.push(refused.status().map(|status| status.message.clone()).unwrap_or_default());
    chapter::assert_shows(include_str!("../README.md"), &printed);
    test.stop().await
}
