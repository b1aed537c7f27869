//! The kinds of `resource.k8s.io`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names::{dns_label, dns_subdomain, push};
use super::tools::{
    fill, has, immutable, items, items_mut, keep, keep_meta, object, one_of, one_of_if_set, set,
    text,
};
use super::volume::driver_name;
use crate::builtin::Strategy;
use crate::builtin::rules::names::{label_value, qualified_name};
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

    fn validate(&self, template: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let devices = &template["spec"]["spec"]["devices"];
        check_requests(&mut errors, "spec.spec.devices", devices);
        errors
    }

    fn validate_update(&self, template: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
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
        let places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
        let chosen = |key: &&&str| match &spec[**key] {
            Value::Null | Value::Bool(false) => false,
            value => value != "",
        };
        if places.iter().filter(chosen).count() == 0 {
            let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
                       `perDeviceNodeSelection` is required";
            errors.push(FieldError::required("spec", why));
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

/// Bounds of the lists and texts of a claim.
const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const CONFIGS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

/// Checks the items of a list, unless there are too many.
fn each(
    errors: &mut FieldErrors,
    path: &str,
    list: &[Value],
    most: usize,
    mut check: impl FnMut(&mut FieldErrors, &str, &Value),
) {
    if list.len() > most {
        errors.push(FieldError::too_many(path, list.len(), most));
        return;
    }
    for (at, item) in list.iter().enumerate() {
        check(errors, &format!("{path}[{at}]"), item);
    }
}

/// As [`each`], where no two items may have the same key.
fn each_once<'a>(
    errors: &mut FieldErrors,
    path: &str,
    list: &'a [Value],
    most: usize,
    key: fn(&'a Value) -> &'a str,
    check: impl FnMut(&mut FieldErrors, &str, &Value),
) {
    each(errors, path, list, most, check);
    let mut seen = BTreeSet::new();
    for (at, item) in list.iter().enumerate().take_while(|_| list.len() <= most) {
        if !seen.insert(key(item)) {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), &key(item).into()));
        }
    }
}

fn check_requests(errors: &mut FieldErrors, path: &str, devices: &Value) {
    let requests = items(devices, "requests");
    let list = format!("{path}.requests");
    each_once(errors, &list, requests, REQUESTS_MAX, |r| text(r, "name"), check_request);
    let list = format!("{path}.constraints");
    let constraints = items(devices, "constraints");
    each(errors, &list, constraints, CONSTRAINTS_MAX, |errors, path, constraint| {
        check_references(errors, path, constraint, requests);
        let attributes = ["matchAttribute", "distinctAttribute"];
        match attributes.iter().find(|key| has(constraint, key)) {
            Some(key) => {
                let name = text(constraint, key);
                check_full_name(errors, &format!("{path}.{key}"), name);
            }
            None => errors.push(FieldError::required(
                path,
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but \
                 multiple fields are set",
            )),
        }
    });
    let list = format!("{path}.config");
    each(errors, &list, items(devices, "config"), CONFIGS_MAX, |errors, path, config| {
        check_references(errors, path, config, requests);
        check_config(errors, path, config);
    });
}

fn check_request(errors: &mut FieldErrors, path: &str, request: &Value) {
    let name = text(request, "name");
    push(errors, &format!("{path}.name"), name, dns_label(name));
    let alternatives = items(request, "firstAvailable");
    match (has(request, "exactly"), !alternatives.is_empty()) {
        (false, false) => errors.push(FieldError::required(
            path,
            "exactly one of `exactly` or `firstAvailable` is required",
        )),
        (true, true) => errors.push(FieldError::invalid(
            path,
            &Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        )),
        (true, false) => check_exact(errors, &format!("{path}.exactly"), &request["exactly"]),
        (false, true) => {
            let path = format!("{path}.firstAvailable");
            let key: fn(&Value) -> &str = |r| text(r, "name");
            each_once(errors, &path, alternatives, ALTERNATIVES_MAX, key, |errors, path, part| {
                let name = text(part, "name");
                push(errors, &format!("{path}.name"), name, dns_label(name));
                check_exact(errors, path, part);
            });
        }
    }
}

fn check_exact(errors: &mut FieldErrors, path: &str, request: &Value) {
    let class = text(request, "deviceClassName");
    match class.is_empty() {
        true => errors.push(FieldError::required(format!("{path}.deviceClassName"), "")),
        false => push(errors, &format!("{path}.deviceClassName"), class, dns_subdomain(class)),
    }
    check_selectors(errors, path, request);
    let (mode, count) = (text(request, "allocationMode"), &request["count"]);
    let number = count.as_i64().unwrap_or_default();
    let count = format!("{path}.count");
    match mode {
        "All" if number != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(count, &number.into(), why));
        }
        "ExactCount" if number <= 0 => {
            errors.push(FieldError::invalid(count, &number.into(), "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => errors.push(FieldError::not_supported(
            format!("{path}.allocationMode"),
            &other.into(),
            &["All", "ExactCount"],
        )),
    }
    for (at, toleration) in items(request, "tolerations").iter().enumerate() {
        check_toleration(errors, &format!("{path}.tolerations[{at}]"), toleration);
    }
}

fn check_selectors(errors: &mut FieldErrors, path: &str, parent: &Value) {
    let path = format!("{path}.selectors");
    each(errors, &path, items(parent, "selectors"), SELECTORS_MAX, |errors, path, selector| {
        if !has(selector, "cel") {
            errors.push(FieldError::required(format!("{path}.cel"), ""));
        } else if text(&selector["cel"], "expression").len() > EXPRESSION_BYTES_MAX {
            let path = format!("{path}.cel.expression");
            errors.push(FieldError::too_long(path, EXPRESSION_BYTES_MAX));
        }
    });
}

fn check_toleration(errors: &mut FieldErrors, path: &str, toleration: &Value) {
    let (key, value) = (text(toleration, "key"), text(toleration, "value"));
    if !key.is_empty() {
        push(errors, &format!("{path}.key"), key, qualified_name(key));
    }
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            let why = "must be empty for operator `Exists`";
            errors.push(FieldError::invalid_str(format!("{path}.value"), value, why));
        }
        "Exists" => {}
        "Equal" => push(errors, &format!("{path}.value"), value, label_value(value)),
        other => {
            one_of(errors, &format!("{path}.operator"), other, &["Equal", "Exists"]);
        }
    }
    let effect = &toleration["effect"];
    if !text(toleration, "effect").is_empty() {
        let known = ["NoExecute", "NoSchedule", "None"];
        one_of_if_set(errors, &format!("{path}.effect"), effect, &known);
    }
}

/// Checks names of requests (`a`, or `a/b` for an alternative of it) against those of the claim.
fn check_references(errors: &mut FieldErrors, path: &str, user: &Value, requests: &[Value]) {
    let known = |name: &str| {
        let (name, part) = name.split_once('/').map_or((name, None), |(n, p)| (n, Some(p)));
        requests.iter().filter(|request| text(request, "name") == name).any(|request| {
            let mut parts = items(request, "firstAvailable").iter();
            part.is_none_or(|part| parts.any(|p| text(p, "name") == part))
        })
    };
    let path = format!("{path}.requests");
    let key: fn(&Value) -> &str = |name| name.as_str().unwrap_or_default();
    each_once(errors, &path, items(user, "requests"), REQUESTS_MAX, key, |errors, path, name| {
        let name = name.as_str().unwrap_or_default();
        let deep = name.matches('/').count() > 1;
        if !deep {
            name.split('/').for_each(|part| push(errors, path, part, dns_label(part)));
        }
        if deep || !known(name) {
            let why = "must be the name of a request in the claim or the name of a request and a \
                       subrequest separated by '/'";
            errors.push(FieldError::invalid_str(path, name, why));
        }
    });
}

/// Checks the name of an attribute: a domain, a slash and an identifier.
fn check_full_name(errors: &mut FieldErrors, path: &str, name: &str) {
    let Some((domain, _)) = name.split_once('/') else {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid_str(path, name, why));
        return;
    };
    match domain.is_empty() {
        true => errors.push(FieldError::invalid_str(path, "", "the domain must not be empty")),
        false => driver_name(errors, path, domain),
    }
    if name.ends_with('/') {
        errors.push(FieldError::invalid_str(path, "", "the name must not be empty"));
    }
}

fn check_config(errors: &mut FieldErrors, path: &str, config: &Value) {
    let (opaque, path) = (&config["opaque"], format!("{path}.opaque"));
    if opaque.is_null() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    driver_name(errors, &format!("{path}.driver"), text(opaque, "driver"));
    let (parameters, path) = (&opaque["parameters"], format!("{path}.parameters"));
    if parameters.is_null() {
        errors.push(FieldError::required(path, ""));
    } else if parameters.to_string().len() > PARAMETERS_BYTES_MAX {
        errors.push(FieldError::too_long(path, PARAMETERS_BYTES_MAX));
    } else if !parameters.is_object() {
        let why = "must be a valid JSON object";
        errors.push(FieldError::invalid_str(path, "<value omitted>", why));
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
