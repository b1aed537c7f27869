//! The rules of `spec.conversion`.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_text::format::scheme_of;
use windlass_text::name as text;

use super::spec::{one_of, str_of};
use crate::custom::names;
use crate::status::{FieldError, FieldErrors};

const FORM: &str = "; desired format: https://host[/path]";

/// Problems of the conversion.
pub fn validate(conversion: &Value, preserve: bool, old: Option<&Value>, errors: &mut FieldErrors) {
    if !conversion.is_object() {
        return;
    }
    let strategy = str_of(&conversion["strategy"]);
    if strategy != "None" && preserve {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid_str("spec.conversion.strategy", strategy, detail));
    }
    one_of("spec.conversion.strategy", &conversion["strategy"], &["None", "Webhook"], errors);
    let webhook = &conversion["webhook"];
    let config = &webhook["clientConfig"];
    let versions = webhook["conversionReviewVersions"].as_array();
    let config_field = "spec.conversion.webhookClientConfig";
    let versions_field = "spec.conversion.conversionReviewVersions";
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_object() {
            errors.push(FieldError::forbidden(config_field, detail));
        }
        if versions.is_some_and(|versions| !versions.is_empty()) {
            errors.push(FieldError::forbidden(versions_field, detail));
        }
        return;
    }
    if config.is_object() {
        client_config(config, config_field, old, errors);
    } else {
        let detail = "required when strategy is set to Webhook";
        errors.push(FieldError::required(config_field, detail));
    }
    let before = old.map(|old| &old["spec"]["conversion"]["webhook"]["conversionReviewVersions"]);
    let strict = before.and_then(Value::as_array).is_none_or(|v| v.is_empty() || accepted(v));
    let versions = versions.map(Vec::as_slice).unwrap_or_default();
    review_versions(versions, strict, versions_field, errors);
}

fn accepted(versions: &[Value]) -> bool {
    versions.iter().any(|v| v == "v1" || v == "v1beta1")
}

fn review_versions(versions: &[Value], strict: bool, field: &str, errors: &mut FieldErrors) {
    if versions.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let place = format!("{field}[{index}]");
        if !seen.insert(str_of(version)) {
            errors.push(FieldError::invalid(place, version, "duplicate version"));
            continue;
        }
        for fault in text::dns1035_faults(str_of(version)) {
            errors.push(FieldError::invalid(&place, version, fault));
        }
    }
    if strict && !accepted(versions) {
        let all = Value::Array(versions.to_vec());
        errors.push(FieldError::invalid(field, &all, "must include at least one of v1, v1beta1"));
    }
}

fn client_config(config: &Value, field: &str, old: Option<&Value>, errors: &mut FieldErrors) {
    let (url, service) = (config["url"].as_str(), &config["service"]);
    match url {
        Some(url) if !service.is_object() => check_url(url, &format!("{field}.url"), errors),
        None if service.is_object() => {
            check_service(service, &format!("{field}.service"), errors);
        }
        _ => {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::required(field, detail));
        }
    }
    let bundle = str_of(&config["caBundle"]);
    let old_bundle = old
        .filter(|old| names::is_true(old, "Established"))
        .map(|old| str_of(&old["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]));
    let checked = old_bundle.is_some_and(|old| old.is_empty() || names::bundle_holds(old));
    if !bundle.is_empty() && checked && !names::bundle_holds(bundle) {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(FieldError::invalid_str(format!("{field}.caBundle"), bundle, detail));
    }
}

fn check_url(url: &str, field: &str, errors: &mut FieldErrors) {
    let mut add = |value: &str, detail: String| {
        errors.push(FieldError::invalid_str(field, value, detail));
    };
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = scheme_of(url).unwrap_or(("", url));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme.to_lowercase() != "https" {
        add(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        add(host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        add(user, "user information is not permitted in the URL".into());
    }
    if !fragment.is_empty() {
        add(fragment, "fragments are not permitted in the URL".into());
    }
    if !query.is_empty() {
        add(query, "query parameters are not permitted in the URL".into());
    }
}

fn check_service(service: &Value, field: &str, errors: &mut FieldErrors) {
    for key in ["name", "namespace"] {
        if str_of(&service[key]).is_empty() {
            let detail = format!("service {key} is required");
            errors.push(FieldError::required(format!("{field}.{key}"), detail));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), &port.into(), detail));
    }
    let path = str_of(&service["path"]);
    if path.is_empty() || path == "/" {
        return;
    }
    let mut add = |detail: String| {
        errors.push(FieldError::invalid_str(format!("{field}.path"), path, detail));
    };
    if path == "//" {
        return add("segment[0] may not be empty".into());
    }
    if !path.starts_with('/') {
        add("must start with a '/'".into());
    }
    let inner = path.get(1..).unwrap_or_default();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (index, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            add(format!("segment[{index}] may not be empty"));
            continue;
        }
        for fault in text::dns1123_subdomain_faults(step) {
            add(format!("segment[{index}]: {fault}"));
        }
    }
}
