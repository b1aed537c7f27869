//! APIService.

use serde_json::{Value, json};

use super::names::{dns_1035_label, dns_subdomain, port_number, push};
use super::tools::{fill, has, items, keep, keep_meta, number, object, set, text};
use crate::builtin::rules::names::path_segment;
use crate::builtin::{NameRule, Strategy};
use crate::status::{FieldError, FieldErrors, quote};

/// APIService.
pub(super) struct ApiService;

impl Strategy for ApiService {
    fn defaults(&self, service: &mut Value) {
        let spec = object(service, "spec");
        if has(spec, "service") {
            fill(object(spec, "service"), "port", 443);
        }
        object(service, "status");
    }

    fn prepare_create(&self, service: &mut Value) {
        set(service, "status", json!({}));
        if !has(&service["spec"], "service") {
            // What this server serves itself is there at once.
            let condition = json!({
                "type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available",
                "lastTransitionTime": service["metadata"]["creationTimestamp"],
            });
            set(service, "status", json!({"conditions": [condition]}));
        }
    }

    fn prepare_update(&self, service: &mut Value, old: &Value) {
        keep(service, old, "status");
    }

    fn prepare_status(&self, service: &mut Value, old: &Value) {
        keep(service, old, "spec");
        keep_meta(service, old);
    }

    fn validate(&self, service: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &service["spec"];
        let (group, version) = (text(spec, "group"), text(spec, "version"));
        let required = format!("{version}.{group}");
        for key in ["generateName", "name"] {
            let name = text(&service["metadata"], key);
            if !name.is_empty() && name != required && path_segment(name).is_empty() {
                let why = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&required));
                errors.push(FieldError::invalid_str(format!("metadata.{key}"), name, why));
            }
        }
        match group {
            "" if version != "v1" => {
                let why = "only v1 may have an empty group and it better be legacy kube";
                errors.push(FieldError::required("spec.group", why));
            }
            "" => {}
            group => push(&mut errors, "spec.group", group, dns_subdomain(group)),
        }
        push(&mut errors, "spec.version", version, dns_1035_label(version));
        for (key, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
            let value = number(spec, key);
            if value <= 0 || value > most {
                errors.push(FieldError::invalid(
                    format!("spec.{key}"),
                    &value.into(),
                    format!("must be positive and less than {most}"),
                ));
            }
        }
        check_backend(&mut errors, spec);
        errors
    }

    fn validate_status(&self, service: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let known = ["True", "False", "Unknown"];
        for (at, condition) in items(&service["status"], "conditions").iter().enumerate() {
            let status = text(condition, "status");
            if !known.contains(&status) {
                let path = format!("status.conditions[{at}].status");
                errors.push(FieldError::not_supported(path, &status.into(), &known));
            }
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }

    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("apiregistration.k8s.io/apiservices")
    }
}

fn check_backend(errors: &mut FieldErrors, spec: &Value) {
    let bundle = base64_len(text(spec, "caBundle"));
    let insecure = spec["insecureSkipTLSVerify"].as_bool().unwrap_or_default();
    let skip = |errors: &mut FieldErrors, why: &str| {
        errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", &true.into(), why));
    };
    if !has(spec, "service") {
        if bundle > 0 {
            let why = "local APIServices may not have a caBundle";
            let shown = format!("{bundle} bytes");
            errors.push(FieldError::invalid_str("spec.caBundle", &shown, why));
        }
        if insecure {
            skip(errors, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    let service = &spec["service"];
    for key in ["namespace", "name"] {
        if text(service, key).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{key}"), ""));
        }
    }
    let port = number(service, "port");
    if let Some(why) = port_number(port) {
        let why = format!("port is not valid: {why}");
        errors.push(FieldError::invalid("spec.service.port", &port.into(), why));
    }
    if insecure && bundle > 0 {
        skip(errors, "may not be true if caBundle is present");
    }
}

/// How many bytes a base64 text encodes.
fn base64_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_service_is_available_and_has_no_bundle() {
        let mut service = json!({"metadata": {"name": "v1.x.example.com"}, "spec": {
            "group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1,
            "versionPriority": 1}});
        ApiService.prepare_create(&mut service);
        assert_eq!(service["status"]["conditions"][0]["reason"], "Local");
        assert_eq!(ApiService.validate(&service), []);
        service["spec"]["caBundle"] = "YWJj".into();
        let errors = ApiService.validate(&service);
        assert_eq!(
            errors[0].to_string(),
            "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle"
        );
    }
}
