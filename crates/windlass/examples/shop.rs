//! A finished operator: children as a set, steps, references, selectors, conditions, pauses, chosen
//! namespaces, optional kinds, ordered deletion.
//!
//! `docs/finished-operator.md` explains it. Here it runs against the embedded API server, in virtual
//! time: `cargo run -p windlass --example shop`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::{DynamicObject, Expression};
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::cache::{Index, Selection};
use windlass::client::Patch;
use windlass::schedule::Schedule;
use windlass::{
    Client, Context, Controller, Error, Key, Kind, Manager, Next, Readiness, Result, Watch,
};
use windlass_apiserver::ApiServer;

/// The finalizer of a shop, and the name of the annotation that lists its children.
const CHILDREN: &str = "example.com/shop";

/// What a shop asks for.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
pub struct ShopSpec {
    /// The name of the price list, a ConfigMap beside the shop.
    prices: String,
    /// Whether visitors may enter.
    #[serde(default)]
    open: bool,
    /// When the shop is looked at although nothing changed, such as `0 6 * * *`.
    #[serde(default)]
    checked: Option<String>,
    /// The team whose pods, wherever they come from, are the staff of the shop.
    #[serde(default)]
    team: Option<String>,
}

/// What is known about a shop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShopStatus {
    #[serde(default)]
    observed_generation: Option<i64>,
    #[serde(default)]
    conditions: Vec<Condition>,
    /// The value of the annotation `windlass.dev/reconcile` that was handled last.
    #[serde(default)]
    last_handled_reconcile_at: Option<String>,
}

async fn reconcile(cx: Context<Shop>) -> Result<Next> {
    let Some(shop) = cx.object() else { return Ok(Next::Done) };
    if shop.metadata.deletion_timestamp.is_some() {
        cx.children(CHILDREN).apply().await?;
        return Ok(Next::Done);
    }

    let prices = Key::new(cx.namespace(), &shop.spec.prices);
    let Some(prices) = cx.reference::<ConfigMap>(&prices).await? else {
        let message = format!("there is no price list {}", shop.spec.prices);
        cx.report("PricesFound", &Readiness::InProgress { reason: "Missing".into(), message });
        return Ok(Next::Done); // its creation leads to another reconcile
    };
    cx.report("PricesFound", &Readiness::Ready);
    if prices.data.iter().flatten().count() > 1000 {
        return Err(Error::terminal("a shop has at most 1000 prices")); // no retry helps
    }

    let mut children = cx.children(CHILDREN);
    let ready = children.step("SettingsReady", &[]);
    let name = format!("{}-settings", cx.name());
    let mut settings = ConfigMap { data: prices.data.clone(), ..ConfigMap::default() };
    settings.metadata.name = Some(name.clone());
    settings.metadata.namespace = Some("shops".into());
    children.add(&settings)?;

    // Created once the settings are ready, and gone before they are deleted.
    children.step("VisitorsReady", &[&ready]);
    if shop.spec.open {
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".into()]),
            resource_names: Some(vec![name]),
            verbs: vec!["get".into()],
            ..PolicyRule::default()
        };
        let mut visitors = ClusterRole { rules: Some(vec![rule]), ..ClusterRole::default() };
        visitors.metadata.name = Some(format!("visit-{}", cx.name()));
        children.add(&visitors)?; // deleted when the shop closes
    }
    // Only in a cluster that has such a kind.
    if cx.serves(&monitors()) {
        children.add_of(&monitors(), &monitor(&cx)?)?;
    }
    children.apply().await?;
    count_staff(&cx, &shop)?;

    let Some(times) = &shop.spec.checked else { return Ok(Next::Done) };
    let schedule = Schedule::new(times, "Europe/Berlin").map_err(Error::terminal)?;
    Ok(schedule.next(cx.clock().now()))
}

/// Whether the staff of a shop was welcomed.
#[derive(Default)]
struct Welcomed(AtomicBool);

/// Reports whether the shop has staff: pods that somebody else runs.
fn count_staff(cx: &Context<Shop>, shop: &Shop) -> Result<()> {
    let Some(team) = &shop.spec.team else { return Ok(()) };
    if cx.list::<Pod>().labels([("team", team)]).keys()?.is_empty() {
        let message = format!("there is nobody of team {team}");
        cx.report("Staffed", &Readiness::InProgress { reason: "NoStaff".into(), message });
        return Ok(());
    }
    cx.report("Staffed", &Readiness::Ready);
    if !cx.memory::<Welcomed>().0.swap(true, Ordering::Relaxed) {
        let causes: Vec<String> = cx.causes().iter().map(ToString::to_string).collect();
        cx.event("Welcomed", format!("the staff is here; noticed because {}", causes.join(", ")));
    }
    Ok(())
}

/// Shops by the labels of their staff.
fn by_staff() -> Index<Shop, Selection> {
    Index::selectors("staff", |shop: &Shop| {
        shop.spec.team.clone().map(|team| Expression::Equal("team".into(), team))
    })
}

/// A kind that only some clusters have.
fn monitors() -> Kind {
    Kind::new("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
}

fn monitor(cx: &Context<Shop>) -> Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": monitors().api_version(), "kind": monitors().kind(),
        "metadata": {"name": cx.name()},
        "spec": {"selector": {"matchLabels": {"shop": cx.name()}}, "endpoints": []},
    }))?)
}

fn controller() -> Controller<Shop> {
    Controller::builder("shops")
        .owns::<ClusterRole>()
        .deletes::<ClusterRole>()
        .owns::<ConfigMap>()
        .deletes::<ConfigMap>()
        .finalizes()
        .references::<ConfigMap>()
        .watch(Watch::selected_by(Kind::of::<Pod>(), &by_staff()))
        .watch(Watch::owned(monitors()).optional())
        .fair_by(|key: &Key| key.namespace().map(str::to_string))
        .conditions()
        .build(reconcile)
}

fn manager(client: kube::Client) -> Manager {
    // Shops are managed where somebody allows it, and nothing else is cached.
    let allowed = Expression::Equal("shops".into(), "allowed".into());
    Manager::new(client).namespace_selector(allowed.into()).add(controller())
}

/// What can be seen of the shop: its conditions, and which children exist.
async fn look(client: &Client) -> Result<String> {
    tokio::time::sleep(Duration::from_secs(30)).await;
    let shop = client.api::<Shop>().get(&Key::namespaced("default", "books")).await?;
    let status = shop.and_then(|shop| shop.status.clone()).unwrap_or_default();
    let mut seen: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| format!("{}={}", condition.type_, condition.status))
        .collect();
    seen.sort();
    let settings = Key::namespaced("shops", "books-settings");
    if client.api::<ConfigMap>().get(&settings).await?.is_some() {
        seen.push("settings".into());
    }
    if client.api::<ClusterRole>().get(&Key::cluster("visit-books")).await?.is_some() {
        seen.push("visitors".into());
    }
    Ok(seen.join(" "))
}

/// Takes a shop through its life; returns what could be seen of it.
pub async fn run() -> Result<Vec<String>> {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&Shop::crd()).await?;
    let mut shops = Namespace::default();
    shops.metadata.name = Some("shops".into());
    client.api().create(&shops).await?;
    let running = manager(server.client()).spawn()?;
    for namespace in ["default", "shops"] {
        let allow = Patch::Merge(json!({"metadata": {"labels": {"shops": "allowed"}}}));
        client.api::<Namespace>().patch(&Key::cluster(namespace), &allow).await?;
    }
    let mut seen = Vec::new();

    let (prices, checked) = ("prices".to_string(), Some("0 6 * * *".to_string()));
    let mut shop = Shop::new("books", ShopSpec { prices, open: true, checked, team: None });
    shop.metadata.namespace = Some("default".into());
    client.api().create(&shop).await?;
    seen.push(look(&client).await?);

    let mut prices = ConfigMap::default();
    prices.metadata.name = Some("prices".into());
    prices.metadata.namespace = Some("default".into());
    prices.data = Some([("tea".into(), "3".into())].into());
    client.api().create(&prices).await?;
    seen.push(look(&client).await?);

    // A pod of the team appears.
    let hire = Patch::Merge(json!({"spec": {"team": "blue"}}));
    client.api::<Shop>().patch(&Key::of(&shop), &hire).await?;
    seen.push(look(&client).await?);
    let clerk: Pod = serde_json::from_value(json!({
        "metadata": {"name": "clerk", "namespace": "default", "labels": {"team": "blue"}},
        "spec": {"containers": [{"name": "clerk", "image": "example.com/clerk"}]},
    }))?;
    client.api().create(&clerk).await?;
    seen.push(look(&client).await?);

    // The shop is closed, and nothing happens before it is resumed.
    let pause = json!({"metadata": {"annotations": {"windlass.dev/paused": "true"}}});
    client.api::<Shop>().patch(&Key::of(&shop), &Patch::Merge(pause)).await?;
    let close = Patch::Merge(json!({"spec": {"open": false}}));
    client.api::<Shop>().patch(&Key::of(&shop), &close).await?;
    seen.push(look(&client).await?);
    let resume = json!({"metadata": {"annotations": {"windlass.dev/paused": null}}});
    client.api::<Shop>().patch(&Key::of(&shop), &Patch::Merge(resume)).await?;
    seen.push(look(&client).await?);

    client.api::<Shop>().delete(&Key::of(&shop)).await?;
    seen.push(look(&client).await?);
    running.stop().await?;
    Ok(seen)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
