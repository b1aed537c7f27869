//! Ingress and IngressClass.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::names::{
    dns_label, dns_subdomain, ip, port_name, port_number, push, wildcard_subdomain,
};
use super::tools::{has, immutable, items, keep, number, object, set, text};
use crate::builtin::Strategy;
use crate::builtin::rules::names::path_segment;
use crate::status::{FieldError, FieldErrors};

/// Ingress.
pub(super) struct Ingress;

impl Strategy for Ingress {
    fn defaults(&self, ingress: &mut Value) {
        object(ingress, "spec");
        object(object(ingress, "status"), "loadBalancer");
    }

    fn prepare_create(&self, ingress: &mut Value) {
        set(ingress, "status", json!({"loadBalancer": {}}));
    }

    fn prepare_update(&self, ingress: &mut Value, old: &Value) {
        keep(ingress, old, "status");
    }

    fn prepare_status(&self, ingress: &mut Value, old: &Value) {
        keep(ingress, old, "spec");
    }

    fn validate(&self, ingress: &Value) -> FieldErrors {
        let mut errors = self.validate_update(ingress, &Value::Null);
        let annotation = "kubernetes.io/ingress.class";
        let class = text(&ingress["metadata"]["annotations"], annotation);
        let named = text(&ingress["spec"], "ingressClassName");
        if !class.is_empty() && has(&ingress["spec"], "ingressClassName") && class != named {
            errors.push(FieldError::invalid_str(
                format!("annotations.{annotation}"),
                class,
                "must match `ingressClassName` when both are specified",
            ));
        }
        errors
    }

    fn validate_update(&self, ingress: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &ingress["spec"];
        let rules = items(spec, "rules");
        if rules.is_empty() && !has(spec, "defaultBackend") {
            errors.push(FieldError::invalid(
                "spec",
                &Value::Null,
                "either `defaultBackend` or `rules` must be specified",
            ));
        }
        if has(spec, "defaultBackend") {
            check_backend(&mut errors, "spec.defaultBackend", &spec["defaultBackend"]);
        }
        for (at, rule) in rules.iter().enumerate() {
            check_rule(&mut errors, &format!("spec.rules[{at}]"), rule);
        }
        for (at, tls) in items(spec, "tls").iter().enumerate() {
            for (host_at, host) in items(tls, "hosts").iter().enumerate() {
                let host = host.as_str().unwrap_or_default();
                let path = format!("spec.tls[{at}].hosts[{host_at}]");
                check_host(&mut errors, &path, host);
            }
            let secret = text(tls, "secretName");
            if !secret.is_empty() {
                let path = format!("spec.tls[{at}].secretName");
                push(&mut errors, &path, secret, dns_subdomain(secret));
            }
        }
        if let Some(class) = spec["ingressClassName"].as_str() {
            push(&mut errors, "spec.ingressClassName", class, dns_subdomain(class));
        }
        errors
    }

    fn validate_status(&self, ingress: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_load_balancer(&mut errors, &ingress["status"]["loadBalancer"]);
        errors
    }

    fn warnings(&self, ingress: &Value, old: Option<&Value>) -> Vec<String> {
        let annotations = &ingress["metadata"]["annotations"];
        let mut warnings = Vec::new();
        if old.is_none() && has(annotations, "kubernetes.io/ingress.class") {
            warnings.push(
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use \
                 'spec.ingressClassName' instead"
                    .to_owned(),
            );
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("ingress")
    }
}

/// IngressClass.
pub(super) struct IngressClass;

impl Strategy for IngressClass {
    fn defaults(&self, class: &mut Value) {
        let spec = object(class, "spec");
        if has(spec, "parameters") {
            super::tools::fill(object(spec, "parameters"), "scope", "Cluster");
        }
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &class["spec"];
        let controller = text(spec, "controller");
        if controller.len() > 250 {
            errors.push(FieldError::too_long("spec.controller", 250));
        }
        match controller.is_empty() {
            true => errors.push(FieldError::required("spec.controller", "")),
            false => push(&mut errors, "spec.controller", controller, path_problems(controller)),
        }
        if has(spec, "parameters") {
            check_parameters(&mut errors, &spec["parameters"]);
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let controller = |class: &Value| Value::from(text(&class["spec"], "controller"));
        immutable(&mut errors, "spec.controller", &controller(class), &controller(old));
        errors.extend(self.validate(class));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Checks what a load balancer answers to.
pub(super) fn check_load_balancer(errors: &mut FieldErrors, balancer: &Value) {
    for (at, ingress) in items(balancer, "ingress").iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{at}]");
        let (address, hostname) = (text(ingress, "ip"), text(ingress, "hostname"));
        if !address.is_empty() {
            ip(errors, &format!("{path}.ip"), address);
        }
        if !hostname.is_empty() {
            let path = format!("{path}.hostname");
            push(errors, &path, hostname, dns_subdomain(hostname));
            if hostname.parse::<IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid_str(path, hostname, why));
            }
        }
    }
}

fn check_host(errors: &mut FieldErrors, path: &str, host: &str) {
    let problems = if host.contains('*') { wildcard_subdomain(host) } else { dns_subdomain(host) };
    push(errors, path, host, problems);
}

fn check_rule(errors: &mut FieldErrors, path: &str, rule: &Value) {
    let host = text(rule, "host");
    if !host.is_empty() {
        let path = format!("{path}.host");
        if host.parse::<IpAddr>().is_ok() {
            let why = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid_str(&path, host, why));
        }
        check_host(errors, &path, host);
    }
    if !has(rule, "http") {
        return;
    }
    let paths = items(&rule["http"], "paths");
    if paths.is_empty() {
        errors.push(FieldError::required(format!("{path}.http.paths"), ""));
    }
    for (at, item) in paths.iter().enumerate() {
        check_path(errors, &format!("{path}.http.paths[{at}]"), item);
    }
}

fn check_path(errors: &mut FieldErrors, at: &str, item: &Value) {
    let Some(kind) = item["pathType"].as_str() else {
        let why = "pathType must be specified";
        errors.push(FieldError::required(format!("{at}.pathType"), why));
        return;
    };
    let path = text(item, "path");
    let field = format!("{at}.path");
    let mut wrong = |why: String| errors.push(FieldError::invalid_str(&field, path, why));
    match kind {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                wrong("must be an absolute path".into());
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(bad) {
                    wrong(format!("must not contain '{bad}'"));
                }
            }
            for bad in ["/..", "/."] {
                if path.ends_with(bad) {
                    wrong(format!("cannot end with '{bad}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                wrong("must be an absolute path".into());
            }
        }
        _ => errors.push(FieldError::not_supported(
            format!("{at}.pathType"),
            &kind.into(),
            &["Exact", "ImplementationSpecific", "Prefix"],
        )),
    }
    check_backend(errors, &format!("{at}.backend"), &item["backend"]);
}

fn check_backend(errors: &mut FieldErrors, path: &str, backend: &Value) {
    let mut wrong = |why: &str| errors.push(FieldError::invalid_str(path, "", why));
    match (has(backend, "resource"), has(backend, "service")) {
        (true, true) => wrong("cannot set both resource and service backends"),
        (false, false) => wrong("resource or service backend is required"),
        (true, false) => {
            check_reference(errors, &format!("{path}.resource"), &backend["resource"]);
        }
        (false, true) => check_service_backend(errors, path, &backend["service"]),
    }
}

fn check_service_backend(errors: &mut FieldErrors, path: &str, service: &Value) {
    let name = text(service, "name");
    let name_path = format!("{path}.service.name");
    match name.is_empty() {
        true => errors.push(FieldError::required(name_path, "")),
        false => push(errors, &name_path, name, dns_label(name)),
    }
    let port = &service["port"];
    let (port_text, number) = (text(port, "name"), number(port, "number"));
    match (port_text.is_empty(), number == 0) {
        (false, false) => errors.push(FieldError::invalid_str(
            path,
            "",
            "cannot set both port name & port number",
        )),
        (false, true) => {
            push(errors, &format!("{path}.service.port.name"), port_text, port_name(port_text));
        }
        (true, false) => {
            if let Some(why) = port_number(number) {
                let path = format!("{path}.service.port.number");
                errors.push(FieldError::invalid(path, &number.into(), why));
            }
        }
        (true, true) => {
            errors.push(FieldError::required(path, "port name or number is required"));
        }
    }
}

fn check_reference(errors: &mut FieldErrors, path: &str, reference: &Value) {
    if let Some(group) = reference["apiGroup"].as_str() {
        push(errors, &format!("{path}.apiGroup"), group, dns_subdomain(group));
    }
    for key in ["kind", "name"] {
        let (value, path) = (text(reference, key), format!("{path}.{key}"));
        match value.is_empty() {
            true => errors.push(FieldError::required(path, "")),
            false => push(errors, &path, value, path_segment(value)),
        }
    }
}

fn check_parameters(errors: &mut FieldErrors, parameters: &Value) {
    let path = "spec.parameters";
    check_reference(errors, path, parameters);
    let namespace = has(parameters, "namespace");
    match text(parameters, "scope") {
        "Namespace" if !namespace => errors.push(FieldError::required(
            format!("{path}.namespace"),
            "`parameters.scope` is set to 'Namespace'",
        )),
        "Cluster" if namespace => errors.push(FieldError::forbidden(
            format!("{path}.namespace"),
            "`parameters.scope` is set to 'Cluster'",
        )),
        "Namespace" => {
            let name = text(parameters, "namespace");
            push(errors, &format!("{path}.namespace"), name, dns_label(name));
        }
        "Cluster" => {}
        other => errors.push(FieldError::not_supported(
            format!("{path}.scope"),
            &other.into(),
            &["Cluster", "Namespace"],
        )),
    }
}

/// What a domain-prefixed path (`example.com/controller`) may look like.
fn path_problems(value: &str) -> Vec<String> {
    match value.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => dns_subdomain(host),
        _ => vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()],
    }
}
