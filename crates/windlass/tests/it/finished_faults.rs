//! One operator that uses everything beyond `apply`, with a fault at each of its requests.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PodTemplate, PodTemplateSpec, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{DynamicObject, Expression};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::cache::{Index, Selection};
use windlass::client::{Api, Patch};
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Key, Kind, Manager, Readiness, Result, Watch};
use windlass_apiserver::ApiServer;

use crate::children_world::{Fault, Wire};
use crate::common::{config_map, key, meta, secret};
use crate::conditions::{conditions, open, shop, shops, world};
use crate::proxy::Log;

const SECOND: Duration = Duration::from_secs(1);

/// Groups of secrets by the label that they collect.
fn groups() -> Index<ConfigMap, Selection> {
    Index::selectors("groups", |map: &ConfigMap| {
        let group = map.data.as_ref()?.get("collects")?.clone();
        let labels = [("group".to_string(), group)].into();
        Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() })
    })
}

/// Adopts the secrets of its group, and records how many it has seen at once.
async fn collect(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let group = map.data.as_ref().and_then(|data| data.get("collects"));
    let Some(group) = group else { return Ok(Next::Done) };
    let labels = [("group".to_string(), group.clone())].into();
    let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    let found = cx.claim(selector, None, |_: &Secret| true).await?;
    let most = cx.memory::<Mutex<usize>>();
    let most = {
        let mut most = most.lock();
        *most = found.len().max(*most);
        *most
    };
    let name = format!("{}-count", cx.name());
    cx.apply(&config_map(&name, &[("most", &most.to_string())])).await?;
    Ok(Next::Done)
}

/// Paints a config map with the color in the secret that a shop names.
async fn paint(cx: Context<DynamicObject>) -> Result<Next> {
    let Some(shop) = cx.object() else { return Ok(Next::Done) };
    let name = shop.data["spec"]["secret"].as_str().unwrap_or_default();
    let Some(secret) = cx.reference::<Secret>(&Key::new(cx.namespace(), name)).await? else {
        let message = format!("there is no secret {name}");
        cx.report("Color", &Readiness::InProgress { reason: "Missing".into(), message });
        return Ok(Next::Done);
    };
    cx.report("Color", &Readiness::Ready);
    let color = secret.data.as_ref().and_then(|data| data.get("color"));
    let color = color.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
    let mut children = cx.children("example.com/shop");
    children.add(&config_map("paint", &[("color", &color.unwrap_or_default())]))?;
    // Pods of this template are replaced with the color.
    let mut template = PodTemplate { metadata: meta("paint"), ..PodTemplate::default() };
    cx.stamp(template.template.insert(pod_template()));
    children.add(&template)?;
    children.apply().await?;
    Ok(Next::Done)
}

fn pod_template() -> PodTemplateSpec {
    serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .expect("a template")
}

/// The hash of the references in the template.
async fn stamp(client: &Client) -> Option<String> {
    let template = client.api::<PodTemplate>().get(&key("paint")).await.expect("read")?;
    let metadata = template.template.as_ref()?.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get("windlass.dev/references").cloned()
}

/// Starts both controllers, each with caches of its own: what one of them owns would not have to be
/// read for a reference of the other.
fn start(client: kube::Client) -> [Running; 2] {
    let painter = Controller::<DynamicObject>::of_kind("shops", &shops())
        .owns::<ConfigMap>()
        .deletes::<ConfigMap>()
        .owns::<PodTemplate>()
        .deletes::<PodTemplate>()
        .references::<Secret>()
        .finalizes()
        .conditions()
        .build(paint);
    let collector = Controller::<ConfigMap>::builder("collector")
        .owns::<Secret>()
        .owns::<ConfigMap>()
        .watch(Watch::selected_by(Kind::of::<Secret>(), &groups()))
        .build(collect);
    let chosen = || Expression::Equal("team".into(), "paint".into());
    let manager = || Manager::new(client.clone()).namespace_selector(chosen().into());
    [manager().add(painter).spawn(), manager().add(collector).spawn()]
        .map(|running| running.expect("starts"))
}

/// Sets the team of namespace `default`; the managers choose those of team `paint`.
async fn choose(client: &Client, team: &str) {
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
    client.api::<Namespace>().patch(&Key::cluster("default"), &label).await.expect("patched");
}

async fn stop(all: [Running; 2]) {
    for running in all {
        running.stop().await.expect("stops");
    }
}

fn annotate(name: &str, value: &Value) -> Patch {
    Patch::Merge(json!({"metadata": {"annotations": {format!("windlass.dev/{name}"): value}}}))
}

fn colored(color: &str) -> Patch {
    Patch::Merge(json!({"stringData": {"color": color}}))
}

async fn settled(api: &Api<DynamicObject>) -> Vec<String> {
    tokio::time::sleep(300 * SECOND).await;
    conditions(api).await.0
}

async fn data(client: &Client, name: &str, field: &str) -> Option<String> {
    let map = client.api::<ConfigMap>().get(&key(name)).await.expect("read")?;
    map.data.as_ref()?.get(field).cloned()
}

/// The namespace is not chosen for a while, in which the ink changes.
async fn leave_and_come_back(client: &Client, api: &Api<DynamicObject>, case: &str) {
    choose(client, "other").await;
    settled(api).await;
    client.api::<Secret>().patch(&key("ink"), &colored("blue")).await.expect("patched");
    settled(api).await;
    assert_eq!(data(client, "paint", "color").await.as_deref(), Some("red"), "{case}");
    choose(client, "paint").await;
    assert_eq!(settled(api).await, ["Color=True Ready", "Ready=True Succeeded"], "{case}");
    assert_eq!(data(client, "paint", "color").await.as_deref(), Some("blue"), "{case}");
}

/// Takes a shop and a collector through their lives; returns how many requests the operator sent.
async fn life(fault: Option<(usize, Fault)>) -> usize {
    let case = format!("{fault:?}");
    let (server, api): (ApiServer, _) = world(open()).await;
    let client = Client::new(server.client());
    let wire = Wire::new(&server, fault);
    choose(&client, "paint").await;
    let running = start(wire.client());
    let secrets = client.api::<Secret>();

    // A reference that is missing, appears and changes.
    api.create(&shop(&json!({"secret": "ink"}))).await.expect("created");
    let waiting = ["Color=False Missing", "Ready=False Missing", "Reconciling=True Progressing"];
    assert_eq!(settled(&api).await, waiting, "{case}");
    secrets.create(&secret("ink")).await.expect("created");
    secrets.patch(&key("ink"), &colored("blue")).await.expect("patched");
    let ready = ["Color=True Ready", "Ready=True Succeeded"];
    assert_eq!(settled(&api).await, ready, "{case}");
    assert_eq!(data(&client, "paint", "color").await.as_deref(), Some("blue"), "{case}");
    let blue = stamp(&client).await.expect("is there");

    // A pause, and its end.
    api.patch(&key("a"), &annotate("paused", &json!("true"))).await.expect("patched");
    secrets.patch(&key("ink"), &colored("red")).await.expect("patched");
    let paused = ["Color=True Ready", "Paused=True PausedByAnnotation", "Ready=True Succeeded"];
    assert_eq!(settled(&api).await, paused, "{case}");
    assert_eq!(data(&client, "paint", "color").await.as_deref(), Some("blue"), "{case}");
    api.patch(&key("a"), &annotate("paused", &Value::Null)).await.expect("patched");
    assert_eq!(settled(&api).await, ready, "{case}");
    assert_eq!(data(&client, "paint", "color").await.as_deref(), Some("red"), "{case}");
    let red = stamp(&client).await.expect("is there");
    assert_ne!(red, blue, "{case}: other contents, another template");

    // A request to reconcile now.
    api.patch(&key("a"), &annotate("reconcile", &json!("1"))).await.expect("patched");
    assert_eq!(settled(&api).await, ready, "{case}");
    let handled = api.get(&key("a")).await.expect("read").expect("is there");
    assert_eq!(handled.data["status"]["lastHandledReconcileAt"], "1", "{case}");

    // Claims by selector.
    let mut member = secret("member");
    member.metadata.labels = Some([("group".to_string(), "g".to_string())].into());
    secrets.create(&member).await.expect("created");
    client.api().create(&config_map("group", &[("collects", "g")])).await.expect("created");
    settled(&api).await;
    assert_eq!(data(&client, "group-count", "most").await.as_deref(), Some("1"), "{case}");
    let member = secrets.get(&key("member")).await.expect("read").expect("is there");
    let owners = member.metadata.owner_references.clone().unwrap_or_default();
    assert_eq!(owners.iter().map(|o| &*o.name).collect::<Vec<_>>(), ["group"], "{case}");
    let leave = Patch::Merge(json!({"metadata": {"labels": {"group": "other"}}}));
    secrets.patch(&key("member"), &leave).await.expect("patched");
    settled(&api).await;
    let member = secrets.get(&key("member")).await.expect("read").expect("is there");
    assert_eq!(member.metadata.owner_references.as_ref().map_or(0, Vec::len), 0, "{case}");

    leave_and_come_back(&client, &api, &case).await;
    assert_eq!(stamp(&client).await, Some(blue), "{case}: the same contents, the same template");

    // Deletion.
    api.delete(&key("a")).await.expect("deleted");
    tokio::time::sleep(300 * SECOND).await;
    assert!(api.get(&key("a")).await.expect("read").is_none(), "{case}");
    assert_eq!(data(&client, "paint", "color").await, None, "{case}");
    let sent = wire.requests();
    stop(running).await;
    sent
}

/// Runs the life with a fault at the first request, the second, and so on.
async fn at_every_request(fault: Fault) {
    let all = life(None).await;
    assert!(all > 12, "only {all} requests");
    for at in 1..=all {
        life(Some((at, fault))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_at_any_request_of_a_finished_operator_changes_nothing_in_the_end() {
    at_every_request(Fault::Away).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_at_any_request_of_a_finished_operator_changes_nothing_in_the_end() {
    at_every_request(Fault::Lost).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_at_any_write_of_a_finished_operator_changes_nothing_and_is_not_logged() {
    let (log, _guard) = Log::start();
    at_every_request(Fault::Conflict).await;
    assert!(log.lines(&["Reconciler error"]).is_empty(), "a conflict is no error");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_verb_of_any_point_names_the_missing_rule() {
    for (method, path, group, resource) in [
        (Method::PATCH, "secrets/member", "", "secrets"),
        (Method::GET, "secrets/ink", "", "secrets"),
        (Method::PATCH, "shops/a/status", "example.com", "shops/status"),
        (Method::PATCH, "shops/a", "example.com", "shops"),
        (Method::PATCH, "configmaps/paint", "", "configmaps"),
    ] {
        let verb = method.as_str().to_lowercase();
        let rule = format!(
            "allow it with the rule {{apiGroups: [{group:?}], resources: [{resource:?}], verbs: \
             [{verb:?}]}}"
        );
        let rule = rule.replace('"', "\\\"");
        let (log, _guard) = Log::start();
        let (server, api) = world(open()).await;
        let client = Client::new(server.client());
        let wire = Wire::new(&server, None);
        let (refused, ends) = (method.clone(), format!("/{path}"));
        *wire.refuse.lock() = Some(Arc::new(move |request| {
            let meant = request.method() == refused && request.uri().path().ends_with(&ends);
            meant.then_some(403)
        }));
        choose(&client, "paint").await;
        let running = start(wire.client());
        let mut member = secret("member");
        member.metadata.labels = Some([("group".to_string(), "g".to_string())].into());
        client.api().create(&member).await.expect("created");
        client.api().create(&secret("ink")).await.expect("created");
        client.api().create(&config_map("group", &[("collects", "g")])).await.expect("created");
        api.create(&shop(&json!({"secret": "ink"}))).await.expect("created");
        tokio::time::sleep(60 * SECOND).await;
        assert!(!log.lines(&[&rule]).is_empty(), "{method} {path}: nothing says {rule}");

        // Once it is allowed, everything is as it should be.
        *wire.refuse.lock() = None;
        assert_eq!(
            settled_late(&api).await,
            ["Color=True Ready", "Ready=True Succeeded"],
            "{path}"
        );
        stop(running).await;
    }
}

/// Waits for a retry with the longest delay.
async fn settled_late(api: &Api<DynamicObject>) -> Vec<String> {
    tokio::time::sleep(1000 * SECOND).await;
    conditions(api).await.0
}
