//! Pod templates: inside controllers, and as objects of their own.

use serde_json::{Value, json};

use super::{pod_spec, shared, spec_defaults};
use crate::builtin::Strategy;
use crate::builtin::rules::value::text;
use crate::builtin::rules::{meta, selector};
use crate::status::{FieldError, FieldErrors};

/// The rules of `PodTemplate`.
pub struct PodTemplates;

impl Strategy for PodTemplates {
    fn defaults(&self, object: &mut Value) {
        spec_defaults::template(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["metadata"]["generation"] = json!(1);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["template"] != old["template"];
        shared::bump(object, old, changed);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        validate(&mut errors, &object["template"], "template");
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        super::pod::spec_warnings(&object["template"], "template")
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// The rules of a pod template in any kind.
pub fn validate(errors: &mut FieldErrors, template: &Value, field: &str) {
    let metadata = &template["metadata"];
    meta::labels(errors, &metadata["labels"], &format!("{field}.labels"));
    meta::annotations(errors, &metadata["annotations"], &format!("{field}.annotations"));
    pod_spec::validate(errors, &template["spec"], &format!("{field}.spec"), false);
    let ephemeral = &template["spec"]["ephemeralContainers"];
    if ephemeral.as_array().is_some_and(|list| !list.is_empty()) {
        errors.push(FieldError::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// The template's labels have to match the selector of its controller.
pub fn matches_selector(errors: &mut FieldErrors, spec: &Value) {
    let found = &spec["selector"];
    if found.is_object() && selector::is_empty(found) {
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !selector::matches(found, labels) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
}

/// Pods of most controllers always restart and have no deadline.
pub fn runs_forever(errors: &mut FieldErrors, spec: &Value, kind: &str) {
    let pod = &spec["template"]["spec"];
    if text(pod, "restartPolicy") != "Always" {
        errors.push(FieldError::not_supported(
            "spec.template.spec.restartPolicy",
            &pod["restartPolicy"],
            &["Always"],
        ));
    }
    if !pod["activeDeadlineSeconds"].is_null() {
        errors.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            format!("activeDeadlineSeconds in {kind} is not Supported"),
        ));
    }
}
