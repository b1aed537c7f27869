//! Which objects select another one.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use parking_lot::Mutex;
use serde_json::json;
use windlass::cache::{Index, Selection};
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Key, Kind, Manager, Watch};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, meta, secret};

/// Config maps by the selector in their data, which may be any text.
fn selectors() -> Index<ConfigMap, Selection> {
    Index::selectors("selector", |map: &ConfigMap| {
        let text = map.data.as_ref()?.get("selector")?;
        serde_json::from_str::<LabelSelector>(text).ok()
    })
}

type Seen = Arc<Mutex<BTreeSet<String>>>;

/// Follows secrets and nodes that config maps select.
fn controller(seen: &Seen) -> Controller<ConfigMap> {
    let seen = seen.clone();
    Controller::<ConfigMap>::builder("selectors")
        .watch(Watch::selected_by(Kind::of::<Secret>(), &selectors()))
        .watch(Watch::selected_by(Kind::of::<Node>(), &selectors()))
        .build(move |cx: Context<ConfigMap>| {
            let seen = seen.clone();
            async move {
                seen.lock().insert(cx.key().to_string());
                Ok(Next::Done)
            }
        })
}

fn labeled(name: &str, labels: &[(&str, &str)]) -> Secret {
    let mut secret = secret(name);
    let labels = labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string()));
    secret.metadata.labels = Some(labels.collect());
    secret
}

/// Returns the config maps that ran since the last call.
async fn ran(seen: &Seen) -> Vec<String> {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    std::mem::take(&mut *seen.lock())
        .into_iter()
        .filter(|key| !key.ends_with("kube-root-ca.crt"))
        .collect()
}

async fn world(seen: &Seen) -> (windlass::manager::Running, Client) {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for (name, selector) in [
        ("all", json!({})),
        ("none", json!(null)),
        ("web", json!({"matchLabels": {"app": "web", "tier": "front"}})),
        (
            "either",
            json!({"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["web", "shop"]}]}),
        ),
        ("labeled", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
        (
            "not-web",
            json!({"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["web"]}]}),
        ),
        ("wrong", json!({"matchExpressions": [{"key": "app", "operator": "Like"}]})),
    ] {
        let map = config_map(name, &[("selector", &selector.to_string())]);
        client.api().create(&map).await.expect("created");
    }
    let mut elsewhere = config_map("all", &[("selector", "{}")]);
    elsewhere.metadata.namespace = Some("kube-public".into());
    client.api().create(&elsewhere).await.expect("created");
    let manager = Manager::new(server.client()).namespaces(["default", "kube-public"]);
    let running = manager.add(controller(seen)).spawn().expect("starts");
    running.ready().await;
    ran(seen).await;
    (running, client)
}

#[tokio::test(start_paused = true)]
async fn a_change_leads_to_reconciles_of_the_objects_that_select_it_before_or_after() {
    let seen = Seen::default();
    let (running, client) = world(&seen).await;
    let secrets = client.api::<Secret>();
    secrets.create(&labeled("plain", &[])).await.expect("created");
    assert_eq!(ran(&seen).await, ["default/all", "default/not-web"]);
    let front = labeled("front", &[("app", "web"), ("tier", "front")]);
    secrets.create(&front).await.expect("created");
    let web = ["default/all", "default/either", "default/labeled", "default/web"];
    assert_eq!(ran(&seen).await, web);

    // The one that selected it before has to know as well.
    let shop = Patch::Merge(json!({"metadata": {"labels": {"app": "shop"}}}));
    secrets.patch(&key("front"), &shop).await.expect("patched");
    assert_eq!(
        ran(&seen).await,
        ["default/all", "default/either", "default/labeled", "default/not-web", "default/web"]
    );
    secrets.delete(&key("front")).await.expect("deleted");
    let shop = ["default/all", "default/either", "default/labeled", "default/not-web"];
    assert_eq!(ran(&seen).await, shop);

    // A selector that changes is looked up as it is now.
    let mut map = config_map("web", &[("selector", "{\"matchLabels\": {\"app\": \"till\"}}")]);
    map.metadata = meta("web");
    client.api::<ConfigMap>().update(&map).await.expect("updated");
    assert_eq!(ran(&seen).await, ["default/web"]);
    secrets.create(&labeled("till", &[("app", "till")])).await.expect("created");
    assert!(ran(&seen).await.contains(&"default/web".to_string()));
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_is_selected_from_every_namespace() {
    let seen = Seen::default();
    let (running, client) = world(&seen).await;
    let mut node = Node::default();
    node.metadata.name = Some("n".into());
    client.api().create(&node).await.expect("created");
    let all = ["default/all", "default/not-web", "kube-public/all"];
    assert_eq!(ran(&seen).await, all);
    let cache = running.client().cached();
    let labels = [("app", "shop")];
    let found = cache.list::<ConfigMap>().selecting(&selectors(), labels).keys().expect("declared");
    assert_eq!(found.len(), 5, "{found:?}");
    let here = cache.list::<ConfigMap>().namespace("kube-public").selecting(&selectors(), labels);
    assert_eq!(here.keys().expect("declared"), [Key::namespaced("kube-public", "all")]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_added_at_run_time_brings_its_index() {
    let seen = Seen::default();
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let sees = seen.clone();
    let plain = Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
        let seen = sees.clone();
        async move {
            seen.lock().insert(cx.key().to_string());
            Ok(Next::Done)
        }
    });
    let manager = Manager::new(server.client()).namespaces(["default"]);
    let running = manager.add(plain).spawn().expect("starts");
    running.ready().await;
    client.api().create(&config_map("all", &[("selector", "{}")])).await.expect("created");
    assert_eq!(ran(&seen).await, ["default/all"]);
    let maps = running.controller("maps").expect("runs");
    let guard = maps.watch(Watch::selected_by(Kind::of::<Secret>(), &selectors())).expect("added");
    maps.synced().await;
    ran(&seen).await;
    client.api().create(&labeled("a", &[])).await.expect("created");
    eventually("the reconcile", || seen.lock().contains("default/all")).await;
    drop(guard);
    running.stop().await.expect("stops");
}
