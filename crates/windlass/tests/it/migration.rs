//! Storage migration, and an upgrade from the old operator to the new one and back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use kube::{CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::conversion::{Conversion, Fields};
use windlass::{Client, Context, Controller, Key, Kind, Next, Operator};
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Status};

use crate::common::key;

mod v1 {
    /// What the old operator knows.
    #[windlass::api(group = "example.com", version = "v1", kind = "Lamp")]
    pub struct LampSpec {
        pub watts: i32,
    }
}

mod old {
    /// The old version in the new operator.
    #[windlass::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
    pub struct LampSpec {
        pub watts: i32,
    }
}

mod v2 {
    #[windlass::api(group = "example.com", version = "v2", kind = "Lamp", status = LampStatus)]
    pub struct LampSpec {
        pub power: i32,
        pub color: Option<String>,
    }
    #[windlass::k8s]
    #[derive(Default)]
    pub struct LampStatus {
        pub seen: Option<i32>,
    }
}

const NAME: &str = "lamps.example.com";
const WEBHOOK: &str = "https://lamp-operator-webhook-service.lamp-operator-system.svc/convert";

fn conversion() -> Conversion<v2::Lamp> {
    Conversion::new().version::<old::Lamp>(Fields::new().moved(".spec.watts", ".spec.power"))
}

/// The new operator: it colors every lamp that has no color.
fn new_operator() -> Operator {
    let controller = Controller::<v2::Lamp>::builder("lamps").writes_status().build(
        |cx: Context<v2::Lamp>| async move {
            let Some(lamp) = cx.object() else { return Ok(Next::Done) };
            let seen = lamp.spec.power;
            cx.status(|status: &mut v2::LampStatus| status.seen = Some(seen)).await?;
            Ok(Next::Done)
        },
    );
    Operator::new("lamp-operator")
        .api::<v2::Lamp>()
        .api::<old::Lamp>()
        .conversion(conversion())
        .controller(controller)
        .migrate_storage()
}

/// The definition of the new operator.
fn new_definition() -> Value {
    new_operator().model().expect("valid").definitions().remove(0)
}

fn old_definition() -> Value {
    serde_json::to_value(v1::Lamp::crd()).expect("a definition")
}

async fn apply(client: &Client, definition: &Value) -> windlass::Result<()> {
    let mut object = definition.clone();
    object["apiVersion"] = json!("apiextensions.k8s.io/v1");
    object["kind"] = json!("CustomResourceDefinition");
    let patch = Patch::Apply { object, force: true };
    client.api::<CustomResourceDefinition>().patch(&Key::cluster(NAME), &patch).await.map(drop)
}

/// A server with lamps that the old operator has written, and with the definition of the new one.
async fn upgraded(lamps: i32) -> (ApiServer, Client) {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    apply(&client, &old_definition()).await.expect("the old definition");
    for number in 0..lamps {
        let mut lamp = v1::Lamp::new(&format!("lamp-{number}"), v1::LampSpec { watts: number });
        lamp.metadata.namespace = Some("default".into());
        client.api().create(&lamp).await.expect("created");
    }
    let conversion = conversion();
    server.register_webhook(WEBHOOK, move |review| {
        let answer = conversion.review(review);
        async { answer }
    });
    apply(&client, &new_definition()).await.expect("the new definition");
    (server, client)
}

async fn stored_versions(client: &Client) -> Vec<String> {
    let found = client.api::<CustomResourceDefinition>().get(&Key::cluster(NAME)).await;
    let found = found.expect("readable").expect("there");
    found.status.clone().and_then(|status| status.stored_versions).unwrap_or_default()
}

async fn migrated(client: &Client) -> bool {
    for _ in 0..2_000 {
        if stored_versions(client).await == ["v2"] {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    false
}

/// The last release drops the old version: every object must be readable without it.
async fn drop_old_version(client: &Client) -> Vec<Arc<v2::Lamp>> {
    let only = serde_json::to_value(v2::Lamp::crd()).expect("a definition");
    apply(client, &only).await.expect("the old version is not stored any more");
    client.api::<v2::Lamp>().list().namespace("default").items().await.expect("readable")
}

#[tokio::test(start_paused = true)]
async fn objects_are_rewritten_and_the_old_version_can_be_dropped() {
    let (server, client) = upgraded(12).await;
    assert_eq!(stored_versions(&client).await, ["v1", "v2"]);
    let only = serde_json::to_value(v2::Lamp::crd()).expect("a definition");
    apply(&client, &only).await.expect_err("v1 is stored");
    let handle = new_operator().manager(server.client()).spawn().expect("it starts");
    assert!(migrated(&client).await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let metrics = handle.metrics();
    let line = format!("windlass_storage_migration_pending{{definition=\"{NAME}\"}} 0");
    assert!(metrics.contains(&line), "{metrics}");
    let events = client.api::<Event>().list().namespace("default").items().await.expect("events");
    let reasons: Vec<&str> = events.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert!(reasons.contains(&"StorageMigrationStarted"), "{reasons:?}");
    assert!(reasons.contains(&"StorageMigrated"), "{reasons:?}");
    handle.stop().await.expect("it stops");
    let lamps = drop_old_version(&client).await;
    assert_eq!(lamps.len(), 12);
    let powers: BTreeMap<String, i32> =
        lamps.iter().map(|lamp| (lamp.name_any(), lamp.spec.power)).collect();
    assert!((0..12).all(|number| powers[&format!("lamp-{number}")] == number), "{powers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_is_done_writes_nothing_more() {
    let (server, client) = upgraded(3).await;
    let operator = || new_operator().manager(server.client()).spawn().expect("it starts");
    let first = operator();
    assert!(migrated(&client).await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.stop().await.expect("it stops");
    let versions = || async {
        let lamps = client.api::<v2::Lamp>().list().namespace("default").items().await;
        let lamps = lamps.expect("readable");
        lamps.iter().map(|lamp| lamp.resource_version()).collect::<Vec<_>>()
    };
    let before = versions().await;
    let second = operator();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    second.stop().await.expect("it stops");
    assert_eq!(versions().await, before);
}

/// Ends the operator at its n-th request, for every n, and starts it again.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_request_loses_nothing() {
    for (crash_at, after) in (0..60).flat_map(|n| [(n, false), (n, true)]) {
        let (server, client) = upgraded(3).await;
        let count = Arc::new(AtomicUsize::new(0));
        let seen = count.clone();
        let agent = |info: &windlass_apiserver::request::RequestInfo| info.verb != "watch";
        server.inject(Some(Box::new(move |info| {
            if !agent(info) {
                return Fault::default();
            }
            let number = seen.fetch_add(1, Ordering::SeqCst);
            let broken = || Some(Status::internal("the process has crashed"));
            if number < crash_at {
                Fault::default()
            } else if number == crash_at && after {
                Fault { fail_after: broken(), ..Fault::default() }
            } else {
                Fault { fail: broken(), ..Fault::default() }
            }
        })));
        let handle = new_operator().manager(server.client()).spawn().expect("it starts");
        for _ in 0..400 {
            if count.load(Ordering::SeqCst) > crash_at {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let reached = count.load(Ordering::SeqCst) > crash_at;
        handle.abort();
        server.inject(None);
        // Whatever happened: old objects are there as long as the list says so.
        let lamps = client.api::<v2::Lamp>().list().namespace("default").items().await;
        assert_eq!(lamps.expect("readable").len(), 3);
        let handle = new_operator().manager(server.client()).spawn().expect("it starts");
        assert!(migrated(&client).await, "crash at request {crash_at}");
        handle.stop().await.expect("it stops");
        assert_eq!(drop_old_version(&client).await.len(), 3, "crash at request {crash_at}");
        if !reached {
            assert!(crash_at > 10, "the migration has only {crash_at} requests");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_written_keeps_the_old_version_in_the_list() {
    let (server, client) = upgraded(3).await;
    let is_stubborn = |info: &windlass_apiserver::request::RequestInfo| {
        info.verb == "patch" && info.name == "lamp-1" && info.subresource.is_empty()
    };
    server.inject(Some(Box::new(move |info| match is_stubborn(info) {
        true => Fault { fail: Some(Status::internal("stubborn")), ..Fault::default() },
        false => Fault::default(),
    })));
    let handle = new_operator().manager(server.client()).spawn().expect("it starts");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(stored_versions(&client).await, ["v1", "v2"]);
    let events = client.api::<Event>().list().namespace("default").items().await.expect("events");
    let failed = events.iter().find(|e| e.reason.as_deref() == Some("StorageMigrationFailed"));
    let note = failed.and_then(|event| event.note.clone()).expect("an event");
    assert!(note.contains("an object was not rewritten: default/lamp-1"), "{note}");
    server.inject(None);
    assert!(migrated(&client).await);
    handle.stop().await.expect("it stops");
}

/// The deployment of the operator with some of its replicas updated.
async fn deployment(client: &Client, updated: i32) {
    let deployments = client.api::<Deployment>();
    let at = key("lamp-operator-controller-manager");
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": at.name(), "namespace": "default"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "lamps"}},
            "template": {
                "metadata": {"labels": {"app": "lamps"}},
                "spec": {"containers": [{"name": "manager", "image": "lamps"}]},
            },
        },
    });
    deployments.patch(&at, &Patch::Apply { object, force: true }).await.expect("applied");
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": updated,
    }});
    let status = Patch::Merge(status);
    deployments.subresource("status").patch(&at, &status).await.expect("patched");
}

#[tokio::test(start_paused = true)]
async fn a_migration_waits_until_no_old_replica_runs() {
    let (server, client) = upgraded(3).await;
    deployment(&client, 1).await;
    let handle = new_operator().manager(server.client()).spawn().expect("it starts");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(stored_versions(&client).await, ["v1", "v2"], "a replica is old");
    // The rollout is complete, but old pods still shut down.
    for name in ["one", "two", "three"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "lamps"}},
            "spec": {"containers": [{"name": "manager", "image": "lamps"}]},
        });
        let pods = client.api_of::<DynamicObject>(&Kind::new("", "v1", "Pod", "pods"));
        pods.create(&serde_json::from_value(pod).expect("a pod")).await.expect("created");
    }
    deployment(&client, 2).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(stored_versions(&client).await, ["v1", "v2"], "a pod is left");
    let pods = client.api_of::<DynamicObject>(&Kind::new("", "v1", "Pod", "pods"));
    pods.delete(&key("three")).await.expect("deleted");
    assert!(migrated(&client).await);
    handle.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_migration_waits_until_the_conversion_webhook_answers() {
    let (server, client) = upgraded(0).await;
    // What is stored in the new version can be rewritten without the webhook, but loses managed fields.
    let mut lamp = v2::Lamp::new("new", v2::LampSpec { power: 7, color: None });
    lamp.metadata.namespace = Some("default".into());
    client.api().create(&lamp).await.expect("created");
    server.register_webhook(WEBHOOK, |_| async { json!({"kind": "Nonsense"}) });
    let running = new_operator().manager(server.client()).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(stored_versions(&client).await, ["v1", "v2"]);
    let definition = client.api::<CustomResourceDefinition>().get(&Key::cluster(NAME)).await;
    let definition = definition.expect("readable").expect("there");
    let notes = definition.metadata.annotations.clone().unwrap_or_default();
    assert!(!notes.contains_key("windlass.dev/storage-migration"), "it has begun: {notes:?}");
    let conversion = conversion();
    server.register_webhook(WEBHOOK, move |review| {
        let answer = conversion.review(review);
        async { answer }
    });
    assert!(migrated(&client).await, "it never continued");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn managed_fields_of_versions_that_are_not_served_are_dropped() {
    let (server, client) = upgraded(2).await;
    let lamps = client.field_owner("old-tool").api::<old::Lamp>();
    let object = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "spec": {"watts": 7}});
    lamps.patch(&key("lamp-0"), &Patch::Apply { object, force: true }).await.expect("applied");
    let mut unserved = new_definition();
    for version in unserved["spec"]["versions"].as_array_mut().expect("versions") {
        version["served"] = json!(version["name"] == "v2");
    }
    apply(&client, &unserved).await.expect("v1 is not served");
    let handle = new_operator().manager(server.client()).spawn().expect("it starts");
    assert!(migrated(&client).await);
    handle.stop().await.expect("it stops");
    for lamp in drop_old_version(&client).await {
        let entries = lamp.metadata.managed_fields.clone().unwrap_or_default();
        assert!(!entries.is_empty());
        let versions = entries.iter().filter_map(|entry| entry.api_version.as_deref());
        assert!(versions.eq(entries.iter().map(|_| "example.com/v2")), "{entries:?}");
        let object = json!({"apiVersion": "example.com/v2", "kind": "Lamp", "spec": {"power": 9}});
        let patch = Patch::Apply { object, force: true };
        let at = key(&lamp.name_any());
        client.field_owner("tool").api::<v2::Lamp>().patch(&at, &patch).await.expect("applied");
    }
}

/// Objects of the old operator, the new definition, migration, the new operator, and back.
#[tokio::test(start_paused = true)]
async fn an_upgrade_and_a_downgrade_lose_nothing() {
    let (server, client) = upgraded(4).await;
    let handle = new_operator().manager(server.client()).spawn().expect("it starts");
    assert!(migrated(&client).await);
    // A user of the new version uses a field that the old one does not have.
    let patch = Patch::Merge(json!({"spec": {"color": "red"}}));
    client.api::<v2::Lamp>().patch(&key("lamp-2"), &patch).await.expect("patched");
    tokio::time::sleep(Duration::from_secs(60)).await;
    handle.stop().await.expect("it stops");
    let before = client.api::<v2::Lamp>().list().namespace("default").items().await.expect("read");
    assert_eq!(before[2].status.as_ref().and_then(|status| status.seen), Some(2));

    // The downgrade: v1 is stored again, and the old operator works on its version.
    let mut back = new_definition();
    for version in back["spec"]["versions"].as_array_mut().expect("versions") {
        version["storage"] = json!(version["name"] == "v1");
    }
    apply(&client, &back).await.expect("v1 is stored again");
    for number in 0..4 {
        let patch = Patch::Merge(json!({"spec": {"watts": number + 100}}));
        let lamps = client.api::<old::Lamp>();
        let lamp = lamps.patch(&key(&format!("lamp-{number}")), &patch).await.expect("patched");
        assert_eq!(lamp.spec.watts, number + 100);
    }

    // And forward again: the new field and the status are there, with the changes of the old operator.
    apply(&client, &new_definition()).await.expect("v2 is stored again");
    let after = client.api::<v2::Lamp>().list().namespace("default").items().await.expect("read");
    assert_eq!(after.len(), 4);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.spec.power, before.spec.power + 100);
        assert_eq!(after.spec.color, before.spec.color);
        let seen = |lamp: &v2::Lamp| lamp.status.as_ref().and_then(|status| status.seen);
        assert_eq!(seen(after), seen(before));
        assert_eq!(after.metadata.annotations, before.metadata.annotations, "nothing is left over");
    }
    assert_eq!(after[2].spec.color.as_deref(), Some("red"));
    let handle = new_operator().manager(server.client()).spawn().expect("it starts");
    assert!(migrated(&client).await);
    handle.stop().await.expect("it stops");
    assert_eq!(drop_old_version(&client).await.len(), 4);
}
