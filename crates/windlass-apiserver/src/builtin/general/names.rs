//! Rules for names, addresses and numbers.

use std::net::IpAddr;

use serde_json::Value;
use windlass_text::select::key::{self, is_dns_label, regex_text};

use super::tools::{entries, items, text};
pub(super) use crate::builtin::rules::names::{dns_1035_label, dns_label, dns_subdomain};
use crate::builtin::rules::net;
use crate::status::{FieldError, FieldErrors};

/// What a wildcard DNS subdomain (`*.example.com`) may look like.
pub(super) fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if !value.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_dns_label)) {
        errors.push(regex_text(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
             subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and \
             end with an alphanumeric character",
            "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["*.example.com"],
        ));
    }
    errors
}

/// What a key of a ConfigMap or Secret may look like.
pub(super) fn config_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(plain) {
        errors.push(regex_text(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match value {
        "." => errors.push("must not be '.'".into()),
        ".." => errors.push("must not be '..'".into()),
        _ if value.starts_with("..") => errors.push("must not start with '..'".into()),
        _ => {}
    }
    errors
}

/// What a port's name may look like.
pub(super) fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push("must be no more than 15 characters".to_owned());
    }
    if !value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        || value.is_empty()
    {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// What is wrong with a port number.
pub(super) fn port_number(value: i64) -> Option<String> {
    (!(1..=65535).contains(&value)).then(|| "must be between 1 and 65535, inclusive".to_owned())
}

/// Adds an `Invalid value` per problem.
pub(super) fn push(
    errors: &mut FieldErrors,
    path: &str,
    value: &str,
    problems: impl IntoIterator<Item = String>,
) {
    errors.extend(problems.into_iter().map(|why| FieldError::invalid_str(path, value, why)));
}

/// Checks an address.
pub(super) fn ip(errors: &mut FieldErrors, path: &str, value: &str) -> Option<IpAddr> {
    let problems = net::ip(value);
    let good = problems.is_empty();
    push(errors, path, value, problems);
    net::parse_ip(value).filter(|_| good)
}

/// Checks that an address is one that traffic can go to.
pub(super) fn ordinary_ip(errors: &mut FieldErrors, path: &str, value: &str) {
    let Some(address) = net::parse_ip(value) else {
        errors.push(FieldError::invalid_str(path, value, "must be a valid IP address"));
        return;
    };
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => {
            ((ip.segments()[0] & 0xffc0) == 0xfe80, (ip.segments()[0] & 0xff0f) == 0xff02)
        }
    };
    let unspecified = format!("may not be unspecified ({value})");
    for (bad, why) in [
        (address.is_unspecified(), unspecified.as_str()),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            link_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ] {
        if bad {
            errors.push(FieldError::invalid_str(path, value, why));
        }
    }
}

/// Checks a block of addresses.
pub(super) fn cidr(errors: &mut FieldErrors, path: &str, value: &str) -> Option<ipnet::IpNet> {
    push(errors, path, value, net::cidr(value));
    net::parse_cidr(value)
}

/// Checks a map of labels at a path.
pub(super) fn labels(errors: &mut FieldErrors, path: &str, parent: &Value, key: &str) {
    for (name, value) in entries(parent, key) {
        push(errors, path, name, key::qualified_name(name));
        let value = value.as_str().unwrap_or_default();
        push(errors, path, value, key::label_value(value));
    }
}

/// Checks a `LabelSelector` object at a path.
pub(super) fn selector(errors: &mut FieldErrors, path: &str, selector: &Value) {
    labels(errors, &format!("{path}.matchLabels"), selector, "matchLabels");
    for (at, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let values = items(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid_str(
                format!("{path}.operator"),
                other,
                "not a valid selector operator",
            )),
        }
        let name = text(expression, "key");
        push(errors, &format!("{path}.key"), name, key::qualified_name(name));
        for (at, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            push(errors, &format!("{path}.values[{at}]"), value, key::label_value(value));
        }
    }
}
