//! Scopes of a quota: which of the objects it counts at all.

use serde_json::Value;

use super::usage::Evaluator;
use crate::admission::text;
use crate::builtin::rules::value;

/// Returns `true` if an object is in all scopes of a quota.
pub(super) fn all_match(spec: &Value, evaluator: Evaluator<'_>, object: &Value) -> bool {
    let matches = |scope: &str, operator: &str, values: &[Value]| match evaluator {
        Evaluator::Pods => pod_matches(object, scope, operator, values),
        Evaluator::Claims => claim_matches(object, scope, operator, values),
        _ => false,
    };
    let plain = value::items(spec, "scopes").iter().filter_map(Value::as_str);
    let selected = value::items(spec, "scopeSelector.matchExpressions");
    plain.into_iter().all(|scope| matches(scope, "Exists", &[]))
        && selected.iter().all(|expression| {
            let values = value::items(expression, "values");
            matches(text(expression, &["scopeName"]), text(expression, &["operator"]), values)
        })
}

/// Returns `true` if a pod has a deadline.
pub(super) fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

fn pod_matches(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let spec = &pod["spec"];
    let best_effort = || crate::builtin::workload::qos::class_of(spec) == "BestEffort";
    match scope {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => {
            let class = text(spec, &["priorityClassName"]);
            name_matches(Some(class).filter(|class| !class.is_empty()), operator, values)
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(&spec["affinity"]),
        _ => false,
    }
}

/// A claim refers to the class it asks for, the one it has, and the one it is changed to.
fn claim_matches(claim: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let classes = [
        text(claim, &["spec", "volumeAttributesClassName"]),
        text(claim, &["status", "currentVolumeAttributesClassName"]),
        text(claim, &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
    ];
    let mut classes = classes.into_iter().filter(|class| !class.is_empty()).peekable();
    scope == "VolumeAttributesClass"
        && match classes.peek() {
            None => name_matches(None, operator, values),
            Some(_) => classes.any(|class| name_matches(Some(class), operator, values)),
        }
}

fn name_matches(name: Option<&str>, operator: &str, values: &[Value]) -> bool {
    let listed = values.iter().any(|value| name.is_some_and(|name| value == name));
    match operator {
        "Exists" => name.is_some(),
        "DoesNotExist" => name.is_none(),
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

fn crosses_namespaces(affinity: &Value) -> bool {
    let crossing = |term: &Value| {
        let named = term["namespaces"].as_array().is_some_and(|list| !list.is_empty());
        named || !term["namespaceSelector"].is_null()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let kind = &affinity[*kind];
        let required = value::items(kind, "requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = value::items(kind, "preferredDuringSchedulingIgnoredDuringExecution");
        required.iter().any(crossing)
            || preferred.iter().any(|weighted| crossing(&weighted["podAffinityTerm"]))
    })
}
