//! A finished operator: children as a set, conditions, ordered deletion.
//!
//! `docs/finished-operator.md` explains it. Here it runs against the embedded API server, in virtual
//! time: `cargo run -p windlass --example shop`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::cache::{Cache, Change};
use windlass::client::Patch;
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
}

/// What is known about a shop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShopStatus {
    #[serde(default)]
    observed_generation: Option<i64>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

async fn reconcile(cx: Context<Shop>) -> Result<Next> {
    let Some(shop) = cx.object() else { return Ok(Next::Done) };
    if shop.metadata.deletion_timestamp.is_some() {
        cx.children(CHILDREN).apply().await?;
        return Ok(Next::Done);
    }

    let Some(prices) = cx.get::<ConfigMap>(&shop.spec.prices)? else {
        let message = format!("there is no price list {}", shop.spec.prices);
        cx.report("PricesFound", &Readiness::InProgress { reason: "Missing".into(), message });
        return Ok(Next::Done); // its creation leads to another reconcile
    };
    cx.report("PricesFound", &Readiness::Ready);
    if prices.data.iter().flatten().count() > 1000 {
        return Err(Error::terminal("a shop has at most 1000 prices")); // no retry helps
    }

    let mut children = cx.children(CHILDREN);
    let name = format!("{}-settings", cx.name());
    let mut settings = ConfigMap { data: prices.data.clone(), ..ConfigMap::default() };
    settings.metadata.name = Some(name.clone());
    settings.metadata.namespace = Some("shops".into());
    children.add(&settings)?;

    children.then(); // created after the settings, and gone before they are deleted
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
    children.apply().await?;
    Ok(Next::Done)
}

/// Returns the shops that use a price list.
fn shops_of(change: &Change, cache: &Cache) -> Result<Vec<Key>> {
    let list = change.key();
    let shops = cache.list::<Shop>().namespace(list.namespace().unwrap_or_default()).items()?;
    let users = shops.iter().filter(|shop| shop.spec.prices == list.name());
    Ok(users.map(|shop| Key::of(&**shop)).collect())
}

fn controller() -> Controller<Shop> {
    Controller::builder("shops")
        .owns::<ClusterRole>()
        .deletes::<ClusterRole>()
        .owns::<ConfigMap>()
        .deletes::<ConfigMap>()
        .finalizes()
        .watch(Watch::changes(Kind::of::<ConfigMap>(), shops_of))
        .conditions()
        .build(reconcile)
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
    let running = Manager::new(server.client()).add(controller()).spawn()?;
    let mut seen = Vec::new();

    let mut shop = Shop::new("books", ShopSpec { prices: "prices".into(), open: true });
    shop.metadata.namespace = Some("default".into());
    client.api().create(&shop).await?;
    seen.push(look(&client).await?);

    let mut prices = ConfigMap::default();
    prices.metadata.name = Some("prices".into());
    prices.metadata.namespace = Some("default".into());
    prices.data = Some([("tea".into(), "3".into())].into());
    client.api().create(&prices).await?;
    seen.push(look(&client).await?);

    let close = Patch::Merge(json!({"spec": {"open": false}}));
    client.api::<Shop>().patch(&Key::of(&shop), &close).await?;
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
