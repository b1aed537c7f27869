//! Preemption: pods of lower priority leave a node for a pod that fits nowhere else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use windlass::client::Deletion;
use windlass::condition::ConditionBuilder;
use windlass::controller::Context;
use windlass::events::EventType;
use windlass::{Key, Kind, Result, ResultExt};

use super::placements::Placements;
use super::scheduler::NAME;

const CONDITION: &str = "DisruptionTarget";

/// Deletes the victims of a pod, and returns the node that is reserved for it.
///
/// # Errors
///
/// Fails if the server refuses to delete a pod.
pub async fn preempt(
    cx: &Context<Pod>,
    pod: &Pod,
    nodes: &[Arc<Node>],
    placements: &Mutex<Placements>,
) -> Result<Option<String>> {
    let policy = pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref());
    if policy == Some("Never") {
        return Ok(None);
    }
    let nodes: Vec<&Node> = nodes.iter().map(|node| &**node).collect();
    let found = placements.lock().victims(cx.key(), pod, &nodes);
    let Some((node, victims)) = found else { return Ok(None) };
    placements.lock().nominate(cx.key(), pod, &node, &victims);
    for key in &victims {
        evict(cx, pod, &node, key).await?;
    }
    Ok(Some(node))
}

async fn evict(cx: &Context<Pod>, pod: &Pod, node: &str, key: &Key) -> Result<()> {
    let Some(victim) = cx.client().cached().get::<Pod>(key)? else { return Ok(()) };
    if victim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let mut marked = (*victim).clone();
    let conditions = marked.status.get_or_insert_default().conditions.get_or_insert_default();
    ConditionBuilder::new(CONDITION, true, cx.clock())
        .reason("PreemptionByScheduler")
        .message(format!("{NAME}: preempting to accommodate a higher priority pod"))
        .set(conditions);
    match cx.client().api().subresource("status").update(&marked).await.ignore_not_found() {
        // Somebody else wrote the pod: it is deleted without the condition.
        Err(error) if error.is_conflict() => {}
        other => drop(other?),
    }
    let mut regarding = key.object_reference(&Kind::of::<Pod>());
    regarding.uid.clone_from(&victim.metadata.uid);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let text = format!("Preempted by pod {uid} on node {node}");
    cx.recorder().publish(EventType::Normal, regarding, "Preempted", "Preempting", text);
    match cx.client().api::<Pod>().delete(Deletion::only(&*victim)).await {
        // Another pod of that name by now.
        Err(error) if error.is_conflict() => Ok(()),
        other => other.map(drop),
    }
}
