//! Namespaces: what is created with them, and how they are deleted.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Client, Key};
use windlass_cluster::Cluster;

use crate::common::{client, deployment, gone, object, until};

async fn namespace(client: &Client) {
    let namespace = object::<Namespace>(json!({"metadata": {"name": "shop"}}));
    client.api().create(&namespace).await.expect("created");
    let there = |v: &Value| !v.is_null();
    until::<ServiceAccount>(client, &Key::namespaced("shop", "default"), there).await;
    until::<ConfigMap>(client, &Key::namespaced("shop", "kube-root-ca.crt"), there).await;
}

#[tokio::test(start_paused = true)]
async fn an_account_and_the_root_certificate_come_back_when_deleted() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    namespace(&client).await;
    let (account, map) =
        (Key::namespaced("shop", "default"), Key::namespaced("shop", "kube-root-ca.crt"));
    client.api::<ServiceAccount>().delete(&account).await.expect("deleted");
    client.api::<ConfigMap>().delete(&map).await.expect("deleted");
    until::<ServiceAccount>(&client, &account, |v| !v.is_null()).await;
    let found = until::<ConfigMap>(&client, &map, |v| !v.is_null()).await;
    let certificate = found["data"]["ca.crt"].as_str().expect("is text");
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{certificate}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_deleted_with_all_its_contents() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    namespace(&client).await;
    let mut web = deployment("web", 3);
    web.metadata.namespace = Some("shop".into());
    client.api().create(&web).await.expect("created");
    let key = Key::namespaced("shop", "web");
    until::<Deployment>(&client, &key, |d| d["status"]["availableReplicas"] == 3).await;
    client.api::<Namespace>().delete(&Key::cluster("shop")).await.expect("deleted");
    gone::<Namespace>(&client, &Key::cluster("shop")).await;
    assert!(client.api::<Pod>().list().namespace("shop").items().await.expect("listed").is_empty());
    assert!(
        client
            .api::<ConfigMap>()
            .list()
            .namespace("shop")
            .items()
            .await
            .expect("listed")
            .is_empty()
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_holds_its_namespace_and_the_conditions_say_so() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    namespace(&client).await;
    let stuck = object::<ConfigMap>(json!({"metadata": {
        "name": "stuck", "namespace": "shop", "finalizers": ["example.com/hold"]}}));
    client.api().create(&stuck).await.expect("created");
    client.api::<Namespace>().delete(&Key::cluster("shop")).await.expect("deleted");
    let held = until::<Namespace>(&client, &Key::cluster("shop"), |n| {
        let conditions = n["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|c| c["type"] == "NamespaceFinalizersRemaining" && c["status"] == "True")
    })
    .await;
    let text = held.to_string();
    assert!(text.contains("Some resources are remaining: configmaps. has 1 resource instances"));
    assert!(text.contains("example.com/hold in 1 resource instances"));
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client
        .api::<ConfigMap>()
        .patch(&Key::namespaced("shop", "stuck"), &free)
        .await
        .expect("patched");
    gone::<Namespace>(&client, &Key::cluster("shop")).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_is_filled_and_deleted_with_its_account() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let account =
        object::<ServiceAccount>(json!({"metadata": {"name": "bot", "namespace": "default"}}));
    client.api().create(&account).await.expect("created");
    let secret = object::<Secret>(json!({
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "namespace": "default",
                     "annotations": {"kubernetes.io/service-account.name": "bot"}},
    }));
    client.api().create(&secret).await.expect("created");
    let key = Key::namespaced("default", "token");
    until::<Secret>(&client, &key, |s| s["data"]["token"].is_string()).await;
    client
        .api::<ServiceAccount>()
        .delete(&Key::namespaced("default", "bot"))
        .await
        .expect("deleted");
    gone::<Secret>(&client, &key).await;
    cluster.stop().await;
}
