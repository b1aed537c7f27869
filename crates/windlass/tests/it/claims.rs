//! Adopting and releasing objects by selector.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::CustomResourceExt;
use parking_lot::Mutex;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::kind::Object;
use windlass::manager::Running;
use windlass::{Client, Key, Manager, Predicate, Result, Watch};
use windlass_apiserver::ApiServer;

use crate::children_world::{Meanwhile, Wire};
use crate::common::{config_map, eventually, key, manager, secret};
use crate::proxy::Log;

const FINALIZER: &str = "example.com/claimed";

fn labeled(name: &str, app: &str) -> Secret {
    let mut secret = secret(name);
    secret.metadata.labels = Some([("app".to_string(), app.to_string())].into());
    secret
}

/// Claims all secrets of its name; returns what it saw last.
fn start(server: &ApiServer) -> (Running, Arc<Mutex<Vec<String>>>) {
    start_with(manager(server))
}

fn start_with(manager: Manager) -> (Running, Arc<Mutex<Vec<String>>>) {
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
    (manager.add(controller).spawn().expect("starts"), seen)
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

/// A reference to a controller of somebody else.
fn theirs() -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "rs".into(),
        uid: "7".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_somebody_else_was_faster_with_is_an_error_and_the_others_go_on() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for name in ["a", "b"] {
        client.api().create(&labeled(name, "web")).await.expect("created");
    }
    let wire = Wire::new(&server, None);
    let faster = client.clone();
    let what = async move {
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [theirs()]}}));
        faster.api::<Secret>().patch(&key("a"), &patch).await.expect("patched");
    };
    let path = "secrets/a";
    *wire.meanwhile.lock() = Some(Meanwhile { method: Method::PATCH, path, what: what.boxed() });
    let (running, seen) = start_with(Manager::new(wire.client()).namespaces(["default"]));
    client.api().create(&config_map("web", &[])).await.expect("created");
    eventually("the second one", || *seen.lock() == ["b"]).await;
    assert_eq!(owners(&client, "b").await[0].name, "web");
    assert_eq!(owners(&client, "a").await[0].name, "rs");
    let said = "Only one reference can have Controller set to true";
    assert_eq!(log.lines(&["Reconciler error", said]).len(), 1, "an adoption that failed is said");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_created_anew_does_not_adopt_under_its_former_uid() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&labeled("a", "web")).await.expect("created");
    let wire = Wire::new(&server, None);
    let (running, seen) = start_with(Manager::new(wire.client()).namespaces(["default"]));
    running.ready().await;
    // The cache still has the first one when the reconcile looks at the server.
    let setup = client.clone();
    let what = async move {
        setup.api::<ConfigMap>().delete(&key("web")).await.expect("deleted");
        setup.api().create(&config_map("web", &[])).await.expect("created");
    };
    let path = "configmaps/web";
    *wire.meanwhile.lock() = Some(Meanwhile { method: Method::GET, path, what: what.boxed() });
    let first = client.api().create(&config_map("web", &[])).await.expect("created");
    eventually("the adoption", || *seen.lock() == ["a"]).await;
    let second = client.api::<ConfigMap>().get(&key("web")).await.expect("read").expect("there");
    assert_ne!(first.metadata.uid, second.metadata.uid, "it was created anew");
    let owners = owners(&client, "a").await;
    assert_eq!((owners.len(), Some(&owners[0].uid)), (1, second.metadata.uid.as_ref()));
    running.stop().await.expect("stops");
}

async fn claim_of<K: Object, T: Object<DynamicType = ()>>(cx: &Context<K>) -> Result<Vec<Arc<T>>> {
    let labels = [("app".to_string(), cx.name().to_string())].into();
    let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    cx.claim(selector, Some(FINALIZER), |_: &T| true).await
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_claims_in_all_namespaces() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let mut other = Namespace::default();
    other.metadata.name = Some("other".into());
    client.api().create(&other).await.expect("created");
    let mut far = labeled("b", "web");
    far.metadata.namespace = Some("other".into());
    for secret in [&labeled("a", "web"), &far] {
        client.api().create(secret).await.expect("created");
    }
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sees = seen.clone();
    let reconcile = move |cx: Context<ClusterRole>| {
        let sees = sees.clone();
        async move {
            let found = claim_of::<_, Secret>(&cx).await?;
            *sees.lock() = found.iter().map(|secret| Key::of(&**secret).to_string()).collect();
            Ok(Next::Done)
        }
    };
    let owner = |role: &ClusterRole| role.metadata.name.as_deref() == Some("web");
    let controller = Controller::<ClusterRole>::builder("roles")
        .when(Predicate::object(owner))
        .owns::<Secret>()
        .build(reconcile);
    let running = Manager::new(server.client()).add(controller).spawn().expect("starts");
    let mut role = ClusterRole::default();
    role.metadata.name = Some("web".into());
    let role = client.api().create(&role).await.expect("created");
    eventually("both", || *seen.lock() == ["default/a", "other/b"]).await;
    assert_eq!(Some(&owners(&client, "a").await[0].uid), role.metadata.uid.as_ref());
    // Its release is seen in another namespace, too.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "shop"}}}));
    client.api::<Secret>().patch(&Key::of(&far), &patch).await.expect("patched");
    eventually("the release", || *seen.lock() == ["default/a"]).await;
    let far = client.api::<Secret>().get(&Key::of(&far)).await.expect("read").expect("there");
    assert!(far.metadata.owner_references.is_none() && far.metadata.finalizers.is_none());
    running.stop().await.expect("stops");
}

/// A kind that has no strategic patches.
#[windlass::api(group = "example.com", version = "v1", kind = "Crate")]
pub struct CrateSpec {
    /// What it holds.
    pub holds: String,
}

fn of_crate(name: &str, app: &str) -> Crate {
    let mut crate_ = Crate::new(name, CrateSpec { holds: "tea".into() });
    crate_.metadata.namespace = Some("default".into());
    crate_.metadata.labels = Some([("app".to_string(), app.to_string())].into());
    crate_.metadata.finalizers = Some(vec!["example.com/other".into()]);
    crate_
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_adopted_and_released_in_the_version_that_was_read() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api::<CustomResourceDefinition>().create(&Crate::crd()).await.expect("defined");
    client.api().create(&of_crate("a", "web")).await.expect("created");
    client.api().create(&of_crate("b", "web")).await.expect("created");
    let wire = Wire::new(&server, None);
    let faster = client.clone();
    // A finalizer of somebody else, which a patch of the list must not drop.
    let what = async move {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/late"]}}));
        faster.api::<Crate>().patch(&key("a"), &patch).await.expect("patched");
    };
    let path = "crates/a";
    *wire.meanwhile.lock() = Some(Meanwhile { method: Method::PATCH, path, what: what.boxed() });
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sees = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sees = sees.clone();
        async move {
            let found = claim_of::<_, Crate>(&cx).await?;
            if cx.name() == "web" {
                *sees.lock() = found.iter().filter_map(|c| c.metadata.name.clone()).collect();
            }
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("claims").owns::<Crate>().build(reconcile);
    let manager = Manager::new(wire.client()).namespaces(["default"]);
    let running = manager.add(controller).spawn().expect("starts");
    client.api().create(&config_map("web", &[])).await.expect("created");
    eventually("both", || *seen.lock() == ["a", "b"]).await;
    let metadata = async |name: &str| {
        let found = client.api::<Crate>().get(&key(name)).await.expect("read").expect("there");
        let owners = found.metadata.owner_references.clone().unwrap_or_default();
        let names: Vec<String> = owners.into_iter().map(|owner| owner.name).collect();
        (names, found.metadata.finalizers.clone().unwrap_or_default())
    };
    let web = || vec!["web".to_string()];
    let both = |first: &str| vec![first.to_string(), FINALIZER.to_string()];
    assert_eq!(metadata("a").await, (web(), both("example.com/late")));
    assert_eq!(metadata("b").await, (web(), both("example.com/other")));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "shop"}}}));
    client.api::<Crate>().patch(&key("a"), &patch).await.expect("patched");
    eventually("the release", || *seen.lock() == ["b"]).await;
    assert_eq!(metadata("a").await, (vec![], vec!["example.com/late".to_string()]));
    assert!(log.lines(&["Reconciler error"]).is_empty(), "a conflict is no error");
    running.stop().await.expect("stops");
}
