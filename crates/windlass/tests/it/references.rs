//! Objects that a reconcile refers to by name.

use std::time::Duration;

use http::Method;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PodTemplateSpec, Secret};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Key, Manager, Result};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, secret};
use crate::proxy::{Meddle, Proxy};

/// A reconcile sends the value of `color` in each secret that `data.refs` names, and the hash.
async fn reconcile(
    cx: Context<ConfigMap>,
    sender: mpsc::Sender<(Vec<String>, String)>,
) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let names = map.data.as_ref().and_then(|data| data.get("refs")).cloned().unwrap_or_default();
    let mut colors = Vec::new();
    for name in names.split_whitespace() {
        let key = name.parse().unwrap_or_else(|_| Key::new(cx.namespace(), name));
        let key = if key.namespace().is_none() { Key::new(cx.namespace(), name) } else { key };
        let secret = cx.reference::<Secret>(&key).await?;
        let color = secret.map(|secret| {
            let data = secret.data.as_ref().and_then(|data| data.get("color"));
            data.map_or_else(String::new, |color| String::from_utf8_lossy(&color.0).into_owned())
        });
        colors.push(color.unwrap_or_else(|| "-".into()));
    }
    let mut template = PodTemplateSpec::default();
    cx.stamp(&mut template);
    let annotations = template.metadata.and_then(|metadata| metadata.annotations);
    let hash = annotations.and_then(|all| all.get("windlass.dev/references").cloned());
    let _ = sender.send((colors, hash.unwrap_or_default())).await;
    Ok(Next::Done)
}

fn controller(sender: mpsc::Sender<(Vec<String>, String)>) -> Controller<ConfigMap> {
    Controller::<ConfigMap>::builder("maps")
        .references::<Secret>()
        .build(move |cx| reconcile(cx, sender.clone()))
}

fn colored(name: &str, color: &str) -> Secret {
    let data = [("color".to_string(), ByteString(color.into()))].into();
    Secret { data: Some(data), ..secret(name) }
}

fn paint(color: &str) -> Patch {
    Patch::Merge(json!({"stringData": {"color": color}}))
}

/// Starts the controller for config map `a`, which refers to some secrets.
async fn start(
    client: kube::Client,
    setup: &Client,
    refs: &str,
) -> (Running, mpsc::Receiver<(Vec<String>, String)>) {
    let (sender, seen) = mpsc::channel(64);
    setup.api().create(&config_map("a", &[("refs", refs)])).await.expect("created");
    let manager = Manager::new(client).namespaces(["default", "other"]);
    (manager.add(controller(sender)).spawn().expect("starts"), seen)
}

#[tokio::test(start_paused = true)]
async fn a_reference_is_followed_when_it_appears_changes_and_disappears() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let mut other = Namespace::default();
    other.metadata.name = Some("other".into());
    client.api().create(&other).await.expect("created");
    let (running, mut seen) = start(server.client(), &client, "s other/t").await;
    let mut next = async || seen.recv().await.expect("a reconcile").0.join(" ");
    assert_eq!(next().await, "- -");
    client.api().create(&colored("s", "red")).await.expect("created");
    assert_eq!(next().await, "red -");
    let mut far = colored("t", "blue");
    far.metadata.namespace = Some("other".into());
    client.api().create(&far).await.expect("created");
    assert_eq!(next().await, "red blue", "in another namespace");
    client.api::<Secret>().patch(&Key::of(&far), &paint("green")).await.expect("patched");
    assert_eq!(next().await, "red green");
    client.api::<Secret>().delete(&key("s")).await.expect("deleted");
    assert_eq!(next().await, "- green");

    // What the spec does not name any more is not followed.
    let forget = Patch::Merge(json!({"data": {"refs": "s"}}));
    client.api::<ConfigMap>().patch(&key("a"), &forget).await.expect("patched");
    assert_eq!(next().await, "-");
    client.api::<Secret>().patch(&Key::of(&far), &paint("black")).await.expect("patched");
    client.api().create(&colored("s", "white")).await.expect("created");
    assert_eq!(next().await, "white");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn of_many_foreign_secrets_only_the_metadata_is_held() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    for at in 0..200 {
        let filler: String = (0..5000).map(|n| ((n * 31 + at) % 10).to_string()).collect();
        client.api().create(&colored(&format!("s{at}"), &filler)).await.expect("created");
    }
    let (running, mut seen) = start(server.client(), &client, "s7").await;
    assert_eq!(seen.recv().await.expect("a reconcile").0[0].len(), 5000);
    let page = running.diagnostics();
    let watches = page["clusters"][0]["watches"].as_array().expect("watches");
    let secrets = watches.iter().find(|watch| watch["kind"] == "Secret.v1").expect("watched");
    assert_eq!(secrets["objects"], json!(200));
    let bytes = secrets["bytes"].as_u64().expect("a number");
    assert!(bytes < 200 * 1000, "{bytes} bytes, where the contents are 1000000");

    // Nothing is requested for a reference that did not change.
    let touch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    client.api::<ConfigMap>().patch(&key("a"), &touch).await.expect("patched");
    seen.recv().await.expect("a reconcile");
    let runs =
        || running.diagnostics()["controllers"][0]["runs"].as_array().cloned().unwrap_or_default();
    eventually("two runs ended", || runs().len() == 2).await;
    let requests: Vec<Value> = runs().iter().map(|run| run["requests"].clone()).collect();
    assert_eq!(requests, [json!([]), json!(["get Secret default/s7"])]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_hash_of_references_follows_their_contents_alone() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&colored("s", "red")).await.expect("created");
    let (running, mut seen) = start(server.client(), &client, "s t").await;
    let mut next = async || seen.recv().await.expect("a reconcile").1;
    let first = next().await;
    assert_eq!(first.len(), 64);
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    client.api::<Secret>().patch(&key("s"), &label).await.expect("patched");
    assert_eq!(next().await, first, "a label is no content");
    client.api().create(&colored("t", "")).await.expect("created");
    let second = next().await;
    assert_ne!(second, first, "it was missing");
    client.api::<Secret>().patch(&key("s"), &paint("blue")).await.expect("patched");
    let third = next().await;
    assert!(third != first && third != second);
    client.api::<Secret>().patch(&key("s"), &paint("red")).await.expect("patched");
    assert_eq!(next().await, second, "as it was");
    let freeze = Patch::Merge(json!({"immutable": true}));
    client.api::<Secret>().patch(&key("s"), &freeze).await.expect("patched");
    assert_eq!(next().await, second, "who may change it is no content");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_cannot_be_read_is_an_error_that_names_the_rule_and_is_retried() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&colored("s", "red")).await.expect("created");
    let forbidden = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "secrets \"s\" is forbidden: User \"op\" cannot get resource \"secrets\" in API group \"\"",
    });
    for fault in [
        Meddle::Answer(403, "application/json", forbidden.to_string().into_bytes()),
        Meddle::Away,
        Meddle::Answer(503, "text/plain", b"away".to_vec()),
    ] {
        let proxy = Proxy::new(&server);
        let broken = fault.clone();
        proxy.meddle(move |request| {
            let body =
                request.method() == Method::GET && request.uri().path().ends_with("secrets/s");
            body.then(|| broken.clone())
        });
        drop(client.api::<ConfigMap>().delete(&key("a")).await);
        let (running, mut seen) = start(proxy.client(), &client, "s").await;
        let runs = || {
            running.diagnostics()["controllers"][0]["runs"].as_array().cloned().unwrap_or_default()
        };
        // A busy server is asked several times before that is an error.
        tokio::time::sleep(Duration::from_secs(120)).await;
        let error = runs()[0]["error"].as_str().expect("an error").to_string();
        assert!(error.starts_with("get Secret default/s"), "{error}");
        if matches!(fault, Meddle::Answer(403, ..)) {
            assert!(error.contains("cannot get resource \"secrets\""), "{error}");
        }
        proxy.heal();
        let seen = tokio::time::timeout(Duration::from_secs(3600), seen.recv()).await;
        assert_eq!(seen.expect("in time").expect("a reconcile").0, ["red"]);
        running.stop().await.expect("stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_declared_is_named() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let (sender, mut seen) = mpsc::channel(8);
    let controller =
        Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                let error = cx.reference::<Secret>(&key("s")).await.expect_err("not declared");
                let _ = sender.send(error.to_string()).await;
                Ok(Next::Done)
            }
        });
    let running = crate::common::manager(&server).add(controller).spawn().expect("starts");
    let error = seen.recv().await.expect("a reconcile");
    assert_eq!(error, "Secret.v1 is not declared: add references::<Secret>() to the controller");
    running.stop().await.expect("stops");
}
