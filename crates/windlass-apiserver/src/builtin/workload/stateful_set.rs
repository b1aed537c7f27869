//! Stateful sets.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{shared, spec_defaults, template};
use crate::builtin::rules::value::{
    copy_field, default_to, has, int, items, items_mut, object_mut, remove, text,
};
use crate::builtin::rules::{claim, each_invalid, names, non_negative, selector};
use crate::builtin::{NameRule, Strategy};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `StatefulSet`.
pub struct StatefulSets;

/// The fields of the spec that an update may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

impl Strategy for StatefulSets {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "podManagementPolicy", "OrderedReady");
        default_to(spec, "replicas", 1);
        default_to(spec, "revisionHistoryLimit", 10);
        default_to(spec, "serviceName", "");
        update_strategy(spec);
        if let Some(policy) = object_mut(spec, "persistentVolumeClaimRetentionPolicy") {
            default_to(policy, "whenDeleted", "Retain");
            default_to(policy, "whenScaled", "Retain");
        }
        spec_defaults::template(spec);
        for claim in items_mut(spec, "volumeClaimTemplates") {
            default_to(claim, "kind", "PersistentVolumeClaim");
            default_to(claim, "apiVersion", "v1");
            object_mut(claim, "metadata");
            if let Some(spec) = object_mut(claim, "spec") {
                default_to(spec, "volumeMode", "Filesystem");
                object_mut(spec, "resources");
            }
            if let Some(status) = object_mut(claim, "status") {
                default_to(status, "phase", "Pending");
            }
        }
        shared::status_with(object, &["replicas", "availableReplicas"]);
        shared::condition_times(object, &["lastTransitionTime"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        shared::start(object, json!({"replicas": 0, "availableReplicas": 0}));
        drop_max_unavailable(object, &Value::Null);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        drop_max_unavailable(object, old);
        let changed = object["spec"] != old["spec"];
        shared::keep(object, old, changed);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        validate_spec(&object["spec"], true)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = validate_spec(&object["spec"], false);
        let mut fixed = object["spec"].clone();
        for key in MUTABLE {
            copy_field(&mut fixed, &old["spec"], key);
        }
        if fixed != old["spec"] {
            errors.push(FieldError::forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                 'template', 'updateStrategy', 'revisionHistoryLimit', \
                 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
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
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
        );
        for key in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
            let why = "cannot be greater than status.replicas";
            shared::at_most(&mut errors, status, key, "replicas", why);
        }
        let why = "cannot be greater than status.readyReplicas";
        shared::at_most(&mut errors, status, "availableReplicas", "readyReplicas", why);
        shared::collisions_kept(&mut errors, object, old);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut out = match old {
            Some(old) if old["spec"]["template"] == object["spec"]["template"] => Vec::new(),
            _ => super::pod::spec_warnings(&object["spec"]["template"], "spec.template"),
        };
        if int(object, "spec.revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            out.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; \
                 a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        out
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn update_strategy(spec: &mut Value) {
    let Some(strategy) = object_mut(spec, "updateStrategy") else { return };
    if text(strategy, "type").is_empty() {
        default_to(strategy, "type", "RollingUpdate");
        object_mut(strategy, "rollingUpdate");
    }
    if strategy["type"] == "RollingUpdate" && has(strategy, "rollingUpdate") {
        default_to(&mut strategy["rollingUpdate"], "partition", 0);
    }
}

fn validate_spec(spec: &Value, new: bool) -> FieldErrors {
    let mut errors = FieldErrors::default();
    match text(spec, "podManagementPolicy") {
        "" => errors.push(FieldError::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        other => errors.push(FieldError::invalid_str(
            "spec.podManagementPolicy",
            other,
            "must be 'OrderedReady' or 'Parallel'",
        )),
    }
    validate_strategy(&mut errors, &spec["updateStrategy"]);
    for key in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"][key];
        if !["Retain", "Delete"].contains(&policy.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported(
                format!("spec.persistentVolumeClaimRetentionPolicy.{key}"),
                policy,
                &["Retain", "Delete"],
            ));
        }
    }
    if new {
        for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
            claim::validate(
                &mut errors,
                &claim["spec"],
                &format!("spec.volumeClaimTemplates[{i}].spec"),
            );
        }
    }
    shared::all_non_negative(&mut errors, spec, "spec", &["replicas", "minReadySeconds"]);
    non_negative(&mut errors, int(spec, "ordinals.start"), "spec.ordinals.start");
    let service = text(spec, "serviceName");
    if new && !service.is_empty() {
        each_invalid(&mut errors, "spec.serviceName", service, names::dns_label(service));
    }
    shared::required_selector(&mut errors, spec, "statefulset");
    match shared::parses(&spec["selector"]) {
        true => validate_template(&mut errors, spec),
        false => errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.selector",
            selector::show(&spec["selector"]),
            "",
        )),
    }
    template::runs_forever(&mut errors, spec, "StatefulSet");
    errors
}

/// Checks the template as its pods will be: with a volume for every claim.
fn validate_template(errors: &mut FieldErrors, spec: &Value) {
    template::matches_selector(errors, spec);
    let mut pods = spec["template"].clone();
    let Some(pod) = object_mut(&mut pods, "spec") else { return };
    remove(pod, "subdomain");
    remove(pod, "hostname");
    let templates = items(spec, "volumeClaimTemplates");
    let mut claims: HashSet<&str> = HashSet::with_capacity(templates.len());
    // Of several templates with one name the last one counts.
    let names = templates.iter().rev().map(|claim| text(claim, "metadata.name"));
    let names: Vec<&str> = names.filter(|name| claims.insert(name)).collect();
    if !claims.is_empty() {
        let volume =
            |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let mut volumes: Vec<Value> = names.into_iter().rev().map(volume).collect();
        let own = items(pod, "volumes").iter().filter(|v| !claims.contains(&text(v, "name")));
        volumes.extend(own.cloned());
        pod["volumes"] = volumes.into();
    }
    template::validate(errors, &pods, "spec.template");
}

/// How many pods a rolling update may take down at once is a feature that is off.
fn drop_max_unavailable(object: &mut Value, old: &Value) {
    let path = "/spec/updateStrategy/rollingUpdate";
    if old.pointer(path).is_some_and(|rolling| rolling.get("maxUnavailable").is_some()) {
        return;
    }
    if let Some(Value::Object(rolling)) = object.pointer_mut(path) {
        rolling.remove("maxUnavailable");
    }
}

fn validate_strategy(errors: &mut FieldErrors, strategy: &Value) {
    const ROLLING: &str = "spec.updateStrategy.rollingUpdate";
    let rolling = &strategy["rollingUpdate"];
    let shown = |rolling: &Value| match rolling.is_null() {
        true => "null".to_owned(),
        false => format!(
            "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
            int(rolling, "partition").unwrap_or_default(),
            rolling["maxUnavailable"]
        ),
    };
    match text(strategy, "type") {
        "" => errors.push(FieldError::required("spec.updateStrategy", "")),
        "OnDelete" if !rolling.is_null() => errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            ROLLING,
            shown(rolling),
            "only allowed for updateStrategy 'RollingUpdate'",
        )),
        "OnDelete" => {}
        "RollingUpdate" => {
            non_negative(errors, int(rolling, "partition"), &format!("{ROLLING}.partition"));
        }
        other => errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.updateStrategy",
            format!("{{\"Type\":{},\"RollingUpdate\":{}}}", json!(other), shown(rolling)),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::{create, update};
    use super::*;

    fn db() -> Value {
        json!({"metadata": {"name": "db"}, "spec": {
            "selector": {"matchLabels": {"run": "db"}},
            "template": {"metadata": {"labels": {"run": "db"}}, "spec": {"containers": [
                {"name": "c", "image": "db:1", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}})
    }

    #[test]
    fn claims_count_as_volumes_of_the_template() {
        let stored = create(&StatefulSets, db()).unwrap();
        assert_eq!(stored["spec"]["volumeClaimTemplates"][0]["status"]["phase"], "Pending");
        assert_eq!(stored["spec"]["updateStrategy"]["rollingUpdate"], json!({"partition": 0}));
        assert_eq!(stored["status"], json!({"replicas": 0, "availableReplicas": 0}));
    }

    #[test]
    fn only_some_fields_may_change() {
        let old = create(&StatefulSets, db()).unwrap();
        let mut new = old.clone();
        new["spec"]["replicas"] = json!(4);
        assert_eq!(update(&StatefulSets, new.clone(), &old).unwrap()["metadata"]["generation"], 2);
        new["spec"]["serviceName"] = json!("late");
        assert!(update(&StatefulSets, new, &old).unwrap_err()[0].starts_with("spec: Forbidden"));
    }

    #[test]
    fn claims_without_size_or_mode_are_refused() {
        let mut object = db();
        object["spec"]["volumeClaimTemplates"][0]["spec"] = json!({});
        assert_eq!(
            create(&StatefulSets, object).unwrap_err(),
            [
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 \
                 access mode is required",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ]
        );
    }
}
