//! The quality of service class of a pod.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::{entries, items};

type Resources<'a> = BTreeMap<&'a str, Quantity>;

/// Returns the class of a pod spec: `Guaranteed`, `Burstable` or `BestEffort`.
pub fn class_of(spec: &Value) -> &'static str {
    let mut requests = Resources::new();
    let mut limits = Resources::new();
    let mut guaranteed = true;
    if spec["resources"].is_object() {
        add(&mut requests, &spec["resources"], "requests");
        if entries(&spec["resources"], "limits").next().is_some() {
            guaranteed = add(&mut limits, &spec["resources"], "limits") == 2;
        }
    } else {
        for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
            add(&mut requests, &container["resources"], "requests");
            guaranteed &= add(&mut limits, &container["resources"], "limits") == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if guaranteed && requests == limits { "Guaranteed" } else { "Burstable" }
}

/// Adds positive amounts of cpu and memory, and returns how many of the two there were.
fn add<'a>(sums: &mut Resources<'a>, resources: &'a Value, list: &str) -> usize {
    let mut count = 0;
    for (name, value) in entries(resources, list) {
        let quantity = value.as_str().and_then(Quantity::parse).unwrap_or(Quantity::zero());
        if matches!(name, "cpu" | "memory") && quantity.sign().is_gt() {
            count += 1;
            let sum = sums.entry(name).or_insert(Quantity::zero());
            *sum = sum.plus(quantity);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classes_follow_requests_and_limits() {
        let all = json!({"cpu": "250m", "memory": "1Gi"});
        let same = json!({"cpu": "0.25", "memory": "1024Mi"});
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(class_of(&pod(json!({}))), "BestEffort");
        assert_eq!(class_of(&pod(json!({"requests": {"cpu": "0"}}))), "BestEffort");
        assert_eq!(class_of(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(class_of(&pod(json!({"requests": all, "limits": same}))), "Guaranteed");
        let mut two = pod(json!({"requests": all, "limits": all}));
        two["initContainers"] = json!([{"resources": {}}]);
        assert_eq!(class_of(&two), "Burstable");
    }
}
