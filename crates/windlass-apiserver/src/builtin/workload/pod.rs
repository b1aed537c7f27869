//! Pods.

use std::collections::{HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod_eviction::Eviction;
use super::pod_log::Log;
use super::{
    pod_connection, pod_deletion, pod_parts, pod_spec, pod_update, pod_warnings, qos, shared,
    spec_defaults,
};
use crate::builtin::binding::Bind;
use crate::builtin::deletion::Grace;
use crate::builtin::rules::names;
use crate::builtin::rules::value::{
    copy_field, entries, flag, has, items, items_mut, object_mut, text,
};
use crate::builtin::{Action, Connection, Part, Strategy};
use crate::request::Query;
use crate::status::{FieldError, FieldErrors};

/// The rules of `Pod`.
pub struct Pods;

impl Strategy for Pods {
    fn action(&self, subresource: &str) -> Action {
        match subresource {
            "binding" => Action::Own(&Bind),
            "eviction" => Action::Own(&Eviction),
            "log" => Action::Own(&Log),
            "ephemeralcontainers" => Action::Part(Part::EphemeralContainers),
            "resize" => Action::Part(Part::Resize),
            _ => Action::shared(subresource),
        }
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = object_mut(object, "spec") {
            spec_defaults::pod_spec(spec);
            spec_defaults::pod_only(spec);
        }
        if let Some(status) = object_mut(object, "status") {
            spec_defaults::pod_status(status);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let class = qos::class_of(&object["spec"]);
        shared::start(object, json!({"phase": "Pending", "qosClass": class}));
        if !items(object, "spec.schedulingGates").is_empty() {
            object["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": null,
            }]);
        }
        merge_label_keys(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"];
        shared::keep(object, old, changed);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
        copy_field(&mut object["metadata"], &old["metadata"], "ownerReferences");
        let Some(status) = object_mut(object, "status") else { return };
        if text(status, "qosClass").is_empty() {
            copy_field(status, &old["status"], "qosClass");
        }
        if status["observedGeneration"].as_i64().unwrap_or_default() == 0 {
            copy_field(status, &old["status"], "observedGeneration");
        }
        let mut olds: HashMap<&Value, VecDeque<&Value>> = HashMap::new();
        for condition in items(&old["status"], "conditions") {
            olds.entry(&condition["type"]).or_default().push_back(condition);
        }
        for condition in items_mut(status, "conditions") {
            let same = olds.get_mut(&condition["type"]).and_then(VecDeque::pop_front);
            let Some(same) = same else { continue };
            if condition["observedGeneration"].as_i64().unwrap_or_default() == 0 {
                copy_field(condition, same, "observedGeneration");
            }
        }
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = spec_errors(object);
        let spec = &object["spec"];
        if !items(spec, "ephemeralContainers").is_empty() {
            let why = "cannot be set on create";
            errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
        }
        if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
            errors.push(FieldError::forbidden(
                "spec.nodeName",
                "cannot be set until all schedulingGates have been cleared",
            ));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = spec_errors(object);
        pod_update::validate(&mut errors, &object["spec"], &old["spec"]);
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> FieldErrors {
        pod_update::validate_status(object, old)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut out = Vec::new();
        let why = names::dns_label(text(object, "metadata.name"));
        if !why.is_empty() {
            out.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in \
                 surprising behavior; a DNS label is recommended: [{}]",
                why.join(" ")
            ));
        }
        out.extend(pod_warnings::of(object, ""));
        out
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self, object: &Value) -> Option<Vec<(&'static str, String)>> {
        let mut out: Vec<(&'static str, String)> = [
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
        .into_iter()
        .map(|path| (path, text(object, path).to_owned()))
        .collect();
        out.push(("status.podIPs", text(object, "status.podIP").to_owned()));
        out.push(("spec.hostNetwork", flag(object, "spec.hostNetwork").to_string()));
        Some(out)
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "status" => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
            _ => &[],
        }
    }

    fn prepare_part(&self, part: Part, pod: &mut Value, old: &Value, _now: &str) {
        match part {
            Part::Main => self.prepare_update(pod, old),
            Part::Status => self.prepare_status(pod, old),
            Part::EphemeralContainers | Part::Resize => pod_parts::keep(part, pod, old),
            _ => {}
        }
    }

    fn validate_part(&self, part: Part, pod: &Value, old: &Value) -> FieldErrors {
        match part {
            Part::Main => self.validate_update(pod, old),
            Part::Status => self.validate_status(pod, old),
            Part::EphemeralContainers | Part::Resize => pod_parts::validate(part, pod, old),
            _ => FieldErrors::default(),
        }
    }

    fn begin_grace(&self, pod: &mut Value, asked: Option<i64>, now: Timestamp) -> Grace {
        pod_deletion::begin_grace(pod, asked, now)
    }

    fn connection(&self, subresource: &str, query: &Query) -> Option<Connection> {
        pod_connection::of(subresource, query)
    }

    fn check_connection(&self, pod: &Value) -> crate::status::Result<()> {
        if text(pod, "spec.nodeName").is_empty() {
            let name = text(pod, "metadata.name");
            let why = format!("pod {name} does not have a host assigned");
            return Err(crate::status::Status::bad_request(why));
        }
        Ok(())
    }
}

/// Warnings for a pod template at a path.
pub fn spec_warnings(template: &Value, field: &str) -> Vec<String> {
    pod_warnings::of(template, &format!("{field}."))
}

/// The rules that hold on create and on update.
fn spec_errors(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let spec = &object["spec"];
    annotations(&mut errors, object);
    pod_spec::validate(&mut errors, spec, "spec", true);
    for list in ["containers", "initContainers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                errors.push(FieldError::invalid_str(
                    format!("spec.{list}[{i}].image"),
                    image,
                    "must not have leading or trailing whitespace",
                ));
            }
        }
    }
    errors
}

/// Annotations that mean something to the server.
fn annotations(errors: &mut FieldErrors, object: &Value) {
    const ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let spec = &object["spec"];
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let containers: HashSet<&str> =
        lists.iter().flat_map(|list| items(spec, list)).map(|c| text(c, "name")).collect();
    for (key, value) in entries(object, "metadata.annotations") {
        let field = format!("metadata.annotations[{key}]");
        let value = value.as_str().unwrap_or_default();
        let mut refuse = |shown: &str, why: String| {
            errors.push(FieldError::invalid_str(&*field, shown, why));
        };
        match key {
            "kubernetes.io/config.mirror" if text(spec, "nodeName").is_empty() => {
                refuse(value, "must set spec.nodeName if mirror pod annotation is set".into());
            }
            "controller.kubernetes.io/pod-deletion-cost" if !is_cost(value) => {
                refuse(value, "must be a 32bit integer".into());
            }
            key => {
                let Some(name) = key.strip_prefix(ARMOR) else { continue };
                if !containers.contains(name) {
                    refuse(name, "container not found".into());
                }
                let known = matches!(value, "" | "runtime/default" | "unconfined");
                if !known && !value.starts_with("localhost/") {
                    let shown = crate::status::quote(value);
                    refuse(value, format!("invalid AppArmor profile name: {shown}"));
                }
            }
        }
    }
}

/// Returns `true` if a text is a cost of deletion: a number of 32 bits without a plus or leading
/// zeros.
fn is_cost(text: &str) -> bool {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    plain && text.parse::<i32>().is_ok()
}

/// Puts the pod's own values of `matchLabelKeys` into the selectors beside them.
fn merge_label_keys(object: &mut Value) {
    let labels = object["metadata"]["labels"].clone();
    let Some(spec) = object.get_mut("spec") else { return };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge_keys(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if !has(&spec["affinity"], kind) {
            continue;
        }
        let part = &mut spec["affinity"][kind];
        for term in items_mut(part, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys(term, &labels);
        }
        for term in items_mut(part, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge_keys(term, &labels);
            }
        }
    }
}

fn merge_keys(term: &mut Value, labels: &Value) {
    if !term["labelSelector"].is_object() {
        return;
    }
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys: Vec<String> =
            items(term, list).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        for key in keys {
            let Some(value) = labels.get(&key) else { continue };
            let expression = json!({"key": key, "operator": operator, "values": [value]});
            let selector = &mut term["labelSelector"];
            match selector["matchExpressions"].as_array_mut() {
                Some(expressions) => expressions.push(expression),
                None => selector["matchExpressions"] = json!([expression]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::{create, update};
    use super::*;

    fn pod() -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
    }

    #[test]
    fn a_new_pod_is_pending() {
        let mut object = pod();
        object["status"] = json!({"phase": "Running"});
        let stored = create(&Pods, object).unwrap();
        assert_eq!(stored["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
        assert_eq!(stored["spec"]["enableServiceLinks"], true);
    }

    #[test]
    fn mounts_need_their_volumes() {
        let mut object = pod();
        object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "x", "mountPath": "/x"}]);
        assert_eq!(
            create(&Pods, object.clone()).unwrap_err(),
            ["spec.containers[0].volumeMounts[0].name: Not found: \"x\""]
        );
        object["spec"]["volumes"] = json!([{"name": "x"}]);
        assert!(create(&Pods, object).is_ok());
    }

    #[test]
    fn the_generation_counts_changes_of_the_spec() {
        let old = create(&Pods, pod()).unwrap();
        let mut new = old.clone();
        new["spec"]["containers"][0]["image"] = json!("i:2");
        assert_eq!(update(&Pods, new, &old).unwrap()["metadata"]["generation"], 2);
    }

    #[test]
    fn probes_need_one_handler() {
        let mut object = pod();
        object["spec"]["containers"][0]["livenessProbe"] =
            json!({"exec": {}, "tcpSocket": {"port": 0}, "successThreshold": 2});
        assert_eq!(
            create(&Pods, object).unwrap_err(),
            [
                "spec.containers[0].livenessProbe.exec.command: Required value",
                "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more \
                 than 1 handler type",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ]
        );
    }

    #[test]
    fn gated_pods_say_so() {
        let mut object = pod();
        object["spec"]["schedulingGates"] = json!([{"name": "a.example/g"}]);
        let stored = create(&Pods, object).unwrap();
        assert_eq!(stored["status"]["conditions"][0]["reason"], "SchedulingGated");
    }
}
