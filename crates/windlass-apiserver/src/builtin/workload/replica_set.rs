//! Replica sets.

use serde_json::{Value, json};

use super::{shared, spec_defaults, template};
use crate::builtin::Strategy;
use crate::builtin::rules::selector;
use crate::builtin::rules::value::{default_to, object_mut};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `ReplicaSet`.
pub struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "replicas", 1);
        spec_defaults::template(spec);
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
        shared::all_non_negative(&mut errors, spec, "spec", &["replicas", "minReadySeconds"]);
        // The real server names the deployment here too.
        shared::required_selector(&mut errors, spec, "deployment");
        if shared::parses(&spec["selector"]) {
            template::matches_selector(&mut errors, spec);
            template::validate(&mut errors, &spec["template"], "spec.template");
            template::runs_forever(&mut errors, spec, "ReplicaSet");
        } else {
            let shown = selector::show(&spec["selector"]);
            let why = "invalid label selector";
            errors.push(FieldError::raw(FieldErrorKind::Invalid, "spec.selector", shown, why));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(object);
        shared::selector_kept(&mut errors, object, old);
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> FieldErrors {
        replica_counts(&object["status"])
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
}

/// Checks the counts in a status, as those of replication controllers are checked too.
pub fn replica_counts(status: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    shared::all_non_negative(
        &mut errors,
        status,
        "status",
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    );
    for key in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        let why = "cannot be greater than status.replicas";
        shared::at_most(&mut errors, status, key, "replicas", why);
    }
    let why = "cannot be greater than readyReplicas";
    shared::at_most(&mut errors, status, "availableReplicas", "readyReplicas", why);
    errors
}
