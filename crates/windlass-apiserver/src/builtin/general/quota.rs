//! LimitRange and ResourceQuota.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_text::select::key;

use super::names::push;
use super::quantity;
use super::tools::{drop_empty, entries, fill, has, items, items_mut, keep, object, set, text};
use crate::builtin::Strategy;
use crate::builtin::workload::pod_resources;
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// Objects that quotas count.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// What pods use and quotas limit.
const COMPUTED: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// What pods use and scopes can limit.
const SCOPED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

const UNFIT: &str = "unsupported scope applied to resource";

/// LimitRange.
pub(super) struct LimitRange;

impl Strategy for LimitRange {
    fn defaults(&self, range: &mut Value) {
        let spec = object(range, "spec");
        fill(spec, "limits", Value::Null);
        for limit in items_mut(spec, "limits") {
            if text(limit, "type") != "Container" {
                continue;
            }
            for (from, to) in
                [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")]
            {
                let values: Vec<_> =
                    entries(limit, from).map(|(k, v)| (k.clone(), v.clone())).collect();
                for (key, value) in values {
                    fill(object(limit, to), &key, value);
                }
            }
            for key in ["default", "defaultRequest"] {
                drop_empty(limit, key);
            }
        }
    }

    fn validate(&self, range: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let mut types = BTreeSet::new();
        for (at, limit) in items(&range["spec"], "limits").iter().enumerate() {
            let path = format!("spec.limits[{at}]");
            let kind = text(limit, "type");
            let type_path = format!("{path}.type");
            let problems = key::qualified_name(kind);
            let named_well = problems.is_empty();
            push(&mut errors, &type_path, kind, problems);
            if named_well
                && !kind.contains('/')
                && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind)
            {
                let why = "must be a standard limit type or fully qualified";
                errors.push(FieldError::invalid_str(&type_path, kind, why));
            }
            if !types.insert(kind) {
                errors.push(FieldError::duplicate(&type_path, &kind.into()));
            }
            check_limit(&mut errors, &path, limit);
        }
        errors
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// ResourceQuota.
pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn defaults(&self, quota: &mut Value) {
        drop_empty(object(quota, "spec"), "hard");
        object(quota, "status");
    }

    fn prepare_create(&self, quota: &mut Value) {
        set(quota, "status", json!({}));
    }

    fn prepare_update(&self, quota: &mut Value, old: &Value) {
        keep(quota, old, "status");
    }

    fn prepare_status(&self, quota: &mut Value, old: &Value) {
        keep(quota, old, "spec");
    }

    fn validate(&self, quota: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_hard(&mut errors, "spec.hard", &quota["spec"], "hard");
        check_scopes(&mut errors, &quota["spec"]);
        check_scope_selector(&mut errors, &quota["spec"]);
        errors
    }

    fn validate_update(&self, quota: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(quota);
        let scopes = |quota: &Value| -> BTreeSet<String> {
            items(&quota["spec"], "scopes")
                .iter()
                .filter_map(|s| Some(s.as_str()?.into()))
                .collect()
        };
        if scopes(quota) != scopes(old) {
            errors.push(FieldError::invalid(
                "spec.scopes",
                &quota["spec"]["scopes"],
                "field is immutable",
            ));
        }
        errors
    }

    fn validate_status(&self, quota: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_hard(&mut errors, "status.hard", &quota["status"], "hard");
        check_hard(&mut errors, "status.used", &quota["status"], "used");
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn check_limit(errors: &mut FieldErrors, path: &str, limit: &Value) {
    let kind = text(limit, "type");
    if kind == "Pod" {
        for key in ["default", "defaultRequest"] {
            if !limit[key].as_object().is_none_or(|m| m.is_empty()) {
                errors.push(FieldError::forbidden(
                    format!("{path}.{key}"),
                    "may not be specified when `type` is 'Pod'",
                ));
            }
        }
    }
    if kind == "PersistentVolumeClaim"
        && !has(&limit["min"], "storage")
        && !has(&limit["max"], "storage")
    {
        errors.push(FieldError::required(
            format!("{path}.limits"),
            "either minimum or maximum storage value is required, but neither was provided",
        ));
    }
    let parts = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    for part in parts {
        for (name, _) in entries(limit, part) {
            let path = format!("{path}.{part}[{name}]");
            match kind {
                "Pod" if part.starts_with("default") => {}
                "Pod" | "Container" => pod_resources::container_name(errors, name, &path),
                _ => pod_resources::name(errors, name, &path),
            }
        }
    }
    let keys: BTreeSet<&str> =
        parts.iter().flat_map(|p| entries(limit, p)).map(|(k, _)| k.as_str()).collect();
    for key in keys {
        check_amounts(errors, path, limit, key);
    }
}

/// The order that min, default request, default and max have to have.
fn check_amounts(errors: &mut FieldErrors, path: &str, limit: &Value, key: &str) {
    let get = |part: &str| {
        let shown = text(&limit[part], key);
        quantity::parse(shown).map(|amount| (amount, shown))
    };
    let (min, max) = (get("min"), get("max"));
    let (request, default) = (get("defaultRequest"), get("default"));
    let mut check = |part: &str,
                     low: Option<(i128, &str)>,
                     low_name: &str,
                     high: Option<(i128, &str)>,
                     high_name: &str,
                     shown: Option<(i128, &str)>| {
        if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
            && low.0 > high.0
        {
            errors.push(FieldError::invalid_str(
                format!("{path}.{part}[{key}]"),
                shown.1,
                format!("{low_name} value {} is greater than {high_name} value {}", low.1, high.1),
            ));
        }
    };
    check("min", min, "min", max, "max", min);
    check("defaultRequest", min, "min", request, "default request", request);
    check("defaultRequest", request, "default request", max, "max", request);
    check("defaultRequest", request, "default request", default, "default limit", request);
    check("default", min, "min", default, "default", min);
    check("default", default, "default", max, "max", max);
    if let Some((amount, shown)) = get("maxLimitRequestRatio")
        && amount < quantity::ONE
    {
        errors.push(FieldError::invalid_str(
            format!("{path}.maxLimitRequestRatio[{key}]"),
            shown,
            format!("ratio {shown} is less than 1"),
        ));
    }
    if let (Some((ratio, shown)), Some(min), Some(max)) = (get("maxLimitRequestRatio"), min, max) {
        let highest = max.0 as f64 / min.0 as f64;
        if ratio as f64 / quantity::ONE as f64 > highest {
            errors.push(FieldError::invalid_str(
                format!("{path}.maxLimitRequestRatio[{key}]"),
                shown,
                format!("ratio {shown} is greater than max/min = {highest:.6}"),
            ));
        }
    }
}

fn check_hard(errors: &mut FieldErrors, path: &str, parent: &Value, key: &str) {
    for (name, amount) in entries(parent, key) {
        let path = format!("{path}[{name}]");
        let faults = key::qualified_name(name);
        let qualified = faults.is_empty();
        push(errors, &path, name, faults);
        let known = is_standard(name);
        if !name.contains('/') {
            if qualified && !known && name != "storage" {
                let why = "must be a standard resource type or fully qualified";
                errors.push(FieldError::invalid_str(&path, name, why));
            }
            if !known {
                let why = "must be a standard resource for quota";
                errors.push(FieldError::invalid_str(&path, name, why));
            }
        }
        let shown = amount.as_str().unwrap_or_default();
        let Some(amount) = quantity::parse(shown) else { continue };
        if amount < 0 {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid_str(&path, shown, why));
        }
        let foreign = name.contains('/') && !name.contains("kubernetes.io/");
        let extended = foreign && !name.starts_with("requests.") && !name.starts_with("count/");
        let counted = COUNTED.contains(&name.as_str()) || name.starts_with("count/") || extended;
        if counted && !quantity::is_whole(amount) {
            errors.push(FieldError::invalid_str(&path, shown, "must be an integer"));
        }
    }
}

fn check_scopes(errors: &mut FieldErrors, spec: &Value) {
    let shown = &spec["scopes"];
    let scopes: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(FieldError::invalid("spec.scopes", shown, "unsupported scope"));
        }
        for _ in unfit(spec, scope) {
            errors.push(FieldError::invalid("spec.scopes", shown, UNFIT));
        }
    }
    if conflicting(&scopes) {
        errors.push(FieldError::invalid("spec.scopes", shown, "conflicting scopes"));
    }
}

fn check_scope_selector(errors: &mut FieldErrors, spec: &Value) {
    let path = "spec.scopeSelector.matchExpressions";
    let mut scopes = Vec::new();
    for expression in items(&spec["scopeSelector"], "matchExpressions") {
        let (scope, operator) = (text(expression, "scopeName"), text(expression, "operator"));
        if !SCOPES.contains(&scope) {
            let path = format!("{path}.scopeName");
            errors.push(FieldError::invalid_str(path, scope, "unsupported scope"));
        }
        for _ in unfit(spec, scope) {
            let shown = shown_selector(spec);
            errors.push(FieldError::raw(FieldErrorKind::Invalid, path, shown, UNFIT));
        }
        let only_exists = SCOPES[..4].contains(&scope) || scope == "CrossNamespacePodAffinity";
        if only_exists && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                       ResourceQuotaScopeNotBestEffort or \
                       ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid_str(format!("{path}.operator"), operator, why));
        }
        let values = items(expression, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{path}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
                format!("{path}.values"),
                &expression["values"],
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "Exists" | "DoesNotExist" => {}
            _ => errors.push(FieldError::invalid_str(
                format!("{path}.operator"),
                operator,
                "not a valid selector operator",
            )),
        }
        scopes.push(scope);
    }
    if conflicting(&scopes) {
        errors.push(FieldError::invalid(path, &spec["scopes"], "conflicting scopes"));
    }
}

/// The limited resources that a scope does not go with.
fn unfit<'a>(spec: &'a Value, scope: &'a str) -> impl Iterator<Item = &'a str> {
    entries(spec, "hard").map(|(name, _)| name.as_str()).filter(move |name| {
        let pods = *name == "pods";
        let fits = match scope {
            "BestEffort" => pods,
            "VolumeAttributesClass" => {
                matches!(*name, "persistentvolumeclaims" | "requests.storage")
            }
            _ if SCOPES.contains(&scope) => pods || SCOPED.contains(name),
            _ => true,
        };
        is_standard(name) && !fits
    })
}

fn conflicting(scopes: &[&str]) -> bool {
    [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")]
        .iter()
        .any(|(a, b)| scopes.contains(a) && scopes.contains(b))
}

/// The selector as the real server shows it: its own struct, with Go's field names.
fn shown_selector(spec: &Value) -> String {
    let each = items(&spec["scopeSelector"], "matchExpressions").iter().map(|expression| {
        format!(
            "{{\"ScopeName\":{},\"Operator\":{},\"Values\":{}}}",
            expression["scopeName"], expression["operator"], expression["values"]
        )
    });
    format!("{{\"MatchExpressions\":[{}]}}", each.collect::<Vec<_>>().join(","))
}

/// Returns `true` if quotas know a resource by its plain name.
fn is_standard(name: &str) -> bool {
    let huge = |n: &str| n.starts_with("hugepages-") || n.starts_with("requests.hugepages-");
    COUNTED.contains(&name) || COMPUTED.contains(&name) || name == "requests.storage" || huge(name)
}
