//! What people switch for one object by annotation: pause, reconcile now, log level.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::client::{Api, Patch};
use windlass::clock::Clock;
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Error, Manager, Predicate, Readiness, Result};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, metric};
use crate::conditions::{conditions, open, shop, shops, world};
use crate::proxy::Log;

const SECOND: Duration = Duration::from_secs(1);

fn annotate(name: &str, value: &Value) -> Patch {
    Patch::Merge(json!({"metadata": {"annotations": {format!("windlass.dev/{name}"): value}}}))
}

/// A shop that is annotated before anybody sees it.
fn annotated(name: &str, value: &str) -> DynamicObject {
    let mut shop = shop(&json!({"color": "blue"}));
    shop.metadata.annotations = Some([(format!("windlass.dev/{name}"), value.to_string())].into());
    shop
}

/// Applies a config map with the color of the shop, and counts its runs.
fn painter(runs: &Arc<AtomicUsize>) -> Controller<DynamicObject> {
    let runs = runs.clone();
    Controller::<DynamicObject>::of_kind("shops", &shops())
        .when(Predicate::generation_changed())
        .owns::<ConfigMap>()
        .conditions()
        .build(move |cx: Context<DynamicObject>| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move {
                let Some(shop) = cx.object() else { return Ok(Next::Done) };
                cx.report("Open", &Readiness::Ready);
                let color = shop.data["spec"]["color"].as_str().unwrap_or_default();
                cx.apply(&config_map("paint", &[("color", color)])).await?;
                Ok(Next::Done)
            }
        })
}

async fn paint(client: &Client) -> Option<String> {
    let map = client.api::<ConfigMap>().get(&key("paint")).await.expect("read")?;
    map.data.as_ref()?.get("color").cloned()
}

async fn notes(client: &Client, reason: &str) -> Vec<String> {
    let events = client.api::<Event>().list().namespace("default").items().await.expect("listed");
    let of_reason = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
    of_reason.filter_map(|event| event.note.clone()).collect()
}

async fn settled(api: &Api<DynamicObject>) -> Vec<String> {
    tokio::time::sleep(10 * SECOND).await;
    conditions(api).await.0
}

#[tokio::test(start_paused = true)]
async fn a_paused_object_is_left_alone_and_says_so_until_it_is_resumed() {
    let (log, _guard) = Log::start();
    let ((server, api), runs) = (world(open()).await, Arc::default());
    let running = manager(&server).add(painter(&runs)).spawn().expect("starts");
    let client = running.client().clone();
    api.create(&annotated("paused", "true")).await.expect("created");
    assert_eq!(settled(&api).await, ["Open=True Ready", "Paused=True PausedByAnnotation"]);
    assert_eq!(paint(&client).await, None);
    let refused = "apply ConfigMap default/paint: not sent, because the object is paused";
    assert_eq!(notes(&client, "Paused").await, [refused]);
    let run = running.diagnostics()["controllers"][0]["runs"][0].clone();
    assert_eq!((&run["outcome"], &run["error"]), (&json!("paused"), &json!(refused)));
    assert_eq!(run["againInSeconds"], Value::Null, "nothing happens before somebody resumes it");
    assert_eq!(
        metric(&running, "controller_runtime_reconcile_errors_total{controller=\"shops\"}"),
        0.0
    );
    assert!(log.lines(&["Reconciler error"]).is_empty());

    // The predicate lets only changes of the spec pass, and this is none.
    api.patch(&key("a"), &annotate("paused", &json!("false"))).await.expect("patched");
    assert_eq!(settled(&api).await, ["Open=True Ready", "Ready=True Succeeded"]);
    assert_eq!(paint(&client).await.as_deref(), Some("blue"));

    // Pausing what is settled changes nothing but the condition.
    api.patch(&key("a"), &annotate("paused", &json!("true"))).await.expect("patched");
    let paused = ["Open=True Ready", "Paused=True PausedByAnnotation", "Ready=True Succeeded"];
    assert_eq!(settled(&api).await, paused);
    api.patch(&key("a"), &Patch::Merge(json!({"spec": {"color": "red"}}))).await.expect("patched");
    assert_eq!(settled(&api).await, paused, "nothing is said about what was not tried");
    assert_eq!(paint(&client).await.as_deref(), Some("blue"));
    api.patch(&key("a"), &annotate("paused", &Value::Null)).await.expect("patched");
    assert_eq!(settled(&api).await, ["Open=True Ready", "Ready=True Succeeded"]);
    assert_eq!(paint(&client).await.as_deref(), Some("red"));
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_pause_until_a_time_ends_by_itself() {
    let ((server, api), runs) = (world(open()).await, Arc::default());
    let clock = Clock::fixed("2026-11-18T10:00:00Z".parse().expect("a time"));
    let running = manager(&server).clock(clock).add(painter(&runs)).spawn().expect("starts");
    let client = running.client().clone();
    api.create(&annotated("paused", "2026-11-18T12:00:00+01:00")).await.expect("created");
    assert_eq!(settled(&api).await, ["Open=True Ready", "Paused=True PausedByAnnotation"]);
    tokio::time::sleep(3500 * SECOND).await;
    assert_eq!((paint(&client).await, runs.load(Ordering::SeqCst)), (None, 1));
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(paint(&client).await.as_deref(), Some("blue"));
    assert_eq!(settled(&api).await, ["Open=True Ready", "Ready=True Succeeded"]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_cannot_be_understood_is_a_pause_and_is_reported() {
    let ((server, api), runs) = (world(open()).await, Arc::default());
    let running = manager(&server).add(painter(&runs)).spawn().expect("starts");
    let client = running.client().clone();
    api.create(&annotated("paused", "next week")).await.expect("created");
    assert_eq!(settled(&api).await, ["Open=True Ready", "Paused=True InvalidAnnotation"]);
    assert_eq!(paint(&client).await, None);
    let said = "paused by the annotation windlass.dev/paused, whose value \"next week\" is neither \
                true, false nor a time such as 2030-01-31T06:00:00Z";
    assert_eq!(notes(&client, "InvalidAnnotation").await, [said]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_pause_whose_condition_cannot_be_written_is_retried_until_it_is() {
    let ((server, api), runs) = (world(open()).await, Arc::default());
    let running = manager(&server).add(painter(&runs)).spawn().expect("starts");
    running.ready().await;
    server.inject(Some(Box::new(|request| Fault {
        fail: (request.subresource == "status")
            .then(|| windlass_apiserver::Status::internal("away")),
        ..Fault::default()
    })));
    api.create(&annotated("paused", "true")).await.expect("created");
    assert_eq!(settled(&api).await, [""; 0]);
    server.inject(None);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(settled(&api).await, ["Open=True Ready", "Paused=True PausedByAnnotation"]);
    assert_eq!(paint(running.client()).await, None);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_paused_object_is_not_finalized_before_it_is_resumed() {
    let server = ApiServer::start();
    let cleaned = Arc::new(AtomicUsize::new(0));
    let count = cleaned.clone();
    let controller =
        Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
            let count = count.clone();
            async move {
                let cleanup = || async {
                    // Cleanup that writes is refused as well.
                    cx.client().api::<ConfigMap>().delete(&key("other")).await?;
                    count.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                cx.finalize("example.com/maps", cleanup).await?;
                Ok(Next::Done)
            }
        });
    let running = manager(&server).add(controller).spawn().expect("starts");
    let maps = running.client().api::<ConfigMap>();
    maps.create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(SECOND).await;
    maps.patch(&key("a"), &annotate("paused", &json!("true"))).await.expect("patched");
    maps.delete(&key("a")).await.expect("asked for");
    tokio::time::sleep(3600 * SECOND).await;
    assert!(maps.get(&key("a")).await.expect("read").is_some());
    assert_eq!(cleaned.load(Ordering::SeqCst), 0);
    maps.patch(&key("a"), &annotate("paused", &Value::Null)).await.expect("patched");
    tokio::time::sleep(SECOND).await;
    assert!(maps.get(&key("a")).await.expect("read").is_none());
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn every_client_of_a_paused_reconcile_refuses_writes() {
    let server = ApiServer::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let said = seen.clone();
    let controller =
        Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
            let said = said.clone();
            async move {
                let other = config_map("other", &[]);
                let owner = cx.client().field_owner("else");
                let plain: kube::Api<ConfigMap> =
                    kube::Api::namespaced(cx.client().kube(), "default");
                let foreign =
                    plain.create(&PostParams::default(), &other).await.map_err(Error::from);
                let results = [owner.api().create(&other).await.map(drop), foreign.map(drop)];
                said.lock().extend(results.map(|result| match result {
                    Ok(()) => "sent".to_string(),
                    Err(error) => format!("{error:?}"),
                }));
                assert!(cx.is_paused() && plain.get_opt("other").await.expect("read").is_none());
                Ok(Next::Done)
            }
        });
    let handle =
        Manager::new(server.client()).namespaces(["default"]).annotation_prefix("example.com");
    let running = handle.add(controller).spawn().expect("starts");
    let mut map = config_map("a", &[]);
    map.metadata.annotations = Some([("example.com/paused".into(), "true".into())].into());
    running.client().api().create(&map).await.expect("created");
    eventually("a run", || seen.lock().len() == 2).await;
    let seen = seen.lock().clone();
    assert_eq!(seen[0], "create ConfigMap default/other: not sent, because the object is paused");
    assert!(seen[1].contains("not sent, because the object is paused"), "{}", seen[1]);
    running.stop().await.expect("stops");
}

/// The status of shops as their authors declare it, with or without room for the last request.
fn closed(room: bool) -> Value {
    let text = json!({"type": "string"});
    let condition = json!({"type": "object", "properties": {
        "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text,
        "observedGeneration": {"type": "integer"},
    }});
    let mut status = json!({"type": "object", "properties": {
        "observedGeneration": {"type": "integer"},
        "conditions": {"type": "array", "items": condition},
    }});
    if room {
        status["properties"]["lastHandledReconcileAt"] = text;
    }
    status
}

#[tokio::test(start_paused = true)]
async fn a_request_by_annotation_is_heeded_and_recorded_if_there_is_room() {
    for room in [true, false] {
        let ((server, api), runs) = (world(closed(room)).await, Arc::default());
        let running = manager(&server).add(painter(&runs)).spawn().expect("starts");
        api.create(&shop(&json!({"color": "blue"}))).await.expect("created");
        settled(&api).await;
        let before = runs.load(Ordering::SeqCst);
        api.patch(&key("a"), &annotate("reconcile", &json!("now-1"))).await.expect("patched");
        settled(&api).await;
        assert_eq!(runs.load(Ordering::SeqCst), before + 1, "although the predicate ignores it");
        let run = running.diagnostics()["controllers"][0]["runs"][0].clone();
        assert_eq!(run["causes"][1], "requested", "{run}");
        let handled = || async {
            let shop = api.get(&key("a")).await.expect("read").expect("is there");
            shop.data["status"]["lastHandledReconcileAt"].clone()
        };
        assert_eq!(handled().await, if room { json!("now-1") } else { Value::Null });
        api.patch(&key("a"), &annotate("reconcile", &json!("now-2"))).await.expect("patched");
        settled(&api).await;
        assert_eq!(runs.load(Ordering::SeqCst), before + 2);
        assert_eq!(handled().await, if room { json!("now-2") } else { Value::Null });

        // A value that is removed asks for nothing, and a paused object does not heed it.
        api.patch(&key("a"), &annotate("paused", &json!("true"))).await.expect("patched");
        api.patch(&key("a"), &annotate("reconcile", &json!("now-3"))).await.expect("patched");
        settled(&api).await;
        assert_eq!(handled().await, if room { json!("now-2") } else { Value::Null });
        let revision = server.revision();
        tokio::time::sleep(3600 * SECOND).await;
        assert_eq!(server.revision(), revision, "nothing is written again and again");
        running.stop().await.expect("stops");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_log_level_is_reported_and_everything_else_continues() {
    let ((server, api), runs) = (world(open()).await, Arc::default());
    let running = manager(&server).add(painter(&runs)).spawn().expect("starts");
    api.create(&annotated("log-level", "loud")).await.expect("created");
    assert_eq!(settled(&api).await, ["Open=True Ready", "Ready=True Succeeded"]);
    let said = "the annotation windlass.dev/log-level is ignored: \"loud\" is not error, warn, \
                info, debug or trace";
    assert_eq!(notes(running.client(), "InvalidAnnotation").await, [said]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn after_a_start_settled_objects_are_reconciled_last() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for (name, ready) in [("a", "True"), ("b", "False"), ("c", "True"), ("d", "")] {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default"}, "spec": {"ports": [{"port": 80}]},
        }))
        .expect("a service");
        client.api().create(&service).await.expect("created");
        let condition = json!([{
            "type": "Ready", "status": ready, "reason": "R", "message": "", "observedGeneration": 0,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        if !ready.is_empty() {
            let patch = Patch::Merge(json!({"status": {"conditions": condition}}));
            client
                .api::<Service>()
                .subresource("status")
                .patch(&key(name), &patch)
                .await
                .expect("patched");
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let order = seen.clone();
    let controller =
        Controller::<Service>::builder("services").build(move |cx: Context<Service>| {
            // There is one service in every cluster.
            if cx.name() != "kubernetes" {
                order.lock().push(cx.name().to_string());
            }
            async { Result::Ok(Next::Done) }
        });
    let running = manager(&server).add(controller).spawn().expect("starts");
    eventually("all", || seen.lock().len() == 4).await;
    assert_eq!(*seen.lock(), ["b", "d", "a", "c"]);
    running.stop().await.expect("stops");
}
