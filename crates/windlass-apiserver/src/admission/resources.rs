//! Lists of resources: amounts by name, and what a pod as a whole asks for.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_text::quantity::Quantity;

use crate::builtin::rules::value;
use crate::work;

/// Amounts by the name of the resource.
pub type List = BTreeMap<String, Quantity>;

/// Reads a list; values that are not quantities are left to validation.
pub fn list(value: &Value) -> List {
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?)))
        .collect()
}

/// Returns what a pod requests, with its overhead.
pub fn pod_requests(spec: &Value) -> List {
    let mut total = pod_total(spec, "requests");
    add(&mut total, &list(&spec["overhead"]));
    total
}

/// Returns what a pod is limited to; overhead counts where there is a limit.
pub fn pod_limits(spec: &Value) -> List {
    let mut total = pod_total(spec, "limits");
    for (name, amount) in list(&spec["overhead"]) {
        if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = limit.add(&amount);
        }
    }
    total
}

/// Adds amounts.
pub fn add(total: &mut List, more: &List) {
    for (name, amount) in more {
        let sum = total.get(name).map_or_else(|| amount.clone(), |have| have.add(amount));
        total.insert(name.clone(), sum);
    }
}

/// Containers run together, init containers one after the other, before them; those that restart
/// stay and run beside all that follow.
fn pod_total(spec: &Value, field: &str) -> List {
    let mut total = List::new();
    for container in value::items(spec, "containers") {
        work::spent(1);
        add(&mut total, &list(&container["resources"][field]));
    }
    let (mut staying, mut most) = (List::new(), List::new());
    for container in value::items(spec, "initContainers") {
        work::spent(1);
        let own = list(&container["resources"][field]);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            add(&mut staying, &own);
            raise(&mut most, &staying);
        } else {
            let mut together = own;
            add(&mut together, &staying);
            raise(&mut most, &together);
        }
    }
    raise(&mut total, &most);
    // What is set for the pod as a whole takes precedence over its containers.
    for (name, amount) in list(&spec["resources"][field]) {
        total.insert(name, amount);
    }
    total
}

fn raise(total: &mut List, other: &List) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|have| have < amount) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_asks_for_its_containers_or_its_largest_init_step() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = asks("50m");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({
            "containers": [asks("100m"), asks("200m")],
            "initContainers": [sidecar, asks("500m")],
            "overhead": {"cpu": "10m"},
        });
        assert_eq!(pod_requests(&spec)["cpu"].to_string(), "560m");
        let small = json!({"containers": [asks("100m")], "initContainers": [asks("10m")]});
        assert_eq!(pod_requests(&small)["cpu"].to_string(), "100m");
        assert!(pod_limits(&small).is_empty());
    }
}
