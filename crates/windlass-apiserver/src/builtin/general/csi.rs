//! CSIDriver, CSINode and CSIStorageCapacity.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_text::select::key;

use super::names::{dns_subdomain, push, selector};
use super::quantity;
use super::tools::{
    drop_field, entries, fill, has, immutable, items, object, one_of_if_set, set, text,
};
use super::volume::driver_name;
use crate::builtin::Strategy;
use crate::builtin::rules::NEGATIVE;
use crate::builtin::rules::value::show_ordered;
use crate::builtin::workload::pod_warnings;
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

const TOKENS_IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this \
     CSI driver, set to true to prevent possible logging of tokens in volume attributes";

/// The longest name a driver may have for a node.
const NODE_ID_MAX: usize = 256;

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

    fn prepare_create(&self, driver: &mut Value) {
        // Its feature is off.
        drop_field(object(driver, "spec"), "preventPodSchedulingIfMissing");
    }

    fn prepare_update(&self, driver: &mut Value, old: &Value) {
        if !has(&old["spec"], "preventPodSchedulingIfMissing") {
            self.prepare_create(driver);
        }
        if driver["spec"] != old["spec"] {
            // A new driver has no generation.
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
            set(object(driver, "metadata"), "generation", generation);
        }
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
        let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for driver in items(&node["spec"], "drivers") {
            by_name.entry(text(driver, "name")).or_default().push(driver);
        }
        for before in items(&old["spec"], "drivers") {
            for driver in by_name.get(text(before, "name")).into_iter().flatten() {
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
        let mut errors = self.validate(capacity);
        for key in ["nodeTopology", "storageClassName"] {
            immutable(&mut errors, key, &capacity[key], &old[key]);
        }
        errors
    }

    fn warnings(&self, capacity: &Value, _old: Option<&Value>) -> Vec<String> {
        let (topology, mut found) = (&capacity["nodeTopology"], Vec::new());
        pod_warnings::expressions(&mut found, topology, "nodeTopology");
        for (label, _) in entries(topology, "matchLabels") {
            if let Some(why) = pod_warnings::deprecated_label(label) {
                found.push(format!("nodeTopology.matchLabels.{label}: {why}"));
            }
        }
        found
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
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
