//! Adopting and releasing objects by selector.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use parking_lot::Mutex;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Key, Predicate, Watch};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, manager, secret};

const FINALIZER: &str = "example.com/claimed";

fn labeled(name: &str, app: &str) -> Secret {
    let mut secret = secret(name);
    secret.metadata.labels = Some([("app".to_string(), app.to_string())].into());
    secret
}

/// Claims all secrets of its name; returns what it saw last.
fn start(server: &ApiServer) -> (Running, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sees = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sees = sees.clone();
        async move {
            let labels = [("app".to_string(), cx.name().to_string())].into();
            let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
            let found = cx.claim(selector, Some(FINALIZER), |_: &Secret| true).await?;
            if cx.object().is_none() {
                return Ok(Next::Done); // a name of another label
            }
            *sees.lock() = found.iter().filter_map(|s| s.metadata.name.clone()).collect();
            Ok(Next::Done)
        }
    };
    let orphans = Watch::map(|secret: &Secret| {
        let app = secret.metadata.labels.as_ref().and_then(|labels| labels.get("app"));
        app.map(|app| key(app)).into_iter().collect::<Vec<Key>>()
    });
    let owners = Predicate::object(|map: &ConfigMap| map.metadata.name.as_deref() == Some("web"));
    let controller = Controller::<ConfigMap>::builder("claims")
        .when(owners)
        .owns::<Secret>()
        .watch(orphans)
        .build(reconcile);
    (manager(server).add(controller).spawn().expect("starts"), seen)
}

async fn owners(client: &Client, name: &str) -> Vec<OwnerReference> {
    let secret = client.api::<Secret>().get(&key(name)).await.expect("read").expect("is there");
    let claimed = secret.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER);
    let owners = secret.metadata.owner_references.clone().unwrap_or_default();
    let ours = owners.iter().any(|owner| owner.name == "web");
    assert_eq!(claimed, ours, "{name}: the finalizer comes and goes with the reference");
    owners
}

#[tokio::test(start_paused = true)]
async fn what_matches_is_adopted_and_what_does_not_is_released() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let (running, seen) = start(&server);
    let secrets = client.api::<Secret>();
    secrets.create(&labeled("b", "web")).await.expect("created");
    secrets.create(&labeled("other", "shop")).await.expect("created");
    let mut theirs = labeled("theirs", "web");
    theirs.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "rs".into(),
        uid: "7".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    secrets.create(&theirs).await.expect("created");
    client.api().create(&config_map("web", &[])).await.expect("created");
    eventually("the adoption", || *seen.lock() == ["b"]).await;
    secrets.create(&labeled("a", "web")).await.expect("created");
    eventually("the second one", || *seen.lock() == ["a", "b"]).await;
    let adopted = owners(&client, "a").await;
    assert_eq!((adopted.len(), adopted[0].controller), (1, Some(true)));
    assert_eq!(owners(&client, "theirs").await[0].name, "rs");
    assert!(owners(&client, "other").await.is_empty());

    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "shop"}}}));
    secrets.patch(&key("a"), &patch).await.expect("patched");
    eventually("the release", || *seen.lock() == ["b"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(owners(&client, "a").await.is_empty());
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_being_deleted_neither_adopts_nor_releases() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let (running, seen) = start(&server);
    let secrets = client.api::<Secret>();
    secrets.create(&labeled("a", "web")).await.expect("created");
    let mut owner = config_map("web", &[]);
    owner.metadata.finalizers = Some(vec!["example.com/slow".into()]);
    client.api().create(&owner).await.expect("created");
    eventually("the adoption", || *seen.lock() == ["a"]).await;
    client.api::<ConfigMap>().delete(&key("web")).await.expect("deleted");
    secrets.create(&labeled("b", "web")).await.expect("created");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "shop"}}}));
    secrets.patch(&key("a"), &patch).await.expect("patched");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(owners(&client, "a").await.len(), 1, "not released");
    assert!(owners(&client, "b").await.is_empty(), "not adopted");
    assert!(seen.lock().is_empty());
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_is_not_valid_is_a_terminal_error() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let says = said.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let says = says.clone();
        let wrong: LabelSelector = serde_json::from_value(json!({
            "matchExpressions": [{"key": "app", "operator": "Like"}],
        }))
        .expect("decodes");
        async move {
            let claimed = cx.claim(wrong, None, |_: &Secret| true).await;
            let error = claimed.expect_err("no such operator");
            says.lock().push(format!("{} {error:?}", error.is_terminal()));
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("claims").build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    client.api().create(&config_map("web", &[])).await.expect("created");
    eventually("a reconcile", || !said.lock().is_empty()).await;
    assert!(
        said.lock()[0].starts_with("true terminal error: label selector: "),
        "{:?}",
        said.lock()
    );
    running.stop().await.expect("stops");
}
