//! The kinds of `storage.k8s.io`, except those of CSI drivers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_text::select::key;

use super::names::{dns_subdomain, push};
use super::tools::{
    drop_empty, fill, has, immutable, items, keep, keep_meta, object, one_of, one_of_if_set, same,
    set, text,
};
use super::volume::driver_name;
use crate::builtin::Strategy;
use crate::builtin::workload::pod_warnings;
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The most parameters of a class, and the bytes they may have together.
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

/// StorageClass.
pub(super) struct StorageClass;

impl Strategy for StorageClass {
    fn defaults(&self, class: &mut Value) {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
        drop_empty(class, "parameters");
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_provisioner(&mut errors, "provisioner", text(class, "provisioner"));
        check_parameters(&mut errors, class);
        let policies = ["Delete", "Retain"];
        if !text(class, "reclaimPolicy").is_empty() {
            one_of_if_set(&mut errors, "reclaimPolicy", &class["reclaimPolicy"], &policies);
        }
        let modes = ["Immediate", "WaitForFirstConsumer"];
        one_of(&mut errors, "volumeBindingMode", text(class, "volumeBindingMode"), &modes);
        check_topologies(&mut errors, items(class, "allowedTopologies"));
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(class);
        if !same(class, old, "parameters") {
            let why = "field is immutable";
            errors.push(FieldError::invalid("parameters", &class["parameters"], why));
        }
        for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
            immutable(&mut errors, key, &class[key], &old[key]);
        }
        errors
    }

    fn warnings(&self, class: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut found = Vec::new();
        for (at, term) in items(class, "allowedTopologies").iter().enumerate() {
            for (i, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
                if let Some(why) = pod_warnings::deprecated_label(text(expression, "key")) {
                    let path = format!("allowedTopologies[{at}].matchLabelExpressions[{i}]");
                    found.push(format!("{path}.key: {why}"));
                }
            }
        }
        found
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// VolumeAttachment.
pub(super) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn defaults(&self, attachment: &mut Value) {
        object(object(attachment, "spec"), "source");
        fill(object(attachment, "status"), "attached", false);
    }

    fn prepare_create(&self, attachment: &mut Value) {
        set(attachment, "status", json!({"attached": false}));
    }

    fn prepare_update(&self, attachment: &mut Value, old: &Value) {
        keep(attachment, old, "status");
    }

    fn prepare_status(&self, attachment: &mut Value, old: &Value) {
        keep(attachment, old, "spec");
        keep_meta(attachment, old);
    }

    fn validate(&self, attachment: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &attachment["spec"];
        driver_name(&mut errors, "spec.attacher", text(spec, "attacher"));
        let source = &spec["source"];
        match (has(source, "persistentVolumeName"), has(source, "inlineVolumeSpec")) {
            (false, false) => errors.push(FieldError::required(
                "spec.source",
                "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            )),
            (true, true) => errors.push(FieldError::forbidden(
                "spec.source",
                "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            )),
            (true, false) if text(source, "persistentVolumeName").is_empty() => {
                errors.push(FieldError::required(
                    "spec.source.persistentVolumeName",
                    "must specify non empty persistentVolumeName",
                ));
            }
            _ => {}
        }
        let node = text(spec, "nodeName");
        push(&mut errors, "spec.nodeName", node, dns_subdomain(node));
        if let Some(name) = source["persistentVolumeName"].as_str() {
            let path = "spec.source.persistentVolumeName";
            push(&mut errors, path, name, dns_subdomain(name));
        }
        errors
    }

    fn validate_status(&self, attachment: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for key in ["attachError", "detachError"] {
            let code = &attachment["status"][key]["errorCode"];
            if code.as_i64().is_some_and(|code| code < 0) {
                let why = "must be between 0 and 2147483647, inclusive";
                errors.push(FieldError::invalid(format!("status.{key}.errorCode"), code, why));
            }
        }
        errors
    }

    fn validate_update(&self, attachment: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(attachment);
        let spec = &attachment["spec"];
        if *spec != old["spec"] {
            // Shown as the real server's own struct.
            let shown = format!(
                "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\
                 \"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
                Value::from(text(spec, "attacher")),
                spec["source"]["persistentVolumeName"],
                spec["source"]["inlineVolumeSpec"],
                Value::from(text(spec, "nodeName")),
            );
            let kind = FieldErrorKind::Invalid;
            errors.push(FieldError::raw(kind, "spec", shown, "field is immutable"));
        }
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }
}

/// VolumeAttributesClass.
pub(super) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_provisioner(&mut errors, "driverName", text(class, "driverName"));
        check_parameters(&mut errors, class);
        if class["parameters"].as_object().is_none_or(|p| p.is_empty()) {
            let why = "must contain at least one key/value pair";
            errors.push(FieldError::required("parameters", why));
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for key in ["driverName", "parameters"] {
            if class[key] != old[key] {
                let why = format!("updates to {key} are forbidden.");
                errors.push(FieldError::forbidden(key, why));
            }
        }
        errors.extend(self.validate(class));
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn check_provisioner(errors: &mut FieldErrors, path: &str, name: &str) {
    match name.to_lowercase().as_str() {
        "" => errors.push(FieldError::required(path, "")),
        lower => push(errors, path, lower, key::qualified_name(lower)),
    }
}

fn check_parameters(errors: &mut FieldErrors, class: &Value) {
    let Some(parameters) = class["parameters"].as_object() else { return };
    if parameters.len() > PARAMETERS_MAX {
        errors.push(FieldError::too_long("parameters", PARAMETERS_MAX));
        return;
    }
    if parameters.contains_key("") {
        errors.push(FieldError::invalid_str("parameters", "", "field can not be empty."));
    }
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if parameters.iter().map(bytes).sum::<usize>() > PARAMETERS_BYTES_MAX {
        errors.push(FieldError::too_long("parameters", PARAMETERS_BYTES_MAX));
    }
}

fn check_topologies(errors: &mut FieldErrors, terms: &[Value]) {
    // An empty term equals the placeholder every list starts with.
    let mut seen = vec![BTreeMap::new()];
    for (at, term) in terms.iter().enumerate() {
        let path = format!("allowedTopologies[{at}].matchLabelExpressions");
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, requirement) in items(term, "matchLabelExpressions").iter().enumerate() {
            let path = format!("{path}[{at}]");
            let values = items(requirement, "values");
            let mut set = BTreeSet::new();
            if values.is_empty() {
                errors.push(FieldError::required(format!("{path}.values"), ""));
            }
            for (at, value) in values.iter().filter_map(Value::as_str).enumerate() {
                if !set.insert(value) {
                    let path = format!("{path}.values[{at}]");
                    errors.push(FieldError::duplicate(path, &value.into()));
                }
            }
            let name = text(requirement, "key");
            push(errors, &format!("{path}.key"), name, key::qualified_name(name));
            if found.insert(name, set).is_some() {
                errors.push(FieldError::duplicate(format!("{path}.key"), &name.into()));
            }
        }
        for _ in seen.iter().filter(|other| **other == found) {
            errors.push(FieldError::duplicate(&*path, &"".into()));
        }
        seen.push(found);
    }
}
