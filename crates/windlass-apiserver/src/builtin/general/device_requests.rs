//! The devices that a claim asks for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{dns_label, dns_subdomain, push};
use super::tools::{has, items, one_of, one_of_if_set, text};
use super::volume::driver_name;
use crate::builtin::rules::names::{label_value, qualified_name};
use crate::status::{FieldError, FieldErrors};

/// Bounds of the lists and texts of a claim.
const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
pub(super) const CONFIGS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const IDENTIFIER_BYTES_MAX: usize = 32;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

/// Checks the items of a list, unless there are too many.
pub(super) fn each(
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

pub(super) fn check_requests(errors: &mut FieldErrors, path: &str, devices: &Value) {
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

pub(super) fn check_selectors(errors: &mut FieldErrors, path: &str, parent: &Value) {
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
    let Some((domain, part)) = name.split_once('/') else {
        check_identifier(errors, path, name);
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid_str(path, name, why));
        return;
    };
    // The real server says nothing about a name with more than one slash.
    if part.contains('/') {
        return;
    }
    match domain.is_empty() {
        true => errors.push(FieldError::invalid_str(path, "", "the domain must not be empty")),
        false => driver_name(errors, path, domain),
    }
    match part.is_empty() {
        true => errors.push(FieldError::invalid_str(path, "", "the name must not be empty")),
        false => check_identifier(errors, path, part),
    }
}

fn check_identifier(errors: &mut FieldErrors, path: &str, name: &str) {
    if name.len() > IDENTIFIER_BYTES_MAX {
        errors.push(FieldError::too_long(path, IDENTIFIER_BYTES_MAX));
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(word) || !name.starts_with(|c: char| word(c) && !c.is_ascii_digit()) {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a \
                   string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
                   'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(FieldError::invalid_str(path, name, why));
    }
}

pub(super) fn check_config(errors: &mut FieldErrors, path: &str, config: &Value) {
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
