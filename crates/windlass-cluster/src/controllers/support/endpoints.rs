//! Endpoints: the older form of what EndpointSlices hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::controller::{Context, Watch};
use windlass::{Controller, Kind, Manager, Next, Result};

use super::slices::{self, HEADLESS};
use super::trigger;
use crate::controllers::Shared;
use crate::controllers::pod;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const ME: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Addresses to an object.
const MAX: usize = 1000;

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let own = |change: &windlass::cache::Change| {
        let deleted = Some(change.key()).filter(|_| change.new.is_none());
        deleted.cloned().into_iter().collect::<Vec<_>>()
    };
    builder.add(
        Controller::<Service>::builder("endpoints-controller")
            .workers(4)
            .watch(Watch::selected_by(Kind::of::<Pod>(), &slices::by_selector()))
            .watch(Watch::changes(Kind::of::<Endpoints>(), move |change, _| own(change)))
            .build(|cx| async move { reconcile(&cx).await }),
    )
}

async fn reconcile(cx: &Context<Service>) -> Result<Next> {
    let Some(service) = cx.object() else {
        if cx.get::<Endpoints>(cx.name())?.is_some() {
            cx.client().api::<Endpoints>().delete(cx.key()).await?;
        }
        return Ok(Next::Done);
    };
    let Some(selector) = service.spec.as_ref().and_then(slices::selector) else {
        return Ok(Next::Done);
    };
    let found = cx.list::<Pod>().labels(selector).items()?;
    let (subsets, cut) = truncate(subsets(&service, &found));
    let trigger = trigger::step(cx, &service, &found);
    write(cx, &service, subsets, cut, trigger.as_deref()).await?;
    Ok(Next::Done)
}

async fn write(
    cx: &Context<Service>,
    service: &Service,
    subsets: Value,
    cut: bool,
    trigger: Option<&str>,
) -> Result<()> {
    let kind = Kind::of::<Endpoints>();
    let api = cx.client().api_of::<DynamicObject>(&kind);
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if slices::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(MANAGED_BY.into(), ME.into());
    let current = cx.client().cached().json(&kind, cx.key())?;
    let create = current.is_none();
    let mut object = current
        .unwrap_or_else(|| json!({"metadata": {"name": cx.name(), "namespace": cx.namespace()}}));
    let marked = object["metadata"]["annotations"][OVER_CAPACITY].is_string();
    if !create
        && object["subsets"] == subsets
        && object["metadata"]["labels"] == json!(labels)
        && marked == cut
    {
        return Ok(());
    }
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Endpoints");
    object["subsets"] = subsets;
    object["metadata"]["labels"] = json!(labels);
    super::annotate(&mut object, trigger::ANNOTATION, trigger);
    super::annotate(&mut object, OVER_CAPACITY, cut.then_some("truncated"));
    let object: DynamicObject = serde_json::from_value(object)?;
    if create {
        api.create(&object).await?
    } else {
        api.update(&object).await?
    };
    Ok(())
}

/// Addresses with equal ports together.
fn subsets(service: &Service, found: &[Arc<Pod>]) -> Vec<Value> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let publish = spec.publish_not_ready_addresses == Some(true);
    let no_ports = spec.ports.iter().flatten().next().is_none() && slices::is_headless(service);
    // The ports of each address, and whether it is ready.
    let mut addresses: BTreeMap<String, (Value, bool, BTreeSet<String>)> = BTreeMap::new();
    for pod in found.iter().filter(|pod| slices::may_be_endpoint(pod, publish)) {
        let Some(address) = address(service, pod) else { continue };
        let ready = publish || pod::is_ready(pod);
        let ports: BTreeSet<String> = spec
            .ports
            .iter()
            .flatten()
            .filter_map(|port| {
                let number = slices::find_port(pod, port)?;
                let mut found = json!({"port": number});
                found["protocol"] = json!(port.protocol.as_deref().unwrap_or("TCP"));
                if let Some(name) = port.name.as_ref().filter(|name| !name.is_empty()) {
                    found["name"] = json!(name);
                }
                if let Some(protocol) = &port.app_protocol {
                    found["appProtocol"] = json!(protocol);
                }
                Some(found.to_string())
            })
            .collect();
        if !ports.is_empty() || no_ports {
            addresses.insert(address.to_string(), (address, ready, ports));
        }
    }
    let mut by_ports: BTreeMap<BTreeSet<String>, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for (address, ready, ports) in addresses.into_values() {
        let (yes, no) = by_ports.entry(ports).or_default();
        if ready { yes.push(address) } else { no.push(address) }
    }
    by_ports.into_iter().map(|(ports, (ready, not))| subset(&ports, ready, not)).collect()
}

fn subset(ports: &BTreeSet<String>, mut ready: Vec<Value>, mut not_ready: Vec<Value>) -> Value {
    let mut subset = json!({});
    let order = |a: &Value| (a["ip"].to_string(), a["targetRef"]["uid"].to_string());
    for (field, list) in [("addresses", &mut ready), ("notReadyAddresses", &mut not_ready)] {
        if !list.is_empty() {
            list.sort_by_key(order);
            subset[field] = json!(list);
        }
    }
    if !ports.is_empty() {
        subset["ports"] =
            ports.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok()).collect();
    }
    subset
}

/// The address of a pod in the family of the service.
fn address(service: &Service, pod: &Pod) -> Option<Value> {
    let spec = service.spec.as_ref()?;
    let families = spec.ip_families.as_deref().unwrap_or_default();
    let six = match (families.first().map(String::as_str), spec.cluster_ip.as_deref()) {
        (Some(family), _) => family == "IPv6",
        (None, Some(ip)) => ip.contains(':'),
        (None, None) => false,
    };
    let ip = pod::addresses(pod).into_iter().find(|ip| ip.contains(':') == six)?;
    let mut address = json!({
        "ip": ip,
        "targetRef": {
            "kind": "Pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    });
    if let Some(node) = pod::node(pod) {
        address["nodeName"] = json!(node);
    }
    if let Some(hostname) = slices::hostname(pod, service) {
        address["hostname"] = json!(hostname);
    }
    Some(address)
}

/// Keeps at most [`MAX`] addresses, ready ones first. Also returns `true` if any were removed.
fn truncate(mut subsets: Vec<Value>) -> (Value, bool) {
    let mut left = MAX;
    let mut cut = false;
    for field in ["addresses", "notReadyAddresses"] {
        for subset in &mut subsets {
            let Some(list) = subset[field].as_array_mut() else { continue };
            cut |= list.len() > left;
            list.truncate(left);
            left -= list.len();
        }
    }
    for subset in subsets.iter_mut().filter_map(Value::as_object_mut) {
        subset.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
    }
    let empty = subsets.is_empty();
    (if empty { Value::Null } else { Value::Array(subsets) }, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_addresses_are_cut_and_ready_ones_stay() {
        let many = |n: usize| -> Vec<Value> { (0..n).map(|i| json!({"ip": i})).collect() };
        let subset = json!({"addresses": many(990), "notReadyAddresses": many(20)});
        let (subsets, cut) = truncate(vec![subset]);
        assert!(cut);
        assert_eq!(subsets[0]["addresses"].as_array().map(Vec::len), Some(990));
        assert_eq!(subsets[0]["notReadyAddresses"].as_array().map(Vec::len), Some(10));
    }

    #[test]
    fn no_addresses_are_no_subsets() {
        assert_eq!(truncate(Vec::new()), (Value::Null, false));
    }
}
