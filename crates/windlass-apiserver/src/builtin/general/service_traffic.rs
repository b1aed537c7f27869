//! How traffic reaches a service: policies, load balancers.

use serde_json::Value;
use windlass_text::select::key;

use super::names::{cidr, port_number, push};
use super::service::{externally_accessible, needs_health_check_port};
use super::tools::{has, items, number, one_of, text};
use crate::builtin::rules::net;
use crate::status::{FieldError, FieldErrors};

/// Problems of how traffic reaches a service.
pub(super) fn check_traffic(errors: &mut FieldErrors, spec: &Value) {
    let external = text(spec, "externalTrafficPolicy");
    if externally_accessible(spec) {
        one_of(errors, "spec.externalTrafficPolicy", external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        errors.push(FieldError::invalid_str(
            "spec.externalTrafficPolicy",
            external,
            "may only be set for externally-accessible services",
        ));
    }
    if let Some(internal) = spec["internalTrafficPolicy"].as_str()
        && !["Cluster", "Local"].contains(&internal)
    {
        let path = "spec.internalTrafficPolicy";
        errors.push(FieldError::not_supported(path, &internal.into(), &["Cluster", "Local"]));
    }
    check_balancer(errors, spec);
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(value) = spec["trafficDistribution"].as_str()
        && !distributions.contains(&value)
    {
        let path = "spec.trafficDistribution";
        errors.push(FieldError::not_supported(path, &value.into(), &distributions));
    }
}

/// Problems of the health check port of nodes with endpoints.
pub(super) fn check_health_port(errors: &mut FieldErrors, service: &Value) {
    let port = number(&service["spec"], "healthCheckNodePort");
    let path = "spec.healthCheckNodePort";
    if port == 0 {
        return;
    }
    if !needs_health_check_port(service) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is \
                   'Local'";
        errors.push(FieldError::invalid(path, &port.into(), why));
    } else if let Some(why) = port_number(port) {
        errors.push(FieldError::invalid(path, &port.into(), why));
    }
}

fn check_balancer(errors: &mut FieldErrors, spec: &Value) {
    let balancer = text(spec, "type") == "LoadBalancer";
    // The real server names the first of them as its own type does.
    for (key, shown) in [
        ("loadBalancerSourceRanges", "LoadBalancerSourceRanges"),
        ("loadBalancerClass", "loadBalancerClass"),
        ("allocateLoadBalancerNodePorts", "allocateLoadBalancerNodePorts"),
    ] {
        if has(spec, key) && !balancer {
            errors.push(FieldError::forbidden(
                format!("spec.{shown}"),
                "may only be used when `type` is 'LoadBalancer'",
            ));
        }
    }
    for (at, range) in items(spec, "loadBalancerSourceRanges").iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        cidr(errors, &format!("spec.LoadBalancerSourceRanges[{at}]"), range);
    }
    if let Some(class) = spec["loadBalancerClass"].as_str().filter(|_| balancer) {
        push(errors, "spec.loadBalancerClass", class, key::qualified_name(class));
    }
}

/// What is better written otherwise.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let external_ips = !items(spec, "externalIPs").is_empty();
    let (kind, external_name) = (text(spec, "type"), text(spec, "externalName"));
    let named = kind == "ExternalName";
    let headless = text(spec, "clusterIP") == "None";
    let affinity = text(spec, "sessionAffinity");
    let hints = "service.kubernetes.io/topology-aware-hints";
    let mut out = Vec::new();
    for (given, why) in [
        (
            has(&service["metadata"]["annotations"], hints),
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        ),
        (
            headless && !text(spec, "loadBalancerIP").is_empty(),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (headless && external_ips, "spec.externalIPs is ignored for headless services"),
        (
            headless && !matches!(affinity, "" | "None"),
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            external_ips && !headless && !named,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (named && external_ips, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !named && !external_name.is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            text(spec, "trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ] {
        if given {
            out.push(why.to_owned());
        }
    }
    for list in ["clusterIPs", "externalIPs"] {
        out.extend(address_warnings(items(spec, list), &format!("spec.{list}")));
    }
    out.extend(net::ip_warning("spec.loadBalancerIP", text(spec, "loadBalancerIP")));
    out.extend(block_warnings(
        items(spec, "loadBalancerSourceRanges"),
        "spec.loadBalancerSourceRanges",
    ));
    out
}

/// Warnings about a list of addresses.
pub(super) fn address_warnings(list: &[Value], path: &str) -> Vec<String> {
    let each = list.iter().enumerate();
    each.filter_map(|(at, ip)| net::ip_warning(&format!("{path}[{at}]"), ip.as_str()?)).collect()
}

/// Warnings about a list of blocks of addresses.
pub(super) fn block_warnings(list: &[Value], path: &str) -> Vec<String> {
    let each = list.iter().enumerate();
    each.filter_map(|(at, net)| net::cidr_warning(&format!("{path}[{at}]"), net.as_str()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_ways_to_reach_a_service_are_warned_of() {
        let spec = json!({
            "type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP",
            "externalIPs": ["1.2.3.4"], "trafficDistribution": "PreferClose",
        });
        assert_eq!(
            warnings(&json!({"metadata": {}, "spec": spec})),
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ]
        );
    }

    #[test]
    fn a_load_balancer_has_ranges_of_addresses_and_a_health_port() {
        let mut errors = FieldErrors::default();
        let service = json!({"spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 70000, "loadBalancerSourceRanges": ["x"],
            "trafficDistribution": "Odd",
        }});
        check_traffic(&mut errors, &service["spec"]);
        check_health_port(&mut errors, &service);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(shown[0].starts_with("spec.LoadBalancerSourceRanges[0]: Invalid value: \"x\""));
        assert!(shown[1].starts_with("spec.trafficDistribution: Unsupported value: \"Odd\""));
        assert!(shown[2].starts_with("spec.healthCheckNodePort: Invalid value: 70000"));
    }
}
