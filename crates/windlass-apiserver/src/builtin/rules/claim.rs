//! The spec of a claim of storage: of claims, in templates of claims and in ephemeral volumes.

use serde_json::Value;

use super::quantity::Quantity;
use super::value::{has, items, text};
use super::{each_invalid, names, selector};
use crate::status::{FieldError, FieldErrors};

/// How often a volume may be mounted.
pub const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// What a volume looks like to a container.
pub const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Problems of the spec of a claim.
pub fn validate(errors: &mut FieldErrors, spec: &Value, field: &str) {
    if items(spec, "accessModes").is_empty() {
        let why = "at least 1 access mode is required";
        errors.push(FieldError::required(format!("{field}.accessModes"), why));
    }
    selector::validate(errors, &spec["selector"], &format!("{field}.selector"));
    access_modes(errors, spec, field);
    let storage = format!("{field}.resources[storage]");
    match spec["resources"]["requests"].get("storage") {
        None => errors.push(FieldError::required(storage, "")),
        Some(amount) => positive(errors, amount, &storage),
    }
    class(errors, spec, "storageClassName", field);
    if let Some(mode) = spec["volumeMode"].as_str()
        && !VOLUME_MODES.contains(&mode)
    {
        let field = format!("{field}.volumeMode");
        errors.push(FieldError::not_supported(field, &mode.into(), &VOLUME_MODES));
    }
    data_sources(errors, spec, field);
    class(errors, spec, "volumeAttributesClassName", field);
}

/// Problems of the access modes of a claim or a volume.
pub fn access_modes(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let field = format!("{field}.accessModes");
    let (mut alone, mut others) = (false, false);
    for mode in items(spec, "accessModes") {
        match mode.as_str() {
            Some("ReadWriteOncePod") => alone = true,
            Some(known) if ACCESS_MODES.contains(&known) => others = true,
            _ => errors.push(FieldError::not_supported(&*field, mode, &ACCESS_MODES)),
        }
    }
    if alone && others {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(field, why));
    }
}

/// An amount has to be greater than zero.
pub fn positive(errors: &mut FieldErrors, amount: &Value, field: &str) {
    let shown = amount.as_str().unwrap_or_default();
    if Quantity::parse(shown).is_some_and(|n| n.sign().is_le()) {
        errors.push(FieldError::invalid_str(field, shown, "must be greater than zero"));
    }
}

fn class(errors: &mut FieldErrors, spec: &Value, key: &str, field: &str) {
    let name = text(spec, key);
    if !name.is_empty() {
        each_invalid(errors, &format!("{field}.{key}"), name, names::dns_subdomain(name));
    }
}

fn data_sources(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    for (key, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if !source.is_null() {
            data_source(errors, source, &format!("{field}.{key}"));
        }
    }
    let path = format!("{field}.dataSource");
    if !text(reference, "namespace").is_empty() {
        let name = text(reference, "namespace");
        let at = format!("{field}.dataSourceRef.namespace");
        each_invalid(errors, &at, name, names::dns_label(name));
        if !source.is_null() {
            let why = "may not be specified when dataSourceRef.namespace is specified";
            errors.push(FieldError::invalid_str(field, &path, why));
        }
    } else if has(spec, "dataSource") && has(spec, "dataSourceRef") {
        let same = |key: &str| text(source, key) == text(reference, key);
        if !["apiGroup", "kind", "name"].into_iter().all(same) {
            let shown = Value::Object(Default::default());
            errors.push(FieldError::invalid(field, &shown, "must match dataSourceRef"));
        }
    }
}

fn data_source(errors: &mut FieldErrors, source: &Value, field: &str) {
    for key in ["name", "kind"] {
        if text(source, key).is_empty() {
            errors.push(FieldError::required(format!("{field}.{key}"), ""));
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid_str(field, kind, why));
    } else if !group.is_empty() {
        each_invalid(errors, &format!("{field}.apiGroup"), group, names::dns_subdomain(group));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(spec: Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        validate(&mut errors, &spec, "spec");
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_data_source_names_what_it_is() {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "dataSource": {"kind": "Odd"},
        });
        assert_eq!(
            problems(spec),
            [
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"Odd\": must be 'PersistentVolumeClaim' when \
                 referencing the default apiGroup",
            ]
        );
    }

    #[test]
    fn the_mode_for_a_single_pod_cannot_be_combined() {
        let spec = json!({
            "accessModes": ["ReadWriteOncePod", "ReadWriteOncePod"],
            "resources": {"requests": {"storage": "0"}},
        });
        assert_eq!(
            problems(spec),
            ["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"]
        );
    }
}
