//! Replication controllers, the elders of replica sets.

use serde_json::{Value, json};

use super::{replica_set, shared, spec_defaults, template};
use crate::builtin::Strategy;
use crate::builtin::rules::value::{default_to, entries, has, int, object_mut, text};
use crate::status::{FieldError, FieldErrors};

/// The rules of `ReplicationController`.
pub struct ReplicationControllers;

impl Strategy for ReplicationControllers {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "replicas", 1);
        if has(spec, "template") {
            spec_defaults::template(spec);
        }
        let labels = spec["template"]["metadata"]["labels"].clone();
        if labels.is_object() {
            if entries(spec, "selector").next().is_none() {
                spec["selector"] = labels.clone();
            }
            if let Some(metadata) = object_mut(object, "metadata")
                && entries(metadata, "labels").next().is_none()
            {
                metadata["labels"] = labels;
            }
        }
        shared::status_with(object, &["replicas"]);
        shared::condition_times(object, &["lastTransitionTime"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        shared::start(object, json!({"replicas": 0}));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"];
        shared::keep(object, old, changed);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &object["spec"];
        shared::all_non_negative(&mut errors, spec, "spec", &["minReadySeconds"]);
        if entries(spec, "selector").next().is_none() {
            errors.push(FieldError::required("spec.selector", ""));
        }
        shared::all_non_negative(&mut errors, spec, "spec", &["replicas"]);
        validate_template(&mut errors, spec);
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> FieldErrors {
        replica_set::replica_counts(&object["status"])
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            Some(old) if old["spec"]["template"] == object["spec"]["template"] => Vec::new(),
            _ => super::pod::spec_warnings(&object["spec"]["template"], "spec.template"),
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn selectable_fields(&self, object: &Value) -> Option<Vec<(&'static str, String)>> {
        let replicas = int(object, "status.replicas").unwrap_or_default();
        Some(vec![("status.replicas", replicas.to_string())])
    }

    fn orphans_dependents(&self) -> bool {
        true
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("controllers")
    }
}

fn validate_template(errors: &mut FieldErrors, spec: &Value) {
    if spec["template"].is_null() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if entries(spec, "selector").any(|(key, value)| labels.get(key) != Some(value)) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    template::validate(errors, &spec["template"], "spec.template");
    let pod = &spec["template"]["spec"];
    if text(pod, "restartPolicy") != "Always" {
        errors.push(FieldError::not_supported(
            "spec.template.spec.restartPolicy",
            &pod["restartPolicy"],
            &["Always"],
        ));
    }
    if has(pod, "activeDeadlineSeconds") {
        errors.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicationController is not Supported",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::create;
    use super::*;

    #[test]
    fn selector_and_labels_come_from_the_template() {
        let stored = create(
            &ReplicationControllers,
            json!({"metadata": {"name": "old"}, "spec": {
            "template": {"metadata": {"labels": {"t": "1"}},
                "spec": {"containers": [{"name": "c", "image": "i:2"}]}}}}),
        )
        .unwrap();
        assert_eq!(stored["spec"]["selector"], json!({"t": "1"}));
        assert_eq!(stored["metadata"]["labels"], json!({"t": "1"}));
        assert_eq!(stored["status"], json!({"replicas": 0}));
    }

    #[test]
    fn a_controller_without_a_template_is_refused() {
        assert_eq!(
            create(&ReplicationControllers, json!({"metadata": {}, "spec": {"replicas": -2}}))
                .unwrap_err(),
            [
                "spec.selector: Required value",
                "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
                "spec.template: Required value",
            ]
        );
    }
}
