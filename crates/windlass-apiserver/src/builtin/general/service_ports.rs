//! The ports of a service.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_text::select::key;

use super::names::{dns_label, port_name, port_number, push};
use super::tools::{number, one_of, text};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// Problems of each port.
pub(super) fn check_ports(errors: &mut FieldErrors, ports: &[Value]) {
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            }
        } else {
            push(errors, &format!("{path}.name"), name, dns_label(name));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        let number = number(port, "port");
        if let Some(why) = port_number(number) {
            errors.push(FieldError::invalid(format!("{path}.port"), &number.into(), why));
        }
        let protocol = text(port, "protocol");
        one_of(errors, &format!("{path}.protocol"), protocol, &["SCTP", "TCP", "UDP"]);
        let target = format!("{path}.targetPort");
        match &port["targetPort"] {
            Value::String(name) => push(errors, &target, name, port_name(name)),
            other => {
                if let Some(why) = port_number(other.as_i64().unwrap_or_default()) {
                    errors.push(FieldError::invalid(target, other, why));
                }
            }
        }
        if let Some(app) = port["appProtocol"].as_str() {
            push(errors, &format!("{path}.appProtocol"), app, key::qualified_name(app));
        }
    }
}

/// Rules across ports: node ports of plain services, and what must be unique.
pub(super) fn check_port_sets(errors: &mut FieldErrors, kind: &str, ports: &[Value]) {
    let (mut node_ports, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    if kind == "ClusterIP" {
        for (at, _) in ports.iter().enumerate().filter(|(_, p)| number(p, "nodePort") != 0) {
            errors.push(FieldError::forbidden(
                format!("spec.ports[{at}].nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    for (at, port) in ports.iter().enumerate() {
        let node_port = number(port, "nodePort");
        if node_port != 0 && !node_ports.insert((text(port, "protocol"), node_port)) {
            let path = format!("spec.ports[{at}].nodePort");
            errors.push(FieldError::duplicate(path, &node_port.into()));
        }
    }
    for (at, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), number(port, "port"));
        if !pairs.insert((protocol, number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\
                 \"TargetPort\":0,\"NodePort\":0}}",
                crate::status::quote(protocol)
            );
            let path = format!("spec.ports[{at}]");
            errors.push(FieldError::raw(FieldErrorKind::Duplicate, path, shown, ""));
        }
    }
}
