//! Installs the manifests of an operator on the embedded cluster.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::Value;
use windlass::Operator;
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

/// Asserts that everything is accepted, and that the pod of the operator starts in its restricted
/// namespace.
pub async fn assert_starts(operator: Operator) {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let model = operator.model().expect("the operator is well described");
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
