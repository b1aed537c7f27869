//! NetworkPolicy.

use serde_json::{Value, json};

use super::names::{cidr, port_name, port_number, push, selector};
use super::service_traffic::block_warnings;
use super::tools::{fill, has, items, items_mut, object, set};
use crate::builtin::Strategy;
use crate::builtin::rules::net;
use crate::status::{FieldError, FieldErrors};

/// NetworkPolicy.
pub(super) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn defaults(&self, policy: &mut Value) {
        let spec = object(policy, "spec");
        object(spec, "podSelector");
        if items(spec, "policyTypes").is_empty() {
            let both = !items(spec, "egress").is_empty();
            let types = if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            set(spec, "policyTypes", types);
        }
        for side in ["ingress", "egress"] {
            for rule in items_mut(spec, side) {
                for port in items_mut(rule, "ports") {
                    fill(port, "protocol", "TCP");
                }
            }
        }
    }

    fn validate(&self, policy: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &policy["spec"];
        selector(&mut errors, "spec.podSelector", &spec["podSelector"]);
        for (side, peers) in [("ingress", "from"), ("egress", "to")] {
            for (at, rule) in items(spec, side).iter().enumerate() {
                let path = format!("spec.{side}[{at}]");
                for (at, port) in items(rule, "ports").iter().enumerate() {
                    check_port(&mut errors, &format!("{path}.ports[{at}]"), port);
                }
                for (at, peer) in items(rule, peers).iter().enumerate() {
                    check_peer(&mut errors, &format!("{path}.{peers}[{at}]"), peer);
                }
            }
        }
        let types = items(spec, "policyTypes");
        if types.len() > 2 {
            errors.push(FieldError::invalid(
                "spec.policyTypes",
                &spec["policyTypes"],
                "may not specify more than two policyTypes",
            ));
            return errors;
        }
        for (at, kind) in types.iter().enumerate() {
            if kind != "Ingress" && kind != "Egress" {
                let path = format!("spec.policyTypes[{at}]");
                errors.push(FieldError::not_supported(path, kind, &["Ingress", "Egress"]));
            }
        }
        errors
    }

    fn warnings(&self, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        for (list, side) in [("ingress", "from"), ("egress", "to")] {
            for (at, rule) in items(&policy["spec"], list).iter().enumerate() {
                for (peer_at, peer) in items(rule, side).iter().enumerate() {
                    let path = format!("spec.{list}[{at}].{side}[{peer_at}].ipBlock");
                    let block = &peer["ipBlock"];
                    let range = block["cidr"].as_str().unwrap_or_default();
                    out.extend(net::cidr_warning(&format!("{path}.cidr"), range));
                    out.extend(block_warnings(items(block, "except"), &format!("{path}.except")));
                }
            }
        }
        out
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn check_port(errors: &mut FieldErrors, path: &str, port: &Value) {
    if let Some(protocol) = port["protocol"].as_str()
        && !["TCP", "UDP", "SCTP"].contains(&protocol)
    {
        errors.push(FieldError::not_supported(
            format!("{path}.protocol"),
            &protocol.into(),
            &["TCP", "UDP", "SCTP"],
        ));
    }
    let end_path = format!("{path}.endPort");
    match &port["port"] {
        Value::Null => {
            if has(port, "endPort") {
                let why = "may not be specified when `port` is not specified";
                errors.push(FieldError::invalid(end_path, &port["endPort"], why));
            }
        }
        Value::String(name) => {
            if has(port, "endPort") {
                let why = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(end_path, &port["endPort"], why));
            }
            push(errors, &format!("{path}.port"), name, port_name(name));
        }
        number => {
            let start = number.as_i64().unwrap_or_default();
            if let Some(why) = port_number(start) {
                errors.push(FieldError::invalid(format!("{path}.port"), number, why));
            }
            if let Some(end) = port["endPort"].as_i64() {
                if end < start {
                    let why = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&end_path, number, why));
                }
                if let Some(why) = port_number(end) {
                    errors.push(FieldError::invalid(end_path, &port["endPort"], why));
                }
            }
        }
    }
}

fn check_peer(errors: &mut FieldErrors, path: &str, peer: &Value) {
    let mut kinds = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if has(peer, key) {
            kinds += 1;
            selector(errors, &format!("{path}.{key}"), &peer[key]);
        }
    }
    let block = &peer["ipBlock"];
    if has(peer, "ipBlock") {
        check_block(errors, &format!("{path}.ipBlock"), block);
        if kinds > 0 {
            let why = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(path, why));
        }
    } else if kinds == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
}

fn check_block(errors: &mut FieldErrors, path: &str, block: &Value) {
    let range = block["cidr"].as_str().unwrap_or_default();
    if range.is_empty() {
        errors.push(FieldError::required(format!("{path}.cidr"), ""));
        return;
    }
    let Some(outer) = cidr(errors, &format!("{path}.cidr"), range) else { return };
    for (at, except) in items(block, "except").iter().enumerate() {
        let path = format!("{path}.except[{at}]");
        let except = except.as_str().unwrap_or_default();
        if let Some(inner) = cidr(errors, &path, except)
            && (!outer.contains(&inner.addr()) || outer.prefix_len() >= inner.prefix_len())
        {
            let why = "must be a strict subset of `cidr`";
            errors.push(FieldError::invalid_str(path, except, why));
        }
    }
}
