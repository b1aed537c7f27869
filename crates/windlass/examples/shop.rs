//! A finished operator: children as a set, steps, a migration that runs once, references, selectors,
//! conditions, pauses, requests, a file of settings, chosen namespaces, optional kinds, ordered
//! deletion.
//!
//! `docs/finished-operator.md` explains it. Here it runs against the embedded API server, in virtual
//! time: `cargo run -p windlass --example shop`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PropagationPolicy;
use kube::core::{DynamicObject, Expression};
use kube::{CustomResource, CustomResourceExt};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::cache::{Index, Selection};
use windlass::client::{Deletion, Patch};
use windlass::controller::{Children, Step};
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
    /// The release of the till, a web server with a database.
    #[serde(default)]
    release: Option<String>,
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

/// Which doors are open: something outside of the cluster.
type Doors = Arc<Mutex<BTreeMap<Key, bool>>>;

async fn reconcile(cx: Context<Shop>, doors: Doors) -> Result<Next> {
    let Some(shop) = cx.object() else {
        doors.lock().remove(cx.key());
        return Ok(Next::Done);
    };
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
    if !cx.is_paused() {
        doors.lock().insert(cx.key().clone(), shop.spec.open); // no client refuses this
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
        children.add(&visitors(&cx, name))?; // deleted when the shop closes
    }
    if let Some(release) = &shop.spec.release {
        add_till(&cx, release, &ready, &mut children)?;
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

/// The role that lets visitors read the settings.
fn visitors(cx: &Context<Shop>, settings: String) -> ClusterRole {
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".into()]),
        resource_names: Some(vec![settings]),
        verbs: vec!["get".into()],
        ..PolicyRule::default()
    };
    let mut visitors = ClusterRole { rules: Some(vec![rule]), ..ClusterRole::default() };
    visitors.metadata.name = Some(format!("visit-{}", cx.name()));
    visitors
}

/// Adds the migration of the database to a release, and the till of that release.
fn add_till(
    cx: &Context<Shop>,
    release: &str,
    ready: &Step,
    children: &mut Children<Shop>,
) -> Result<()> {
    let image = format!("example.com/till:{release}");
    let migration: Job = serde_json::from_value(json!({
        "metadata": {"name": format!("{}-migrate", cx.name())},
        "spec": {"ttlSecondsAfterFinished": 3600, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "migrate", "image": image, "args": ["migrate"]}],
        }}},
    }))?;
    let migrated = children.step("Migrated", &[ready]);
    children.once(&migration, release)?; // once for each release

    let labels = json!({"till": cx.name()});
    let mut till: Deployment = serde_json::from_value(json!({
        "metadata": {"name": format!("{}-till", cx.name())},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "till", "image": image}]},
        }},
    }))?;
    // Its pods read the prices when they start: they are replaced when the prices change.
    cx.stamp(&mut till.spec.get_or_insert_default().template);
    children.step("TillReady", &[&migrated]);
    children.add(&till)
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

fn controller(doors: Doors) -> Controller<Shop> {
    Controller::builder("shops")
        .owns::<ClusterRole>()
        .deletes::<ClusterRole>()
        .owns::<ConfigMap>()
        .deletes::<ConfigMap>()
        .owns::<Deployment>()
        .deletes::<Deployment>()
        .owns::<Job>()
        .deletes::<Job>()
        .finalizes()
        .references::<ConfigMap>()
        .watch(Watch::selected_by(Kind::of::<Pod>(), &by_staff()))
        .watch(Watch::owned(monitors()).optional())
        .fair_by(|key: &Key| key.namespace().map(str::to_string))
        .conditions()
        .build(move |cx| reconcile(cx, doors.clone()))
}

fn manager(client: kube::Client, doors: Doors, settings: &Path) -> Manager {
    // Shops are managed where somebody allows it, and nothing else is cached.
    let allowed = Expression::Equal("shops".into(), "allowed".into());
    Manager::new(client)
        .namespace_selector(allowed.into())
        .settings_file(settings)
        .add(controller(doors))
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
    if !client.api::<Job>().list().namespace("default").items().await?.is_empty() {
        seen.push("migration".into());
    }
    if client.api::<Deployment>().get(&till()).await?.is_some() {
        seen.push("till".into());
    }
    Ok(seen.join(" "))
}

fn till() -> Key {
    Key::namespaced("default", "books-till")
}

/// Completes the migration: nothing in this world runs a Job.
async fn complete_migration(client: &Client) -> Result<()> {
    for job in client.api::<Job>().list().namespace("default").items().await? {
        let time = "2026-01-01T00:00:00Z";
        let condition =
            |type_| json!({"type": type_, "status": "True", "lastTransitionTime": time});
        let done = json!({"status": {
            "startTime": time, "completionTime": time, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        }});
        let jobs = client.api::<Job>().subresource("status");
        jobs.patch(&Key::of(&*job), &Patch::Merge(done)).await?;
    }
    Ok(())
}

/// Rolls the till out: nothing in this world runs a Deployment either.
async fn roll_out(client: &Client) -> Result<()> {
    let Some(found) = client.api::<Deployment>().get(&till()).await? else { return Ok(()) };
    let progressed = json!({"type": "Progressing", "status": "True",
        "reason": "NewReplicaSetAvailable"});
    let done = json!({"status": {
        "observedGeneration": found.metadata.generation,
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}, progressed],
    }});
    let deployments = client.api::<Deployment>().subresource("status");
    deployments.patch(&till(), &Patch::Merge(done)).await.map(drop)
}

/// A world in which the operator manages one shop.
struct World {
    client: Client,
    doors: Doors,
    shop: Key,
    /// What could be seen so far.
    seen: Vec<String>,
}

impl World {
    async fn look(&mut self) -> Result<()> {
        let mut seen = look(&self.client).await?;
        if self.doors.lock().get(&self.shop) == Some(&true) {
            seen.push_str(" open");
        }
        self.seen.push(seen);
        Ok(())
    }

    /// Changes the shop, and looks at it.
    async fn change(&mut self, change: serde_json::Value) -> Result<()> {
        self.client.api::<Shop>().patch(&self.shop, &Patch::Merge(change)).await?;
        self.look().await
    }

    /// Sets an annotation of the shop, or removes it.
    async fn annotate(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        self.change(json!({"metadata": {"annotations": {name: value}}})).await
    }

    /// A price list appears, and a pod of the team.
    async fn open(&mut self) -> Result<()> {
        let mut prices = ConfigMap::default();
        prices.metadata.name = Some("prices".into());
        prices.metadata.namespace = Some("default".into());
        prices.data = Some([("tea".into(), "3".into())].into());
        self.client.api().create(&prices).await?;
        self.look().await?;

        self.change(json!({"spec": {"team": "blue"}})).await?;
        let clerk: Pod = serde_json::from_value(json!({
            "metadata": {"name": "clerk", "namespace": "default", "labels": {"team": "blue"}},
            "spec": {"containers": [{"name": "clerk", "image": "example.com/clerk"}]},
        }))?;
        self.client.api().create(&clerk).await?;
        self.look().await
    }

    /// A release is rolled out, and its migration does not run again.
    async fn release(&mut self) -> Result<()> {
        self.change(json!({"spec": {"release": "v1"}})).await?;
        complete_migration(&self.client).await?;
        self.look().await?;
        roll_out(&self.client).await?;
        for job in self.client.api::<Job>().list().namespace("default").items().await? {
            let how = Deletion::only(&*job).propagation(PropagationPolicy::Background);
            self.client.api::<Job>().delete(how).await?;
        }
        self.look().await?;
        // Other prices, so other pods.
        let prices = Key::namespaced("default", "prices");
        let raise = Patch::Merge(json!({"data": {"tea": "4"}}));
        self.client.api::<ConfigMap>().patch(&prices, &raise).await?;
        self.look().await?;
        roll_out(&self.client).await?;
        self.look().await
    }
}

/// Takes a shop through its life; returns what could be seen of it.
pub async fn run() -> Result<Vec<String>> {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&Shop::crd()).await?;
    let mut shops = Namespace::default();
    shops.metadata.name = Some("shops".into());
    client.api().create(&shops).await?;
    let settings = std::env::temp_dir().join(format!("windlass-shop-{}.yaml", std::process::id()));
    std::fs::write(&settings, "workers: 2\n")?;
    let doors = Doors::default();
    let running = manager(server.client(), doors.clone(), &settings).spawn()?;
    for namespace in ["default", "shops"] {
        let allow = Patch::Merge(json!({"metadata": {"labels": {"shops": "allowed"}}}));
        client.api::<Namespace>().patch(&Key::cluster(namespace), &allow).await?;
    }

    let (prices, checked) = ("prices".to_string(), Some("0 6 * * *".to_string()));
    let spec = ShopSpec { prices, open: true, checked, team: None, release: None };
    let mut shop = Shop::new("books", spec);
    shop.metadata.namespace = Some("default".into());
    client.api().create(&shop).await?;
    let mut world = World { client, doors, shop: Key::of(&shop), seen: Vec::new() };
    world.look().await?;
    world.open().await?;
    world.release().await?;

    // The shop closes, but nothing happens before it is resumed.
    world.annotate("windlass.dev/paused", Some("true")).await?;
    world.change(json!({"spec": {"open": false}})).await?;
    world.annotate("windlass.dev/paused", None).await?;

    // Somebody asks for a reconcile, and for more workers.
    world.annotate("windlass.dev/reconcile", Some("please")).await?;
    let asked = world.client.api::<Shop>().get(&world.shop).await?;
    let asked = asked.and_then(|shop| shop.status.clone()?.last_handled_reconcile_at);
    world.seen.push(format!("handled: {}", asked.unwrap_or_default()));
    std::fs::write(&settings, "controllers: {shops: {workers: 4}}\n")?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let workers = running.diagnostics()["controllers"][0]["workers"].clone();
    world.seen.push(format!("workers: {workers}"));

    world.client.api::<Shop>().delete(&world.shop).await?;
    world.look().await?;
    running.stop().await?;
    std::fs::remove_file(&settings)?;
    Ok(world.seen)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
