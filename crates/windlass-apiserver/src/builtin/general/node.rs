//! Node.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_text::select::key;

use super::names::{cidr, push};
use super::quantity;
use super::tools::{
    drop_empty, drop_field, entries, fill, has, items, keep, object, one_of, set, text,
};
use crate::builtin::Strategy;
use crate::builtin::rules::value::show_ordered;
use crate::builtin::rules::{NEGATIVE, net};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

const INFO: [&str; 10] = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

/// Node.
pub(super) struct Node;

impl Strategy for Node {
    fn warnings(&self, node: &Value, _old: Option<&Value>) -> Vec<String> {
        let (spec, mut found) = (&node["spec"], Vec::new());
        if has(spec, "configSource") {
            found.push("spec.configSource: the feature is removed".to_owned());
        }
        if !text(spec, "externalID").is_empty() {
            let why = "this field is deprecated, and is unused by Kubernetes";
            found.push(format!("spec.externalID: {why}"));
        }
        for (at, range) in items(spec, "podCIDRs").iter().enumerate() {
            let path = format!("spec.podCIDRs[{at}]");
            found.extend(net::cidr_warning(&path, range.as_str().unwrap_or_default()));
        }
        found
    }

    fn prepare_create(&self, node: &mut Value) {
        drop_field(object(node, "spec"), "configSource");
        drop_field(object(node, "status"), "config");
    }

    fn defaults(&self, node: &mut Value) {
        let spec = object(node, "spec");
        let single = text(spec, "podCIDR").to_owned();
        // The older field wins if the two do not agree.
        match items(spec, "podCIDRs").first().cloned() {
            Some(first) if single.is_empty() => set(spec, "podCIDR", first),
            Some(first) if first == single.as_str() => {}
            _ if single.is_empty() => {}
            _ => set(spec, "podCIDRs", json!([single])),
        }
        drop_empty(spec, "taints");
        let status = object(node, "status");
        if has(status, "capacity") && !has(status, "allocatable") {
            let capacity = status["capacity"].clone();
            set(status, "allocatable", capacity);
        }
        fill(object(object(status, "daemonEndpoints"), "kubeletEndpoint"), "Port", 0);
        let info = object(status, "nodeInfo");
        for key in INFO {
            fill(info, key, "");
        }
    }

    fn prepare_update(&self, node: &mut Value, old: &Value) {
        keep(node, old, "status");
        if !has(&old["spec"], "configSource") {
            drop_field(object(node, "spec"), "configSource");
        }
    }

    fn prepare_status(&self, node: &mut Value, old: &Value) {
        keep(node, old, "spec");
        if !has(&old["status"], "config") {
            drop_field(object(node, "status"), "config");
        }
    }

    fn validate(&self, node: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_taints(&mut errors, items(&node["spec"], "taints"));
        check_amounts(&mut errors, &node["status"]);
        let ranges = items(&node["spec"], "podCIDRs");
        let mut families = Vec::new();
        for (at, range) in ranges.iter().enumerate() {
            let range = range.as_str().unwrap_or_default();
            let parsed = cidr(&mut errors, &format!("spec.podCIDRs[{at}]"), range);
            families.extend(parsed.map(|net| net.addr().is_ipv4()));
        }
        let two = families.len() == 2 && families[0] != families[1];
        if ranges.len() > 1 && !two {
            let why = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid("spec.podCIDRs", &node["spec"]["podCIDRs"], why));
        }
        errors
    }

    fn validate_update(&self, node: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(node);
        errors.extend(self.validate_status(node, old));
        errors
    }

    fn validate_status(&self, node: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_amounts(&mut errors, &node["status"]);
        check_addresses(&mut errors, items(&node["status"], "addresses"));
        let (spec, old_spec) = (&node["spec"], &old["spec"]);
        let (ranges, was) = (items(spec, "podCIDRs"), items(old_spec, "podCIDRs"));
        if !was.is_empty() && ranges != was {
            errors.push(FieldError::forbidden(
                "spec.podCIDRs",
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
        let (id, old_id) = (text(spec, "providerID"), text(old_spec, "providerID"));
        if !old_id.is_empty() && id != old_id {
            errors.push(FieldError::forbidden(
                "spec.providerID",
                "node updates may not change providerID except from \"\" to valid",
            ));
        }
        check_taints(&mut errors, items(spec, "taints"));
        if text(spec, "externalID") != text(old_spec, "externalID") {
            errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
        }
        errors
    }

    fn selectable_fields(&self, node: &Value) -> Option<Vec<(&'static str, String)>> {
        let unschedulable = node["spec"]["unschedulable"] == true;
        Some(vec![("spec.unschedulable", unschedulable.to_string())])
    }

    fn selects_namespace(&self) -> bool {
        false
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("minions")
    }
}

/// No two addresses of a node are the same.
fn check_addresses(errors: &mut FieldErrors, addresses: &[Value]) {
    let mut seen = BTreeSet::new();
    for (at, address) in addresses.iter().enumerate() {
        let (kind, host) = (text(address, "type"), text(address, "address"));
        if !seen.insert((kind, host)) {
            let shown = show_ordered(&json!({"Type": kind, "Address": host}), &["Type", "Address"]);
            let path = format!("status.addresses[{at}]");
            errors.push(FieldError::raw(FieldErrorKind::Duplicate, path, shown, ""));
        }
    }
}

fn check_taints(errors: &mut FieldErrors, taints: &[Value]) {
    let mut seen = BTreeSet::new();
    for (at, taint) in taints.iter().enumerate() {
        let path = format!("metadata.taints[{at}]");
        let (name, value) = (text(taint, "key"), text(taint, "value"));
        push(errors, &format!("{path}.key"), name, key::qualified_name(name));
        push(errors, &format!("{path}.value"), value, key::label_value(value));
        let effect = text(taint, "effect");
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(errors, &format!("{path}.effect"), effect, &effects);
        if !seen.insert((name, effect)) {
            let shown = json!({
                "Key": name, "Value": value, "Effect": effect, "TimeAdded": taint["timeAdded"],
            });
            let shown = show_ordered(&shown, &["Key", "Value", "Effect", "TimeAdded"]);
            let why = "taints must be unique by key and effect pair";
            errors.push(FieldError::raw(FieldErrorKind::Duplicate, path, shown, why));
        }
    }
}

/// Amounts of a node are not negative, and pods are counted in whole numbers.
fn check_amounts(errors: &mut FieldErrors, status: &Value) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in entries(status, list) {
            let shown = amount.as_str().unwrap_or_default();
            let Some(amount) = quantity::parse(shown) else { continue };
            let path = format!("status.{list}.{name}");
            if amount < 0 {
                errors.push(FieldError::invalid_str(&*path, shown, NEGATIVE));
            }
            let counted = name == "pods" || name.contains('/') && !name.contains("kubernetes.io/");
            if counted && !quantity::is_whole(amount) {
                errors.push(FieldError::invalid_str(path, shown, "must be an integer"));
            }
        }
    }
}
