//! Conditions of nodes as taints, labels and annotations that nodes get, and pods on bad nodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::controller::{Context, Watch};
use windlass::events::EventType;
use windlass::{Controller, Error, Index, Kind, Manager, Next, Reconciler, Result, ResultExt};

use super::pods;
use crate::controllers::Shared;
use crate::controllers::pod;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that are bad when true.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
];
/// Old names of labels that are kept equal to the new ones.
const OLD_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];
const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// Adds the controller of taints.
pub fn add(builder: Manager, shared: &Shared) -> Manager {
    builder.add(
        Controller::<Node>::builder("node-lifecycle-controller")
            .reports_as("node-controller")
            .watch(Watch::changes(Kind::of::<Pod>(), |change, _| {
                // A pod that is scheduled to a node that is already down.
                let new = change.old.is_none();
                pods::node_of(change).filter(|_| new).into_iter().collect::<Vec<_>>()
            }))
            .index(&pods::by_node())
            .build_with(Life { shared: shared.clone(), by_node: pods::by_node() }),
    )
}

/// Adds the controller of the annotation with the time for which kubelets cache objects.
pub fn add_ttl(builder: Manager, _: &Shared) -> Manager {
    builder.add(Controller::<Node>::builder("ttl-controller").build(ttl))
}

struct Life {
    shared: Shared,
    by_node: Index<Pod, String>,
}

impl Reconciler<Node> for Life {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Node>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(node) = cx.object() else { return Ok(Next::Done) };
        self.pods_not_ready(cx, &node).await?;
        self.taint(cx, &node).await?;
        Ok(Next::Done)
    }
}

// === impl Life ===

impl Life {
    async fn taint(&self, cx: &Context<Node>, node: &Node) -> Result<()> {
        let spec = node.spec.clone().unwrap_or_default();
        let old = spec.taints.clone().unwrap_or_default();
        let wanted = wanted(node);
        let mut taints: Vec<Taint> = old
            .iter()
            .filter(|t| !is_ours(t) || wanted.contains(&(&*t.key, &*t.effect)))
            .cloned()
            .collect();
        for (key, effect) in wanted {
            if !taints.iter().any(|t| t.key == key && t.effect == effect) {
                taints.push(Taint {
                    key: key.into(),
                    effect: effect.into(),
                    time_added: Some(super::time(&self.shared)),
                    value: None,
                });
            }
        }
        let mut labels = json!({});
        for (new, previous) in OLD_LABELS {
            let label = |name| node.metadata.labels.as_ref().and_then(|l| l.get(name));
            if let Some(value) = label(new).filter(|value| Some(*value) != label(previous)) {
                labels[previous] = json!(value);
            }
        }
        let relabel = labels.as_object().is_some_and(|l| !l.is_empty());
        if taints == old && !relabel {
            return Ok(());
        }
        let mut patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version}});
        if taints != old {
            let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
            patch["spec"] = json!({"taints": taints});
        }
        if relabel {
            patch["metadata"]["labels"] = labels;
        }
        cx.client().api::<Node>().patch(cx.key(), &Patch::Merge(patch)).await.ignore_not_found()?;
        Ok(())
    }

    /// Marks the ready pods of a node that is down as not ready, because its kubelet cannot.
    async fn pods_not_ready(&self, cx: &Context<Node>, node: &Node) -> Result<()> {
        if matches!(ready(node), None | Some("True")) {
            return Ok(());
        }
        let found = cx.client().cached().list::<Pod>().by(&self.by_node, cx.name()).items()?;
        let found: Vec<Arc<Pod>> = found.into_iter().filter(|pod| pod::is_ready(pod)).collect();
        for pod in found {
            // A strategic patch of two fields: the reason and the message stay the kubelet's.
            let condition = json!({
                "type": "Ready", "status": "False",
                "lastTransitionTime": self.shared.server.clock().stamp(),
            });
            pods::patch_status(cx.client(), &pod, &json!({"conditions": [condition]})).await?;
            let text = "Node is not ready".to_string();
            super::publish(cx.recorder(), EventType::Warning, &*pod, "NodeNotReady", text);
        }
        Ok(())
    }
}

fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|c| c.type_ == type_).map(|c| c.status.as_str())
}

fn ready(node: &Node) -> Option<&str> {
    condition(node, "Ready")
}

/// The taints the conditions of a node call for.
fn wanted(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match ready(node) {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        _ => {}
    }
    for (type_, key) in PRESSURES {
        if condition(node, type_) == Some("True") {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}

/// Returns `true` if a taint is one that conditions set and take away.
fn is_ours(taint: &Taint) -> bool {
    let key = taint.key.as_str();
    match taint.effect.as_str() {
        "NoSchedule" => {
            matches!(key, NOT_READY | UNREACHABLE | UNSCHEDULABLE)
                || PRESSURES.iter().any(|(_, known)| *known == key)
        }
        "NoExecute" => matches!(key, NOT_READY | UNREACHABLE),
        _ => false,
    }
}

/// The seconds grow with the number of nodes.
async fn ttl(cx: Context<Node>) -> Result<Next> {
    let Some(node) = cx.object() else { return Ok(Next::Done) };
    let seconds = match cx.list::<Node>().keys()?.len() {
        0..=100 => "0",
        101..=500 => "15",
        501..=1000 => "30",
        1001..=2000 => "60",
        _ => "300",
    };
    let old = node.metadata.annotations.as_ref().and_then(|a| a.get(TTL));
    if old.map(String::as_str) == Some(seconds) {
        return Ok(Next::Done);
    }
    let patch = json!({"metadata": {"annotations": {(TTL): seconds}}});
    cx.client().api::<Node>().patch(cx.key(), &Patch::Merge(patch)).await.ignore_not_found()?;
    Ok(Next::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_call_for_taints() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {}, "spec": {"unschedulable": true},
            "status": {"conditions": [
                {"type": "Ready", "status": "Unknown"},
                {"type": "DiskPressure", "status": "True"},
                {"type": "PIDPressure", "status": "False"},
            ]},
        }))
        .expect("a node");
        let keys: Vec<String> = wanted(&node).iter().map(|(k, e)| format!("{k}:{e}")).collect();
        assert_eq!(
            keys,
            [
                "node.kubernetes.io/unreachable:NoSchedule",
                "node.kubernetes.io/unreachable:NoExecute",
                "node.kubernetes.io/disk-pressure:NoSchedule",
                "node.kubernetes.io/unschedulable:NoSchedule",
            ]
        );
    }
}
