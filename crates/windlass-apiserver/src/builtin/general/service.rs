//! Service: defaults and rules, and what the allocator of addresses and ports needs.
//!
//! Allocation itself needs other services and is admission's. It calls, in this order:
//! [`normalize_cluster_ips`], [`patch_allocated_values`], [`drop_type_dependent_fields`] (both on
//! update) and [`init_ip_families`] unless preparation did so before, [`validate_cluster_ips`],
//! and allocates what [`needs_cluster_ip`], [`needs_node_port`] and [`needs_health_check_port`]
//! ask for.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::names::{dns_subdomain, ip, labels, ordinary_ip, push};
use super::service_ports::{check_port_sets, check_ports};
use super::service_traffic::{check_health_port, check_traffic, warnings};
use super::tools::{
    drop_empty, drop_field, fill, fill_text, has, items, items_mut, keep, number, object, one_of,
    set, text,
};
use crate::builtin::{NameRule, Strategy};
use crate::status::{FieldError, FieldErrors};

/// Service.
pub(super) struct Service;

impl Strategy for Service {
    fn defaults(&self, service: &mut Value) {
        let spec = object(service, "spec");
        fill_text(spec, "sessionAffinity", "None");
        fill_text(spec, "type", "ClusterIP");
        match text(spec, "sessionAffinity") {
            "None" => drop_field(spec, "sessionAffinityConfig"),
            "ClientIP" => {
                let config = object(object(spec, "sessionAffinityConfig"), "clientIP");
                fill(config, "timeoutSeconds", 10800);
            }
            _ => {}
        }
        let kind = text(spec, "type").to_owned();
        for port in items_mut(spec, "ports") {
            fill_text(port, "protocol", "TCP");
            if matches!(port.get("targetPort"), None | Some(Value::Null))
                || port["targetPort"] == 0
                || port["targetPort"] == ""
            {
                let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
                set(port, "targetPort", number);
            }
        }
        if externally_accessible(spec) {
            fill_text(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(&*kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
        }
        for key in ["ports", "selector", "externalIPs", "clusterIPs", "loadBalancerSourceRanges"] {
            drop_empty(spec, key);
        }
        let balancer = object(object(service, "status"), "loadBalancer");
        if kind == "LoadBalancer" {
            for ingress in items_mut(balancer, "ingress") {
                if !text(ingress, "ip").is_empty() {
                    fill(ingress, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        set(service, "status", json!({"loadBalancer": {}}));
        normalize_cluster_ips(service, None);
        init_ip_families(service);
    }

    fn prepare_update(&self, service: &mut Value, old: &Value) {
        keep(service, old, "status");
        normalize_cluster_ips(service, Some(old));
        patch_allocated_values(service, old);
        drop_type_dependent_fields(service, old);
        if text(&service["spec"], "type") != "LoadBalancer" {
            set(object(service, "status"), "loadBalancer", json!({}));
        }
        let spec = object(service, "spec");
        if text(spec, "type") != "ExternalName" && text(&old["spec"], "type") != "ExternalName" {
            for key in ["ipFamilies", "ipFamilyPolicy"] {
                if !has(spec, key) {
                    keep(spec, &old["spec"], key);
                }
            }
        }
        init_ip_families(service);
    }

    fn prepare_status(&self, service: &mut Value, old: &Value) {
        keep(service, old, "spec");
    }

    fn warnings(&self, service: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(service)
    }

    fn validate(&self, service: &Value) -> FieldErrors {
        validate(service)
    }

    fn validate_update(&self, service: &Value, old: &Value) -> FieldErrors {
        let mut errors = changed_cluster_ips(service, old);
        errors.extend(validate(service));
        // The real server looks at this one twice.
        let class = errors.iter().find(|e| e.field == "spec.loadBalancerClass").cloned();
        errors.extend(class);
        errors
    }

    fn validate_status(&self, service: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let balancer = &service["status"]["loadBalancer"];
        let given = items(balancer, "ingress");
        if text(&service["spec"], "type") != "LoadBalancer" && !given.is_empty() {
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden("status.loadBalancer.ingress", why));
            return errors;
        }
        super::ingress::check_load_balancer(&mut errors, balancer);
        for (at, ingress) in given.iter().enumerate() {
            let path = format!("status.loadBalancer.ingress[{at}].ipMode");
            let (named, mode) = (!text(ingress, "ip").is_empty(), &ingress["ipMode"]);
            match (named, mode.as_str()) {
                (true, None) => {
                    errors.push(FieldError::required(path, "must be specified when `ip` is set"));
                }
                (false, Some(_)) => {
                    let why = "may not be specified when `ip` is not set";
                    errors.push(FieldError::forbidden(path, why));
                }
                (true, Some(text)) if !["Proxy", "VIP"].contains(&text) => {
                    errors.push(FieldError::not_supported(path, mode, &["Proxy", "VIP"]));
                }
                _ => {}
            }
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self, service: &Value) -> Option<Vec<(&'static str, String)>> {
        let spec = &service["spec"];
        Some(vec![
            ("spec.clusterIP", text(spec, "clusterIP").to_owned()),
            ("spec.type", text(spec, "type").to_owned()),
        ])
    }

    fn is_restored(&self, namespace: &str, name: &str) -> bool {
        (namespace, name) == ("default", "kubernetes")
    }

    fn allocates(&self) -> bool {
        true
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("services/specs")
    }
}

/// Returns `true` if a service has the cluster IP `None`.
pub fn is_headless(service: &Value) -> bool {
    let spec = &service["spec"];
    text(spec, "clusterIP") == "None" || items(spec, "clusterIPs").first() == Some(&json!("None"))
}

/// Returns `true` if its cluster IPs mean something, whatever else is wrong with it.
pub fn has_cluster_ips(service: &Value) -> bool {
    text(&service["spec"], "type") != "ExternalName"
}

/// Returns `true` if a cluster IP has to be allocated for a service that has none yet.
pub fn needs_cluster_ip(service: &Value) -> bool {
    matches!(text(&service["spec"], "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
        && !is_headless(service)
}

/// Returns `true` if its ports need node ports.
pub fn needs_node_port(service: &Value) -> bool {
    let spec = &service["spec"];
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// Returns `true` if it needs a health check node port.
pub fn needs_health_check_port(service: &Value) -> bool {
    let spec = &service["spec"];
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Brings `clusterIP` and `clusterIPs` in line after a client wrote one of them.
pub fn normalize_cluster_ips(service: &mut Value, old: Option<&Value>) {
    let spec = object(service, "spec");
    let ip = text(spec, "clusterIP").to_owned();
    let Some(old) = old else {
        if items(spec, "clusterIPs").is_empty() && !ip.is_empty() {
            set(spec, "clusterIPs", json!([ip]));
        }
        return;
    };
    let old_ip = text(&old["spec"], "clusterIP");
    let same_list = items(spec, "clusterIPs") == items(&old["spec"], "clusterIPs");
    if !old_ip.is_empty() && ip.is_empty() && same_list {
        drop_field(spec, "clusterIPs");
    }
    if !ip.is_empty() && ip != old_ip && (same_list || items(spec, "clusterIPs").is_empty()) {
        set(spec, "clusterIPs", json!([ip]));
    }
}

/// Copies allocated values that an update left out from the old service.
pub fn patch_allocated_values(service: &mut Value, old: &Value) {
    let old_spec = &old["spec"];
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        let spec = object(service, "spec");
        if text(spec, "clusterIP").is_empty() {
            keep(spec, old_spec, "clusterIP");
        }
        if items(spec, "clusterIPs").is_empty() && has(old_spec, "clusterIPs") {
            keep(spec, old_spec, "clusterIPs");
        }
    }
    if needs_node_port(old) && needs_node_port(service) {
        let of = |port: &Value| (text(port, "protocol").to_owned(), number(port, "port"));
        let spec = object(service, "spec");
        let mut used: BTreeSet<i64> =
            items(spec, "ports").iter().map(|p| number(p, "nodePort")).collect();
        let mut before = HashMap::new();
        for old in items(old_spec, "ports") {
            before.entry(of(old)).or_insert(number(old, "nodePort"));
        }
        for port in items_mut(spec, "ports") {
            let was = before.get(&of(port)).copied().unwrap_or_default();
            if number(port, "nodePort") == 0 && was != 0 && used.insert(was) {
                set(port, "nodePort", was);
            }
        }
    }
    if needs_health_check_port(old) && needs_health_check_port(service) {
        let spec = object(service, "spec");
        if number(spec, "healthCheckNodePort") == 0 {
            keep(spec, old_spec, "healthCheckNodePort");
        }
    }
}

/// Takes away values that belonged to the old type, unless the client changed them.
pub fn drop_type_dependent_fields(service: &mut Value, old: &Value) {
    let (before, now) = (needs_cluster_ip(old), needs_cluster_ip(service));
    let old_spec = &old["spec"];
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if before && !now && external(&service["spec"]) {
        let spec = object(service, "spec");
        if spec.get("clusterIP") == old_spec.get("clusterIP") {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                drop_field(spec, key);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(service) {
        let old_ports = items(old_spec, "ports");
        for (at, port) in items_mut(object(service, "spec"), "ports").enumerate() {
            let same = old_ports.get(at).is_some_and(|o| o.get("nodePort") == port.get("nodePort"));
            if same {
                drop_field(port, "nodePort");
            }
        }
    }
    let lost_health = needs_health_check_port(old) && !needs_health_check_port(service);
    let balancer_before = text(old_spec, "type") == "LoadBalancer";
    let spec = object(service, "spec");
    if lost_health && spec.get("healthCheckNodePort") == old_spec.get("healthCheckNodePort") {
        drop_field(spec, "healthCheckNodePort");
    }
    if balancer_before && text(spec, "type") != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec.get(key) == old_spec.get(key) {
                drop_field(spec, key);
            }
        }
    }
    if externally_accessible(old_spec)
        && !externally_accessible(spec)
        && spec.get("externalTrafficPolicy") == old_spec.get("externalTrafficPolicy")
    {
        drop_field(spec, "externalTrafficPolicy");
    }
    if !external(old_spec)
        && external(spec)
        && spec.get("internalTrafficPolicy") == old_spec.get("internalTrafficPolicy")
    {
        drop_field(spec, "internalTrafficPolicy");
    }
}

/// Sets `ipFamilies` and `ipFamilyPolicy` as a server with IPv4 addresses only does.
pub fn init_ip_families(service: &mut Value) {
    let open = is_headless(service) && !has(&service["spec"], "selector");
    let spec = object(service, "spec");
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let families = items(spec, "ipFamilies").to_vec();
    if !open {
        fill(spec, "ipFamilyPolicy", "SingleStack");
        // An address of another family is refused, and the refusal names the address.
        let other = items(spec, "clusterIPs")
            .iter()
            .any(|ip| ip.as_str().is_some_and(|ip| family_of(ip) == "IPv6"));
        if families.is_empty() && !other {
            set(spec, "ipFamilies", json!(["IPv4"]));
        }
        return;
    }
    // Nobody knows what backs it: it may be anything.
    fill(spec, "ipFamilyPolicy", "RequireDualStack");
    let single = text(spec, "ipFamilyPolicy") == "SingleStack";
    match families.first() {
        None if single => set(spec, "ipFamilies", json!(["IPv4"])),
        None => set(spec, "ipFamilies", json!(["IPv4", "IPv6"])),
        Some(one) if families.len() == 1 && !single => {
            let other = if one == "IPv4" { "IPv6" } else { "IPv4" };
            set(spec, "ipFamilies", json!([one, other]));
        }
        Some(_) => {}
    }
}

/// Returns the problems of the fields around cluster IPs, which are reported alone: nothing can be
/// allocated.
pub fn validate_cluster_ips(service: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let spec = &service["spec"];
    if text(spec, "type") == "ExternalName" {
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if has(spec, key) {
                errors.push(FieldError::forbidden(
                    format!("spec.{key}"),
                    "may not be set for ExternalName services",
                ));
            }
        }
        return errors;
    }
    check_first_ip(&mut errors, spec);
    check_family_names(&mut errors, spec);
    check_ips(&mut errors, spec);
    // Nobody knows what backs a headless service without a selector.
    if errors.is_empty() && (has(spec, "selector") || !is_headless(service)) {
        check_families(&mut errors, spec);
    }
    errors
}

/// Checks that the first of the cluster IPs is the cluster IP.
fn check_first_ip(errors: &mut FieldErrors, spec: &Value) {
    let ips = &spec["clusterIPs"];
    let first = items(spec, "clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
    let path = "spec.clusterIPs";
    match text(spec, "clusterIP") {
        ip if ip == first => {}
        "" => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(path, ips, why));
        }
        _ if first.is_empty() => errors.push(FieldError::required(path, "")),
        _ => errors.push(FieldError::invalid(path, ips, "first value must match `clusterIP`")),
    }
}

fn check_family_names(errors: &mut FieldErrors, spec: &Value) {
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = spec["ipFamilyPolicy"].as_str()
        && !policies.contains(&policy)
    {
        errors.push(FieldError::not_supported("spec.ipFamilyPolicy", &policy.into(), &policies));
    }
    let mut seen = HashSet::new();
    for (at, family) in items(spec, "ipFamilies").iter().enumerate() {
        let path = format!("spec.ipFamilies[{at}]");
        if family != "IPv4" && family != "IPv6" {
            errors.push(FieldError::not_supported(&*path, family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(path, family));
        }
    }
}

fn check_ips(errors: &mut FieldErrors, spec: &Value) {
    let (path, ips) = ("spec.clusterIPs", items(spec, "clusterIPs"));
    if ips.len() > 2 {
        let why = "may only hold up to 2 values";
        errors.push(FieldError::invalid(path, &spec["clusterIPs"], why));
    }
    let headless = ips.first().is_some_and(|first| first == "None");
    if headless && ips.len() > 1 {
        let why = "'None' must be the first and only value";
        errors.push(FieldError::invalid(path, &spec["clusterIPs"], why));
    }
    let mut families = Vec::new();
    for (at, value) in ips.iter().enumerate().skip(usize::from(headless)) {
        let value = value.as_str().unwrap_or_default();
        families.extend(ip(errors, &format!("{path}[{at}]"), value).map(|_| family_of(value)));
    }
    if headless || families.len() < ips.len() {
        return;
    }
    if families.len() > 1 && families.iter().all(|family| *family == families[0]) {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(path, &spec["clusterIPs"], why));
    }
    for (at, (family, wanted)) in families.iter().zip(items(spec, "ipFamilies")).enumerate() {
        if *family != *wanted && (wanted == "IPv4" || wanted == "IPv6") {
            let wanted = wanted.as_str().unwrap_or_default();
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{at}]`");
            errors.push(FieldError::invalid(format!("{path}[{at}]"), &ips[at], why));
        }
    }
}

/// Returns the family of an address.
fn family_of(ip: &str) -> &'static str {
    if ip.contains(':') { "IPv6" } else { "IPv4" }
}

/// Refuses families that the server does not have.
fn check_families(errors: &mut FieldErrors, spec: &Value) {
    let (families, ips) = (items(spec, "ipFamilies"), items(spec, "clusterIPs"));
    let policy = text(spec, "ipFamilyPolicy");
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid_str("spec.ipFamilyPolicy", policy, why));
        return;
    }
    let many = match (ips.len() > 1, families.len() > 1) {
        (true, _) => "cluster IPs",
        (_, true) => "IP families",
        _ => "",
    };
    if !many.is_empty() && matches!(policy, "" | "SingleStack") {
        let why = format!(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"
        );
        errors.push(FieldError::invalid_str("spec.ipFamilyPolicy", "SingleStack", why));
        if families.len() > 1 {
            return;
        }
    }
    for (at, _) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        let path = format!("spec.ipFamilies[{at}]");
        errors.push(FieldError::invalid_str(path, "IPv6", "not configured on this cluster"));
    }
    for (at, ip) in ips.iter().enumerate().skip(families.len()) {
        if family_of(ip.as_str().unwrap_or_default()) == "IPv6" {
            let path = format!("spec.clusterIPs[{at}]");
            let why = "IPv6 is not configured on this cluster";
            errors.push(FieldError::invalid(path, &spec["clusterIPs"], why));
        }
    }
}

/// Returns `true` if it can be reached from outside the cluster.
pub(super) fn externally_accessible(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

fn changed_cluster_ips(service: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let (spec, old_spec) = (&service["spec"], &old["spec"]);
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if external(spec) || external(old_spec) {
        return errors;
    }
    let (ips, was) = (items(spec, "clusterIPs"), items(old_spec, "clusterIPs"));
    match (was.first(), ips.first()) {
        (Some(_), None) => errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &spec["clusterIPs"],
            "primary clusterIP can not be unset",
        )),
        (Some(before), Some(now)) if before != now => errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &spec["clusterIPs"],
            "may not change once set",
        )),
        _ => {}
    }
    errors
}

fn validate(service: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let spec = &service["spec"];
    let kind = text(spec, "type");
    let headless = is_headless(service);
    let ports = items(spec, "ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => errors.push(FieldError::invalid_str(
            "spec.clusterIPs[0]",
            "None",
            format!("may not be set to 'None' for {kind} services"),
        )),
        "ExternalName" => {
            if !items(spec, "clusterIPs").is_empty() {
                let why = "may not be set for ExternalName services";
                errors.push(FieldError::forbidden("spec.clusterIPs", why));
            }
            let name = text(spec, "externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            match name.is_empty() {
                true => errors.push(FieldError::required("spec.externalName", "")),
                false => push(&mut errors, "spec.externalName", name, dns_subdomain(name)),
            }
        }
        _ => {}
    }
    check_ports(&mut errors, ports);
    labels(&mut errors, "spec.selector", spec, "selector");
    check_affinity(&mut errors, spec);
    errors.extend(validate_cluster_ips(service));
    for (at, address) in items(spec, "externalIPs").iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let path = format!("spec.externalIPs[{at}]");
        if ip(&mut errors, &path, address).is_some() {
            ordinary_ip(&mut errors, &path, address);
        }
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&mut errors, "spec.type", kind, &types);
    check_port_sets(&mut errors, kind, ports);
    check_traffic(&mut errors, spec);
    check_health_port(&mut errors, service);
    errors
}

fn check_affinity(errors: &mut FieldErrors, spec: &Value) {
    let affinity = text(spec, "sessionAffinity");
    one_of(errors, "spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    let path = "spec.sessionAffinityConfig";
    match affinity {
        "ClientIP" => {
            let seconds = number(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds");
            if !(1..=86400).contains(&seconds) {
                errors.push(FieldError::invalid(
                    format!("{path}.clientIP.timeoutSeconds"),
                    &seconds.into(),
                    "must be greater than 0 and less than 86400",
                ));
            }
        }
        "None" if has(spec, "sessionAffinityConfig") => errors
            .push(FieldError::forbidden(path, "must not be set when session affinity is None")),
        _ => {}
    }
}
