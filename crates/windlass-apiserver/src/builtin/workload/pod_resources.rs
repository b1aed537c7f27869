//! What a container asks for and what it is limited to.

use serde_json::Value;

use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::entries;
use crate::builtin::rules::{NEGATIVE, each_invalid, names};
use crate::status::{FieldError, FieldErrors};

/// Problems of the resources of a container.
pub fn validate(errors: &mut FieldErrors, resources: &Value, field: &str) {
    validate_named(errors, resources, field, container_name);
}

/// Problems of the resources that a pod has as a whole.
pub fn validate_pod(errors: &mut FieldErrors, resources: &Value, field: &str) {
    if !resources["claims"].is_null() {
        let why = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(format!("{field}.claims"), why));
    }
    validate_named(errors, resources, field, pod_name);
}

fn validate_named(
    errors: &mut FieldErrors,
    resources: &Value,
    field: &str,
    check_name: fn(&mut FieldErrors, &str, &str),
) {
    let amount = |errors: &mut FieldErrors, name: &str, value: &Value, field: &str| {
        check_name(errors, name, field);
        amount(errors, name, value, field);
    };
    let limits_field = format!("{field}.limits");
    let requests_field = format!("{field}.requests");
    for (name, value) in entries(resources, "limits") {
        amount(errors, name, value, &format!("{limits_field}[{name}]"));
    }
    for (name, value) in entries(resources, "requests") {
        amount(errors, name, value, &format!("{requests_field}[{name}]"));
        let limit = &resources["limits"][name];
        let overcommit = is_native(name) && !is_huge_page(name);
        let Some(limit_amount) = parse(limit) else {
            if !overcommit {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&*limits_field, why));
            }
            continue;
        };
        let order = parse(value).unwrap_or(Quantity::zero()).cmp(&limit_amount);
        let limit = limit.as_str().unwrap_or_default();
        if order.is_ne() && !overcommit {
            let why = format!("must be equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(&*requests_field, value, why));
        } else if order.is_gt() {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(&*requests_field, value, why));
        }
    }
    let any = |test: fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|l| entries(resources, l).any(|(name, _)| test(name)))
    };
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(field, "HugePages require cpu or memory"));
    }
}

/// Problems of the name of a resource.
pub fn name(errors: &mut FieldErrors, name: &str, field: &str) {
    let why = names::qualified_name(name);
    let named_well = why.is_empty();
    each_invalid(errors, field, name, why);
    if named_well && !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid_str(field, name, why));
    }
}

/// Problems of the name of a resource that containers may ask for.
pub fn container_name(errors: &mut FieldErrors, name: &str, field: &str) {
    self::name(errors, name, field);
    if !name.contains('/') {
        if !is_container_resource(name) {
            let why = "must be a standard resource for containers";
            errors.push(FieldError::invalid_str(field, name, why));
        }
    } else if !is_native(name) && name.starts_with("requests.") {
        let why = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid_str(field, name, why));
    }
}

/// Problems of the name of a resource that a pod may ask for as a whole.
fn pod_name(errors: &mut FieldErrors, name: &str, field: &str) {
    let before = errors.len();
    self::name(errors, name, field);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        let supported = ["cpu", "hugepages-", "memory"];
        errors.push(FieldError::not_supported(field, &name.into(), &supported));
    }
}

/// Problems of an amount that is asked for.
fn amount(errors: &mut FieldErrors, name: &str, value: &Value, field: &str) {
    let Some(quantity) = parse(value) else { return };
    if quantity.sign().is_lt() {
        errors.push(FieldError::invalid(field, value, NEGATIVE));
    }
    if !is_native(name) && !quantity.is_integer() {
        errors.push(FieldError::invalid(field, value, "must be an integer"));
    }
}

fn parse(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(Quantity::parse)
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns `true` if a resource is Kubernetes' own: without a domain, or in its domain.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name)
}

fn is_standard(name: &str) -> bool {
    is_container_resource(name)
        || matches!(
            name,
            "storage"
                | "pods"
                | "services"
                | "secrets"
                | "configmaps"
                | "resourcequotas"
                | "replicationcontrollers"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
                | "requests.cpu"
                | "requests.memory"
                | "requests.storage"
                | "requests.ephemeral-storage"
                | "limits.cpu"
                | "limits.memory"
                | "limits.ephemeral-storage"
        )
        || name.starts_with("requests.hugepages-")
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::texts;
    use super::*;
    use serde_json::json;

    fn check(resources: Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        validate(&mut errors, &resources, "r");
        texts(&errors)
    }

    #[test]
    fn requests_stay_within_limits() {
        assert!(check(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "900m"}})).is_empty());
        assert_eq!(
            check(json!({"limits": {"memory": "1Mi"}, "requests": {"memory": "2Mi"}})),
            [
                "r.requests: Invalid value: \"2Mi\": must be less than or equal to memory limit of 1Mi"
            ]
        );
        assert_eq!(
            check(json!({"limits": {"a.example/x": "2"}, "requests": {"a.example/x": "1"}})),
            ["r.requests: Invalid value: \"1\": must be equal to a.example/x limit of 2"]
        );
    }

    #[test]
    fn unknown_and_lonely_resources_are_refused() {
        assert_eq!(check(json!({"limits": {"speed": "1"}})).len(), 2);
        assert_eq!(
            check(json!({"limits": {"hugepages-2Mi": "2Mi"}})),
            ["r: Forbidden: HugePages require cpu or memory"]
        );
    }
}
