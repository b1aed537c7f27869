//! The kinds of `resource.k8s.io`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::device_attributes::{check_counters, check_devices};
use super::device_requests::{CONFIGS_MAX, check_config, check_requests, check_selectors, each};
use super::names::{dns_subdomain, push};
use super::tools::{fill, has, immutable, items, items_mut, keep, keep_meta, object, set, text};
use crate::builtin::Strategy;
use crate::builtin::rules::names::qualified_name;
use crate::builtin::rules::{meta, node_selector};
use crate::status::{FieldError, FieldErrors};

/// DeviceClass.
pub(super) struct DeviceClass;

impl Strategy for DeviceClass {
    fn defaults(&self, class: &mut Value) {
        object(class, "spec");
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &class["spec"];
        check_selectors(&mut errors, "spec", spec);
        each(&mut errors, "spec.config", items(spec, "config"), CONFIGS_MAX, check_config);
        if let Some(name) = spec["extendedResourceName"].as_str() {
            let native = !name.contains('/') || name.contains("kubernetes.io/");
            let good = qualified_name(&format!("requests.{name}")).is_empty();
            if native || name.starts_with("requests.") || !good {
                let why = "must be a valid extended resource name";
                errors.push(FieldError::invalid_str("spec.extendedResourceName", name, why));
            }
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// ResourceClaim.
pub(super) struct Claim;

impl Strategy for Claim {
    fn defaults(&self, claim: &mut Value) {
        default_devices(object(object(claim, "spec"), "devices"));
        object(claim, "status");
    }

    fn prepare_create(&self, claim: &mut Value) {
        set(claim, "status", json!({}));
    }

    fn prepare_update(&self, claim: &mut Value, old: &Value) {
        keep(claim, old, "status");
    }

    fn prepare_status(&self, claim: &mut Value, old: &Value) {
        keep(claim, old, "spec");
        keep_meta(claim, old);
    }

    fn validate(&self, claim: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_requests(&mut errors, "spec.devices", &claim["spec"]["devices"]);
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        immutable(&mut errors, "spec", &claim["spec"], &old["spec"]);
        errors
    }

    fn validate_status(&self, claim: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let (path, status) = ("status.reservedFor", &claim["status"]);
        let mut consumers = HashSet::new();
        for (at, consumer) in items(status, "reservedFor").iter().enumerate() {
            let path = format!("{path}[{at}]");
            for key in ["resource", "name", "uid"] {
                if text(consumer, key).is_empty() {
                    errors.push(FieldError::required(format!("{path}.{key}"), ""));
                }
            }
            let uid = text(consumer, "uid");
            if !consumers.insert(uid) {
                errors.push(FieldError::duplicate(path, &uid.into()));
            }
        }
        if !consumers.is_empty() && !has(status, "allocation") {
            let why = "may not be specified when `allocated` is not set";
            errors.push(FieldError::forbidden(path, why));
        }
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }
}

/// ResourceClaimTemplate.
pub(super) struct ClaimTemplate;

impl Strategy for ClaimTemplate {
    fn defaults(&self, template: &mut Value) {
        default_devices(object(object(object(template, "spec"), "spec"), "devices"));
    }

    fn validate(&self, template: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        meta::template(&mut errors, &template["spec"]["metadata"], "spec.metadata");
        let devices = &template["spec"]["spec"]["devices"];
        check_requests(&mut errors, "spec.spec.devices", devices);
        errors
    }

    fn validate_update(&self, template: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(template);
        immutable(&mut errors, "spec", &template["spec"], &old["spec"]);
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// ResourceSlice.
pub(super) struct Slice;

impl Strategy for Slice {
    fn validate(&self, slice: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &slice["spec"];
        let driver = text(spec, "driver");
        match driver.is_empty() {
            true => errors.push(FieldError::required("spec.driver", "")),
            false => push(&mut errors, "spec.driver", driver, dns_subdomain(driver)),
        }
        let pool = &spec["pool"];
        if text(pool, "name").is_empty() {
            errors.push(FieldError::required("spec.pool.name", ""));
        }
        if pool["resourceSliceCount"].as_i64().unwrap_or_default() <= 0 {
            errors.push(FieldError::invalid(
                "spec.pool.resourceSliceCount",
                &pool["resourceSliceCount"].as_i64().unwrap_or_default().into(),
                "must be greater than zero",
            ));
        }
        check_places(&mut errors, spec);
        check_counters(&mut errors, spec);
        check_devices(&mut errors, spec);
        for (at, device) in items(spec, "devices").iter().enumerate() {
            let path = format!("spec.devices[{at}]");
            check_device_places(&mut errors, &path, device, spec["perDeviceNodeSelection"] == true);
        }
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(slice);
        let (spec, old) = (&slice["spec"], &old["spec"]);
        for key in ["driver", "nodeName"] {
            immutable(&mut errors, &format!("spec.{key}"), &spec[key], &old[key]);
        }
        immutable(&mut errors, "spec.pool.name", &spec["pool"]["name"], &old["pool"]["name"]);
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self, slice: &Value) -> Option<Vec<(&'static str, String)>> {
        let spec = &slice["spec"];
        Some(vec![
            ("spec.nodeName", text(spec, "nodeName").to_owned()),
            ("spec.driver", text(spec, "driver").to_owned()),
        ])
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn selects_namespace(&self) -> bool {
        false
    }

    fn unselectable(&self, field: &str) -> String {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
    }
}

/// A slice says in one way which nodes its devices are for.
fn check_places(errors: &mut FieldErrors, spec: &Value) {
    let mut given = Vec::new();
    if has(spec, "nodeName") {
        let name = text(spec, "nodeName");
        match name.is_empty() {
            true => {
                let why = "must be either unset or set to a non-empty string";
                errors.push(FieldError::invalid_str("spec.nodeName", name, why));
            }
            false => {
                given.push("`nodeName`");
                push(errors, "spec.nodeName", name, dns_subdomain(name));
            }
        }
    }
    if has(spec, "nodeSelector") {
        given.push("`nodeSelector`");
        let selector = &spec["nodeSelector"];
        node_selector::validate(errors, selector, "spec.nodeSelector");
        if items(selector, "nodeSelectorTerms").len() != 1 {
            let path = "spec.nodeSelector.nodeSelectorTerms";
            let why = "must have exactly one node selector term";
            errors.push(FieldError::invalid(path, &selector["nodeSelectorTerms"], why));
        }
    }
    for (key, shown) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match &spec[key] {
            Value::Bool(true) => given.push(shown),
            Value::Bool(false) => {
                let why = "must be either unset or set to true";
                errors.push(FieldError::invalid(format!("spec.{key}"), &spec[key], why));
            }
            _ => {}
        }
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
                required";
    match given.len() {
        0 => errors.push(FieldError::required("spec", rule)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", given.join(", "));
            let why = format!("{rule}, but multiple fields are set");
            errors.push(FieldError::invalid_str("spec", &shown, why));
        }
    }
    if has(spec, "sharedCounters") && has(spec, "devices") {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(FieldError::invalid_str("spec", "", why));
    }
}

/// A device says which nodes it is for if its slice leaves that to it.
fn check_device_places(errors: &mut FieldErrors, path: &str, device: &Value, own: bool) {
    let given = ["nodeName", "nodeSelector", "allNodes"];
    let mut given = given.into_iter().filter(|key| has(device, key)).peekable();
    if !own {
        if given.peek().is_some() {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(FieldError::invalid(path, &Value::Null, why));
        }
        return;
    }
    let mut chosen = Vec::new();
    for key in given {
        let at = format!("{path}.{key}");
        match (key, &device[key]) {
            ("nodeName", Value::String(name)) if name.is_empty() => {
                errors.push(FieldError::invalid_str(at, name, "must not be empty"));
                continue;
            }
            ("nodeName", Value::String(name)) => push(errors, &at, name, dns_subdomain(name)),
            ("nodeSelector", selector) => node_selector::validate(errors, selector, &at),
            ("allNodes", Value::Bool(false)) => {
                let why = "must be either unset or set to true";
                errors.push(FieldError::invalid(at, &Value::Bool(false), why));
                continue;
            }
            _ => {}
        }
        chosen.push(format!("`{key}`"));
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match chosen.len() {
        0 => errors.push(FieldError::required(path, rule)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", chosen.join(", "));
            errors.push(FieldError::invalid_str(path, &shown, rule));
        }
    }
}

fn default_devices(devices: &mut Value) {
    for request in items_mut(devices, "requests") {
        if has(request, "exactly") {
            default_request(object(request, "exactly"));
        }
        for alternative in items_mut(request, "firstAvailable") {
            default_request(alternative);
        }
    }
}

fn default_request(request: &mut Value) {
    fill(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        fill(request, "count", 1);
    }
    for toleration in items_mut(request, "tolerations") {
        fill(toleration, "operator", "Equal");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_a_class_and_constraints_name_requests() {
        let claim = json!({"spec": {"devices": {
            "requests": [
                {"name": "a", "exactly": {"allocationMode": "All", "count": 2,
                    "selectors": [{}]}},
                {"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "c",
                    "allocationMode": "ExactCount", "count": 1}]},
            ],
            "constraints": [{"requests": ["a/y"], "matchAttribute": "plain"}],
            "config": [{"opaque": {"driver": "d.example.com", "parameters": []}}],
        }}});
        let texts: Vec<_> = Claim.validate(&claim).iter().map(FieldError::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.devices.requests[0].exactly.deviceClassName: Required value",
                "spec.devices.requests[0].exactly.selectors[0].cel: Required value",
                "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified \
                 when allocationMode is 'All'",
                "spec.devices.requests[1]: Duplicate value: \"a\"",
                "spec.devices.constraints[0].requests[0]: Invalid value: \"a/y\": must be the \
                 name of a request in the claim or the name of a request and a subrequest \
                 separated by '/'",
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"plain\": a fully \
                 qualified name must be a domain and a name separated by a slash",
                "spec.devices.config[0].opaque.parameters: Invalid value: \"<value omitted>\": \
                 must be a valid JSON object",
            ]
        );
    }
}
