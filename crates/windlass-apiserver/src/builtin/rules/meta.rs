//! The rules for `metadata` that hold for every kind.
//!
//! Not checked here: `resourceVersion` and `generation` of an update, which the caller sets itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use super::value::{int, items, show_ordered, text};
use super::{each_invalid, immutable, non_negative};
use crate::builtin::NameRule;
use crate::status::{FieldError, FieldErrorKind, FieldErrors, WHOLE_LISTS_MAX, quote};

/// The most bytes all annotations of an object may have together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

const OWNER_ORDER: &[&str] =
    &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// Problems in the metadata of a new built-in object, whose name was generated already.
pub fn validate_meta(meta: &Value, name_rule: NameRule, namespaced: bool) -> FieldErrors {
    let mut errors = validate_meta_common(meta, name_rule, namespaced);
    standard_finalizers(&mut errors, meta);
    errors
}

/// Does the same as [`validate_meta`], without the rule that finalizers are standard or qualified
/// names.
pub fn validate_meta_common(meta: &Value, rule: NameRule, namespaced: bool) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        let why = check_name(rule, generate_name, true);
        each_invalid(&mut errors, "metadata.generateName", generate_name, why);
    }
    match text(meta, "name") {
        "" => {
            errors.push(FieldError::required("metadata.name", "name or generateName is required"));
        }
        name => each_invalid(&mut errors, "metadata.name", name, check_name(rule, name, false)),
    }
    match (namespaced, text(meta, "namespace")) {
        (true, "") => errors.push(FieldError::required("metadata.namespace", "")),
        (true, ns) => each_invalid(&mut errors, "metadata.namespace", ns, names::dns_label(ns)),
        (false, "") => {}
        (false, _) => {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
    }
    non_negative(&mut errors, int(meta, "generation"), "metadata.generation");
    labels(&mut errors, &meta["labels"], "metadata.labels");
    annotations(&mut errors, &meta["annotations"], "metadata.annotations");
    owner_references(&mut errors, meta);
    finalizers(&mut errors, meta);
    errors
}

/// Problems in the metadata of an updated object, against what is stored: one of the
/// [`Rounds`](super::rounds::Rounds) of an update.
pub fn validate_meta_update_common(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if !old["deletionTimestamp"].is_null() {
        no_new_finalizers(&mut errors, new, old);
    }
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        immutable(&mut errors, &new[key], &old[key], &format!("metadata.{key}"));
    }
    labels(&mut errors, &new["labels"], "metadata.labels");
    annotations(&mut errors, &new["annotations"], "metadata.annotations");
    owner_references(&mut errors, new);
    errors
}

/// Returns what is wrong with a name under a rule; `prefix` means it is a `generateName`.
pub fn check_name(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let check: names::Check = match rule {
        NameRule::Subdomain => names::dns_subdomain,
        NameRule::Label => names::dns_label,
        NameRule::PathSegment if prefix => return names::path_segment_prefix(name),
        NameRule::PathSegment => return names::path_segment(name),
    };
    match prefix {
        true => check(&names::mask_trailing_dash(name)),
        false => check(name),
    }
}

/// Problems of a label map.
pub fn labels(errors: &mut FieldErrors, labels: &Value, field: &str) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        each_invalid(errors, field, key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        each_invalid(errors, field, value, names::label_value(value));
    }
}

/// Problems of an annotation map.
pub fn annotations(errors: &mut FieldErrors, annotations: &Value, field: &str) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        each_invalid(errors, field, key, names::qualified_name(&key.to_lowercase()));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(field, ANNOTATIONS_BYTES_MAX));
    }
}

/// Checks the metadata in a template, which has labels and annotations only.
pub fn template(errors: &mut FieldErrors, meta: &Value, field: &str) {
    const OTHERS: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    annotations(errors, &meta["annotations"], &format!("{field}.annotations"));
    labels(errors, &meta["labels"], &format!("{field}.labels"));
    for (key, shown) in OTHERS {
        if meta.get(key).is_some_and(|value| !crate::object::is_empty(value)) {
            errors.push(FieldError::forbidden(format!("{field}.{shown}"), "cannot be set"));
        }
    }
}

fn owner_references(errors: &mut FieldErrors, meta: &Value) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    let mut shown = 0;
    for owner in items(meta, "ownerReferences") {
        let (kind, name) = (text(owner, "kind"), text(owner, "name"));
        // An apiVersion with more than one slash parses to nothing.
        let api_version = text(owner, "apiVersion");
        let (group, version) = match api_version.matches('/').count() {
            0 | 1 => crate::resource::split_api_version(api_version),
            _ => ("", ""),
        };
        let mut empty = |key: &str, value: &str, why: &str| {
            errors.push(FieldError::invalid_str(format!("{FIELD}.{key}"), value, why));
        };
        if version.is_empty() {
            empty("apiVersion", api_version, "version must not be empty");
        }
        for (key, value) in [("kind", kind), ("name", name), ("uid", text(owner, "uid"))] {
            if value.is_empty() {
                empty(key, value, "must not be empty");
            }
        }
        if (group, version, kind) == ("", "v1", "Event") {
            errors.push(FieldError::raw(
                FieldErrorKind::Invalid,
                FIELD,
                show_ordered(owner, OWNER_ORDER),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner["controller"] != true {
            continue;
        }
        match &controller {
            None => controller = Some(format!("{kind}/{name}")),
            Some(_) if shown == WHOLE_LISTS_MAX => {}
            Some(first) => {
                shown += 1;
                errors.push(FieldError::raw(
                    FieldErrorKind::Invalid,
                    FIELD,
                    show_ordered(&meta["ownerReferences"], OWNER_ORDER),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {kind}/{name}"
                    ),
                ));
            }
        }
    }
}

fn finalizers(errors: &mut FieldErrors, meta: &Value) {
    let list = items(meta, "finalizers");
    for name in list.iter().filter_map(Value::as_str) {
        each_invalid(errors, "metadata.finalizers", name, names::qualified_name(name));
    }
    let with = |name: &str| list.iter().any(|f| f == name);
    if with("orphan") && with("foregroundDeletion") {
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            &meta["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// Finalizers that are neither standard nor qualified names.
pub fn standard_finalizers(errors: &mut FieldErrors, meta: &Value) {
    for (i, name) in items(meta, "finalizers").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            errors.push(FieldError::invalid_str(
                format!("metadata.finalizers[{i}]"),
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

fn no_new_finalizers(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let set = |meta| -> BTreeSet<_> {
        items(meta, "finalizers").iter().filter_map(Value::as_str).collect()
    };
    let (new, old): (BTreeSet<&str>, BTreeSet<&str>) = (set(new), set(old));
    let extra: Vec<_> = new.difference(&old).map(|name| quote(name)).collect();
    if !extra.is_empty() {
        errors.push(FieldError::forbidden(
            "metadata.finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                extra.join(", ")
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn create(meta: Value) -> Vec<String> {
        let errors = validate_meta(&meta, NameRule::Subdomain, true);
        errors.iter().map(ToString::to_string).collect()
    }

    fn update(new: Value, old: Value) -> Vec<String> {
        validate_meta_update_common(&new, &old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_object_has_no_problems() {
        let meta = json!({"name": "web.v2", "namespace": "shop", "labels": {"a/b": ""},
            "finalizers": ["kubernetes", "example.org/x"], "generateName": "web-"});
        assert!(create(meta).is_empty());
    }

    #[test]
    fn an_object_without_a_name_is_reported_as_such() {
        assert_eq!(
            create(json!({})),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value",
            ]
        );
        let errors = validate_meta(&json!({"name": "n", "namespace": "x"}), NameRule::Label, false);
        assert_eq!(
            errors[0].to_string(),
            "metadata.namespace: Forbidden: not allowed on this type"
        );
    }

    #[test]
    fn owners_are_shown_in_the_order_of_their_fields() {
        let meta = json!({"name": "n", "namespace": "x", "ownerReferences": [
            {"uid": "1", "name": "a", "kind": "Event", "apiVersion": "v1", "controller": true},
            {"uid": "2", "name": "b", "kind": "Job", "apiVersion": "a/b/c", "controller": true},
        ]});
        let errors = create(meta);
        assert_eq!(
            errors[0],
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\
             \"name\":\"a\",\"uid\":\"1\",\"controller\":true}: /v1, Kind=Event is disallowed \
             from being an owner"
        );
        assert!(errors[1].ends_with("\"a/b/c\": version must not be empty"), "{errors:?}");
        assert!(errors[2].ends_with("references for Event/a and Job/b"), "{errors:?}");
    }

    #[test]
    fn an_update_keeps_what_is_fixed() {
        let old = json!({"name": "n", "uid": "1", "deletionTimestamp": "2030-01-01T00:00:00Z"});
        let mut new = old.clone();
        new["finalizers"] = json!(["b.example/y", "a.example/x"]);
        new["uid"] = json!("2");
        let errors = update(new, old);
        assert_eq!(errors.len(), 2);
        assert_eq!(
            errors[0],
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
             being deleted, found new finalizers []string{\"a.example/x\", \"b.example/y\"}"
        );
        assert_eq!(errors[1], "metadata.uid: Invalid value: \"2\": field is immutable");
    }

    #[test]
    fn annotations_are_limited_together() {
        let half = "x".repeat(ANNOTATIONS_BYTES_MAX / 2);
        let meta = json!({"name": "n", "namespace": "x", "annotations": {"A": half, "b": half}});
        assert_eq!(
            create(meta),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }
    #[test]
    fn a_template_has_labels_and_annotations_only() {
        let meta = json!({"labels": {"a": "b"}, "uid": "1", "finalizers": ["a/b"], "name": ""});
        let mut errors = FieldErrors::default();
        template(&mut errors, &meta, "spec.metadata");
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.metadata.uID: Forbidden: cannot be set",
                "spec.metadata.finalizers: Forbidden: cannot be set",
            ]
        );
    }
}
