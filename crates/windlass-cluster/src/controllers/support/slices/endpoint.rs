//! From a pod to an endpoint.

use crate::controllers::pod;
use k8s_openapi::api::core::v1::{Container, Node, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns `true` if a pod has a place among the endpoints at all.
pub fn may_be_endpoint(pod: &Pod, with_deleting: bool) -> bool {
    !pod::is_finished(pod)
        && !pod::addresses(pod).is_empty()
        && (with_deleting || !pod::is_terminating(pod))
}

/// Returns `true` if a service has no address of its own.
pub fn is_headless(service: &Service) -> bool {
    let ip = service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref());
    matches!(ip, None | Some("" | "None"))
}

/// The endpoint of a pod; `None` if the pod has no address of the family.
pub fn endpoint(pod: &Pod, node: Option<&Node>, service: &Service, family: &str) -> Option<Value> {
    let of_family = |ip: &&str| ip.contains(':') == (family == "IPv6");
    let addresses: Vec<&str> = pod::addresses(pod).into_iter().filter(of_family).collect();
    if addresses.is_empty() {
        return None;
    }
    let spec = service.spec.as_ref()?;
    let (serving, terminating) = (pod::is_ready(pod), pod::is_terminating(pod));
    let ready = spec.publish_not_ready_addresses == Some(true) || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    });
    let node_name = pod::node(pod);
    if let Some(name) = node_name {
        endpoint["nodeName"] = json!(name);
    }
    let labels = node.and_then(|n| n.metadata.labels.as_ref());
    let zone = labels.and_then(|l| l.get(ZONE)).filter(|zone| !zone.is_empty());
    if let Some(zone) = zone {
        endpoint["zone"] = json!(zone);
    }
    if let Some(hostname) = hostname(pod, service) {
        endpoint["hostname"] = json!(hostname);
    }
    if let Some(hints) = hints(spec, ready, zone.map(String::as_str), node_name) {
        endpoint["hints"] = hints;
    }
    Some(endpoint)
}

/// Who should use an endpoint, if the service prefers what is close.
fn hints(spec: &ServiceSpec, ready: bool, zone: Option<&str>, node: Option<&str>) -> Option<Value> {
    let by_node = match spec.traffic_distribution.as_deref()? {
        "PreferClose" | "PreferSameZone" => false,
        "PreferSameNode" => true,
        _ => return None,
    };
    let mut hints = serde_json::Map::new();
    if let Some(zone) = zone {
        hints.insert("forZones".into(), json!([{"name": zone}]));
    }
    if let (true, Some(node)) = (by_node, node) {
        hints.insert("forNodes".into(), json!([{"name": node}]));
    }
    Some(Value::Object(hints)).filter(|_| ready).filter(|hints| *hints != json!({}))
}

/// The host name of a pod within a service, if it has one there.
pub fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let here = spec.subdomain.is_some()
        && spec.subdomain == service.metadata.name
        && pod.metadata.namespace == service.metadata.namespace;
    spec.hostname.as_deref().filter(|name| here && !name.is_empty())
}

/// The ports of a service as a pod has them; a named port the pod lacks is left out.
pub fn ports(spec: &ServiceSpec, pod: &Pod) -> Vec<Value> {
    let ports = spec.ports.iter().flatten().filter_map(|port| {
        let number = find_port(pod, port)?;
        let mut found = json!({
            "name": port.name.as_deref().unwrap_or_default(),
            "port": number,
            "protocol": port.protocol.as_deref().unwrap_or("TCP"),
        });
        if let Some(protocol) = &port.app_protocol {
            found["appProtocol"] = json!(protocol);
        }
        Some(found)
    });
    ports.collect()
}

/// The number a service port has in a pod.
pub fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let within = |container: &Container| {
        let fits = |p: &&k8s_openapi::api::core::v1::ContainerPort| {
            p.name.as_ref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol
        };
        container.ports.iter().flatten().find(fits).map(|p| p.container_port)
    };
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).find_map(within)
}
