//! What one pod uses, and which quotas look at it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, Pod, PodSpec, ResourceQuotaSpec, ResourceRequirements,
    ScopedResourceSelectorRequirement,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use windlass_text::quantity::Quantity;

type Amounts = BTreeMap<String, Quantity>;

/// Returns `true` if a name in a quota is one that pods count under.
pub fn counts(name: &str) -> bool {
    matches!(name, "pods" | "count/pods" | "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("limits.")
        || (name.starts_with("requests.") && name != "requests.storage")
}

/// Requests and limits of a pod under the names quotas use.
pub fn resources(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let requests = total(spec, |r| r.requests.as_ref());
    let limits = total(spec, |r| r.limits.as_ref());
    let mut found = Amounts::new();
    for (name, amount) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                found.insert(format!("requests.{name}"), amount.clone());
                found.insert(name, amount);
            }
            _ if name.starts_with("hugepages-") => {
                found.insert(format!("requests.{name}"), amount.clone());
                found.insert(name, amount);
            }
            _ => {
                found.insert(format!("requests.{name}"), amount);
            }
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            found.insert(format!("limits.{name}"), amount);
        }
    }
    found
}

/// Containers together, or the largest init container with the sidecars before it; plus overhead.
fn total(
    spec: &PodSpec,
    part: impl Fn(&ResourceRequirements) -> Option<&BTreeMap<String, Text>>,
) -> Amounts {
    let of = |container: &Container| amounts(container.resources.as_ref().and_then(&part));
    let mut sum = Amounts::new();
    for container in &spec.containers {
        plus(&mut sum, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut needs = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            plus(&mut sum, &needs);
            plus(&mut sidecars, &needs);
            needs = sidecars.clone();
        } else {
            plus(&mut needs, &sidecars);
        }
        most(&mut peak, &needs);
    }
    most(&mut sum, &peak);
    if let Some(whole) = spec.resources.as_ref().and_then(&part) {
        sum.extend(amounts(Some(whole)));
    }
    // Overhead raises a limit only where there is one.
    let overhead = amounts(spec.overhead.as_ref());
    for (name, amount) in overhead {
        if let Some(value) = sum.get_mut(&name) {
            *value = value.add(&amount);
        }
    }
    sum
}

fn amounts(list: Option<&BTreeMap<String, Text>>) -> Amounts {
    let parsed = list.into_iter().flatten();
    parsed.filter_map(|(name, text)| Some((name.clone(), text.0.parse().ok()?))).collect()
}

fn plus(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let value = sum.entry(name.clone()).or_insert_with(Quantity::zero);
        *value = value.add(amount);
    }
}

fn most(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let value = sum.entry(name.clone()).or_insert_with(Quantity::zero);
        if *amount > *value {
            *value = amount.clone();
        }
    }
}

/// Returns `true` if a pod is in all scopes of a quota.
pub fn in_scopes(pod: &Pod, quota: &ResourceQuotaSpec) -> bool {
    let plain = quota.scopes.iter().flatten();
    let selected = quota.scope_selector.iter().flat_map(|s| s.match_expressions.iter().flatten());
    plain.into_iter().all(|scope| in_scope(pod, scope, None))
        && selected.into_iter().all(|s| in_scope(pod, &s.scope_name, Some(s)))
}

fn in_scope(
    pod: &Pod,
    scope: &str,
    requirement: Option<&ScopedResourceSelectorRequirement>,
) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let deadline = spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => deadline,
        "NotTerminating" => !deadline,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "CrossNamespacePodAffinity" => crosses_namespaces(spec),
        "PriorityClass" => {
            let class = spec.priority_class_name.as_deref().filter(|c| !c.is_empty());
            let operator = requirement.map_or("Exists", |r| r.operator.as_str());
            let values = requirement.and_then(|r| r.values.as_deref()).unwrap_or_default();
            let among = class.is_some_and(|class| values.iter().any(|v| v == class));
            match operator {
                "In" => among,
                "NotIn" => !among,
                "Exists" => class.is_some(),
                "DoesNotExist" => class.is_none(),
                _ => false,
            }
        }
        _ => false,
    }
}

fn is_best_effort(pod: &Pod) -> bool {
    match pod.status.as_ref().and_then(|s| s.qos_class.as_deref()) {
        Some(class) => class == "BestEffort",
        None => resources(pod).values().all(Quantity::is_zero),
    }
}

/// Returns `true` if the affinity of a pod looks into other namespaces.
fn crosses_namespaces(spec: &PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let text = serde_json::to_value(affinity).unwrap_or_default();
    let terms = ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|kind| {
        let required = text[kind]["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = text[kind]["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        let required = required.cloned().unwrap_or_default();
        let preferred = preferred.cloned().unwrap_or_default();
        required.into_iter().chain(preferred.into_iter().map(|t| t["podAffinityTerm"].clone()))
    });
    let far = |term: serde_json::Value| {
        term["namespaces"].as_array().is_some_and(|list| !list.is_empty())
            || term["namespaceSelector"].is_object()
    };
    terms.into_iter().any(far)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a pod")
    }

    #[test]
    fn init_containers_count_by_their_peak_and_sidecars_all_along() {
        let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let pod = pod(json!({
            "containers": [{"name": "a", "resources": cpu("100m")}],
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": cpu("50m")},
                {"name": "i", "resources": cpu("300m")},
            ],
        }));
        assert_eq!(resources(&pod)["requests.cpu"].to_string(), "350m");
    }

    #[test]
    fn a_pod_without_requests_is_best_effort() {
        let quota = |scope: &str| ResourceQuotaSpec {
            scopes: Some(vec![scope.into()]),
            ..ResourceQuotaSpec::default()
        };
        let pod = pod(json!({"containers": [{"name": "a"}]}));
        assert!(in_scopes(&pod, &quota("BestEffort")));
        assert!(!in_scopes(&pod, &quota("NotBestEffort")));
        assert!(in_scopes(&pod, &quota("NotTerminating")));
        assert!(!in_scopes(&pod, &quota("PriorityClass")));
    }
}
