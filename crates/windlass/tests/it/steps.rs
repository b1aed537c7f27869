//! Steps of a set of children: waiting, running once, deletion in reverse.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Key, Result};
use windlass_apiserver::ApiServer;

use crate::children_world::{Fault, Wire};
use crate::common::{config_map, key, secret};

const SET: &str = "example.com/app";

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .expect("a pod")
}

/// A database, a migration per version, a web server that needs both, and a secret for itself.
async fn reconcile(cx: Context<Service>) -> Result<Next> {
    // The namespace also has the service of the API server.
    let Some(app) = cx.object().filter(|_| cx.name() == "app") else { return Ok(Next::Done) };
    let labels = app.metadata.labels.clone().unwrap_or_default();
    let mut children = cx.children(SET);
    let database = children.step("DatabaseReady", &[]);
    children.add(&pod("database"))?;
    let migrated = children.step("Migrated", &[&database]);
    if let Some(version) = labels.get("version") {
        children.once(&pod("migrate"), version)?;
    }
    children.step("WebReady", &[&database, &migrated]);
    children.add(&config_map("web", &[]))?;
    children.step("DocsReady", &[]);
    if labels.get("docs").is_none_or(|docs| docs != "no") {
        children.add(&secret("docs"))?;
    }
    children.apply().await?;
    Ok(Next::Done)
}

fn start(client: kube::Client) -> Running {
    let controller = Controller::<Service>::builder("apps")
        .owns::<Pod>()
        .owns::<ConfigMap>()
        .owns::<Secret>()
        .conditions()
        .build(reconcile);
    let manager = windlass::Manager::new(client).namespaces(["default"]);
    manager.add(controller).spawn().expect("starts")
}

async fn create_app(client: &Client, labels: &Value) {
    let app: Service = serde_json::from_value(json!({
        "metadata": {"name": "app", "namespace": "default", "labels": labels},
        "spec": {"ports": [{"port": 80}]},
    }))
    .expect("a service");
    client.api().create(&app).await.expect("created");
}

async fn label(client: &Client, labels: &Value) {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    client.api::<Service>().patch(&key("app"), &patch).await.expect("patched");
}

async fn set_phase(client: &Client, name: &str, phase: &str) {
    let ready = if phase == "Running" { "True" } else { "False" };
    let status =
        json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
    let pods = client.api::<Pod>();
    pods.subresource("status").patch(&key(name), &Patch::Merge(status)).await.expect("patched");
}

/// Waits, and returns the names of all children.
async fn children(client: &Client) -> String {
    tokio::time::sleep(Duration::from_secs(600)).await;
    let mut names: Vec<String> = Vec::new();
    let pods = client.api::<Pod>().list().namespace("default").items().await.expect("read");
    names.extend(pods.iter().filter_map(|pod| pod.metadata.name.clone()));
    for name in ["web", "docs"] {
        let map = client.api::<ConfigMap>().get(&key(name)).await.expect("read").is_some();
        let secret = client.api::<Secret>().get(&key(name)).await.expect("read").is_some();
        if map || secret {
            names.push(name.into());
        }
    }
    names.join(" ")
}

async fn conditions(client: &Client) -> String {
    let app = client.api::<Service>().get(&key("app")).await.expect("read").expect("is there");
    let conditions = app.status.as_ref().and_then(|status| status.conditions.clone());
    let mut texts: Vec<String> = conditions
        .iter()
        .flatten()
        .map(|condition| format!("{}={} {}", condition.type_, condition.status, condition.reason))
        .collect();
    texts.sort();
    texts.join(", ")
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_what_it_needs_and_the_others_proceed() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let running = start(server.client());
    create_app(&client, &json!({})).await;
    assert_eq!(children(&client).await, "database docs");
    assert_eq!(
        conditions(&client).await,
        "DatabaseReady=False PodPending, DocsReady=True Ready, Migrated=False Waiting, \
         Ready=False PodPending, Reconciling=True Progressing, WebReady=False Waiting"
    );
    set_phase(&client, "database", "Running").await;
    assert_eq!(children(&client).await, "database web docs");
    assert_eq!(
        conditions(&client).await,
        "DatabaseReady=True Ready, DocsReady=True Ready, Migrated=True Ready, \
         Ready=True Succeeded, WebReady=True Ready"
    );
    // A step that waits again loses nothing, and nothing else is pruned meanwhile.
    set_phase(&client, "database", "Pending").await;
    label(&client, &json!({"docs": "no"})).await;
    assert_eq!(children(&client).await, "database web docs");
    set_phase(&client, "database", "Running").await;
    assert_eq!(children(&client).await, "database web", "a step without children is ready");
    let settled = server.revision();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(server.revision(), settled, "nothing is written again");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn steps_are_deleted_in_reverse_under_one_finalizer() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let running = start(server.client());
    create_app(&client, &json!({"version": "1"})).await;
    children(&client).await;
    set_phase(&client, "database", "Running").await;
    let names = children(&client).await;
    let migration = names.split(' ').nth(1).expect("three children").to_string();
    set_phase(&client, &migration, "Succeeded").await;
    assert_eq!(children(&client).await, format!("database {migration} web docs"));
    let app = client.api::<Service>().get(&key("app")).await.expect("read").expect("is there");
    assert_eq!(app.metadata.finalizers.clone(), Some(vec![SET.to_string()]));
    client.api::<Service>().delete(&key("app")).await.expect("deleted");
    assert_eq!(children(&client).await, "");
    assert!(client.api::<Service>().get(&key("app")).await.expect("read").is_none());
    let runs = running.diagnostics()["controllers"][0]["runs"].as_array().cloned();
    let requests = runs
        .into_iter()
        .flatten()
        .rev()
        .flat_map(|run| run["requests"].as_array().cloned().unwrap_or_default());
    let deletions: Vec<String> = requests
        .filter_map(|request| request.as_str()?.strip_prefix("delete ").map(str::to_string))
        .collect();
    let wanted = [
        "Secret default/docs".to_string(),
        "ConfigMap default/web".into(),
        format!("Pod default/{migration}"),
        "Pod default/database".into(),
    ];
    assert_eq!(deletions, wanted);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_child_runs_once_for_each_value_and_is_remembered() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let running = start(server.client());
    create_app(&client, &json!({"version": "1"})).await;
    children(&client).await;
    set_phase(&client, "database", "Running").await;
    let first = children(&client).await;
    let first = first.split(' ').nth(1).expect("the migration").to_string();
    assert!(first.starts_with("migrate-") && first.len() == 18, "{first}");
    assert!(conditions(&client).await.contains("Migrated=False PodPending"));

    set_phase(&client, &first, "Succeeded").await;
    assert_eq!(children(&client).await, format!("database {first} web docs"));
    client.api::<Pod>().delete(&key(&first)).await.expect("deleted");
    assert_eq!(children(&client).await, "database web docs", "it is not run again");
    assert!(conditions(&client).await.contains("Migrated=True Ready"));

    label(&client, &json!({"version": "2"})).await;
    let second = children(&client).await;
    let second = second.split(' ').nth(1).expect("the migration").to_string();
    assert!(second.starts_with("migrate-") && second != first, "{second}");
    set_phase(&client, &second, "Failed").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(conditions(&client).await.contains("Migrated=False"), "a failure is no completion");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_request_neither_repeats_nor_forgets_what_runs_once() {
    for fault in [Fault::Lost, Fault::Away, Fault::Conflict] {
        for at in 1.. {
            let server = ApiServer::start();
            let client = Client::new(server.client());
            let wire = Wire::new(&server, Some((at, fault)));
            let running = start(wire.client());
            create_app(&client, &json!({"version": "1"})).await;
            children(&client).await;
            set_phase(&client, "database", "Running").await;
            let names = children(&client).await;
            let migration = names.split(' ').nth(1).expect("the migration").to_string();
            set_phase(&client, &migration, "Succeeded").await;
            let case = format!("{fault:?} at request {at}");
            assert_eq!(children(&client).await, format!("database {migration} web docs"), "{case}");
            client.api::<Pod>().delete(&key(&migration)).await.expect("deleted");
            assert_eq!(children(&client).await, "database web docs", "{case}");
            assert!(conditions(&client).await.contains("Ready=True"), "{case}");
            running.stop().await.expect("stops");
            if wire.requests() < at {
                assert!(at > 9, "{fault:?}: only {at} requests");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn steps_that_cannot_be_are_refused_with_a_sentence() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(
        move |cx: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                let mut twice = cx.children(SET);
                twice.step("A", &[]);
                let step = twice.step("A", &[]);
                twice.add(&secret("s"))?;
                let first = twice.apply().await.expect_err("refused").to_string();
                let mut foreign = cx.children("example.com/other");
                foreign.step("B", &[&step]);
                foreign.add(&secret("s"))?;
                let second = foreign.apply().await.expect_err("refused").to_string();
                let _ = sender.send([first, second]).await;
                Ok(Next::Done)
            }
        },
    );
    let manager = windlass::Manager::new(server.client()).namespaces(["default"]);
    let running = manager.add(controller).spawn().expect("starts");
    let errors = seen.recv().await.expect("a reconcile");
    assert_eq!(errors[0], "step A of example.com/app was begun twice");
    assert_eq!(errors[1], "step B needs A, which is no step of example.com/other");
    assert!(
        client.api::<Secret>().get(&Key::namespaced("default", "s")).await.expect("read").is_none()
    );
    running.stop().await.expect("stops");
}
