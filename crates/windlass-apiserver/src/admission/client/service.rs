//! The address behind a service that a webhook names.
//!
//! **Invariant:** an address that a simulated node made up is never returned: nothing of this
//! cluster listens there, but something else on the host's network may.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::super::text;
use crate::lookup::Lookup;

/// The annotation of nodes that exist only as objects.
const SIMULATED: &str = "windlass.dev/simulated";

/// Returns the address of a ready endpoint of a service's port.
///
/// # Errors
/// Why there is no address: no such service or port, no endpoint, or simulated endpoints only.
pub(super) fn endpoint(
    lookup: &dyn Lookup,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<SocketAddr, String> {
    let service = lookup.get("", "services", namespace, name);
    let service = service.ok_or_else(|| format!("service \"{name}\" not found"))?;
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let found = ports.into_iter().find(|p| p["port"].as_u64() == Some(port.into()));
    let port_name = found
        .map(|p| text(p, &["name"]).to_owned())
        .ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let mut simulated = false;
    for (address, endpoint, ports) in ready_endpoints(lookup, namespace, name) {
        if is_simulated(lookup, namespace, &endpoint) {
            simulated = true;
        } else if let Some(port) = port_of(&ports, &port_name) {
            return Ok(SocketAddr::new(address, port));
        }
    }
    Err(if simulated {
        format!(
            "service \"{name}\" is simulated: its pods run on no machine; \
             register a route for the service {namespace}/{name}"
        )
    } else {
        format!("no endpoints available for service \"{name}\"")
    })
}

/// The ready endpoints of a service with their address and ports: those of its slices, then
/// those of its Endpoints object.
fn ready_endpoints(
    lookup: &dyn Lookup,
    namespace: &str,
    name: &str,
) -> Vec<(IpAddr, Value, Value)> {
    let mut found = Vec::new();
    for slice in lookup.list("discovery.k8s.io", "endpointslices", Some(namespace)) {
        if slice["metadata"]["labels"]["kubernetes.io/service-name"] != name {
            continue;
        }
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = text(&endpoint["addresses"][0], &[]).parse().ok();
            if let Some(address) = address.filter(|_| endpoint["conditions"]["ready"] != false) {
                found.push((address, endpoint.clone(), slice["ports"].clone()));
            }
        }
    }
    let endpoints = lookup.get("", "endpoints", namespace, name).unwrap_or_default();
    for subset in endpoints["subsets"].as_array().into_iter().flatten() {
        for endpoint in subset["addresses"].as_array().into_iter().flatten() {
            if let Ok(address) = text(endpoint, &["ip"]).parse() {
                found.push((address, endpoint.clone(), subset["ports"].clone()));
            }
        }
    }
    found
}

/// Returns `true` unless something real can listen at an endpoint.
///
/// An endpoint that names a pod needs a pod on a node that is not simulated; one that names
/// neither a pod nor a simulated node was written by hand.
fn is_simulated(lookup: &dyn Lookup, namespace: &str, endpoint: &Value) -> bool {
    let node = |name: &str| lookup.get("", "nodes", "", name);
    let made_up = |node: &Value| !node["metadata"]["annotations"][SIMULATED].is_null();
    if node(text(endpoint, &["nodeName"])).is_some_and(|node| made_up(&node)) {
        return true;
    }
    let target = &endpoint["targetRef"];
    if target["kind"] != "Pod" {
        return false;
    }
    let namespace = target["namespace"].as_str().unwrap_or(namespace);
    let pod = lookup.get("", "pods", namespace, text(target, &["name"])).unwrap_or_default();
    node(text(&pod, &["spec", "nodeName"])).is_none_or(|node| made_up(&node))
}

fn port_of(ports: &Value, name: &str) -> Option<u16> {
    let ports = ports.as_array()?;
    let found = ports.iter().find(|port| text(port, &["name"]) == name)?;
    u16::try_from(found["port"].as_u64()?).ok()
}
