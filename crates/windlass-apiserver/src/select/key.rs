//! The rules for label keys and values.

use crate::status::quote;

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/// What is wrong with a qualified name (a label key); empty if nothing is.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix).into_iter().map(|e| format!("prefix part {e}")));
            }
            name
        }
        _ => {
            let shape = regex_text(QUALIFIED_TEXT, QUALIFIED, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {shape} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !is_qualified(name) {
        let shape = regex_text(QUALIFIED_TEXT, QUALIFIED, &["MyName", "my.name", "123-abc"]);
        errors.push(format!("name part {shape}"));
    }
    errors
}

/// What is wrong with a label value; empty if nothing is.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(too_long(63));
    }
    if !value.is_empty() && !is_qualified(value) {
        errors.push(regex_text(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// What is wrong with a DNS-1123 subdomain; empty if nothing is.
pub fn subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push(too_long(253));
    }
    if !value.split('.').all(is_dns_label) {
        errors.push(regex_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    errors
}

/// Whether this is one lower-case DNS-1123 label, of any length.
pub fn is_dns_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// `<text> (e.g. 'a',  or 'b', regex used for validation is '...')`.
pub fn regex_text(text: &str, regex: &str, examples: &[&str]) -> String {
    let mut out = format!("{text} (e.g. ");
    for (at, example) in examples.iter().enumerate() {
        if at > 0 {
            out.push_str(" or ");
        }
        out.push_str(&format!("'{example}', "));
    }
    out.push_str(&format!("regex used for validation is '{regex}')"));
    out
}

/// `must be no more than N bytes`.
pub fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

/// `path: Invalid value: "value": a; b` for problems found; `None` without any.
pub(super) fn problem(path: &str, value: &str, errors: &[String]) -> Option<String> {
    let why = errors.join("; ");
    (!errors.is_empty()).then(|| format!("{path}: Invalid value: {}: {why}", quote(value)))
}

fn is_qualified(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
