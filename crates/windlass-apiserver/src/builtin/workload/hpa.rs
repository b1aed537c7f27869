//! Horizontal pod autoscalers in both versions, and the way between them.
//!
//! Version 1 knows one metric (cpu utilisation); everything else of version 2 travels in
//! annotations, and comes back from there.

use serde_json::{Value, json};

use super::{hpa_rules, shared};
use crate::builtin::Strategy;
use crate::builtin::rules::value::{
    copy_field, default_absent, default_to, has, int, items, object_mut, remove, show_ordered, text,
};
use crate::status::FieldErrors;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The rules of `HorizontalPodAutoscaler` in version 2.
pub struct Autoscalers;

/// The rules of `HorizontalPodAutoscaler` in version 1.
pub struct AutoscalersV1;

impl Strategy for Autoscalers {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        default_to(spec, "minReplicas", 1);
        if items(spec, "metrics").is_empty() {
            spec["metrics"] = default_metrics();
        }
        if has(spec, "behavior") {
            let behavior = &mut spec["behavior"];
            let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
            let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
            if let Some(up) = object_mut(behavior, "scaleUp") {
                default_to(up, "stabilizationWindowSeconds", 0);
                rules_defaults(up, json!([pods, percent]));
            }
            if let Some(down) = object_mut(behavior, "scaleDown") {
                rules_defaults(down, json!([percent]));
            }
        }
        status_defaults(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
        status_defaults(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        copy_field(object, old, "status");
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        hpa_rules::validate(&object["spec"], None)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        hpa_rules::validate(&object["spec"], Some(&old["spec"]))
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let counts = ["currentReplicas", "desiredReplicas"];
        shared::all_non_negative(&mut errors, &object["status"], "status", &counts);
        errors
    }
}

impl Strategy for AutoscalersV1 {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = object_mut(object, "spec") {
            default_to(spec, "minReplicas", 1);
        }
        // Fields in annotations are decoded and encoded again; the default is that of version 2.
        let mut newer = v1_to_v2(object);
        if items(&newer, "spec.metrics").is_empty()
            && let Some(spec) = object_mut(&mut newer, "spec")
        {
            spec["metrics"] = default_metrics();
        }
        *object = v2_to_v1(&newer);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
        shared::status_with(object, &["currentReplicas", "desiredReplicas"]);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        copy_field(object, old, "status");
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        Autoscalers.validate(&v1_to_v2(object))
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        Autoscalers.validate_update(&v1_to_v2(object), &v1_to_v2(old))
    }

    fn validate_status(&self, object: &Value, old: &Value) -> FieldErrors {
        Autoscalers.validate_status(object, old)
    }

    fn is_converted(&self) -> bool {
        true
    }

    fn stored_form(&self, autoscaler: Value) -> Value {
        v1_to_v2(&autoscaler)
    }

    fn read_stored(&self, autoscaler: Value) -> Value {
        v2_to_v1(&autoscaler)
    }
}

/// Returns an autoscaler of version 1 as version 2, without version 2's defaults.
pub fn v1_to_v2(object: &Value) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = json!("autoscaling/v2");
    let mut metrics: Vec<Value> = Vec::new();
    if let Some(percent) = int(object, "spec.targetCPUUtilizationPercentage") {
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent}}}));
    }
    if let Some(Value::Array(more)) = take_annotation(&mut out, METRICS) {
        metrics.extend(more.iter().map(|metric| metric_from_v1(metric, "target")));
    }
    if let Some(spec) = object_mut(&mut out, "spec") {
        remove(spec, "targetCPUUtilizationPercentage");
        if !metrics.is_empty() {
            spec["metrics"] = metrics.into();
        }
    }
    if let Some(behavior) = take_annotation(&mut out, BEHAVIOR) {
        out["spec"]["behavior"] = behavior;
    }
    let mut current: Vec<Value> = Vec::new();
    if let Some(percent) = int(object, "status.currentCPUUtilizationPercentage") {
        current.push(json!({"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": percent}}}));
    }
    if let Some(Value::Array(more)) = take_annotation(&mut out, CURRENT_METRICS) {
        current.extend(more.iter().map(|metric| metric_from_v1(metric, "current")));
    }
    let conditions = take_annotation(&mut out, CONDITIONS);
    if let Some(status) = object_mut(&mut out, "status") {
        remove(status, "currentCPUUtilizationPercentage");
        if int(status, "currentReplicas") == Some(0) {
            remove(status, "currentReplicas");
        }
        status["currentMetrics"] = if current.is_empty() { Value::Null } else { current.into() };
        if let Some(conditions) = conditions {
            status["conditions"] = conditions;
        }
    }
    out
}

/// Returns an autoscaler of version 2 as version 1.
pub fn v2_to_v1(object: &Value) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = json!("autoscaling/v1");
    let is_cpu = |metric: &&Value, place: &str| {
        text(metric, "type") == "Resource"
            && text(metric, "resource.name") == "cpu"
            && has(metric, &format!("resource.{place}.averageUtilization"))
    };
    let metrics = items(object, "spec.metrics");
    let cpu = metrics.iter().position(|metric| is_cpu(&metric, "target"));
    let current = items(object, "status.currentMetrics");
    let current_cpu = current.iter().position(|metric| is_cpu(&metric, "current"));
    if let Some(spec) = object_mut(&mut out, "spec") {
        remove(spec, "metrics");
        remove(spec, "behavior");
        if let Some(cpu) = cpu {
            spec["targetCPUUtilizationPercentage"] =
                metrics[cpu]["resource"]["target"]["averageUtilization"].clone();
        }
    }
    if let Some(status) = object_mut(&mut out, "status") {
        remove(status, "currentMetrics");
        remove(status, "conditions");
        if let Some(cpu) = current_cpu {
            status["currentCPUUtilizationPercentage"] =
                current[cpu]["resource"]["current"]["averageUtilization"].clone();
        }
    }
    shared::status_with(&mut out, &["currentReplicas", "desiredReplicas"]);
    let rest = |list: &[Value], skip: Option<usize>, place: &str| -> Vec<Value> {
        let rest = list.iter().enumerate().filter(|(i, _)| Some(*i) != skip);
        rest.map(|(_, metric)| metric_to_v1(metric, place)).collect()
    };
    put_annotation(&mut out, METRICS, rest(metrics, cpu, "target").into());
    put_annotation(&mut out, CURRENT_METRICS, rest(current, current_cpu, "current").into());
    put_annotation(&mut out, CONDITIONS, object["status"]["conditions"].clone());
    put_annotation(&mut out, BEHAVIOR, object["spec"]["behavior"].clone());
    out
}

fn default_metrics() -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 80}}}])
}

fn rules_defaults(rules: &mut Value, policies: Value) {
    default_absent(rules, "selectPolicy", "Max");
    default_absent(rules, "policies", policies);
}

fn status_defaults(object: &mut Value) {
    shared::status_with(object, &["desiredReplicas"]);
    shared::condition_times(object, &["lastTransitionTime"]);
    if let Some(status) = object_mut(object, "status") {
        super::spec_defaults::null_unless_set(status, "currentMetrics");
    }
}

fn take_annotation(object: &mut Value, key: &str) -> Option<Value> {
    let annotations = object["metadata"].get_mut("annotations")?.as_object_mut()?;
    let parsed = serde_json::from_str(annotations.remove(key)?.as_str()?).ok();
    if annotations.is_empty() {
        remove(&mut object["metadata"], "annotations");
    }
    parsed
}

fn put_annotation(object: &mut Value, key: &str, value: Value) {
    const ORDER: &[&str] = &[
        "type",
        "object",
        "pods",
        "resource",
        "containerResource",
        "external",
        "status",
        "lastTransitionTime",
        "reason",
        "message",
        "target",
        "metricName",
        "metricSelector",
        "kind",
        "name",
        "apiVersion",
        "container",
        "targetValue",
        "targetAverageUtilization",
        "targetAverageValue",
        "currentValue",
        "currentAverageUtilization",
        "currentAverageValue",
        "selector",
        "averageValue",
        "scaleUp",
        "scaleDown",
        "stabilizationWindowSeconds",
        "selectPolicy",
        "policies",
        "value",
        "periodSeconds",
        "tolerance",
    ];
    let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !empty
        && let Some(metadata) = object_mut(object, "metadata")
        && let Some(annotations) = object_mut(metadata, "annotations")
    {
        annotations[key] = show_ordered(&value, ORDER).into();
    }
}

/// The names of a metric's amounts in version 1, for targets and for current values.
fn amounts(place: &str) -> [&'static str; 3] {
    match place {
        "target" => ["targetValue", "targetAverageValue", "targetAverageUtilization"],
        _ => ["currentValue", "currentAverageValue", "currentAverageUtilization"],
    }
}

fn metric_to_v1(metric: &Value, place: &str) -> Value {
    let mut out = json!({"type": metric["type"]});
    let [value, average_value, average_utilization] = amounts(place);
    for kind in ["object", "pods", "resource", "containerResource", "external"] {
        let Some(source) = metric.get(kind).filter(|s| s.is_object()) else { continue };
        let mut old = json!({});
        let mut put = |key: &str, value: &Value| {
            if !value.is_null() {
                old[key] = value.clone();
            }
        };
        put("target", &source["describedObject"]);
        put("metricName", &source["metric"]["name"]);
        let selector = if kind == "external" { "metricSelector" } else { "selector" };
        put(selector, &source["metric"]["selector"]);
        put("name", &source["name"]);
        put("container", &source["container"]);
        put(value, &source[place]["value"]);
        let average = if kind == "object" { "averageValue" } else { average_value };
        put(average, &source[place]["averageValue"]);
        put(average_utilization, &source[place]["averageUtilization"]);
        out[kind] = old;
    }
    out
}

fn metric_from_v1(metric: &Value, place: &str) -> Value {
    let mut out = json!({"type": metric["type"]});
    let [value, average_value, average_utilization] = amounts(place);
    for kind in ["object", "pods", "resource", "containerResource", "external"] {
        let Some(old) = metric.get(kind).filter(|s| s.is_object()) else { continue };
        let mut amount = json!({});
        let mut put = |key: &str, value: &Value| {
            if !value.is_null() {
                amount[key] = value.clone();
            }
        };
        put("value", &old[value]);
        put("averageValue", &old[if kind == "object" { "averageValue" } else { average_value }]);
        put("averageUtilization", &old[average_utilization]);
        if place == "target" {
            amount["type"] = if has(&amount, "averageUtilization") {
                "Utilization".into()
            } else if has(&amount, "averageValue") {
                "AverageValue".into()
            } else {
                "Value".into()
            };
        }
        let mut source = json!({});
        source[place] = amount;
        for (from, to) in
            [("target", "describedObject"), ("name", "name"), ("container", "container")]
        {
            if has(old, from) {
                source[to] = old[from].clone();
            }
        }
        if has(old, "metricName") {
            source["metric"] = json!({"name": old["metricName"]});
            for selector in ["selector", "metricSelector"] {
                if has(old, selector) {
                    source["metric"]["selector"] = old[selector].clone();
                }
            }
        }
        out[kind] = source;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::create;
    use super::*;

    #[test]
    fn cpu_travels_as_a_field_and_the_rest_as_annotations() {
        let v2 = create(
            &Autoscalers,
            json!({"apiVersion": "autoscaling/v2", "metadata": {},
            "spec": {"maxReplicas": 4,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"},
                "behavior": {"scaleUp": {"policies": [
                    {"type": "Pods", "value": 1, "periodSeconds": 5}]}},
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "rps"},
                        "target": {"type": "AverageValue", "averageValue": "10"}}},
                    {"type": "Resource", "resource": {"name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 55}}}]}}),
        )
        .unwrap();
        let v1 = v2_to_v1(&v2);
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 55);
        assert_eq!(
            v1["metadata"]["annotations"][METRICS],
            r#"[{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"10"}}]"#
        );
        let back = v1_to_v2(&v1);
        assert_eq!(back["spec"]["behavior"], v2["spec"]["behavior"]);
        assert_eq!(back["spec"]["metrics"].as_array().unwrap().len(), 2);
        assert_eq!(back["metadata"], json!({}));
        assert_eq!(back["status"], v2["status"]);
    }

    #[test]
    fn version_one_is_checked_by_the_rules_of_version_two() {
        let errors = create(&AutoscalersV1, json!({"metadata": {}, "spec": {"maxReplicas": 0,
            "minReplicas": 2, "scaleTargetRef": {"kind": "A", "name": "b/c", "apiVersion": "g/v"}}}))
        .unwrap_err();
        assert_eq!(
            errors,
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.name: Invalid value: \"b/c\": may not contain '/'",
            ]
        );
    }
}
