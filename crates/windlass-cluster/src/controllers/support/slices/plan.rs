//! Which slices to create, change and delete, with as few writes as possible.
//!
//! **Invariant:** a slice holds endpoints of one set of ports, at most [`MAX`] of them.
//! **Invariant:** a service always has at least one slice, if need be an empty one.

use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

/// Endpoints to a slice.
const MAX: usize = 100;

/// What of a slice is planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The name; empty for one to be made.
    pub name: String,
    pub ports: Vec<Value>,
    pub endpoints: Vec<Value>,
    pub labels: BTreeMap<String, String>,
}

/// Endpoints by their ports.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<String, (Vec<Value>, BTreeMap<String, Value>)>);

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Vec<Slice>,
    pub update: Vec<Slice>,
    pub delete: Vec<Slice>,
}

// === impl Slice ===

impl Slice {
    /// The planned part of a stored slice.
    pub fn of(slice: &EndpointSlice) -> serde_json::Result<Self> {
        let list = |value: Value| match value {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        Ok(Self {
            name: slice.metadata.name.clone().unwrap_or_default(),
            ports: list(serde_json::to_value(&slice.ports)?),
            endpoints: list(serde_json::to_value(&slice.endpoints)?),
            labels: slice.metadata.labels.clone().unwrap_or_default(),
        })
    }
}

// === impl Groups ===

impl Groups {
    /// Adds an endpoint with the ports it has.
    pub fn add(&mut self, ports: Vec<Value>, endpoint: Value) {
        let (_, endpoints) = self.0.entry(key(&ports)).or_insert_with(|| (ports, BTreeMap::new()));
        endpoints.insert(identity(&endpoint), endpoint);
    }
}

/// The ports as a text that is equal for equal sets.
fn key(ports: &[Value]) -> String {
    let mut texts: Vec<String> = ports.iter().map(Value::to_string).collect();
    texts.sort();
    texts.join(",")
}

/// What makes two endpoints the same one.
fn identity(endpoint: &Value) -> String {
    json!([endpoint["addresses"], endpoint["hostname"], endpoint["targetRef"]["name"]]).to_string()
}

/// Plans the slices of one address type; `never_none` keeps an empty slice where there is nothing.
pub fn plan(
    existing: Vec<Slice>,
    groups: Groups,
    labels: &BTreeMap<String, String>,
    never_none: bool,
) -> Plan {
    let mut plan = Plan::default();
    let mut kept = 0;
    let mut by_ports: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    for slice in existing {
        by_ports.entry(key(&slice.ports)).or_default().push(slice);
    }
    for (ports_key, (ports, wanted)) in groups.0 {
        let slices = by_ports.remove(&ports_key).unwrap_or_default();
        kept += one_group(&mut plan, slices, ports, wanted, labels);
    }
    plan.delete.extend(by_ports.into_values().flatten());
    if never_none && kept == 0 && plan.create.is_empty() {
        let labels = labels.clone();
        let empty = Slice { name: String::new(), ports: Vec::new(), endpoints: Vec::new(), labels };
        let same = |slice: &Slice| Slice { name: String::new(), ..slice.clone() } == empty;
        match plan.delete.iter().position(same) {
            Some(at) => drop(plan.delete.remove(at)),
            None => plan.create.push(empty),
        }
    }
    // A slice that would go takes the place of one that would be made.
    while let (Some(_), Some(_)) = (plan.create.last(), plan.delete.last()) {
        if let (Some(new), Some(old)) = (plan.create.pop(), plan.delete.pop()) {
            plan.update.push(Slice { name: old.name, ..new });
        }
    }
    plan
}

/// Plans the slices of one set of ports; returns how many stay.
fn one_group(
    plan: &mut Plan,
    slices: Vec<Slice>,
    ports: Vec<Value>,
    mut wanted: BTreeMap<String, Value>,
    labels: &BTreeMap<String, String>,
) -> usize {
    let (mut changed, mut same) = (Vec::new(), Vec::new());
    for slice in slices {
        let endpoints: Vec<Value> =
            slice.endpoints.iter().filter_map(|e| wanted.remove(&identity(e))).collect();
        if endpoints.is_empty() {
            plan.delete.push(slice);
        } else if endpoints == slice.endpoints && slice.labels == *labels {
            same.push(slice);
        } else {
            changed.push(Slice { endpoints, labels: labels.clone(), ..slice });
        }
    }
    let mut rest = wanted.into_values().peekable();
    changed.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in &mut changed {
        let room = MAX.saturating_sub(slice.endpoints.len());
        slice.endpoints.extend(rest.by_ref().take(room));
    }
    let mut rest: Vec<Value> = rest.collect();
    let fits = |slice: &&mut Slice| slice.endpoints.len() + rest.len() <= MAX;
    let fullest = same.iter_mut().filter(fits).max_by_key(|slice| slice.endpoints.len());
    if let (false, Some(slice)) = (rest.is_empty(), fullest) {
        slice.endpoints.append(&mut rest);
        let name = slice.name.clone();
        let at = same.iter().position(|s| s.name == name);
        changed.extend(at.map(|at| same.remove(at)));
    }
    for chunk in rest.chunks(MAX) {
        plan.create.push(Slice {
            name: String::new(),
            ports: ports.clone(),
            endpoints: chunk.to_vec(),
            labels: labels.clone(),
        });
    }
    let kept = changed.len() + same.len();
    plan.update.append(&mut changed);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: usize) -> Value {
        json!({"addresses": [format!("10.0.{}.{}", number / 250, number % 250)],
            "targetRef": {"name": format!("p{number}")}})
    }

    fn groups(numbers: impl IntoIterator<Item = usize>) -> Groups {
        let mut groups = Groups::default();
        for number in numbers {
            groups.add(vec![json!({"port": 80})], endpoint(number));
        }
        groups
    }

    fn stored(slices: &[Slice]) -> Vec<Slice> {
        let named = slices.iter().enumerate();
        named.map(|(i, s)| Slice { name: format!("s{i}"), ..s.clone() }).collect()
    }

    #[test]
    fn many_endpoints_take_several_slices_and_none_is_too_full() {
        let plan = plan(Vec::new(), groups(0..250), &BTreeMap::new(), true);
        let sizes: Vec<usize> = plan.create.iter().map(|s| s.endpoints.len()).collect();
        assert_eq!(sizes, [100, 100, 50]);
    }

    #[test]
    fn a_new_endpoint_changes_one_slice_only() {
        let first = plan(Vec::new(), groups(0..150), &BTreeMap::new(), true);
        let next = plan(stored(&first.create), groups(0..151), &BTreeMap::new(), true);
        assert_eq!((next.create.len(), next.update.len(), next.delete.len()), (0, 1, 0));
        assert_eq!(next.update[0].endpoints.len(), 51);
    }

    #[test]
    fn without_endpoints_one_empty_slice_stays_under_its_name() {
        let first = plan(Vec::new(), groups(0..1), &BTreeMap::new(), true);
        let next = plan(stored(&first.create), Groups::default(), &BTreeMap::new(), true);
        assert_eq!((next.create.len(), next.delete.len()), (0, 0));
        assert_eq!((&*next.update[0].name, next.update[0].ports.len()), ("s0", 0));
        let again = plan(next.update, Groups::default(), &BTreeMap::new(), true);
        assert_eq!(again, Plan::default());
    }
}
