//! Namespaces that are chosen by their labels, and come and go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::{Expression, Selector};
use parking_lot::Mutex;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Key, Kind, Manager};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;
use windlass_apiserver::status::GroupResource;

use crate::common::{config_map, eventually};
use crate::proxy::Log;

fn blue() -> Selector {
    Expression::Equal("team".into(), "blue".into()).into()
}

async fn add(client: &Client, name: &str, team: &str) {
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"team": team}}}))
            .expect("a namespace");
    client.api().create(&namespace).await.expect("created");
    client.api().create(&map_in(name)).await.expect("created");
}

async fn paint(client: &Client, name: &str, team: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
    client.api::<Namespace>().patch(&Key::cluster(name), &patch).await.expect("patched");
}

fn map_in(namespace: &str) -> ConfigMap {
    let mut map = config_map("a", &[]);
    map.metadata.namespace = Some(namespace.into());
    map
}

type Seen = Arc<Mutex<Vec<(String, bool)>>>;

/// Notes the namespace of each reconcile, and whether its object is there.
fn controller(seen: &Seen) -> Controller<ConfigMap> {
    let seen = seen.clone();
    Controller::<ConfigMap>::builder("maps").reads::<Secret>().build(
        move |cx: Context<ConfigMap>| {
            if cx.name() == "a" {
                let namespace = cx.namespace().unwrap_or_default().to_string();
                seen.lock().push((namespace, cx.object().is_some()));
            }
            async { Ok(Next::Done) }
        },
    )
}

/// The namespaces of all cached maps.
fn cached(running: &Running) -> BTreeSet<String> {
    let keys = running.client().cached().list::<ConfigMap>().keys().expect("cached");
    let maps = keys.iter().filter(|key| key.name() == "a");
    maps.filter_map(|key| key.namespace().map(str::to_string)).collect()
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_cached_as_long_as_they_match() {
    let server = ApiServer::start();
    let (client, seen) = (Client::new(server.client()), Seen::default());
    let manager = Manager::new(server.client()).namespace_selector(blue());
    let running = manager.add(controller(&seen)).spawn().expect("starts");
    assert!(running.ready().await, "although no namespace matches yet");
    assert_eq!(cached(&running), BTreeSet::new());

    add(&client, "one", "blue").await;
    add(&client, "two", "red").await;
    eventually("one", || !seen.lock().is_empty()).await;
    paint(&client, "two", "blue").await;
    eventually("two", || seen.lock().len() == 2).await;
    assert_eq!(*seen.lock(), [("one".to_string(), true), ("two".to_string(), true)]);
    let cache = running.client().cached();
    assert!(cache.get::<ConfigMap>(&Key::namespaced("two", "a")).expect("cached").is_some());
    let outside = cache.get::<ConfigMap>(&Key::namespaced("default", "a")).expect_err("not chosen");
    assert_eq!(
        outside.to_string(),
        "ConfigMap.v1 is cached in chosen namespaces only, and default is not chosen: read it with \
         Client::api"
    );

    // What this process writes is shown only where it is cached.
    let mut own = map_in("one");
    own.metadata.name = Some("own".into());
    running.client().api().create(&own).await.expect("created");
    assert!(cache.get::<ConfigMap>(&Key::of(&own)).expect("cached").is_some());
    paint(&client, "one", "red").await;
    eventually("one is left", || seen.lock().len() == 3).await;
    assert_eq!(seen.lock()[2], ("one".to_string(), false));
    assert_eq!(cached(&running), ["two".to_string()].into());
    assert!(cache.get::<ConfigMap>(&Key::of(&own)).is_err());
    running
        .client()
        .api::<ConfigMap>()
        .patch(&Key::of(&own), &Patch::Merge(json!({"data": {}})))
        .await
        .expect("patched");
    assert_eq!(cache.list::<ConfigMap>().keys().expect("cached").len(), 1, "two/a");

    let namespaces = client.api::<Namespace>();
    namespaces.delete(&Key::cluster("two")).await.expect("asked for");
    let two = namespaces.get(&Key::cluster("two")).await.expect("read").expect("is terminating");
    assert_eq!(cached(&running).len(), 1, "it is followed until it is gone");
    let mut empty = (*two).clone();
    empty.spec = None;
    namespaces.subresource("finalize").update(&empty).await.expect("finalized");
    eventually("two is gone", || cached(&running).is_empty()).await;
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_come_and_go_in_any_order_leave_what_matches() {
    let server = ApiServer::start();
    let (client, seen) = (Client::new(server.client()), Seen::default());
    let names: Vec<String> = (0..5).map(|n| format!("n{n}")).collect();
    for name in &names {
        add(&client, name, "red").await;
    }
    let manager = Manager::new(server.client()).namespace_selector(blue());
    let running = manager.add(controller(&seen)).spawn().expect("starts");
    running.ready().await;
    let (mut matching, mut random) = (BTreeSet::new(), 7_u64);
    for step in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = &names[(random >> 40) as usize % names.len()];
        let team = if matching.remove(name) { "red" } else { "blue" };
        if team == "blue" {
            matching.insert(name.clone());
        }
        paint(&client, name, team).await;
        if (random >> 50) % 3 == 0 {
            eventually(&format!("step {step}"), || cached(&running) == matching).await;
        }
    }
    eventually("the end", || cached(&running) == matching).await;
    // Each of them is followed.
    for name in &matching {
        let key = Key::namespaced(name, "a");
        let patch = Patch::Merge(json!({"data": {"k": "v"}}));
        client.api::<ConfigMap>().patch(&key, &patch).await.expect("patched");
        eventually("the change", || {
            let map = running.client().cached().get::<ConfigMap>(&key).expect("cached");
            map.is_some_and(|map| map.data.is_some())
        })
        .await;
    }
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_may_not_be_watched_are_waited_for_and_named() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let (client, seen) = (Client::new(server.client()), Seen::default());
    add(&client, "one", "blue").await;
    server.inject(Some(Box::new(|request| {
        let namespaces = GroupResource { group: "", resource: "namespaces" };
        let asked = request.resource == "namespaces";
        Fault {
            fail: asked.then(|| windlass_apiserver::Status::forbidden(&namespaces, "", "no")),
            ..Fault::default()
        }
    })));
    let manager = Manager::new(server.client()).namespace_selector(blue());
    let running = manager.add(controller(&seen)).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!log.lines(&["watch failed, trying again", "Namespace"]).is_empty());
    let kind = Kind::of::<ConfigMap>();
    let error = running.client().cached().synced(&kind, Duration::from_secs(1)).await;
    assert!(error.is_err() && seen.lock().is_empty());
    server.inject(None);
    eventually("one", || seen.lock().len() == 1).await;
    running.stop().await.expect("stops");
}
