//! Deployments.

use serde_json::{Value, json};

use super::{shared, spec_defaults, template};
use crate::builtin::Strategy;
use crate::builtin::rules::value::{
    copy_field, default_absent, default_to, int, object_mut, show_ordered, text,
};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `Deployment`.
pub struct Deployments;

impl Strategy for Deployments {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "replicas", 1);
        default_to(spec, "revisionHistoryLimit", 10);
        default_to(spec, "progressDeadlineSeconds", 600);
        spec_defaults::template(spec);
        if let Some(strategy) = object_mut(spec, "strategy") {
            default_to(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = object_mut(strategy, "rollingUpdate")
            {
                default_absent(rolling, "maxUnavailable", "25%");
                default_absent(rolling, "maxSurge", "25%");
            }
        }
        shared::status_with(object, &[]);
        shared::condition_times(object, &["lastUpdateTime", "lastTransitionTime"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        shared::start(object, json!({}));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"]
            || object["metadata"]["annotations"] != old["metadata"]["annotations"];
        shared::keep(object, old, changed);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
        let old_meta = &old["metadata"];
        copy_field(&mut object["metadata"], old_meta, "labels");
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        validate_spec(&mut errors, &object["spec"]);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(object);
        shared::selector_kept(&mut errors, object, old);
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let status = &object["status"];
        shared::all_non_negative(
            &mut errors,
            status,
            "status",
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
        );
        for key in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
            let why = "cannot be greater than status.replicas";
            shared::at_most(&mut errors, status, key, "replicas", why);
        }
        let why = "cannot be greater than readyReplicas";
        shared::at_most(&mut errors, status, "availableReplicas", "readyReplicas", why);
        shared::collisions_kept(&mut errors, object, old);
        errors
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

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata.labels"] } else { &[] }
    }
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    shared::all_non_negative(errors, spec, "spec", &["replicas"]);
    shared::required_selector(errors, spec, "deployment");
    if shared::parses(&spec["selector"]) {
        template::matches_selector(errors, spec);
        template::validate(errors, &spec["template"], "spec.template");
        template::runs_forever(errors, spec, "ReplicaSet");
    } else {
        errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.selector",
            crate::builtin::rules::selector::show(&spec["selector"]),
            "invalid label selector",
        ));
    }
    validate_strategy(errors, &spec["strategy"]);
    let numbers = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    shared::all_non_negative(errors, spec, "spec", &numbers);
    if let Some(deadline) = int(spec, "progressDeadlineSeconds")
        && deadline <= int(spec, "minReadySeconds").unwrap_or_default()
    {
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &deadline.into(),
            "must be greater than minReadySeconds",
        ));
    }
}

fn validate_strategy(errors: &mut FieldErrors, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" if !rolling.is_null() => errors.push(FieldError::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        "Recreate" => {}
        "RollingUpdate" => {
            const FIELD: &str = "spec.strategy.rollingUpdate.maxUnavailable";
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            shared::int_or_percent(errors, unavailable, FIELD);
            shared::int_or_percent(errors, surge, "spec.strategy.rollingUpdate.maxSurge");
            if shared::int_or_percent_value(unavailable) == 0
                && shared::int_or_percent_value(surge) == 0
            {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(FIELD, unavailable, why));
            }
            shared::at_most_100_percent(errors, unavailable, FIELD);
        }
        _ => errors.push(FieldError::raw(
            FieldErrorKind::NotSupported,
            "spec.strategy",
            // The real server shows its own struct here, with Go's field names.
            show_strategy(strategy),
            "supported values: \"Recreate\", \"RollingUpdate\"",
        )),
    }
}

fn show_strategy(strategy: &Value) -> String {
    let rolling = match &strategy["rollingUpdate"] {
        Value::Null => "null".to_owned(),
        rolling => show_ordered(
            &json!({"MaxUnavailable": or_zero(&rolling["maxUnavailable"]),
                "MaxSurge": or_zero(&rolling["maxSurge"])}),
            &["MaxUnavailable", "MaxSurge"],
        ),
    };
    format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", strategy["type"])
}

fn or_zero(value: &Value) -> Value {
    if value.is_null() { 0.into() } else { value.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::{create, texts, update};
    use super::*;

    fn web() -> Value {
        json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"run": "web"}},
            "template": {"metadata": {"labels": {"run": "web"}},
                "spec": {"containers": [{"name": "main", "image": "site:3"}]}}}})
    }

    #[test]
    fn a_minimal_deployment_is_completed() {
        let stored = create(&Deployments, web()).unwrap();
        assert_eq!(stored["metadata"]["generation"], 1);
        assert_eq!(stored["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
        assert_eq!(stored["status"], json!({}));
    }

    #[test]
    fn annotations_and_spec_count_the_generation_up_but_labels_do_not() {
        let old = create(&Deployments, web()).unwrap();
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"x": "y"});
        assert_eq!(update(&Deployments, new.clone(), &old).unwrap()["metadata"]["generation"], 1);
        new["metadata"]["annotations"] = json!({"x": "y"});
        assert_eq!(update(&Deployments, new, &old).unwrap()["metadata"]["generation"], 2);
    }

    #[test]
    fn an_odd_strategy_is_shown_as_the_server_does() {
        let mut object = web();
        object["spec"]["strategy"] = json!({"type": "Slow"});
        assert_eq!(
            create(&Deployments, object).unwrap_err(),
            ["spec.strategy: Unsupported value: {\"Type\":\"Slow\",\"RollingUpdate\":null}: \
              supported values: \"Recreate\", \"RollingUpdate\""]
        );
    }

    #[test]
    fn the_selector_is_fixed_and_counts_cannot_exceed_replicas() {
        let old = create(&Deployments, web()).unwrap();
        let mut new = old.clone();
        new["spec"]["selector"]["matchLabels"] = json!({"other": "1"});
        let errors = update(&Deployments, new, &old).unwrap_err();
        assert!(errors[1].starts_with("spec.selector: Invalid value: {\"matchLabels\":{\"other\""));
        let mut status = old.clone();
        status["status"] = json!({"replicas": 1, "readyReplicas": 2});
        assert_eq!(
            texts(&Deployments.validate_status(&status, &old)),
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]
        );
    }
}
