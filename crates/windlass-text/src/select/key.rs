//! The rules for label keys and values.

use crate::quote;

pub use crate::name::{
    label_shaped as is_dns_label, label_value_faults as label_value,
    qualified_name_faults as qualified_name,
};

/// Returns what is wrong with a DNS-1123 subdomain; empty if nothing is.
pub fn subdomain(value: &str) -> Vec<String> {
    crate::name::subdomain_faults(value, "bytes")
}

/// Returns `<text> (e.g. 'a',  or 'b', regex used for validation is '...')`.
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

/// Returns `must be no more than N bytes`.
pub fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

/// `path: Invalid value: "value": a; b` for problems found; `None` without any.
pub(super) fn problem(path: &str, value: &str, errors: &[String]) -> Option<String> {
    let why = errors.join("; ");
    (!errors.is_empty()).then(|| format!("{path}: Invalid value: {}: {why}", quote(value)))
}
