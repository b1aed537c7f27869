//! What the tests share.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass::{Client, Key, Object};
use windlass_cluster::Cluster;

/// The client of a cluster: every read is live.
pub fn client(cluster: &Cluster) -> Client {
    Client::new(cluster.client())
}

/// A key of namespace `default`.
pub fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

/// A typed object from JSON.
pub fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("is such an object")
}

/// A typed object as JSON, for looking deep into it.
pub fn value<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).expect("every object is JSON")
}

/// A Deployment of namespace `default` with the label `app` set to its name.
pub fn deployment(name: &str, replicas: i32) -> Deployment {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            },
        },
    }))
}

/// A pod of namespace `default`.
pub fn pod(name: &str, annotations: Value) -> Pod {
    object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    }))
}

/// The pods with the label `app` set to this.
pub async fn pods_of(client: &Client, app: &str) -> Vec<Pod> {
    let pods = client.api::<Pod>().list().namespace("default").labels([("app", app)]);
    let found = pods.items().await.expect("pods can be listed");
    found.iter().map(|pod| (**pod).clone()).collect()
}

/// Waits in virtual time until an object is as wanted, and returns it as JSON.
pub async fn until<K: Object<DynamicType = ()>>(
    client: &Client,
    key: &Key,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    for _ in 0..6_000 {
        let found = client.api::<K>().get(key).await.expect("can be read");
        last = found.map_or(Value::Null, |found| value(&*found));
        if wanted(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{key} did not become as wanted within a minute: {last:#}");
}

/// Waits in virtual time until all pods of a Deployment are available.
pub async fn available(client: &Client, name: &str, count: i64) -> Value {
    until::<Deployment>(client, &key(name), |d| {
        let status = &d["status"];
        status["availableReplicas"].as_i64().unwrap_or(0) == count
            && status["updatedReplicas"].as_i64().unwrap_or(0) == count
            && status["replicas"].as_i64().unwrap_or(0) == count
            && status["observedGeneration"] == d["metadata"]["generation"]
    })
    .await
}

/// Waits in virtual time until an object is gone.
pub async fn gone<K: Object<DynamicType = ()>>(client: &Client, key: &Key) {
    until::<K>(client, key, Value::is_null).await;
}

/// The texts of all events about an object, in order.
pub async fn events(client: &Client, name: &str) -> Vec<String> {
    use k8s_openapi::api::events::v1::Event;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let found =
        client.api::<Event>().list().namespace("default").items().await.expect("can be listed");
    let about = found
        .iter()
        .filter(|event| event.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name));
    let mut texts: Vec<String> = about
        .map(|e| {
            format!(
                "{}: {}",
                e.reason.clone().unwrap_or_default(),
                e.note.clone().unwrap_or_default()
            )
        })
        .collect();
    texts.sort();
    texts
}
