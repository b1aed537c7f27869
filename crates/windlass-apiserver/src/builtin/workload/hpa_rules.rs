//! The rules of an autoscaler's spec (version 2).

use serde_json::Value;

use super::pod_resources;
use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::{has, int, items, text};
use crate::builtin::rules::{each_invalid, names};
use crate::status::{FieldError, FieldErrors};

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Problems of a spec; `old` loosens what the stored object does wrong already.
pub fn validate(spec: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let min = int(spec, "minReplicas");
    let max = int(spec, "maxReplicas").unwrap_or_default();
    let lowest = i64::from(old.is_none_or(|old| int(old, "minReplicas") != Some(0)));
    if let Some(min) = min.filter(|min| *min < lowest) {
        let why = format!("must be greater than or equal to {lowest}");
        errors.push(FieldError::invalid("spec.minReplicas", &min.into(), why));
    }
    if max == 0 {
        let why = "must be set and greater than 0";
        errors.push(FieldError::required("spec.maxReplicas", why));
    } else if max < 0 {
        let why = "must be greater than or equal to 1";
        errors.push(FieldError::invalid("spec.maxReplicas", &max.into(), why));
    }
    if min.is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", &max.into(), why));
    }
    let loose = old.is_some_and(|old| {
        let mut problems = FieldErrors::default();
        reference(&mut problems, &old["scaleTargetRef"], "", true);
        problems.iter().any(|e| e.field.ends_with("apiVersion"))
    });
    reference(&mut errors, &spec["scaleTargetRef"], "spec.scaleTargetRef", !loose);
    metrics(&mut errors, spec, min);
    for direction in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][direction];
        if rules.is_object() {
            scaling_rules(&mut errors, rules, &format!("spec.behavior.{direction}"));
        }
    }
    errors
}

fn reference(errors: &mut FieldErrors, reference: &Value, field: &str, check_version: bool) {
    for key in ["kind", "name"] {
        let field = format!("{field}.{key}");
        match text(reference, key) {
            "" => errors.push(FieldError::required(field, "")),
            value => each_invalid(errors, &field, value, names::path_segment(value)),
        }
    }
    let version = text(reference, "apiVersion");
    let why = match version.matches('/').count() {
        0 => Some("apiVersion must specify API group".to_owned()),
        1 if version.starts_with('/') => Some("apiVersion must specify API group".to_owned()),
        1 => None,
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    if let Some(why) = why.filter(|_| check_version) {
        errors.push(FieldError::invalid_str(format!("{field}.apiVersion"), version, why));
    }
}

fn metrics(errors: &mut FieldErrors, spec: &Value, min: Option<i64>) {
    let list = items(spec, "metrics");
    for (i, metric) in list.iter().enumerate() {
        self::metric(errors, metric, &format!("spec.metrics[{i}]"));
    }
    let outside = |m: &Value| ["Object", "External"].contains(&text(m, "type"));
    if min == Some(0) && !list.iter().any(outside) {
        errors.push(FieldError::forbidden(
            "spec.metrics",
            "must specify at least one Object or External metric to support scaling to zero \
             replicas",
        ));
    }
}

fn metric(errors: &mut FieldErrors, metric: &Value, field: &str) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        let why = "must specify a metric source type";
        errors.push(FieldError::required(format!("{field}.type"), why));
    }
    let unknown = || FieldError::not_supported(format!("{field}.type"), &Value::from(kind), &TYPES);
    if !TYPES.contains(&kind) {
        errors.push(unknown());
    }
    let present: Vec<_> = ["object", "external", "pods", "resource", "containerResource"]
        .into_iter()
        .filter(|source| has(metric, source))
        .collect();
    if let Some(first) = present.first() {
        source(errors, &metric[*first], first, &format!("{field}.{first}"));
    }
    let expected = match kind {
        "Object" => "object",
        "External" => "external",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => {
            errors.push(unknown());
            ""
        }
    };
    if !expected.is_empty() && !has(metric, expected) {
        errors.push(FieldError::required(
            format!("{field}.{expected}"),
            "must populate information for the given metric source",
        ));
    }
    if present.len() != 1 {
        for other in present.iter().filter(|source| **source != expected) {
            errors.push(FieldError::forbidden(
                format!("{field}.{other}"),
                "must populate the given metric source only",
            ));
        }
    }
}

fn source(errors: &mut FieldErrors, source: &Value, kind: &str, field: &str) {
    let target = &source["target"];
    let target_field = format!("{field}.target");
    match kind {
        "object" => {
            let object = &source["describedObject"];
            reference(errors, object, &format!("{field}.describedObject"), false);
            identifier(errors, &source["metric"], &format!("{field}.metric"));
        }
        "external" | "pods" => {
            identifier(errors, &source["metric"], &format!("{field}.metric"));
        }
        _ => {
            let resource_field = format!("{field}.name");
            match text(source, "name") {
                "" => {
                    let why = "must specify a resource name";
                    errors.push(FieldError::required(resource_field, why));
                }
                name if kind == "containerResource" => {
                    pod_resources::container_name(errors, name, &resource_field);
                }
                _ => {}
            }
            if kind == "containerResource" {
                let field = format!("{field}.container");
                match text(source, "container") {
                    "" => errors.push(FieldError::required(field, "must specify a container")),
                    name => each_invalid(errors, &field, name, names::dns_label(name)),
                }
            }
        }
    }
    self::target(errors, target, &target_field);
    amounts(errors, target, kind, &target_field);
}

fn amounts(errors: &mut FieldErrors, target: &Value, kind: &str, field: &str) {
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|key| has(target, key));
    let mut required = |missing: bool, key: &str, why: &str| {
        if missing {
            errors.push(FieldError::required(format!("{field}.{key}"), why));
        }
    };
    match kind {
        "object" => required(
            !value && !average,
            "averageValue",
            "must set either a target value or averageValue",
        ),
        "external" => required(
            !value && !average,
            "averageValue",
            "must set either a target value for metric or a per-pod target",
        ),
        "pods" => {
            required(!average, "averageValue", "must specify a positive target averageValue");
        }
        _ => required(
            !utilization && !average,
            "averageUtilization",
            "must set either a target raw value or a target utilization",
        ),
    }
    if kind == "external" && value && average {
        errors.push(FieldError::forbidden(
            format!("{field}.value"),
            "may not set both a target value for metric and a per-pod target",
        ));
    }
    if kind.to_lowercase().ends_with("resource") && utilization && average {
        errors.push(FieldError::forbidden(
            format!("{field}.averageValue"),
            "may not set both a target raw value and a target utilization",
        ));
    }
}

fn target(errors: &mut FieldErrors, target: &Value, field: &str) {
    let kind = text(target, "type");
    if kind.is_empty() {
        let why = "must specify a metric target type";
        errors.push(FieldError::required(format!("{field}.type"), why));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid_str(format!("{field}.type"), kind, why));
    }
    for key in ["value", "averageValue"] {
        let quantity = target[key].as_str().and_then(Quantity::parse);
        if quantity.is_some_and(|q| q.sign().is_le()) {
            let why = "must be positive";
            errors.push(FieldError::invalid(format!("{field}.{key}"), &target[key], why));
        }
    }
    if let Some(percent) = int(target, "averageUtilization").filter(|p| *p < 1) {
        errors.push(FieldError::invalid(
            format!("{field}.averageUtilization"),
            &percent.into(),
            "must be greater than 0",
        ));
    }
}

fn identifier(errors: &mut FieldErrors, metric: &Value, field: &str) {
    let name_field = format!("{field}.name");
    match text(metric, "name") {
        "" => errors.push(FieldError::required(name_field, "must specify a metric name")),
        name => each_invalid(errors, &name_field, name, names::path_segment(name)),
    }
}

fn scaling_rules(errors: &mut FieldErrors, rules: &Value, field: &str) {
    const SELECT: [&str; 3] = ["Disabled", "Max", "Min"];
    if let Some(seconds) = int(rules, "stabilizationWindowSeconds") {
        let why = match seconds {
            ..0 => "must be greater than or equal to zero",
            3601.. => "must be less than or equal to 3600",
            _ => "",
        };
        if !why.is_empty() {
            let field = format!("{field}.stabilizationWindowSeconds");
            errors.push(FieldError::invalid(field, &seconds.into(), why));
        }
    }
    let select = text(rules, "selectPolicy");
    if has(rules, "selectPolicy") && !SELECT.contains(&select) {
        let field = format!("{field}.selectPolicy");
        errors.push(FieldError::not_supported(field, &rules["selectPolicy"], &SELECT));
    }
    let tolerance = text(rules, "tolerance");
    if tolerance.starts_with('-') {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid_str(format!("{field}.tolerance"), tolerance, why));
    }
    if items(rules, "policies").is_empty() {
        let why = "must specify at least one Policy";
        errors.push(FieldError::required(format!("{field}.policies"), why));
    }
    for (i, policy) in items(rules, "policies").iter().enumerate() {
        let field = format!("{field}.policies[{i}]");
        if !["Pods", "Percent"].contains(&text(policy, "type")) {
            errors.push(FieldError::not_supported(
                format!("{field}.type"),
                &Value::from(text(policy, "type")),
                &["Percent", "Pods"],
            ));
        }
        for key in ["value", "periodSeconds"] {
            let number = int(policy, key).unwrap_or_default();
            if number <= 0 {
                let why = "must be greater than zero";
                errors.push(FieldError::invalid(format!("{field}.{key}"), &number.into(), why));
            }
            if key == "periodSeconds" && number > 1800 {
                let why = "must be less than or equal to 1800";
                errors.push(FieldError::invalid(format!("{field}.{key}"), &number.into(), why));
            }
        }
    }
}
