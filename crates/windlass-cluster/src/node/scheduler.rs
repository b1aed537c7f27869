//! The scheduler: one pod after the other onto the node with the fewest pods that fits.
//!
//! The usage of nodes is counted as pods are reconciled, so no decision looks at all pods, unless a
//! pod fits nowhere: then pods of lower priority make room for it. Spreading and affinity between
//! pods are not simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::cache::Change;
use windlass::condition::ConditionBuilder;
use windlass::controller::{Context, Controller, Next, Watch};
use windlass::{Key, Kind, Manager, Result, ResultExt};

use super::amount::Amounts;
use super::placements::{Placements, priority};
use super::{fit, preemption};
use crate::controllers::pod;

pub(super) const NAME: &str = "default-scheduler";

/// Adds the scheduler.
pub fn add(builder: Manager) -> Manager {
    let placements = Arc::new(Mutex::new(Placements::default()));
    let (by_node, by_pod) = (placements.clone(), placements.clone());
    let controller = Controller::<Pod>::builder(NAME)
        .watch(Watch::changes(Kind::of::<Node>(), move |_, _| by_node.lock().waiting()))
        .watch(Watch::changes(Kind::of::<Pod>(), move |change, _| {
            let waiting = by_pod.lock().waiting();
            if waiting.is_empty() || !frees(change) { Vec::new() } else { waiting }
        }))
        .build(move |cx: Context<Pod>| {
            let placements = placements.clone();
            async move { reconcile(&cx, &placements).await }
        });
    builder.add(controller)
}

const CONDITION: &str = "PodScheduled";

/// A pod that ends or is deleted makes room.
fn frees(change: &Change) -> bool {
    change.new.is_none() || change.object::<Pod>().is_some_and(|pod| pod::is_finished(&pod))
}

fn gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|g| !g.is_empty())
}

/// The pod waits for this scheduler.
fn ours(pod: &Pod) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
    pod::node(pod).is_none()
        && pod::is_active(pod)
        && !gated(pod)
        && scheduler.is_none_or(|name| name == NAME)
}

async fn reconcile(cx: &Context<Pod>, placements: &Mutex<Placements>) -> Result<Next> {
    first_read(cx, placements)?;
    let Some(pod) = cx.object() else {
        placements.lock().remove(cx.key());
        return Ok(Next::Done);
    };
    if pod::node(&pod).is_some() {
        let mut placements = placements.lock();
        if pod::is_finished(&pod) {
            placements.remove(cx.key());
        } else {
            placements.put(cx.key(), &pod);
        }
        return Ok(Next::Done);
    }
    if !ours(&pod) {
        return Ok(Next::Done);
    }
    if placements.lock().has(cx.key(), &pod) {
        // The pod was given a node already; the watch has not delivered it yet.
        return Ok(Next::Done);
    }
    let nodes = cx.list::<Node>().items()?;
    let choice = choose(cx.key(), &pod, &nodes, &placements.lock());
    let refusal = match choice {
        Ok(node) => return bind(cx, &pod, &node, placements).await,
        Err(refusal) => refusal,
    };
    placements.lock().refuse(cx.key());
    if placements.lock().is_awaiting_victims(cx.key()) {
        return Ok(Next::Done);
    }
    let nominated = preemption::preempt(cx, &pod, &nodes, placements).await?;
    refuse(cx, &pod, refusal.message(nominated.is_some()), nominated).await
}

/// Counts what is placed already before the first decision.
fn first_read(cx: &Context<Pod>, placements: &Mutex<Placements>) -> Result<()> {
    if placements.lock().counted {
        return Ok(());
    }
    let all = cx.client().cached().list::<Pod>().items()?;
    let mut placements = placements.lock();
    for pod in all.iter().filter(|pod| pod::node(pod).is_some() && !pod::is_finished(pod)) {
        placements.put(&Key::of(&**pod), pod);
    }
    placements.counted = true;
    Ok(())
}

/// Why a pod fits on no node.
struct Refusal {
    nodes: usize,
    /// How many nodes there are for each reason.
    reasons: BTreeMap<String, usize>,
}

/// Chooses the node with the fewest pods among those that fit.
fn choose(
    key: &Key,
    pod: &Pod,
    nodes: &[Arc<Node>],
    placements: &Placements,
) -> Result<String, Refusal> {
    let (request, priority) = (Amounts::of_pod(pod), priority(pod));
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(i128, String)> = None;
    for node in nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        let used = placements.used(&name, key, priority);
        let against = fit::against(pod, node, &used, &request);
        if against.is_empty() {
            let candidate = (used.0.get("pods").copied().unwrap_or(0), name);
            best = Some(best.map_or(candidate.clone(), |best| best.min(candidate)));
        }
        for reason in against {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    best.map(|(_, name)| name).ok_or(Refusal { nodes: nodes.len(), reasons })
}

// === impl Refusal ===

impl Refusal {
    /// The text of the condition and the event; the second half is about preemption.
    fn message(&self, preempted: bool) -> String {
        let Self { nodes, reasons } = self;
        if *nodes == 0 {
            return "no nodes available to schedule pods".into();
        }
        let mut texts: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        let head = format!("0/{nodes} nodes are available: {}.", texts.join(", "));
        if preempted {
            return head;
        }
        let hopeless: usize =
            reasons.iter().filter(|(reason, _)| !fit::is_about_room(reason)).map(|(_, n)| n).sum();
        let mut preemption = Vec::new();
        if *nodes > hopeless {
            let count = nodes - hopeless;
            preemption.push(format!("{count} No preemption victims found for incoming pod"));
        }
        if hopeless > 0 {
            preemption.push(format!("{hopeless} Preemption is not helpful for scheduling"));
        }
        format!(
            "{head} no new claims to deallocate, preemption: 0/{nodes} nodes are available: {}.",
            preemption.join(", ")
        )
    }
}

async fn bind(
    cx: &Context<Pod>,
    pod: &Pod,
    node: &str,
    placements: &Mutex<Placements>,
) -> Result<Next> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": cx.name(), "namespace": cx.namespace(), "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    match post_binding(cx, &body).await {
        // The pod is gone, is being deleted or has a node: the watch delivers it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(Next::Done),
        bound => drop(bound?),
    }
    let mut bound = pod.clone();
    if let Some(spec) = bound.spec.as_mut() {
        spec.node_name = Some(node.to_string());
    }
    placements.lock().put(cx.key(), &bound);
    let namespace = cx.namespace().unwrap_or_default();
    let name = cx.name();
    cx.event("Scheduled", format!("Successfully assigned {namespace}/{name} to {node}"));
    Ok(Next::Done)
}

/// Sends a binding only: the placements already count the pod, so the cache need not
/// have the bound pod before the watch delivers it.
async fn post_binding(cx: &Context<Pod>, body: &Value) -> kube::Result<Value> {
    let (namespace, name) = (cx.namespace().unwrap_or_default(), cx.name());
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding?fieldManager={NAME}");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    cx.client().kube().request(request).await
}

/// Writes down why a pod has no node, and which node is kept for it.
async fn refuse(
    cx: &Context<Pod>,
    pod: &Pod,
    message: String,
    nominated: Option<String>,
) -> Result<Next> {
    let known = pod::condition(pod, CONDITION);
    if known.is_some_and(|c| c.message.as_deref() == Some(message.as_str())) {
        return Ok(Next::Done);
    }
    let condition = ConditionBuilder::new(CONDITION, false, cx.clock())
        .reason("Unschedulable")
        .message(message.clone());
    let changed = cx.status_as(|status: &mut PodStatus| {
        condition.clone().set(status.conditions.get_or_insert_default());
        if nominated.is_some() {
            status.nominated_node_name.clone_from(&nominated);
        }
    });
    changed.await.ignore_not_found()?;
    cx.warn("FailedScheduling", message);
    Ok(Next::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_nodes_by_reason() {
        let reasons = BTreeMap::from([
            ("Insufficient cpu".to_string(), 2),
            ("node(s) were unschedulable".to_string(), 1),
        ]);
        let refusal = Refusal { nodes: 3, reasons };
        assert_eq!(
            refusal.message(true),
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
        );
        assert_eq!(
            refusal.message(false),
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. \
             no new claims to deallocate, preemption: 0/3 nodes are available: 2 No preemption victims found for incoming pod, \
             1 Preemption is not helpful for scheduling."
        );
        let none = Refusal { nodes: 0, reasons: BTreeMap::new() };
        assert_eq!(none.message(false), "no nodes available to schedule pods");
    }
}
