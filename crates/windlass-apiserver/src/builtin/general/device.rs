//! The kinds of `resource.k8s.io`.

use serde_json::{Value, json};

use super::names::{dns_subdomain, push};
use super::tools::{fill, has, immutable, items, items_mut, keep, object, set, text};
use crate::builtin::Strategy;
use crate::status::FieldError;

/// DeviceClass.
pub(super) struct DeviceClass;

impl Strategy for DeviceClass {
    fn defaults(&self, class: &mut Value) {
        object(class, "spec");
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
    }

    fn validate(&self, claim: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_requests(&mut errors, "spec.devices", &claim["spec"]["devices"]);
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(claim);
        immutable(&mut errors, "spec", &claim["spec"], &old["spec"]);
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// ResourceClaimTemplate.
pub(super) struct ClaimTemplate;

impl Strategy for ClaimTemplate {
    fn defaults(&self, template: &mut Value) {
        default_devices(object(object(object(template, "spec"), "spec"), "devices"));
    }

    fn validate(&self, template: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let devices = &template["spec"]["spec"]["devices"];
        check_requests(&mut errors, "spec.spec.devices", devices);
        errors
    }

    fn validate_update(&self, template: &Value, old: &Value) -> Vec<FieldError> {
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
    fn validate(&self, slice: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
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
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value) -> Vec<FieldError> {
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

fn check_requests(errors: &mut Vec<FieldError>, path: &str, devices: &Value) {
    let mut seen = std::collections::BTreeSet::new();
    for (at, request) in items(devices, "requests").iter().enumerate() {
        let path = format!("{path}.requests[{at}]");
        let name = text(request, "name");
        match name.is_empty() {
            true => errors.push(FieldError::required(format!("{path}.name"), "")),
            false => {
                let problems = super::names::dns_label(name);
                push(errors, &format!("{path}.name"), name, problems);
            }
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
        let several = !items(request, "firstAvailable").is_empty();
        match (has(request, "exactly"), several) {
            (false, false) => errors.push(FieldError::required(
                path,
                "exactly one of `exactly` or `firstAvailable` is required",
            )),
            (true, true) => errors.push(FieldError::invalid(
                path,
                &Value::Null,
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields \
                 are set",
            )),
            (true, false) => {
                if text(&request["exactly"], "deviceClassName").is_empty() {
                    let path = format!("{path}.exactly.deviceClassName");
                    errors.push(FieldError::required(path, ""));
                }
            }
            (false, true) => {}
        }
    }
}
