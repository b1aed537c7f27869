//! Daemon sets.

use serde_json::{Value, json};

use super::{shared, spec_defaults, template};
use crate::builtin::Strategy;
use crate::builtin::rules::selector;
use crate::builtin::rules::value::{default_absent, default_to, object_mut, text};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `DaemonSet`.
pub struct DaemonSets;

const COUNTS: [&str; 4] =
    ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];

/// Where the count of template changes lives since it left the spec.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl Strategy for DaemonSets {
    fn defaults(&self, object: &mut Value) {
        // The counter is a field of the server's own type, so it is always there.
        let generation = template_generation(object);
        set_template_generation(object, generation);
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "revisionHistoryLimit", 10);
        spec_defaults::template(spec);
        if let Some(strategy) = object_mut(spec, "updateStrategy") {
            default_to(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = object_mut(strategy, "rollingUpdate")
            {
                default_absent(rolling, "maxUnavailable", 1);
                default_absent(rolling, "maxSurge", 0);
            }
        }
        shared::status_with(object, &COUNTS);
        shared::condition_times(object, &["lastTransitionTime"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        shared::start(object, json!({}));
        shared::status_with(object, &COUNTS);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"];
        let template_changed = object["spec"]["template"] != old["spec"]["template"];
        shared::keep(object, old, changed);
        let generation = template_generation(old) + i64::from(template_changed);
        set_template_generation(object, generation);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        validate_spec(&mut errors, &object["spec"]);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        shared::selector_kept(&mut errors, object, old);
        validate_spec(&mut errors, &object["spec"]);
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        shared::all_non_negative(&mut errors, &object["status"], "status", &COUNTS);
        shared::all_non_negative(
            &mut errors,
            &object["status"],
            "status",
            &[
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
        );
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
}

fn template_generation(object: &Value) -> i64 {
    let annotation = &object["metadata"]["annotations"][TEMPLATE_GENERATION];
    annotation.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object_mut(object, "metadata")
        && let Some(annotations) = object_mut(metadata, "annotations")
    {
        annotations[TEMPLATE_GENERATION] = generation.to_string().into();
    }
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let found = &spec["selector"];
    selector::validate(errors, found, "spec.selector");
    if shared::parses(found) && !selector::matches(found, &spec["template"]["metadata"]["labels"]) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            &spec["template"]["metadata"]["labels"],
            "`selector` does not match template `labels`",
        ));
    }
    if found.is_object() && selector::is_empty(found) {
        errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.selector",
            selector::show(found),
            "empty selector is invalid for daemonset",
        ));
    }
    template::validate(errors, &spec["template"], "spec.template");
    template::runs_forever(errors, spec, "DaemonSet");
    shared::all_non_negative(errors, spec, "spec", &["minReadySeconds"]);
    validate_strategy(errors, &spec["updateStrategy"]);
    shared::all_non_negative(errors, spec, "spec", &["revisionHistoryLimit"]);
}

fn validate_strategy(errors: &mut FieldErrors, strategy: &Value) {
    const ROLLING: &str = "spec.updateStrategy.rollingUpdate";
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(FieldError::required(ROLLING, "")),
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let fields = [format!("{ROLLING}.maxUnavailable"), format!("{ROLLING}.maxSurge")];
            shared::int_or_percent(errors, unavailable, &fields[0]);
            shared::int_or_percent(errors, surge, &fields[1]);
            shared::at_most_100_percent(errors, unavailable, &fields[0]);
            shared::at_most_100_percent(errors, surge, &fields[1]);
            let some = |value| shared::int_or_percent_value(value) != 0;
            match (some(unavailable), some(surge)) {
                (true, true) => errors.push(FieldError::invalid(
                    &*fields[1],
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                )),
                (false, false) => {
                    let why = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(&*fields[0], why));
                }
                _ => {}
            }
        }
        other => errors.push(FieldError::raw(
            FieldErrorKind::NotSupported,
            "spec.updateStrategy",
            format!("{{\"Type\":{},\"RollingUpdate\":null}}", json!(other)),
            "supported values: \"RollingUpdate\", \"OnDelete\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::{create, update};
    use super::*;

    fn agent() -> Value {
        json!({"metadata": {"name": "agent"}, "spec": {
            "selector": {"matchLabels": {"run": "agent"}},
            "template": {"metadata": {"labels": {"run": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "a:1"}]}}}})
    }

    #[test]
    fn template_changes_are_counted_in_an_annotation() {
        let old = create(&DaemonSets, agent()).unwrap();
        assert_eq!(old["metadata"]["annotations"][TEMPLATE_GENERATION], "1");
        assert_eq!(old["status"]["numberReady"], 0);
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a:2");
        new["metadata"]["annotations"] = json!(null);
        let stored = update(&DaemonSets, new, &old).unwrap();
        assert_eq!(stored["metadata"]["annotations"][TEMPLATE_GENERATION], "2");
    }

    #[test]
    fn surge_and_unavailable_exclude_each_other() {
        let mut object = agent();
        object["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
        assert_eq!(
            create(&DaemonSets, object).unwrap_err(),
            ["spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when \
              maxUnavailable is non-zero"]
        );
    }
}
