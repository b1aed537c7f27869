//! Whether a node is one for the pods of a set.

use k8s_openapi::api::apps::v1::DaemonSetSpec;
use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

use super::place;

/// What a node is to a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// A pod should run here.
    pub should_run: bool,
    /// A pod that runs here may stay.
    pub may_stay: bool,
}

/// Returns what a node is to a set: by name, selector, affinity and taints.
pub fn fit(spec: &DaemonSetSpec, node: &Node) -> Fit {
    let never = Fit { should_run: false, may_stay: false };
    let Some(pod) = &spec.template.spec else { return never };
    let named = pod.node_name.as_ref().filter(|n| !n.is_empty());
    if named.is_some_and(|n| Some(n) != node.metadata.name.as_ref()) || !selected(pod, node) {
        return never;
    }
    let tolerations = place::tolerations(pod);
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    let repels = |effect: &str| {
        let mut taints = taints.into_iter().flatten().filter(|t| t.effect == effect);
        taints.any(|taint| !tolerations.iter().any(|t| tolerates(t, taint)))
    };
    let may_stay = !repels("NoExecute");
    Fit { should_run: may_stay && !repels("NoSchedule"), may_stay }
}

/// Returns `true` if a toleration covers a taint.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => text(&toleration.value) == text(&taint.value),
        Some(operator) => compare(operator, &text(&taint.value), &text(&toleration.value)),
    }
}

/// Returns `true` if the selector and the required affinity of a pod match a node.
fn selected(pod: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let wanted = pod.node_selector.iter().flatten();
    let simple = wanted.into_iter().all(|(k, v)| labels.and_then(|l| l.get(k)) == Some(v));
    let affinity = pod.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required =
        affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    simple && required.is_none_or(|r| r.node_selector_terms.iter().any(|t| term(t, node)))
}

fn term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term that says nothing chooses nothing.
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let name = node.metadata.name.as_deref();
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
    labels.iter().all(|r| requirement(r, label(&r.key)))
        && fields.iter().all(|r| requirement(r, name.filter(|_| r.key == "metadata.name")))
}

fn requirement(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|v| v == value));
    match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        operator => match (value, values) {
            (Some(value), [bound]) => compare(operator, value, bound),
            _ => false,
        },
    }
}

/// Compares two numbers; `false` if one of the texts is not a number.
fn compare(operator: &str, value: &str, bound: &str) -> bool {
    match (value.parse::<i64>(), bound.parse::<i64>(), operator) {
        (Ok(value), Ok(bound), "Gt") => value > bound,
        (Ok(value), Ok(bound), "Lt") => value < bound,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn fits(pod: Value, node: Value) -> (bool, bool) {
        let spec = json!({"selector": {}, "template": {"spec": pod}});
        let mut pod: Value = spec;
        pod["template"]["spec"]["containers"] = json!([]);
        let spec: DaemonSetSpec = serde_json::from_value(pod).unwrap();
        let node: Node = serde_json::from_value(node).unwrap();
        let fit = fit(&spec, &node);
        (fit.should_run, fit.may_stay)
    }

    #[test]
    fn selectors_and_taints_decide() {
        let node = |taints: Value| {
            json!({
                "metadata": {"name": "n", "labels": {"pool": "a", "cores": "8"}},
                "spec": {"taints": taints},
            })
        };
        let plain = node(json!([]));
        assert_eq!(fits(json!({}), plain.clone()), (true, true));
        assert_eq!(fits(json!({"nodeSelector": {"pool": "b"}}), plain.clone()), (false, false));
        assert_eq!(fits(json!({"nodeName": "m"}), plain.clone()), (false, false));
        let many = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]},
            ]},
        }}});
        assert_eq!(fits(many, plain), (true, true));
        let tainted = |effect: &str| node(json!([{"key": "k", "effect": effect}]));
        assert_eq!(fits(json!({}), tainted("NoSchedule")), (false, true));
        assert_eq!(fits(json!({}), tainted("NoExecute")), (false, false));
        assert_eq!(fits(json!({}), tainted("PreferNoSchedule")), (true, true));
        let cordoned = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
        assert_eq!(fits(json!({}), node(cordoned)), (true, true));
        let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
        assert_eq!(fits(tolerant, tainted("NoExecute")), (true, true));
    }
}
