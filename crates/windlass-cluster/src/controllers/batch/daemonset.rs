//! DaemonSets: one pod on every node that fits.
//!
//! One reconcile sorts the pods by the node they are meant for, makes and deletes pods where one is
//! missing or too many, continues a rolling update and writes the status.

mod nodes;
mod place;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use windlass::cache::{Change, Index, Key};
use windlass::controller::Predicate;
use windlass::{Context, Controller, Error, Kind, Manager, Next, Reconciler, Result};

use super::history;
use crate::controllers::Shared;
use crate::controllers::orphans;
use crate::controllers::{amount, pod};

/// The label of pods and revisions with the hash of the template.
const HASH_LABEL: &str = "controller-revision-hash";
/// The label of pods with the generation of the template.
const GENERATION_LABEL: &str = "pod-template-generation";
/// Where the API server keeps the generation of the template.
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// Keys waiting because of a change of a node.
const KEYS_MAX: usize = 1024;
/// The most pods created or deleted in one reconcile.
const STEP_MAX: usize = 250;

/// Adds the controller, and the one that watches nodes for it.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    let (sender, mut keys) = mpsc::channel(KEYS_MAX);
    let sets = DaemonSets { shared: shared.clone() };
    let selectors = Index::selectors("selector", |set: &DaemonSet| {
        set.spec.as_ref().map(|spec| spec.selector.clone())
    });
    let controller = Controller::<DaemonSet>::builder("daemonset-controller")
        .owns::<Pod>()
        .watch(orphans::watch(Kind::of::<Pod>(), &selectors))
        .owns::<ControllerRevision>()
        .reads::<Node>()
        .source(futures::stream::poll_fn(move |cx| keys.poll_recv(cx)))
        .build_with(sets);
    builder.add(controller).add(node_controller(sender))
}

/// Queues every set when a node appears, disappears or changes in a way that matters for placement.
fn node_controller(sender: mpsc::Sender<Key>) -> Controller<Node> {
    Controller::<Node>::builder("daemonset-node-controller")
        .when(Predicate::new(placement_changed))
        .reads::<DaemonSet>()
        .build(move |cx: Context<Node>| {
            let sender = sender.clone();
            async move {
                for key in cx.client().cached().list::<DaemonSet>().keys()? {
                    // The receiver is dropped when the manager stops.
                    let _ = sender.send(key).await;
                }
                Ok(Next::Done)
            }
        })
}

fn placement_changed(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let spec = |entry: &windlass::cache::Entry| entry.decode::<Node>().ok().map(|n| n.spec);
    !old.labels().eq(new.labels()) || spec(old) != spec(new)
}

struct DaemonSets {
    shared: Shared,
}

/// Failed pods of a set by node: how often, and when the last was deleted.
type Failures = BTreeMap<String, (u32, Timestamp)>;

/// Everything one reconcile knows about a set.
struct Sync<'a> {
    cx: &'a Context<DaemonSet>,
    set: &'a DaemonSet,
    spec: &'a DaemonSetSpec,
    now: Timestamp,
    nodes: Vec<Arc<Node>>,
    hash: String,
    again: Option<Duration>,
}

/// Pods by the node they are meant for.
type ByNode = BTreeMap<String, Vec<Arc<Pod>>>;

// === impl DaemonSets ===

impl Reconciler<DaemonSet> for DaemonSets {
    type Error = Error;

    async fn reconcile(&self, cx: Context<DaemonSet>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(set) = cx.object() else { return Ok(Next::Done) };
        let Some(spec) = &set.spec else { return Ok(Next::Done) };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        let everything = spec.selector == Default::default();
        if everything {
            let text = "This daemon set is selecting all pods. A non-empty selector is required.";
            cx.warn("SelectingAll", text);
            return Ok(Next::Done);
        }
        let mut nodes = cx.list::<Node>().items()?;
        nodes.sort_by_key(|n| n.metadata.name.clone());
        let (revisions, current) = revision(cx, &set, spec).await?;
        let labels = current.metadata.labels.as_ref();
        let hash = labels.and_then(|l| l.get(HASH_LABEL)).cloned().unwrap_or_default();
        let now = self.shared.server.clock().now();
        let mut sync = Sync { cx, set: &set, spec, now, nodes, hash, again: None };
        let worked = self.work(&mut sync).await;
        let pods = sync.pods().await?;
        sync.write_status(&pods).await?;
        worked?;
        truncate(cx, spec, &revisions, &current, &pods).await?;
        Ok(sync.again.map_or(Next::Done, Next::After))
    }
}

impl DaemonSets {
    async fn work(&self, sync: &mut Sync<'_>) -> Result<()> {
        let pods = sync.pods().await?;
        self.manage(sync, &sync.by_node(&pods)).await?;
        if sync.strategy() == "RollingUpdate" {
            let pods = sync.pods().await?;
            let by_node = sync.by_node(&pods);
            sync.update(by_node).await?;
        }
        Ok(())
    }

    /// Creates and deletes pods so that every node has the pods it should have.
    async fn manage(&self, sync: &mut Sync<'_>, by_node: &ByNode) -> Result<()> {
        let mut missing = Vec::new();
        let mut surplus = Vec::new();
        for node in sync.nodes.clone() {
            let name = node.metadata.name.clone().unwrap_or_default();
            let fit = nodes::fit(sync.spec, &node);
            let here = by_node.get(&name).map(Vec::as_slice);
            match here {
                None if fit.should_run => missing.push(name),
                None => {}
                Some(here) if fit.may_stay => {
                    let running = self.without_ended(sync, &name, here, &mut surplus);
                    if running.is_empty() && fit.should_run && sync.surges() {
                        // The next pod does not wait until the last one is gone.
                        missing.push(name);
                    }
                    surplus.extend(sync.too_many(running));
                }
                Some(here) => {
                    surplus.extend(here.iter().filter(|p| !pod::is_terminating(p)).cloned());
                }
            }
        }
        let known: BTreeSet<&str> =
            sync.nodes.iter().filter_map(|n| n.metadata.name.as_deref()).collect();
        for (_, lost) in by_node.iter().filter(|(node, _)| !known.contains(node.as_str())) {
            let waiting = |p: &&Arc<Pod>| p.spec.as_ref().is_none_or(|s| s.node_name.is_none());
            let waiting = lost.iter().filter(waiting).filter(|p| !pod::is_terminating(p));
            surplus.extend(waiting.cloned());
        }
        sync.apply(&surplus, &missing).await
    }

    /// The pods of a node that still run, apart from those that have ended and are to be deleted.
    fn without_ended(
        &self,
        sync: &mut Sync<'_>,
        node: &str,
        here: &[Arc<Pod>],
        surplus: &mut Vec<Arc<Pod>>,
    ) -> Vec<Arc<Pod>> {
        let mut running = Vec::new();
        for found in here.iter().filter(|p| !pod::is_terminating(p)) {
            let pod_key = Key::of(&**found);
            match pod::phase(found) {
                "Failed" => {
                    if let Err(wait) = self.may_retry(sync, node) {
                        sync.again_after(wait);
                        continue;
                    }
                    sync.cx.warn(
                        "FailedDaemonPod",
                        format!(
                            "Found failed daemon pod {pod_key} on node {node}, will try to kill it"
                        ),
                    );
                    surplus.push(found.clone());
                }
                "Succeeded" => {
                    sync.cx.event(
                        "SucceededDaemonPod",
                        format!(
                            "Found succeeded daemon pod {pod_key} on node {node}, will try to \
                             delete it"
                        ),
                    );
                    surplus.push(found.clone());
                }
                _ => running.push(found.clone()),
            }
        }
        running
    }

    /// Whether a failed pod may be deleted now, or how long to wait.
    fn may_retry(&self, sync: &Sync<'_>, node: &str) -> Result<(), Duration> {
        const FIRST: Duration = Duration::from_secs(1);
        const LONGEST: Duration = Duration::from_secs(900);
        let failures = sync.cx.memory::<Mutex<Failures>>();
        let mut failures = failures.lock();
        let (count, last) = failures.get(node).copied().unwrap_or((0, Timestamp::MIN));
        let wait = FIRST.saturating_mul(1 << count.saturating_sub(1).min(20)).min(LONGEST);
        let passed = Duration::try_from(sync.now.duration_since(last)).unwrap_or_default();
        if count > 0 && passed < wait {
            return Err(wait - passed);
        }
        // Quiet for twice the longest wait: the past is forgotten.
        let count = if passed > LONGEST * 2 { 0 } else { count };
        failures.insert(node.to_string(), (count.saturating_add(1), sync.now));
        Ok(())
    }
}

// === impl Sync ===

impl Sync<'_> {
    async fn pods(&self) -> Result<Vec<Arc<Pod>>> {
        self.cx.claim(self.spec.selector.clone(), None, |_: &Pod| true).await
    }

    fn strategy(&self) -> &str {
        let strategy = self.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
        strategy.unwrap_or("RollingUpdate")
    }

    /// Sorts pods by the node they are meant for, oldest first.
    fn by_node(&self, pods: &[Arc<Pod>]) -> ByNode {
        let mut by_node = ByNode::new();
        for found in pods {
            let over = pod::is_finished(found) && pod::is_terminating(found);
            if let Some(node) = place::target(found).filter(|_| !over) {
                by_node.entry(node.to_string()).or_default().push(found.clone());
            }
        }
        for pods in by_node.values_mut() {
            pods.sort_by_cached_key(|p| {
                let waits = p.spec.as_ref().is_none_or(|s| s.node_name.is_none());
                let born = p.metadata.creation_timestamp.as_ref().map(|t| t.0);
                (waits, born, p.metadata.name.clone())
            });
        }
        by_node
    }

    /// Deletes and creates pods, as many as fit into one reconcile.
    async fn apply(&mut self, surplus: &[Arc<Pod>], missing: &[String]) -> Result<()> {
        let mut outcome = Ok(());
        if surplus.len() > STEP_MAX || missing.len() > STEP_MAX {
            self.again_after(Duration::ZERO);
        }
        for node in missing.iter().take(STEP_MAX) {
            let wanted = place::new_pod(self.set, self.spec, &self.hash, node)?;
            if let Err(error) = pod::create(self.cx, &wanted).await {
                outcome = Err(error);
                break;
            }
        }
        for target in surplus.iter().take(STEP_MAX) {
            if let Err(error) = pod::delete(self.cx, target).await {
                outcome = Err(error);
            }
        }
        outcome
    }

    fn is_updated(&self, found: &Pod) -> bool {
        let labels = found.metadata.labels.as_ref();
        let label = |name: &str| labels.and_then(|l| l.get(name)).map(String::as_str);
        let annotations = self.set.metadata.annotations.as_ref();
        let generation = annotations.and_then(|a| a.get(GENERATION)).map(String::as_str);
        let same_generation = generation.is_some() && label(GENERATION_LABEL) == generation;
        same_generation || (!self.hash.is_empty() && label(HASH_LABEL) == Some(&self.hash))
    }

    fn is_available(&self, found: &Pod) -> bool {
        pod::is_available(found, self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    async fn write_status(&mut self, pods: &[Arc<Pod>]) -> Result<()> {
        let by_node = self.by_node(pods);
        let mut status = DaemonSetStatus::default();
        let (mut available, mut updated) = (0, 0);
        for node in &self.nodes {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let here = by_node.get(name).and_then(|pods| pods.first());
            if !nodes::fit(self.spec, node).should_run {
                status.number_misscheduled += i32::from(here.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(here) = here else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pod::is_ready(here));
            available += usize::from(self.is_available(here));
            updated += usize::from(self.is_updated(here));
        }
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        let soon = pods.iter().filter_map(|p| pod::available_after(p, min_ready, self.now)).min();
        if let Some(soon) = soon {
            self.again_after(soon);
        }
        let lacking = status.desired_number_scheduled - amount::number(available);
        status.number_available = amount::counted(available);
        status.updated_number_scheduled = amount::counted(updated);
        status.number_unavailable = Some(lacking).filter(|n| *n != 0);
        status.observed_generation = self.set.metadata.generation;
        let write = |stored: &mut DaemonSetStatus| {
            status.collision_count = stored.collision_count;
            status.conditions = stored.conditions.take();
            *stored = status.clone();
        };
        self.cx.status_as::<DaemonSetStatus>(write).await.map(drop)
    }

    fn again_after(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |earlier| earlier.min(wait)));
    }
}

/// All revisions of a set, and the one of its template.
async fn revision(
    cx: &Context<DaemonSet>,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
) -> Result<(Vec<Arc<ControllerRevision>>, Arc<ControllerRevision>)> {
    let mut all = history::list(cx, &spec.selector).await?;
    let data = history::data(cx)?;
    let old = all.iter().filter(|r| !history::stores(r, &data)).map(|r| r.revision).max();
    let number = old.unwrap_or(0).saturating_add(1);
    let there = all.iter().rfind(|r| history::stores(r, &data)).cloned();
    let current = match there {
        Some(there) if there.revision >= number => there,
        Some(there) => history::renumber(cx, &there, number).await?,
        None => {
            let stored = set.status.as_ref().and_then(|s| s.collision_count);
            let mut collisions = stored.unwrap_or(0);
            let meta = spec.template.metadata.clone().unwrap_or_default();
            let draft = history::Draft {
                label: HASH_LABEL,
                labels: meta.labels.unwrap_or_default(),
                data: &data,
                number,
            };
            let made = history::create(cx, set, draft, &mut collisions).await?;
            if collisions != stored.unwrap_or(0) {
                let count = Some(collisions);
                cx.status_as::<DaemonSetStatus>(|s| s.collision_count = count).await?;
            }
            Arc::new(made)
        }
    };
    all.retain(|r| history::name(r) != history::name(&current));
    all.push(current.clone());
    history::sort(&mut all);
    Ok((all, current))
}

async fn truncate(
    cx: &Context<DaemonSet>,
    spec: &DaemonSetSpec,
    revisions: &[Arc<ControllerRevision>],
    current: &ControllerRevision,
    pods: &[Arc<Pod>],
) -> Result<()> {
    let hash =
        |labels: Option<&BTreeMap<String, String>>| labels.and_then(|l| l.get(HASH_LABEL)).cloned();
    let of_pods: BTreeSet<_> =
        pods.iter().filter_map(|p| hash(p.metadata.labels.as_ref())).collect();
    let in_use = |r: &&Arc<ControllerRevision>| {
        hash(r.metadata.labels.as_ref()).is_some_and(|hash| of_pods.contains(&hash))
    };
    let used = revisions.iter().filter(in_use).map(|r| history::name(r).to_string());
    let used = used.chain([history::name(current).to_string()]).collect();
    history::truncate(cx, revisions, &used, spec.revision_history_limit.unwrap_or(10)).await
}
