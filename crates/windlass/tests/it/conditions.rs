//! Conditions that a controller rolls up from its reconciles.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::client::{Api, Patch};
use windlass::controller::{Context, Controller, Next};
use windlass::{Client, Error, Key, Kind, Readiness, Result};
use windlass_apiserver::ApiServer;

use crate::common::{eventually, key, manager};
use crate::proxy::Log;

pub fn shops() -> Kind {
    Kind::new("example.com", "v1", "Shop", "shops")
}

/// A server that serves shops; their status is as free as `status` allows.
pub async fn world(status: Value) -> (ApiServer, Api<DynamicObject>) {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "status": status,
                }}},
            }],
        },
    }))
    .expect("a definition");
    client.api().create(&definition).await.expect("created");
    (server, client.api_of::<DynamicObject>(&shops()))
}

pub fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub fn shop(spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Shop",
        "metadata": {"name": "a", "namespace": "default"}, "spec": spec,
    }))
    .expect("a shop")
}

/// Does what the spec says: reports a state, or fails.
async fn reconcile(cx: Context<DynamicObject>) -> Result<Next> {
    let Some(shop) = cx.object() else { return Ok(Next::Done) };
    let (reason, message) = ("Because".to_string(), "it says so".to_string());
    match shop.data["spec"]["be"].as_str().unwrap_or_default() {
        "busy" => cx.report("Till", &Readiness::InProgress { reason, message }),
        "failed" => cx.report("Till", &Readiness::Failed { reason, message }),
        "error" => return Err(Error::from("the till is stuck")),
        "terminal" => return Err(Error::terminal("there is no till")),
        "panic" => panic!("the till exploded"),
        _ => cx.report("Till", &Readiness::Ready),
    }
    Ok(Next::Done)
}

/// Returns the conditions, one per line, and the transition time of `Ready`.
pub async fn conditions(api: &Api<DynamicObject>) -> (Vec<String>, String) {
    let shop = api.get(&key("a")).await.expect("read").expect("is there");
    let status = &shop.data["status"];
    let mut lines = Vec::new();
    let mut since = String::new();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let text = |name: &str| condition[name].as_str().unwrap_or_default().to_string();
        if text("type") == "Ready" {
            since = text("lastTransitionTime");
            assert_eq!(condition["observedGeneration"], status["observedGeneration"]);
        }
        lines.push(format!("{}={} {}", text("type"), text("status"), text("reason")));
    }
    lines.sort();
    (lines, since)
}

#[tokio::test(start_paused = true)]
async fn conditions_follow_what_a_reconcile_did_and_how_it_failed() {
    let (server, api) = world(open()).await;
    let controller =
        Controller::<DynamicObject>::of_kind("shops", &shops()).conditions().build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    api.create(&shop(&json!({"be": "ready"}))).await.expect("created");
    let rows: [(&str, &[&str]); 6] = [
        ("busy", &["Ready=False Because", "Reconciling=True Progressing", "Till=False Because"]),
        ("failed", &["Ready=False Because", "Stalled=True Because", "Till=False Because"]),
        (
            "error",
            &[
                "Ready=False ReconcileFailed",
                "Reconciling=True ProgressingWithRetry",
                "Till=False Because",
            ],
        ),
        (
            "terminal",
            &["Ready=False ReconcileFailed", "Stalled=True ReconcileFailed", "Till=False Because"],
        ),
        (
            "panic",
            &[
                "Ready=False ReconcileFailed",
                "Reconciling=True ProgressingWithRetry",
                "Till=False Because",
            ],
        ),
        ("ready", &["Ready=True Succeeded", "Till=True Ready"]),
    ];
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (lines, mut last) = conditions(&api).await;
    assert_eq!(lines, ["Ready=True Succeeded", "Till=True Ready"]);
    let mut was_ready = true;
    for (be, wanted) in rows {
        let patch = Patch::Merge(json!({"spec": {"be": be}}));
        api.patch(&key("a"), &patch).await.expect("patched");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (lines, since) = conditions(&api).await;
        assert_eq!(lines, wanted, "{be}");
        let is_ready = be == "ready";
        assert_eq!(since == last, is_ready == was_ready, "{be}: the time changes with the status");
        (last, was_ready) = (since, is_ready);
    }
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_settled_object_costs_no_write_of_its_conditions() {
    let (server, api) = world(open()).await;
    let controller = Controller::<DynamicObject>::of_kind("shops", &shops())
        .conditions()
        .resync(Duration::from_secs(60))
        .build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    api.create(&shop(&json!({"be": "busy"}))).await.expect("created");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let settled = server.revision();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(server.revision(), settled);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_schema_has_no_conditions_is_named() {
    let (log, _guard) = Log::start();
    let (server, api) = world(json!({"type": "object", "properties": {}})).await;
    let controller =
        Controller::<DynamicObject>::of_kind("shops", &shops()).conditions().build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    api.create(&shop(&json!({}))).await.expect("created");
    let said = "the server does not keep the conditions of Shop default/a: the schema of the kind \
                needs status.conditions";
    eventually("the complaint", || !log.lines(&[said]).is_empty()).await;
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_built_in_kind_show_in_its_conditions() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let reconcile = |cx: Context<Service>| async move {
        let mut secret = Secret::default();
        secret.metadata.name = Some(cx.name().into());
        let mut children = cx.children("example.com/secret");
        children.add(&secret)?;
        children.apply().await?;
        Ok(Next::Done)
    };
    let controller =
        Controller::<Service>::builder("services").owns::<Secret>().conditions().build(reconcile);
    let running = manager(&server).add(controller).spawn().expect("starts");
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": 80}]},
    }))
    .expect("a service");
    client.api().create(&service).await.expect("created");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let web = Key::namespaced("default", "web");
    let found = client.api::<Service>().get(&web).await.expect("read").expect("is there");
    let conditions = found.status.as_ref().and_then(|status| status.conditions.clone());
    let conditions = conditions.expect("has conditions");
    assert_eq!((&*conditions[0].type_, &*conditions[0].status), ("Ready", "True"));
    let settled = server.revision();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(server.revision(), settled, "nothing is written again");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_condition_of_a_part_that_is_no_longer_reported_is_removed() {
    let (server, api) = world(open()).await;
    let controller = Controller::<DynamicObject>::of_kind("shops", &shops()).conditions().build(
        async |cx: Context<DynamicObject>| {
            let Some(shop) = cx.object() else { return Ok(Next::Done) };
            for part in shop.data["spec"]["parts"].as_array().into_iter().flatten() {
                cx.report(part.as_str().unwrap_or_default(), &Readiness::Ready);
            }
            match shop.data["spec"]["fail"].as_bool() {
                Some(true) => Err(Error::terminal("no")),
                _ => Ok(Next::Done),
            }
        },
    );
    let running = manager(&server).add(controller).spawn().expect("starts");
    let mut foreign = shop(&json!({"parts": ["Till", "Door"]}));
    foreign.data["status"] = json!({});
    api.create(&foreign).await.expect("created");
    let theirs = json!([{
        "type": "Theirs", "status": "True", "reason": "X", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let status = api.subresource("status");
    let patch = Patch::Merge(json!({"status": {"conditions": theirs}}));
    status.patch(&key("a"), &patch).await.expect("patched");
    let after = async |spec: Value| {
        api.patch(&key("a"), &Patch::Merge(json!({"spec": spec}))).await.expect("patched");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let types = conditions(&api).await.0;
        types
            .iter()
            .map(|line| line.split('=').next().unwrap_or_default().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(after(json!({"x": 1})).await, ["Door", "Ready", "Theirs", "Till"]);
    // A reconcile that fails may not have come to report it.
    let failed = after(json!({"parts": ["Till"], "fail": true})).await;
    assert_eq!(failed, ["Door", "Ready", "Stalled", "Theirs", "Till"]);
    assert_eq!(after(json!({"fail": false})).await, ["Ready", "Theirs", "Till"]);
    assert_eq!(after(json!({"parts": []})).await, ["Ready", "Theirs"]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_was_reported_before_a_restart_and_not_since_leaves_no_condition() {
    let condition = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "required": ["type"], "properties": {"type": {"type": "string"}}});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"conditions": {
            "type": "array", "items": condition, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }},
    });
    let (server, api) = world(status).await;
    let controller = |parts: &'static [&'static str]| {
        Controller::<DynamicObject>::of_kind("shops", &shops()).conditions().build(
            move |cx: Context<DynamicObject>| async move {
                parts.iter().for_each(|part| cx.report(part, &Readiness::Ready));
                // The author writes a condition of its own, once.
                cx.status_as(|status: &mut Value| {
                    let all = status["conditions"].as_array_mut();
                    if !all.is_some_and(|all| all.iter().any(|one| one["type"] == "Mine")) {
                        status["conditions"] = json!([{"type": "Mine", "status": "True"}]);
                    }
                })
                .await?;
                Ok(Next::Done)
            },
        )
    };
    api.create(&shop(&json!({}))).await.expect("created");
    for (parts, wanted) in [
        (&["Till", "Door"][..], &["Door", "Mine", "Ready", "Till"][..]),
        (&["Door"], &["Door", "Mine", "Ready"]),
        (&[], &["Mine", "Ready"]),
    ] {
        let running = manager(&server).add(controller(parts)).spawn().expect("starts");
        tokio::time::sleep(Duration::from_secs(10)).await;
        running.stop().await.expect("stops");
        let shop = api.get(&key("a")).await.expect("read").expect("is there");
        let all = shop.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut types: Vec<_> = all.iter().filter_map(|one| one["type"].as_str()).collect();
        types.sort_unstable();
        assert_eq!(types, wanted);
    }
}
