//! What pods ask for and nodes have, as whole numbers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use windlass_text::quantity;

/// Thousandths of each resource, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(pub BTreeMap<String, i128>);

// === impl Amounts ===

impl Amounts {
    fn read(map: Option<&BTreeMap<String, Quantity>>) -> Self {
        let parse = |(name, amount): (&String, &Quantity)| {
            let parsed: quantity::Quantity = amount.0.parse().ok()?;
            Some((name.clone(), millis(&parsed)))
        };
        Self(map.into_iter().flatten().filter_map(parse).collect())
    }

    /// Returns what a pod asks for: all containers together, or its largest init container.
    pub fn of_pod(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let request = |container: &Container| {
            Self::read(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
        };
        let mut sum = Self::default();
        spec.containers.iter().for_each(|container| sum.add(&request(container)));
        for container in spec.init_containers.iter().flatten() {
            let own = request(container);
            if container.restart_policy.as_deref() == Some("Always") {
                sum.add(&own);
            } else {
                for (name, amount) in own.0 {
                    let slot = sum.0.entry(name).or_default();
                    *slot = (*slot).max(amount);
                }
            }
        }
        sum.add(&Self::read(spec.overhead.as_ref()));
        sum.0.insert("pods".into(), 1_000);
        sum
    }

    /// Returns what a node has to give.
    pub fn of_node(node: &Node) -> Self {
        let status = node.status.as_ref();
        Self::read(status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref())))
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            *self.0.entry(name.clone()).or_default() += amount;
        }
    }

    pub fn sub(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            *self.0.entry(name.clone()).or_default() -= amount;
        }
    }

    /// The resources of `request` that do not fit into `self` beside `used`.
    pub fn lacking(&self, used: &Self, request: &Self) -> Vec<String> {
        let zero = |amounts: &Self, name: &String| amounts.0.get(name).copied().unwrap_or(0);
        let fits = |(name, amount): &(&String, &i128)| {
            **amount <= 0 || zero(used, name) + **amount <= zero(self, name)
        };
        request.0.iter().filter(|entry| !fits(entry)).map(|(name, _)| name.clone()).collect()
    }
}

fn millis(amount: &quantity::Quantity) -> i128 {
    let whole = i128::from(amount.value()) * 1_000;
    // Large amounts saturate as thousandths; fractions of those do not matter.
    if whole > i128::from(i64::MAX) / 2 { whole } else { i128::from(amount.milli_value()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_asks_for_the_larger_of_its_containers_and_its_init_container() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [
                {"name": "i", "resources": {"requests": {"cpu": "2", "memory": "1Mi"}}}],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
                {"name": "b", "resources": {"requests": {"cpu": "250m"}}}],
        }}))
        .expect("is a pod");
        let amounts = Amounts::of_pod(&pod);
        assert_eq!(amounts.0["cpu"], 2_000);
        assert_eq!(amounts.0["memory"], 1_000 << 30);
        assert_eq!(amounts.0["pods"], 1_000);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let amounts = |cpu: i128| Amounts([("cpu".to_string(), cpu)].into());
        assert!(amounts(4).lacking(&amounts(1), &amounts(3)).is_empty());
        assert_eq!(amounts(4).lacking(&amounts(2), &amounts(3)), ["cpu"]);
        assert_eq!(Amounts::default().lacking(&amounts(0), &amounts(1)), ["cpu"]);
    }
}
