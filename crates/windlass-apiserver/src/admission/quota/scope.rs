//! Scopes of a quota: which of the objects it counts at all.

use serde_json::Value;

use super::usage::Evaluator;
use crate::admission::text;
use crate::builtin::rules::value;

/// Whether an object is in all scopes of a quota.
pub(super) fn all_match(spec: &Value, evaluator: Evaluator<'_>, object: &Value) -> bool {
    let plain = value::items(spec, "scopes").iter().filter_map(Value::as_str);
    let selected = value::items(spec, "scopeSelector.matchExpressions");
    let pods = matches!(evaluator, Evaluator::Pods);
    plain.into_iter().all(|scope| pods && matches(object, scope, "Exists", &[]))
        && selected.iter().all(|expression| {
            let values = value::items(expression, "values");
            let operator = text(expression, &["operator"]);
            pods && matches(object, text(expression, &["scopeName"]), operator, values)
        })
}

fn matches(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let spec = &pod["spec"];
    let ends = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    let best_effort = || crate::builtin::workload::qos::class_of(spec) == "BestEffort";
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => {
            let class = text(spec, &["priorityClassName"]);
            let listed = values.iter().any(|value| value == class);
            match operator {
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(&spec["affinity"]),
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
