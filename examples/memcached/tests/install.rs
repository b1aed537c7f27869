//! What the manifests install, on the embedded cluster.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use memcached_operator::{Memcached, operator};
use serde_json::Value;
use windlass_cluster::Cluster;

/// Creates an object.
async fn create(client: &Client, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let typed = serde_json::from_value(object.clone()).expect("has metadata");
    api.create(&PostParams::default(), &typed)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{object:#}"));
}

#[tokio::test(start_paused = true)]
async fn everything_installs_and_the_pods_start_in_a_restricted_namespace() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let model = operator().model().expect("the operator is well described");
    for object in model.objects() {
        create(&client, &object).await;
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &model.namespace);
    let mut available = 0;
    for _ in 0..1_000 {
        let found = deployments.get(&model.manager_name()).await.expect("was created");
        available = found.status.and_then(|status| status.available_replicas).unwrap_or(0);
        if available > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(available, 1, "the pod was admitted and runs");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_sample_is_valid() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let model = operator().model().expect("the operator is well described");
    create(&client, &model.definitions()[0]).await;
    let files = model.files();
    let path = "config/samples/cache.example.com_v1alpha1_memcached.yaml";
    let text = files.get(path).expect("is generated");
    let sample: Memcached = serde_saphyr::from_str(text).expect("is a Memcached");
    let all: Api<Memcached> = Api::namespaced(client, "default");
    let created = all.create(&PostParams::default(), &sample).await.expect("is accepted");
    assert_eq!(created.spec.size, 3);
    cluster.stop().await;
}
