//! A pod for one node: pinned by affinity, with the tolerations of daemons.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use windlass::Result;

use super::{GENERATION, GENERATION_LABEL, HASH_LABEL};
use crate::controllers::pod;

const NAME_FIELD: &str = "metadata.name";
/// The taints that every daemon tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that daemons in the host network tolerate as well.
const TOLERATED_BY_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The tolerations a pod has as a daemon.
pub fn tolerations(of: &PodSpec) -> Vec<Toleration> {
    let mut all = of.tolerations.clone().unwrap_or_default();
    let host = (of.host_network == Some(true)).then_some(TOLERATED_BY_HOST);
    for (key, effect) in TOLERATED.into_iter().chain(host) {
        let wanted = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        let same = |t: &&mut Toleration| {
            let value = t.value.as_deref().unwrap_or_default();
            t.key == wanted.key
                && t.effect == wanted.effect
                && t.operator == wanted.operator
                && value.is_empty()
        };
        match all.iter_mut().find(same) {
            Some(there) => *there = wanted,
            None => all.push(wanted),
        }
    }
    all
}

/// The pod of a set for a node, as it is to be created.
pub fn new_pod(set: &DaemonSet, spec: &DaemonSetSpec, hash: &str, node: &str) -> Result<Pod> {
    let mut made = pod::from_template(&spec.template, set)?;
    let labels = made.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.into(), hash.into());
    let annotations = set.metadata.annotations.as_ref();
    if let Some(generation) = annotations.and_then(|a| a.get(GENERATION)) {
        labels.insert(GENERATION_LABEL.into(), generation.clone());
    }
    if let Some(inner) = &mut made.spec {
        inner.tolerations = Some(tolerations(inner));
        let affinity = inner.affinity.get_or_insert_default();
        let affinity = affinity.node_affinity.get_or_insert_default();
        affinity.required_during_scheduling_ignored_during_execution = Some(only(node));
    }
    Ok(made)
}

fn only(node: &str) -> NodeSelector {
    let name = NodeSelectorRequirement {
        key: NAME_FIELD.into(),
        operator: "In".into(),
        values: Some(vec![node.into()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![name]), match_expressions: None };
    NodeSelector { node_selector_terms: vec![term] }
}

/// The node a pod runs on or is meant for.
pub fn target(of: &Pod) -> Option<&str> {
    let spec = of.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|n| !n.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|t| t.match_fields.iter().flatten());
    let mut names = fields.filter(|f| f.key == NAME_FIELD && f.operator == "In");
    names.find_map(|f| match f.values.as_deref() {
        Some([node]) => Some(node.as_str()),
        _ => None,
    })
}
