//! TaintNodesByCondition: a new node accepts no pods until it was seen ready.

use serde_json::{Value, json};

use super::Review;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Puts the taint of a node that is not ready onto a new node.
pub(super) fn taint_new(review: &mut Review<'_>) {
    if !review.writes("", "nodes") || !review.is_create() {
        return;
    }
    let Some(node) = &mut review.object else { return };
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut taints: Vec<Value> = taints.cloned().collect();
    if taints.iter().any(|t| t["key"] == NOT_READY && t["effect"] == "NoSchedule") {
        return;
    }
    taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    crate::custom::put(node, &["spec", "taints"], taints.into());
}
