//! PersistentVolumeClaim.

use serde_json::{Value, json};

use super::tools::{drop_field, entries, fill, fill_text, has, immutable, keep, object, set, text};
use super::{diff, quantity};
use crate::builtin::Strategy;
use crate::builtin::rules::claim as rules;
use crate::builtin::workload::pod_warnings;
use crate::status::{FieldError, FieldErrors};

/// The annotation that named the storage class of a claim before there was a field for it.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// PersistentVolumeClaim.
pub(super) struct Claim;

impl Strategy for Claim {
    fn defaults(&self, claim: &mut Value) {
        let spec = object(claim, "spec");
        fill(spec, "volumeMode", "Filesystem");
        object(spec, "resources");
        fill_text(object(claim, "status"), "phase", "Pending");
    }

    fn prepare_create(&self, claim: &mut Value) {
        set(claim, "status", json!({"phase": "Pending"}));
        drop_sources(object(claim, "spec"));
        join_sources(object(claim, "spec"));
    }

    fn prepare_update(&self, claim: &mut Value, old: &Value) {
        keep(claim, old, "status");
        let was = &old["spec"];
        if !has(was, "dataSource") && !has(was, "dataSourceRef") {
            drop_source(object(claim, "spec"));
        }
        join_sources(object(claim, "spec"));
    }

    fn prepare_status(&self, claim: &mut Value, old: &Value) {
        keep(claim, old, "spec");
    }

    fn validate(&self, claim: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        rules::validate(&mut errors, &claim["spec"], "spec");
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(claim);
        check_claim_change(&mut errors, claim, old);
        errors
    }

    fn validate_status(&self, claim: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for (name, amount) in entries(&claim["status"], "capacity") {
            let shown = amount.as_str().unwrap_or_default();
            if let Some(amount) = quantity::parse(shown).filter(|amount| *amount < 0) {
                let path = format!("status.capacity[{name}]");
                let whole = i64::try_from(amount / quantity::ONE).unwrap_or(i64::MIN);
                let why = "must be a valid resource quantity";
                errors.push(FieldError::invalid(path, &whole.into(), why));
            }
        }
        errors
    }

    fn warnings(&self, claim: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut found = Vec::new();
        if has(&claim["metadata"]["annotations"], BETA_CLASS) {
            found.push(format!(
                "metadata.annotations[{BETA_CLASS}]: deprecated since v1.8; use \"storageClassName\" \
                 attribute instead"
            ));
        }
        pod_warnings::claim(&mut found, &claim["spec"], "spec");
        found
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Drops data sources of a new claim that are not supported.
fn drop_sources(spec: &mut Value) {
    if has(&spec["dataSourceRef"], "namespace") {
        drop_field(spec, "dataSourceRef");
    }
    drop_source(spec);
}

/// Drops a source of data that older servers did not know either, unless a newer client gave it.
fn drop_source(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    if spec.get("dataSourceRef").is_some_and(|source| !source.is_null()) {
        return;
    }
    let fills = |source: &Value| {
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        (group.is_empty() && kind == "PersistentVolumeClaim")
            || (group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot")
    };
    if spec.get("dataSource").is_some_and(|source| !fills(source)) {
        spec.remove("dataSource");
    }
}

fn join_sources(spec: &mut Value) {
    let (source, reference) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
    match (source, reference) {
        (Some(source), None) if !source.is_null() => set(spec, "dataSourceRef", source),
        (None, Some(reference)) if !has(&reference, "namespace") && !reference.is_null() => {
            set(spec, "dataSource", reference);
        }
        _ => {}
    }
}

fn check_claim_change(errors: &mut FieldErrors, claim: &Value, old: &Value) {
    let (mut new_spec, mut old_spec) = (claim["spec"].clone(), old["spec"].clone());
    let storage = |spec: &Value| text(&spec["resources"]["requests"], "storage").to_owned();
    let (size, old_size) = (storage(&new_spec), storage(&old_spec));
    if text(&old_spec, "volumeName").is_empty() {
        keep(&mut old_spec, &claim["spec"], "volumeName");
    }
    let class_was_unset = !has(&old_spec, "storageClassName");
    if class_was_unset && has(&new_spec, "storageClassName") {
        drop_field(&mut new_spec, "storageClassName");
    }
    if text(&claim["status"], "phase") == "Bound" && has(&new_spec["resources"], "requests") {
        let requests = object(object(&mut new_spec, "resources"), "requests");
        set(requests, "storage", old_size.clone());
    }
    keep(&mut new_spec, &old["spec"], "volumeAttributesClassName");
    if new_spec != old_spec {
        let diff = diff::unified(&internal(&old_spec), &internal(&new_spec));
        errors.push(FieldError::forbidden(
            "spec",
            format!(
                "spec is immutable after creation except resources.requests and \
                 volumeAttributesClassName for bound claims\n{diff}"
            ),
        ));
    }
    let amount = |text: &str| quantity::parse(text).unwrap_or_default();
    let reached = amount(text(&old["status"]["capacity"], "storage"));
    if amount(&size) < amount(&old_size) && amount(&size) <= reached {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
    let (mode, old_mode) = (&claim["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
    immutable(errors, "volumeMode", mode, old_mode);
}

/// A claim's spec as the server's own type prints it, one field per line.
fn internal(spec: &Value) -> String {
    let mut out = String::from("{\n");
    let null = Value::Null;
    let get = |key: &str| spec.get(key).unwrap_or(&null);
    let resources = get("resources");
    let fields: [(&str, String); 9] = [
        ("AccessModes", indented(get("accessModes"))),
        ("Selector", indented(get("selector"))),
        (
            "Resources",
            format!(
                "{{\n  \"Limits\": {},\n  \"Requests\": {}\n }}",
                indented(&resources["limits"]).replace('\n', "\n "),
                indented(&resources["requests"]).replace('\n', "\n ")
            ),
        ),
        ("VolumeName", indented(&json!(text(spec, "volumeName")))),
        ("StorageClassName", indented(get("storageClassName"))),
        ("VolumeMode", indented(get("volumeMode"))),
        ("DataSource", indented(&go_names(get("dataSource"), false))),
        ("DataSourceRef", indented(&go_names(get("dataSourceRef"), true))),
        ("VolumeAttributesClassName", indented(get("volumeAttributesClassName"))),
    ];
    for (at, (name, value)) in fields.iter().enumerate() {
        let comma = if at + 1 < fields.len() { "," } else { "" };
        out.push_str(&format!(" \"{name}\": {value}{comma}\n"));
    }
    out.push('}');
    out
}

fn go_names(source: &Value, namespaced: bool) -> Value {
    if source.is_null() {
        return Value::Null;
    }
    let mut out = json!({
        "APIGroup": source["apiGroup"], "Kind": source["kind"], "Name": source["name"],
    });
    if namespaced {
        out["Namespace"] = source["namespace"].clone();
    }
    out
}

/// JSON with one space per level, for a value that is one level deep.
fn indented(value: &Value) -> String {
    use serde::Serialize;
    let mut out = Vec::new();
    let style = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, style);
    // Writing a value to memory cannot fail.
    let written = value.serialize(&mut serializer).is_ok();
    let text = if written { String::from_utf8(out).unwrap_or_default() } else { String::new() };
    text.replace('\n', "\n ")
}
