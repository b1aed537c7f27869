//! Why a pod does not fit a node: selector, affinity, taints, resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration,
};

use super::amount::Amounts;

/// Returns why a pod does not fit a node, in the scheduler's words; empty if it fits.
pub fn against(pod: &Pod, node: &Node, used: &Amounts, request: &Amounts) -> Vec<String> {
    let spec = node.spec.as_ref();
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
    if spec.and_then(|s| s.unschedulable) == Some(true) {
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        if !tolerations.iter().any(|t| tolerates(t, &taint)) {
            return vec!["node(s) were unschedulable".into()];
        }
    }
    if !selected(pod, node) {
        return vec!["node(s) didn't match Pod's node affinity/selector".into()];
    }
    let taints = spec.and_then(|s| s.taints.as_deref()).unwrap_or_default();
    let hard = |t: &&Taint| t.effect == "NoSchedule" || t.effect == "NoExecute";
    let mut hard = taints.iter().filter(hard);
    if hard.any(|taint| !tolerations.iter().any(|t| tolerates(t, taint))) {
        return vec!["node(s) had untolerated taint(s)".into()];
    }
    let lacking = Amounts::of_node(node).lacking(used, request);
    let text = |name: &String| match name.as_str() {
        "pods" => "Too many pods".to_string(),
        name => format!("Insufficient {name}"),
    };
    lacking.iter().map(text).collect()
}

/// Returns `true` for a reason that disappears when pods leave the node.
pub fn is_about_room(reason: &str) -> bool {
    reason.starts_with("Insufficient ") || reason == "Too many pods"
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if !(effect.is_empty() || effect == taint.effect) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => key.is_empty() || key == taint.key,
        _ => {
            key == taint.key
                && toleration.value.as_deref().unwrap_or_default()
                    == taint.value.as_deref().unwrap_or_default()
        }
    }
}

/// The node selector and the required node affinity of a pod match.
fn selected(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let wanted = spec.node_selector.iter().flatten();
    if !wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required =
        affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| {
        required.node_selector_terms.iter().any(|term| matches(term, node, labels))
    })
}

fn matches(term: &NodeSelectorTerm, node: &Node, labels: &BTreeMap<String, String>) -> bool {
    let labelled = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labelled.is_empty() && fields.is_empty() {
        return false;
    }
    let name = node.metadata.name.clone().unwrap_or_default();
    let own = BTreeMap::from([("metadata.name".to_string(), name)]);
    labelled.iter().all(|r| holds(r, labels)) && fields.iter().all(|r| holds(r, &own))
}

fn holds(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    let compare = |test: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(number);
        value.and_then(number).zip(bound).is_some_and(|(value, bound)| test(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(pod: Value, node: Value) -> Vec<String> {
        let pod: Pod = serde_json::from_value(json!({"spec": pod})).expect("is a pod");
        let mut node = node;
        node["status"] = json!({"allocatable": {"cpu": "1", "pods": "10"}});
        let node: Node = serde_json::from_value(node).expect("is a node");
        against(&pod, &node, &Amounts::default(), &Amounts::of_pod(&pod))
    }

    #[test]
    fn selectors_and_affinity_have_to_match() {
        let node = json!({"metadata": {"name": "n", "labels": {"disk": "ssd", "cores": "8"}}});
        let pod = |spec: Value| {
            let mut pod = json!({"containers": []});
            pod.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
            pod
        };
        assert!(check(pod(json!({"nodeSelector": {"disk": "ssd"}})), node.clone()).is_empty());
        let wrong = check(pod(json!({"nodeSelector": {"disk": "tape"}})), node.clone());
        assert_eq!(wrong, ["node(s) didn't match Pod's node affinity/selector"]);
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
        };
        let cores =
            json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]});
        assert!(check(pod(affinity(cores)), node.clone()).is_empty());
        let name =
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]});
        assert!(!check(pod(affinity(name)), node).is_empty());
    }

    #[test]
    fn taints_keep_pods_away_unless_tolerated() {
        let node =
            json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
        let plain = check(json!({"containers": []}), node.clone());
        assert_eq!(plain, ["node(s) had untolerated taint(s)"]);
        let tolerant =
            json!({"containers": [], "tolerations": [{"key": "gpu", "operator": "Exists"}]});
        assert!(check(tolerant, node).is_empty());
    }

    #[test]
    fn too_large_requests_are_named() {
        let pod = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]});
        assert_eq!(check(pod, json!({})), ["Insufficient cpu"]);
    }
}
