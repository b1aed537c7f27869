//! How often metadata is looked at on update: the causes of an answer show each round.
//!
//! The storage layer looks at it whole and compares it with what is stored. Then the rules of a
//! kind may compare it again, look at it whole again, or both.

use serde_json::Value;

use super::meta::{standard_finalizers, validate_meta_common, validate_meta_update_common};
use crate::builtin::NameRule;
use crate::resource::Gvk;
use crate::status::FieldErrors;

/// The rounds of a kind, after those of the storage layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Against what is stored.
    compared: usize,
    /// Whole, with the rule of the kind for names.
    whole: usize,
    /// Whether finalizers have to be standard or qualified names.
    standard: bool,
}

// === impl Rounds ===

impl Rounds {
    /// Those of the storage layer alone.
    pub const NONE: Self = Self::new(0, 0, false);

    const fn new(compared: usize, whole: usize, standard: bool) -> Self {
        Self { compared, whole, standard }
    }

    /// Returns the rounds of an update of the main resource.
    pub fn of(gvk: &Gvk, custom: bool) -> Self {
        if custom {
            return Self::new(1, 0, false);
        }
        match (&*gvk.group, &*gvk.kind) {
            ("" | "events.k8s.io", "Event") | ("policy", "PodDisruptionBudget") => Self::NONE,
            ("", "PersistentVolume") => Self::new(0, 2, true),
            ("", "LimitRange")
            | ("discovery.k8s.io", "EndpointSlice")
            | ("flowcontrol.apiserver.k8s.io", _)
            | ("storage.k8s.io", "CSINode" | "VolumeAttachment") => Self::new(0, 1, true),
            ("admissionregistration.k8s.io", _) => Self::new(0, 1, false),
            ("node.k8s.io" | "apiregistration.k8s.io", _) => Self::new(1, 1, false),
            ("coordination.k8s.io" | "apiextensions.k8s.io", _) => Self::new(1, 0, false),
            ("", "Service" | "ResourceQuota" | "PodTemplate" | "ReplicationController")
            | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("autoscaling" | "scheduling.k8s.io", _)
            | ("batch", "CronJob")
            | ("networking.k8s.io", "NetworkPolicy")
            | ("resource.k8s.io", "ResourceSlice")
            | ("storage.k8s.io", "CSIDriver") => Self::new(1, 0, true),
            _ => Self::new(1, 1, true),
        }
    }

    /// Returns the rounds of an update of another part.
    pub fn of_part(gvk: &Gvk, custom: bool) -> Self {
        let whole = Self::of(gvk, custom);
        let compared = match (&*gvk.group, &*gvk.kind) {
            ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => 0,
            _ => 1,
        };
        Self { compared, whole: 0, ..whole }
    }

    /// Problems in the metadata of an update, against what is stored.
    pub fn validate(
        self,
        new: &Value,
        old: &Value,
        rule: NameRule,
        namespaced: bool,
    ) -> FieldErrors {
        let compared = validate_meta_update_common(new, old);
        let watched = ["generateName", "labels", "annotations", "ownerReferences", "finalizers"];
        if compared.is_empty() && watched.iter().all(|key| new[key] == old[key]) {
            // What is stored was looked at when it was written.
            return compared;
        }
        let mut errors = validate_meta_common(new, NameRule::PathSegment, namespaced);
        errors.extend(compared.iter().cloned());
        for _ in 0..self.compared {
            errors.extend(compared.iter().cloned());
        }
        for _ in 0..self.whole {
            errors.extend(validate_meta_common(new, rule, namespaced));
        }
        for _ in 0..if self.standard { self.compared + self.whole } else { 0 } {
            standard_finalizers(&mut errors, new);
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn causes(kind: (&str, &str), change: Value) -> Vec<String> {
        let old = json!({"name": "n", "namespace": "x", "uid": "1"});
        let mut new = old.clone();
        for (key, value) in change.as_object().unwrap() {
            new[key] = value.clone();
        }
        let rounds = Rounds::of(&Gvk::new(kind.0, "v1", kind.1), false);
        let errors = rounds.validate(&new, &old, NameRule::Subdomain, true);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    #[test]
    fn a_bad_label_is_reported_once_per_round() {
        let label = json!({"labels": {"a b": "c"}});
        for (kind, count) in [
            (("", "ConfigMap"), 4),
            (("apps", "Deployment"), 3),
            (("", "LimitRange"), 3),
            (("policy", "PodDisruptionBudget"), 2),
        ] {
            let found = causes(kind, label.clone());
            assert_eq!(found, vec!["metadata.labels"; count], "{kind:?}");
        }
    }

    #[test]
    fn finalizers_are_looked_at_on_update_too() {
        let found = causes(("apps", "Deployment"), json!({"finalizers": ["a b/c"]}));
        assert_eq!(found, ["metadata.finalizers"]);
        let found = causes(("", "ConfigMap"), json!({"finalizers": ["foo"]}));
        assert_eq!(found, ["metadata.finalizers[0]"; 2]);
        let found = causes(("coordination.k8s.io", "Lease"), json!({"finalizers": ["foo"]}));
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_change_that_is_not_allowed_is_reported_by_the_rounds_that_compare() {
        assert_eq!(causes(("", "ConfigMap"), json!({"uid": "2"})), ["metadata.uid"; 2]);
        assert_eq!(causes(("", "LimitRange"), json!({"uid": "2"})), ["metadata.uid"]);
    }

    #[test]
    fn a_prefix_for_names_is_only_looked_at_whole() {
        let change = json!({"generateName": "X_"});
        assert_eq!(causes(("", "ConfigMap"), change.clone()), ["metadata.generateName"]);
        assert!(causes(("apps", "Deployment"), change).is_empty());
    }
}
