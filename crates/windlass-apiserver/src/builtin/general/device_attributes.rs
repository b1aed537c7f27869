//! The devices of a resource slice: their names, attributes and capacities.

use std::collections::HashSet;

use serde_json::Value;
use windlass_text::quote;

use super::names::{dns_label, dns_subdomain, push};
use super::tools::{items, text};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The most bytes of the name of an attribute.
const NAME_BYTES_MAX: usize = 32;
/// The most bytes of a text or a version.
const VALUE_BYTES_MAX: usize = 64;

/// The values of which an attribute has one, with the names of the real server.
const VALUES: [(&str, &str); 4] = [
    ("int", "IntValue"),
    ("bool", "BoolValue"),
    ("string", "StringValue"),
    ("version", "VersionValue"),
];

/// Checks the devices of a slice, apart from where they are.
pub(super) fn check_devices(errors: &mut FieldErrors, spec: &Value) {
    let mut names = HashSet::new();
    for (at, device) in items(spec, "devices").iter().enumerate() {
        let path = format!("spec.devices[{at}]");
        let name = text(device, "name");
        push(errors, &format!("{path}.name"), name, dns_label(name));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&*path, &name.into()));
        }
        for part in ["attributes", "capacity"] {
            let path = format!("{path}.{part}");
            for (key, value) in device[part].as_object().into_iter().flatten() {
                check_name(errors, &path, key);
                if part == "attributes" {
                    check_attribute(errors, &format!("{path}[{key}]"), value);
                }
            }
        }
    }
}

/// Checks the counters that the devices of a pool share.
pub(super) fn check_counters(errors: &mut FieldErrors, spec: &Value) {
    let mut names = HashSet::new();
    for (at, set) in items(spec, "sharedCounters").iter().enumerate() {
        let path = format!("spec.sharedCounters[{at}]");
        let name = text(set, "name");
        match name.is_empty() {
            true => errors.push(FieldError::required(format!("{path}.name"), "")),
            false => push(errors, &format!("{path}.name"), name, dns_label(name)),
        }
        let counters = set["counters"].as_object().filter(|counters| !counters.is_empty());
        let path_counters = format!("{path}.counters");
        match counters {
            None => errors.push(FieldError::required(path_counters, "")),
            Some(counters) => counters
                .keys()
                .for_each(|counter| push(errors, &path_counters, counter, dns_label(counter))),
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(path, &name.into()));
        }
    }
}

/// Checks a name: an identifier, with or without a domain before it.
fn check_name(errors: &mut FieldErrors, path: &str, key: &str) {
    let (domain, name) = match key.split_once('/') {
        None => (None, key),
        Some((domain, name)) => (Some(domain), name),
    };
    match domain {
        None => {}
        Some("") => errors.push(FieldError::invalid_str(path, "", "the domain must not be empty")),
        Some(domain) => push(errors, path, domain, dns_subdomain(domain)),
    }
    if name.is_empty() {
        errors.push(FieldError::invalid_str(path, "", "the name must not be empty"));
        return;
    }
    if name.len() > NAME_BYTES_MAX {
        errors.push(FieldError::too_long(path, NAME_BYTES_MAX));
    }
    if !is_identifier(name) {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a \
                   string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
                   'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(FieldError::invalid_str(path, name, why));
    }
}

fn check_attribute(errors: &mut FieldErrors, path: &str, attribute: &Value) {
    let given = VALUES.iter().filter(|(key, _)| !attribute[*key].is_null()).count();
    if given != 1 {
        let shown = if given == 0 { quote("") } else { shown(attribute) };
        let why = "exactly one value must be specified";
        errors.push(FieldError::raw(FieldErrorKind::Invalid, path, shown, why));
        return;
    }
    for key in ["string", "version"] {
        if text(attribute, key).len() > VALUE_BYTES_MAX {
            errors.push(FieldError::too_long(format!("{path}.{key}"), VALUE_BYTES_MAX));
        }
    }
    if let Some(version) = attribute["version"].as_str()
        && !is_semantic(version)
    {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid_str(format!("{path}.version"), version, why));
    }
}

/// Returns an attribute as the real server prints its struct.
fn shown(attribute: &Value) -> String {
    let values = VALUES.map(|(key, name)| format!("\"{name}\":{}", attribute[key]));
    let lists = VALUES.map(|(_, name)| format!("\"{name}s\":null"));
    format!("{{{},{}}}", values.join(","), lists.join(","))
}

fn is_identifier(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns `true` for a semantic version, such as `1.2.3-beta.1+4`.
fn is_semantic(version: &str) -> bool {
    let part = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        digits && (text == "0" || !text.starts_with('0'))
    };
    let (rest, build) = match version.split_once('+') {
        None => (version, None),
        Some((rest, build)) => (rest, Some(build)),
    };
    let (core, before) = match rest.split_once('-') {
        None => (rest, None),
        Some((core, before)) => (core, Some(before)),
    };
    let numeric = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(number)
        && before.is_none_or(|b| b.split('.').all(|id| part(id) && (!numeric(id) || number(id))))
        && build.is_none_or(|build| build.split('.').all(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_values_are_those_the_real_server_takes() {
        let devices = json!([
            {"name": "A_"},
            {"name": "a", "attributes": {
                "bad key": {"string": "1"}, "a.b/c-d": {"bool": true}, "e": {},
                "f": {"string": "a", "int": 1}, "g/": {"bool": true}, "h": {"version": "1.2"},
                "i": {"version": "1.0.0-rc.1"}, "k": {"string": "x".repeat(65)}}},
            {"name": "a", "capacity": {"/c": {"value": "1"}}},
        ]);
        let mut errors = FieldErrors::default();
        check_devices(&mut errors, &json!({"devices": devices}));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let has = |text: &str| assert!(texts.iter().any(|t| t.starts_with(text)), "{texts:#?}");
        has("spec.devices[0].name: Invalid value: \"A_\": a lowercase RFC 1123 label");
        has("spec.devices[1].attributes: Invalid value: \"bad key\": a valid C identifier");
        has("spec.devices[1].attributes: Invalid value: \"c-d\": a valid C identifier");
        has("spec.devices[1].attributes[e]: Invalid value: \"\": exactly one value");
        has("spec.devices[1].attributes[f]: Invalid value: {\"IntValue\":1,\"BoolValue\":null,\
             \"StringValue\":\"a\",\"VersionValue\":null,\"IntValues\":null,\"BoolValues\":null,\
             \"StringValues\":null,\"VersionValues\":null}: exactly one value");
        has("spec.devices[1].attributes: Invalid value: \"\": the name must not be empty");
        has("spec.devices[1].attributes[h].version: Invalid value: \"1.2\": must be a string");
        has("spec.devices[1].attributes[k].string: Too long: may not be more than 64 bytes");
        has("spec.devices[2]: Duplicate value: \"a\"");
        has("spec.devices[2].capacity: Invalid value: \"\": the domain must not be empty");
        assert_eq!(texts.len(), 10, "{texts:#?}");
    }
}
