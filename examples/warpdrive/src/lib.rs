//! The Warpdrive operator: pools of local volumes on selected nodes.
//!
//! [`WarpdrivePool`] is the custom resource, [`reconcile`] decides what should exist,
//! [`layout`] which volumes are where, and [`children`] describes the objects.

pub mod children;
pub mod layout;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::cache::{Cache, Change};
use windlass::{
    Context, Controller, Kind, Next, Operator, Predicate, Readiness, Result, Watch, api, k8s,
};

use crate::children::POOL;
use crate::layout::{Layout, Usage};

/// The finalizer of a pool, and the name of the annotation that lists its children.
const CHILDREN: &str = "tos.transwarp.io/children";

/// A pool of local volumes on selected nodes.
#[api(
    group = "tos.transwarp.io",
    version = "v1alpha1",
    kind = "WarpdrivePool",
    scope = Cluster,
    short = "wdp",
    status = WarpdrivePoolStatus,
    scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
    column("Nodes", ".status.replicas"),
    column("Volumes", ".status.volumes"),
    column("In use", ".status.volumesInUse"),
    column("Capacity", ".status.capacity"),
    column("Free", ".status.free"),
    column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
    column("Age", ".metadata.creationTimestamp"),
    cel("size(self.metadata.name) <= 40", message = "the name is part of other names: at most 40 characters")
)]
pub struct WarpdrivePoolSpec {
    /// The labels of the nodes that may take part.
    #[k8s(min_properties = 1, max_properties = 16)]
    pub node_selector: BTreeMap<String, String>,
    /// How many nodes take part.
    #[k8s(min = 0, max = 100, default = 1)]
    pub replicas: i32,
    /// How many volumes each node has. It can only grow.
    #[k8s(
        min = 1,
        max = 16,
        default = 1,
        cel("self >= oldSelf", message = "volumes can be added, not removed")
    )]
    pub volumes_per_node: i32,
    /// The size of each volume.
    #[k8s(immutable)]
    pub volume_size: Quantity,
    /// The namespace of the agents.
    #[k8s(default = "kube-system", immutable)]
    pub agent_namespace: String,
}

/// What the operator reports.
#[k8s(optional)]
#[derive(Default)]
pub struct WarpdrivePoolStatus {
    /// How many nodes take part.
    pub replicas: Option<i32>,
    /// The selector of the agents, for autoscalers.
    pub selector: Option<String>,
    /// The nodes that take part.
    #[k8s(list = set)]
    pub nodes: Vec<String>,
    /// How many volumes exist.
    pub volumes: Option<i32>,
    /// How many of them belong to a claim.
    pub volumes_in_use: Option<i32>,
    /// The size of all volumes together.
    pub capacity: Option<Quantity>,
    /// The size of the volumes that belong to no claim.
    pub free: Option<Quantity>,
    /// `Ready` is true while everything works; `NodesFound` while enough nodes are.
    #[k8s(list = map("type"))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that the conditions are about.
    pub observed_generation: Option<i64>,
}

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    Operator::new("warpdrive-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<WarpdrivePool>()
        .sample(&WarpdrivePool::new(
            "pool-sample",
            WarpdrivePoolSpec {
                node_selector: BTreeMap::from([("kubernetes.io/os".into(), "linux".into())]),
                replicas: 1,
                volumes_per_node: 2,
                volume_size: Quantity("10Gi".into()),
                agent_namespace: "kube-system".into(),
            },
        ))
        .controller(controller())
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<WarpdrivePool> {
    Controller::builder("warpdrive")
        .owns::<StorageClass>()
        .deletes::<StorageClass>()
        .owns::<PersistentVolume>()
        .deletes::<PersistentVolume>()
        .owns::<ConfigMap>()
        .deletes::<ConfigMap>()
        .owns::<DaemonSet>()
        .deletes::<DaemonSet>()
        .finalizes()
        .conditions()
        .watch(Watch::changes(Kind::of::<Node>(), all_pools).when(selection_changed()))
        .build(reconcile)
}

/// Lets changes of nodes pass that can change which ones are selected; heartbeats cannot.
fn selection_changed() -> Predicate {
    Predicate::new(|change| {
        let relevant = |entry: &windlass::cache::Entry| {
            let node = entry.decode::<Node>().ok()?;
            Some((layout::is_usable(&node), node.metadata.labels))
        };
        change.old.as_deref().map(relevant) != change.new.as_deref().map(relevant)
    })
}

/// Any pool may want a node, or lose it.
fn all_pools(_: &Change, cache: &Cache) -> Result<Vec<windlass::Key>> {
    cache.list::<WarpdrivePool>().keys()
}

/// Brings the cluster to what one pool asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; the manager retries.
pub async fn reconcile(cx: Context<WarpdrivePool>) -> Result<Next> {
    let Some(pool) = cx.object() else { return Ok(Next::Done) };
    let volumes = cx.list::<PersistentVolume>().labels([(POOL, cx.name())]).items()?;
    if pool.metadata.deletion_timestamp.is_some() {
        return delete(&cx, &Usage::of(&volumes)).await;
    }

    let nodes = cx.list::<Node>().labels(&pool.spec.node_selector).items()?;
    let layout = Layout::new(&pool.spec, &nodes, &volumes);
    let wanted = usize::try_from(pool.spec.replicas).unwrap_or_default();
    cx.report("NodesFound", &found(layout.nodes.len(), wanted));

    let mut all = cx.children(CHILDREN);
    all.add(&children::storage_class(cx.name())?)?;
    for volume in &layout.volumes {
        all.add(&children::volume(cx.name(), &pool.spec, volume)?)?;
    }
    all.add(&children::settings(cx.name(), &pool.spec, &layout)?)?;
    if !layout.nodes.is_empty() {
        all.then(); // an agent starts when its settings are there
        all.add(&children::agents(cx.name(), &pool.spec, &layout)?)?;
    }
    all.apply().await?;
    account(&cx, layout).await
}

/// Waits until no claim uses a volume, and then deletes everything.
async fn delete(cx: &Context<WarpdrivePool>, usage: &Usage) -> Result<Next> {
    if usage.in_use == 0 {
        cx.children(CHILDREN).apply().await?;
        return Ok(Next::Done);
    }
    let note = format!("{} of {} volumes belong to a claim", usage.in_use, usage.volumes);
    cx.warn("InUse", note);
    cx.status(|status| usage.write(status)).await?;
    Ok(Next::Done) // a volume that is released leads to another reconcile
}

fn found(nodes: usize, wanted: usize) -> Readiness {
    match nodes >= wanted {
        true => Readiness::Ready,
        false => Readiness::InProgress {
            reason: "TooFew".into(),
            message: format!("{nodes} of {wanted} nodes are there"),
        },
    }
}

/// Writes what the pool consists of, after the volumes were applied.
async fn account(cx: &Context<WarpdrivePool>, layout: Layout) -> Result<Next> {
    let volumes = cx.list::<PersistentVolume>().labels([(POOL, cx.name())]).items()?;
    let (usage, selector) = (Usage::of(&volumes), format!("{POOL}={}", cx.name()));
    cx.status(|status| {
        status.replicas = i32::try_from(layout.nodes.len()).ok();
        status.selector = Some(selector.clone());
        status.nodes = layout.nodes.iter().map(|node| node.name.clone()).collect();
        usage.write(status);
    })
    .await?;
    Ok(Next::Done)
}
