//! MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::expressions::check_conditions;
use super::names::{dns_subdomain, port_number, push, selector};
use super::tools::{fill, has, items, items_mut, object, one_of_if_set, text};
use crate::builtin::Strategy;
use crate::status::{FieldError, FieldErrors};

/// A configuration of webhooks.
pub(super) struct Configuration {
    pub(super) mutating: bool,
}

impl Strategy for Configuration {
    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn defaults(&self, configuration: &mut Value) {
        for hook in items_mut(configuration, "webhooks") {
            fill(hook, "failurePolicy", "Fail");
            fill(hook, "matchPolicy", "Equivalent");
            fill(hook, "namespaceSelector", json!({}));
            fill(hook, "objectSelector", json!({}));
            fill(hook, "timeoutSeconds", 10);
            if self.mutating {
                fill(hook, "reinvocationPolicy", "Never");
            }
            for rule in items_mut(hook, "rules") {
                fill(rule, "scope", "*");
            }
            let client = object(hook, "clientConfig");
            if has(client, "service") {
                fill(object(client, "service"), "port", 443);
            }
            fill(hook, "admissionReviewVersions", Value::Null);
            fill(hook, "sideEffects", Value::Null);
        }
    }

    fn validate(&self, configuration: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let mut names = BTreeSet::new();
        for (at, hook) in items(configuration, "webhooks").iter().enumerate() {
            let path = format!("webhooks[{at}]");
            check_hook(&mut errors, &path, hook, self.mutating);
            check_versions(&mut errors, &path, hook);
            let name = text(hook, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Checks operations, groups, versions and resources of a rule.
pub(super) fn check_rule(errors: &mut FieldErrors, path: &str, rule: &Value) {
    let all = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations = items(rule, "operations");
    check_star(errors, path, rule, "operations", "operations");
    for (at, operation) in operations.iter().enumerate() {
        if !operation.as_str().is_some_and(|o| all.contains(&o)) {
            let path = format!("{path}.operations[{at}]");
            errors.push(FieldError::not_supported(path, operation, &all));
        }
    }
    check_star(errors, path, rule, "apiGroups", "API groups");
    check_star(errors, path, rule, "apiVersions", "API versions");
    for (at, version) in items(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(format!("{path}.apiVersions[{at}]"), ""));
        }
    }
    let resources = items(rule, "resources");
    if resources.is_empty() {
        errors.push(FieldError::required(format!("{path}.resources"), ""));
    }
    for (at, resource) in resources.iter().enumerate() {
        if resource == "" {
            errors.push(FieldError::required(format!("{path}.resources[{at}]"), ""));
        }
    }
    check_resources(errors, &format!("{path}.resources"), &rule["resources"]);
    let scopes = ["*", "Cluster", "Namespaced"];
    one_of_if_set(errors, &format!("{path}.scope"), &rule["scope"], &scopes);
}

/// What a `*` among resources covers must not be named beside it.
fn check_resources(errors: &mut FieldErrors, path: &str, list: &Value) {
    let names = || list.as_array().into_iter().flatten().filter_map(Value::as_str);
    let has = |wanted: &str| names().any(|name| name == wanted);
    for (at, name) in names().enumerate() {
        let Some((resource, part)) = name.split_once('/') else { continue };
        let place = format!("{path}[{at}]");
        let mut covered = |by: &str| {
            let why = format!("if '{by}' is present, must not specify {name}");
            errors.push(FieldError::invalid_str(&*place, name, why));
        };
        if part != "*" && has(&format!("{resource}/*")) {
            covered(&format!("{resource}/*"));
        }
        if resource != "*" && has(&format!("*/{part}")) {
            covered(&format!("*/{part}"));
        }
    }
    if names().count() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, list, why));
    }
    if has("*") && names().any(|name| name != "*" && !name.contains('/')) {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, list, why));
    }
}

fn check_star(errors: &mut FieldErrors, path: &str, rule: &Value, key: &str, what: &str) {
    let list = items(rule, key);
    if list.is_empty() {
        errors.push(FieldError::required(format!("{path}.{key}"), ""));
    } else if list.len() > 1 && list.iter().any(|v| v == "*") {
        errors.push(FieldError::invalid(
            format!("{path}.{key}"),
            &rule[key],
            format!("if '*' is present, must not specify other {what}"),
        ));
    }
}

fn check_hook(errors: &mut FieldErrors, path: &str, hook: &Value, mutating: bool) {
    check_domain(errors, &format!("{path}.name"), text(hook, "name"));
    for (at, rule) in items(hook, "rules").iter().enumerate() {
        check_rule(errors, &format!("{path}.rules[{at}]"), rule);
    }
    let policies = ["Fail", "Ignore"];
    one_of_if_set(errors, &format!("{path}.failurePolicy"), &hook["failurePolicy"], &policies);
    let matches = ["Equivalent", "Exact"];
    one_of_if_set(errors, &format!("{path}.matchPolicy"), &hook["matchPolicy"], &matches);
    let effects = ["None", "NoneOnDryRun"];
    if has(hook, "sideEffects") {
        one_of_if_set(errors, &format!("{path}.sideEffects"), &hook["sideEffects"], &effects);
    } else {
        errors.push(FieldError::required(
            format!("{path}.sideEffects"),
            "must specify one of None, NoneOnDryRun",
        ));
    }
    if mutating {
        let field = format!("{path}.reinvocationPolicy");
        one_of_if_set(errors, &field, &hook["reinvocationPolicy"], &["IfNeeded", "Never"]);
    }
    if let Some(seconds) = hook["timeoutSeconds"].as_i64()
        && !(1..=30).contains(&seconds)
    {
        errors.push(FieldError::invalid(
            format!("{path}.timeoutSeconds"),
            &hook["timeoutSeconds"],
            "the timeout value must be between 1 and 30 seconds",
        ));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        selector(errors, &format!("{path}.{key}"), &hook[key]);
    }
    check_client(errors, &format!("{path}.clientConfig"), &hook["clientConfig"]);
    let conditions = items(hook, "matchConditions");
    check_conditions(errors, &format!("{path}.matchConditions"), conditions, false);
}

fn check_domain(errors: &mut FieldErrors, path: &str, name: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let trimmed = name.strip_suffix('.').unwrap_or(name);
    let problems = dns_subdomain(trimmed);
    if !problems.is_empty() {
        push(errors, path, name, problems);
    } else if trimmed.split('.').count() < 3 {
        errors.push(FieldError::invalid_str(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        ));
    }
}

fn check_client(errors: &mut FieldErrors, path: &str, client: &Value) {
    match (has(client, "url"), has(client, "service")) {
        (true, false) => check_url(errors, &format!("{path}.url"), text(client, "url")),
        (false, true) => {
            let service = &client["service"];
            let path = format!("{path}.service");
            for key in ["name", "namespace"] {
                if text(service, key).is_empty() {
                    errors.push(FieldError::required(format!("{path}.{key}"), ""));
                }
            }
            if let Some(why) = service["port"].as_i64().and_then(port_number) {
                errors.push(FieldError::invalid(
                    format!("{path}.port"),
                    &service["port"],
                    format!("port is not valid: {why}"),
                ));
            }
            if let Some(url_path) = service["path"].as_str() {
                check_path(errors, &format!("{path}.path"), url_path);
            }
        }
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

/// The path of a service: segments that are not empty, apart from the last.
fn check_path(errors: &mut FieldErrors, field: &str, url_path: &str) {
    let mut wrong = |why: String| errors.push(FieldError::invalid_str(field, url_path, why));
    if url_path.is_empty() || url_path == "/" {
        return;
    }
    if url_path == "//" {
        return wrong("segment[0] may not be empty".to_owned());
    }
    if !url_path.starts_with('/') {
        wrong("must start with a '/'".to_owned());
    }
    let rest = url_path.get(1..).unwrap_or_default();
    let steps: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    for (at, step) in steps.iter().enumerate() {
        if step.is_empty() {
            wrong(format!("segment[{at}] may not be empty"));
            continue;
        }
        for why in dns_subdomain(step) {
            wrong(format!("segment[{at}]: {why}"));
        }
    }
}

fn check_url(errors: &mut FieldErrors, path: &str, url: &str) {
    let form = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let mut wrong =
        |value: &str, why: String| errors.push(FieldError::invalid_str(path, value, why));
    if scheme != "https" {
        wrong(scheme, format!("'https' is the only allowed URL scheme{form}"));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = if scheme.is_empty() { ("", rest) } else { rest.split_at(end) };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        wrong(host, format!("host must be specified{form}"));
    }
    if !user.is_empty() {
        wrong(user, "user information is not permitted in the URL".into());
    }
    let (tail, fragment) = tail.split_once('#').unwrap_or((tail, ""));
    if !fragment.is_empty() {
        wrong(fragment, "fragments are not permitted in the URL".into());
    }
    let query = tail.split_once('?').map_or("", |(_, query)| query);
    if !query.is_empty() {
        wrong(query, "query parameters are not permitted in the URL".into());
    }
}

fn check_versions(errors: &mut FieldErrors, path: &str, hook: &Value) {
    let path = format!("{path}.admissionReviewVersions");
    let versions = items(hook, "admissionReviewVersions");
    if versions.is_empty() {
        errors.push(FieldError::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    let mut known = false;
    for (at, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let path = format!("{path}[{at}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid_str(&path, version, "duplicate version"));
            continue;
        }
        push(errors, &path, version, super::names::dns_1035_label(version));
        known |= matches!(version, "v1" | "v1beta1");
    }
    if !known {
        errors.push(FieldError::invalid(
            path,
            &hook["admissionReviewVersions"],
            "must include at least one of v1, v1beta1",
        ));
    }
}
