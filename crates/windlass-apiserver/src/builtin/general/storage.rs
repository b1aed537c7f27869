//! The kinds of `storage.k8s.io`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_text::select::key;

use super::names::{dns_subdomain, push, selector};
use super::quantity;
use super::tools::{
    drop_empty, fill, has, immutable, items, keep, keep_meta, object, one_of, one_of_if_set, same,
    set, text,
};
use super::volume::driver_name;
use crate::builtin::Strategy;
use crate::builtin::rules::NEGATIVE;
use crate::builtin::rules::value::show_ordered;
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

const TOKENS_IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this \
     CSI driver, set to true to prevent possible logging of tokens in volume attributes";

/// The longest name a driver may have for a node.
const NODE_ID_MAX: usize = 256;

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
        let mut errors = FieldErrors::default();
        if !same(class, old, "parameters") {
            let why = "field is immutable";
            errors.push(FieldError::invalid("parameters", &class["parameters"], why));
        }
        for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
            immutable(&mut errors, key, &class[key], &old[key]);
        }
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// CSIDriver.
pub(super) struct CsiDriver;

impl Strategy for CsiDriver {
    fn defaults(&self, driver: &mut Value) {
        let spec = object(driver, "spec");
        fill(spec, "attachRequired", true);
        fill(spec, "podInfoOnMount", false);
        fill(spec, "storageCapacity", false);
        fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if items(spec, "volumeLifecycleModes").is_empty() {
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
        fill(spec, "requiresRepublish", false);
        fill(spec, "seLinuxMount", false);
    }

    fn validate(&self, driver: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &driver["spec"];
        one_of_if_set(
            &mut errors,
            "spec.fsGroupPolicy",
            &spec["fsGroupPolicy"],
            &["File", "None", "ReadWriteOnceWithFSType"],
        );
        check_tokens(&mut errors, items(spec, "tokenRequests"));
        for mode in items(spec, "volumeLifecycleModes") {
            if mode != "Persistent" && mode != "Ephemeral" {
                errors.push(FieldError::not_supported(
                    "spec.volumeLifecycleModes",
                    mode,
                    &["Persistent", "Ephemeral"],
                ));
            }
        }
        let period = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64();
        if let Some(seconds) = period.filter(|seconds| *seconds < 10) {
            let path = "spec.nodeAllocatableUpdatePeriodSeconds";
            let why = "must be greater than or equal to 10 seconds";
            errors.push(FieldError::invalid(path, &seconds.into(), why));
        }
        let secrets = &spec["serviceAccountTokenInSecrets"];
        if secrets.is_boolean() && items(spec, "tokenRequests").is_empty() {
            let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.push(FieldError::invalid("spec.serviceAccountTokenInSecrets", secrets, why));
        }
        errors
    }

    fn warnings(&self, driver: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = &driver["spec"];
        let before = old.map(|old| items(&old["spec"], "tokenRequests"));
        let tokens = items(spec, "tokenRequests");
        let asks = !tokens.is_empty() && before != Some(tokens);
        match asks && !has(spec, "serviceAccountTokenInSecrets") {
            true => vec![TOKENS_IN_SECRETS.to_owned()],
            false => Vec::new(),
        }
    }

    fn validate_update(&self, driver: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(driver);
        let (spec, old) = (&driver["spec"], &old["spec"]);
        // The real server misspells the first of these paths.
        for (name, key) in [
            ("attachedRequired", "attachRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ] {
            immutable(&mut errors, &format!("spec.{name}"), &spec[key], &old[key]);
        }
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// CSINode.
pub(super) struct CsiNode;

impl Strategy for CsiNode {
    fn defaults(&self, node: &mut Value) {
        fill(object(node, "spec"), "drivers", Value::Null);
    }

    fn validate(&self, node: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let mut seen = BTreeSet::new();
        for (at, driver) in items(&node["spec"], "drivers").iter().enumerate() {
            let path = format!("spec.drivers[{at}]");
            let name = text(driver, "name");
            driver_name(&mut errors, &format!("{path}.name"), name);
            let node = text(driver, "nodeID");
            if node.is_empty() {
                errors.push(FieldError::required(format!("{path}.nodeID"), ""));
            } else if node.len() > NODE_ID_MAX {
                let why = format!("must be {NODE_ID_MAX} characters or less");
                errors.push(FieldError::invalid_str(format!("{path}.nodeID"), node, why));
            }
            if let Some(count) = driver["allocatable"]["count"].as_i64().filter(|n| *n < 0) {
                let path = format!("{path}.allocatable.count");
                errors.push(FieldError::invalid(path, &count.into(), NEGATIVE));
            }
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
            }
            check_topology_keys(&mut errors, &path, items(driver, "topologyKeys"));
        }
        errors
    }

    fn validate_update(&self, node: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(node);
        for before in items(&old["spec"], "drivers") {
            let drivers = items(&node["spec"], "drivers").iter();
            for driver in drivers.filter(|d| d["name"] == before["name"]) {
                let same = |key: &str| driver.get(key) == before.get(key);
                if !same("nodeID") || !same("topologyKeys") {
                    let shown = json!({
                        "Name": driver["name"], "NodeID": text(driver, "nodeID"),
                        "TopologyKeys": driver["topologyKeys"], "Allocatable": null,
                    });
                    let order = ["Name", "NodeID", "TopologyKeys", "Allocatable"];
                    let shown = show_ordered(&shown, &order);
                    let why = "field is immutable";
                    let kind = FieldErrorKind::Invalid;
                    errors.push(FieldError::raw(kind, "spec.drivers", shown, why));
                }
            }
        }
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// CSIStorageCapacity.
pub(super) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, capacity: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if has(capacity, "nodeTopology") {
            selector(&mut errors, "nodeTopology", &capacity["nodeTopology"]);
        }
        let class = text(capacity, "storageClassName");
        push(&mut errors, "storageClassName", class, dns_subdomain(class));
        let amount = text(capacity, "capacity");
        if quantity::parse(amount).is_some_and(|n| n < 0) {
            errors.push(FieldError::invalid_str("capacity", amount, NEGATIVE));
        }
        errors
    }

    fn validate_update(&self, capacity: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for key in ["nodeTopology", "storageClassName"] {
            immutable(&mut errors, key, &capacity[key], &old[key]);
        }
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
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

fn check_topology_keys(errors: &mut FieldErrors, path: &str, keys: &[Value]) {
    let mut seen = BTreeSet::new();
    for name in keys.iter().filter_map(Value::as_str) {
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path, &name.into()));
        }
        push(errors, path, name, key::qualified_name(name));
    }
}

fn check_tokens(errors: &mut FieldErrors, requests: &[Value]) {
    let mut audiences = BTreeSet::new();
    for (at, request) in requests.iter().enumerate() {
        let path = format!("spec.tokenRequests[{at}]");
        let audience = text(request, "audience");
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(format!("{path}.audience"), &audience.into()));
            continue;
        }
        let Some(seconds) = request["expirationSeconds"].as_i64() else { continue };
        let path = format!("{path}.expirationSeconds");
        if seconds < 600 {
            let why = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid(path, &seconds.into(), why));
        } else if seconds > 1 << 32 {
            let why = "may not specify a duration larger than 2^32 seconds";
            errors.push(FieldError::invalid(path, &seconds.into(), why));
        }
    }
}
