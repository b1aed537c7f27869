//! What several controllers ask about pods.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::cache::{Change, Entry};
use windlass::client::Patch;
use windlass::clock::Clock;
use windlass::condition::ConditionBuilder;
use windlass::{Client, Index, Key, Result, ResultExt};

use crate::controllers::pod;

/// The condition of a pod that is about to be deleted.
pub const TARGET: &str = "DisruptionTarget";

/// The part of a pod that says where it runs and how far it is, cheap to decode.
#[derive(Debug, Default, Deserialize)]
pub struct Brief {
    #[serde(default)]
    spec: BriefSpec,
    #[serde(default)]
    status: BriefStatus,
}

#[derive(Debug, Default, Deserialize)]
struct BriefSpec {
    #[serde(rename = "nodeName", default)]
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct BriefStatus {
    #[serde(default)]
    phase: Option<String>,
}

// === impl Brief ===

impl Brief {
    /// Reads it from what is cached; an object that is no pod reads as an empty one.
    pub fn of(entry: &Entry) -> Self {
        entry.decode().unwrap_or_default()
    }

    /// The key of the node the pod is bound to.
    pub fn node(&self) -> Option<Key> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty()).map(Key::cluster)
    }

    /// Returns `true` if the pod has ended for good.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

/// Pods by the node they are bound to.
pub fn by_node() -> Index<Pod, String> {
    Index::new("node", |pod: &Pod| pod::node(pod).map(str::to_string).into_iter().collect())
}

/// The key of the node a pod is, or was last, bound to.
pub fn node_of(change: &Change) -> Option<Key> {
    change.object::<Brief>()?.node()
}

/// Sets conditions and other fields of a pod's status; a pod that is deleted is not an error.
pub async fn patch_status(client: &Client, pod: &Pod, status: &Value) -> Result<()> {
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    let api = client.api::<Pod>();
    api.subresource("status")
        .patch(&Key::of(pod), &Patch::Strategic(patch))
        .await
        .ignore_not_found()?;
    Ok(())
}

/// The condition that says why a pod is deleted, or without a reason that it is not, for a strategic
/// patch of its status.
pub fn disruption(pod: &Pod, clock: &Clock, why: Option<(&str, &str)>) -> Value {
    let mut target = ConditionBuilder::new(TARGET, why.is_some(), clock);
    if let Some((reason, message)) = why {
        target = target.reason(reason).message(message);
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone());
    let mut conditions: Vec<PodCondition> = conditions.unwrap_or_default();
    target.set(&mut conditions);
    let set = conditions.iter_mut().find(|condition| condition.type_ == TARGET);
    let Some(set) = set else { return Value::Null };
    set.observed_generation = pod.metadata.generation;
    let mut patch = json!(set);
    if why.is_none() {
        (patch["reason"], patch["message"]) = (Value::Null, Value::Null); // removes them
    }
    patch
}
