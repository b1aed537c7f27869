//! What several controllers ask about pods.

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::cache::{Change, Entry};
use windlass::client::Patch;
use windlass::{Client, Index, Key, Result, ResultExt};

use crate::controllers::pod;

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

/// The condition with the reason why a pod is deleted, for a strategic patch.
///
/// Not by `ConditionBuilder`: the patch merges it with what the server has, and it is about the
/// generation of the pod, whatever kind is reconciled.
pub fn disruption(pod: &Pod, now: &str, reason: &str, message: &str) -> Value {
    let mut condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": now,
    });
    if let Some(generation) = pod.metadata.generation {
        condition["observedGeneration"] = json!(generation);
    }
    condition
}
