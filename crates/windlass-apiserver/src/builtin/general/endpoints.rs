//! Endpoints and EndpointSlice.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_text::select::key;

use super::names::{dns_label, dns_subdomain, ip, ordinary_ip, port_number, push};
use super::service_traffic::address_warnings;
use super::tools::{
    drop_empty, drop_field, fill, fill_text, immutable, items, items_mut, number, object, one_of,
    one_of_if_set, set, text,
};
use crate::builtin::Strategy;
use crate::builtin::rules::names::Check;
use crate::status::{FieldError, FieldErrors};

const HINTS_MAX: usize = 8;
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Endpoints.
pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn defaults(&self, endpoints: &mut Value) {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill_text(port, "protocol", "TCP");
            }
            for key in ["addresses", "notReadyAddresses", "ports"] {
                drop_empty(subset, key);
            }
        }
        drop_empty(endpoints, "subsets");
    }

    fn validate(&self, endpoints: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for (at, subset) in items(endpoints, "subsets").iter().enumerate() {
            check_subset(&mut errors, &format!("subsets[{at}]"), subset);
        }
        errors
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn is_restored(&self, namespace: &str, name: &str) -> bool {
        (namespace, name) == ("default", "kubernetes")
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("services/endpoints")
    }

    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }
}

/// EndpointSlice.
pub(super) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn defaults(&self, slice: &mut Value) {
        fill(slice, "endpoints", Value::Null);
        fill(slice, "ports", Value::Null);
        for endpoint in items_mut(slice, "endpoints") {
            fill(endpoint, "conditions", json!({}));
        }
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    }

    fn prepare_create(&self, slice: &mut Value) {
        for endpoint in items_mut(slice, "endpoints") {
            drop_field(endpoint, "deprecatedTopology");
        }
    }

    fn prepare_update(&self, slice: &mut Value, old: &Value) {
        self.prepare_create(slice);
        // Watchers choose slices by their labels, so a change of them counts.
        if slice["metadata"]["labels"] != old["metadata"]["labels"] {
            let generation = number(&old["metadata"], "generation") + 1;
            set(object(slice, "metadata"), "generation", generation);
        }
    }

    fn validate(&self, slice: &Value) -> FieldErrors {
        let mut errors = check_slice(slice);
        check_endpoints(&mut errors, slice);
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value) -> FieldErrors {
        let mut errors = check_slice(slice);
        if slice["endpoints"] != old["endpoints"] {
            check_endpoints(&mut errors, slice);
        }
        immutable(&mut errors, "addressType", &slice["addressType"], &old["addressType"]);
        errors
    }

    fn warnings(&self, slice: &Value, old: Option<&Value>) -> Vec<String> {
        let deprecated = old.is_none() && text(slice, "addressType") == "FQDN";
        let deprecated =
            deprecated.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned());
        let endpoints = items(slice, "endpoints").iter().enumerate();
        let addresses = endpoints.flat_map(|(at, endpoint)| {
            let path = format!("endpoints[{at}].addresses");
            address_warnings(items(endpoint, "addresses"), &path)
        });
        deprecated.into_iter().chain(addresses).collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn is_restored(&self, namespace: &str, name: &str) -> bool {
        (namespace, name) == ("default", "kubernetes")
    }
}

/// A slice without its endpoints.
fn check_slice(slice: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let kind = text(slice, "addressType");
    one_of(&mut errors, "addressType", kind, &["FQDN", "IPv4", "IPv6"]);
    check_slice_ports(&mut errors, items(slice, "ports"));
    errors
}

fn check_endpoints(errors: &mut FieldErrors, slice: &Value) {
    let (kind, endpoints) = (text(slice, "addressType"), items(slice, "endpoints"));
    if endpoints.len() > 1000 {
        errors.push(FieldError::too_many("endpoints", endpoints.len(), 1000));
        return;
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        check_endpoint(errors, &format!("endpoints[{at}]"), endpoint, kind);
    }
}

fn check_subset(errors: &mut FieldErrors, path: &str, subset: &Value) {
    let (ready, waiting) = (items(subset, "addresses"), items(subset, "notReadyAddresses"));
    if ready.is_empty() && waiting.is_empty() {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (key, list) in [("addresses", ready), ("notReadyAddresses", waiting)] {
        for (at, address) in list.iter().enumerate() {
            let path = format!("{path}.{key}[{at}]");
            let value = text(address, "ip");
            ip(errors, &format!("{path}.ip"), value);
            let hostname = text(address, "hostname");
            if !hostname.is_empty() {
                push(errors, &format!("{path}.hostname"), hostname, dns_label(hostname));
            }
            if let Some(node) = address["nodeName"].as_str() {
                push(errors, &format!("{path}.nodeName"), node, dns_subdomain(node));
            }
            ordinary_ip(errors, &format!("{path}.ip"), value);
        }
    }
    let ports = items(subset, "ports");
    for (at, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        let name = text(port, "name");
        match name.is_empty() {
            true if ports.len() > 1 => {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            }
            true => {}
            false => push(errors, &format!("{path}.name"), name, dns_label(name)),
        }
        check_number(errors, &path, port);
        one_of(errors, &format!("{path}.protocol"), text(port, "protocol"), &PROTOCOLS);
        check_app_protocol(errors, &path, port);
    }
}

fn check_app_protocol(errors: &mut FieldErrors, path: &str, port: &Value) {
    if let Some(app) = port["appProtocol"].as_str() {
        push(errors, &format!("{path}.appProtocol"), app, key::qualified_name(app));
    }
}

fn check_number(errors: &mut FieldErrors, path: &str, port: &Value) {
    let number = port["port"].as_i64().unwrap_or_default();
    if let Some(why) = port_number(number) {
        errors.push(FieldError::invalid(format!("{path}.port"), &number.into(), why));
    }
}

fn check_endpoint(errors: &mut FieldErrors, path: &str, endpoint: &Value, kind: &str) {
    let addresses = items(endpoint, "addresses");
    let list = format!("{path}.addresses");
    if addresses.is_empty() {
        errors.push(FieldError::required(&list, "must contain at least 1 address"));
    } else if addresses.len() > 100 {
        errors.push(FieldError::too_many(&list, addresses.len(), 100));
    }
    for (at, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let path = format!("{list}[{at}]");
        match kind {
            "FQDN" => push(errors, &path, address, dns_subdomain(address)),
            "IPv4" | "IPv6" => {
                let Some(found) = ip(errors, &path, address) else { continue };
                if found.is_ipv4() != (kind == "IPv4") {
                    let why = format!("must be an {kind} address");
                    errors.push(FieldError::invalid_str(&list, address, why));
                }
                ordinary_ip(errors, &path, address);
            }
            _ => {}
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        push(errors, &format!("{path}.nodeName"), node, dns_subdomain(node));
    }
    if let Some(hostname) = endpoint["hostname"].as_str() {
        push(errors, &format!("{path}.hostname"), hostname, dns_label(hostname));
    }
    check_hints(errors, &format!("{path}.hints"), &endpoint["hints"]);
}

fn check_hints(errors: &mut FieldErrors, path: &str, hints: &Value) {
    for (key, check) in [("forZones", key::label_value as Check), ("forNodes", dns_subdomain)] {
        let (list, path) = (items(hints, key), format!("{path}.{key}"));
        if list.len() > HINTS_MAX {
            errors.push(FieldError::too_many(&path, list.len(), HINTS_MAX));
            return;
        }
        let mut seen = BTreeSet::new();
        for (at, hint) in list.iter().enumerate() {
            let (name, path) = (text(hint, "name"), format!("{path}[{at}].name"));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&path, &name.into()));
            }
            push(errors, &path, name, check(name));
        }
    }
}

fn check_slice_ports(errors: &mut FieldErrors, ports: &[Value]) {
    if ports.len() > 20_000 {
        errors.push(FieldError::too_many("ports", ports.len(), 20_000));
        return;
    }
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("ports[{at}]");
        let name = text(port, "name");
        if !name.is_empty() {
            push(errors, &format!("{path}.name"), name, dns_label(name));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
        one_of_if_set(errors, &format!("{path}.protocol"), &port["protocol"], &PROTOCOLS);
        check_app_protocol(errors, &path, port);
    }
}
