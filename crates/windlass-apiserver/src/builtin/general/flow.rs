//! FlowSchema, PriorityLevelConfiguration and APIService.

use serde_json::{Value, json};

use super::tools::{fill, has, keep, number, object, set, text};
use crate::builtin::{NameRule, Strategy};
use crate::status::FieldError;

/// FlowSchema.
pub(super) struct FlowSchema;

impl Strategy for FlowSchema {
    fn defaults(&self, schema: &mut Value) {
        let spec = object(schema, "spec");
        if number(spec, "matchingPrecedence") == 0 {
            set(spec, "matchingPrecedence", 1000);
        }
        object(schema, "status");
    }

    fn prepare_create(&self, schema: &mut Value) {
        set(schema, "status", json!({}));
    }

    fn prepare_update(&self, schema: &mut Value, old: &Value) {
        keep(schema, old, "status");
    }

    fn prepare_status(&self, schema: &mut Value, old: &Value) {
        keep(schema, old, "spec");
    }

    fn validate(&self, schema: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &schema["spec"];
        let precedence = number(spec, "matchingPrecedence");
        if precedence <= 0 {
            let why = "must be a positive value";
            let path = "spec.matchingPrecedence";
            errors.push(FieldError::invalid(path, &precedence.into(), why));
        } else if precedence > 10_000 {
            errors.push(FieldError::invalid(
                "spec.matchingPrecedence",
                &precedence.into(),
                "must not be greater than 10000",
            ));
        }
        if text(&spec["priorityLevelConfiguration"], "name").is_empty() {
            let path = "spec.priorityLevelConfiguration.name";
            errors.push(FieldError::required(path, "must reference a priority level"));
        }
        if has(spec, "distinguisherMethod") {
            let kind = &spec["distinguisherMethod"]["type"];
            if kind != "ByNamespace" && kind != "ByUser" {
                errors.push(FieldError::not_supported(
                    "spec.distinguisherMethod.type",
                    kind,
                    &["ByNamespace", "ByUser"],
                ));
            }
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// PriorityLevelConfiguration.
pub(super) struct PriorityLevel;

impl Strategy for PriorityLevel {
    fn defaults(&self, level: &mut Value) {
        let spec = object(level, "spec");
        if has(spec, "exempt") {
            let exempt = object(spec, "exempt");
            fill(exempt, "nominalConcurrencyShares", 0);
            fill(exempt, "lendablePercent", 0);
        }
        if has(spec, "limited") {
            let limited = object(spec, "limited");
            fill(limited, "nominalConcurrencyShares", 30);
            fill(limited, "lendablePercent", 0);
            if has(&limited["limitResponse"], "queuing") {
                let queuing = object(object(limited, "limitResponse"), "queuing");
                for (key, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                    if number(queuing, key) == 0 {
                        set(queuing, key, value);
                    }
                }
            }
        }
        object(level, "status");
    }

    fn prepare_create(&self, level: &mut Value) {
        set(level, "status", json!({}));
    }

    fn prepare_update(&self, level: &mut Value, old: &Value) {
        keep(level, old, "status");
    }

    fn prepare_status(&self, level: &mut Value, old: &Value) {
        keep(level, old, "spec");
    }

    fn validate(&self, level: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &level["spec"];
        match text(spec, "type") {
            "Limited" => {
                if !has(spec, "limited") {
                    let why = "must not be empty when type is \"Limited\"";
                    errors.push(FieldError::required("spec.limited", why));
                }
                if has(spec, "exempt") {
                    let why = "must be nil if the type is not Exempt";
                    errors.push(FieldError::forbidden("spec.exempt", why));
                }
            }
            "Exempt" if has(spec, "limited") => {
                let why = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden("spec.limited", why));
            }
            "Exempt" => {}
            other => errors.push(FieldError::not_supported(
                "spec.type",
                &other.into(),
                &["Exempt", "Limited"],
            )),
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// APIService.
pub(super) struct ApiService;

impl Strategy for ApiService {
    fn defaults(&self, service: &mut Value) {
        let spec = object(service, "spec");
        if has(spec, "service") {
            fill(object(spec, "service"), "port", 443);
        }
        object(service, "status");
    }

    fn prepare_create(&self, service: &mut Value) {
        set(service, "status", json!({}));
    }

    fn prepare_update(&self, service: &mut Value, old: &Value) {
        keep(service, old, "status");
    }

    fn prepare_status(&self, service: &mut Value, old: &Value) {
        keep(service, old, "spec");
    }

    fn validate(&self, service: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &service["spec"];
        let name = text(&service["metadata"], "name");
        let required = format!("{}.{}", text(spec, "version"), text(spec, "group"));
        if name != required {
            let why = format!("must be `spec.version+\".\"+spec.group`: \"{required}\"");
            errors.push(FieldError::invalid_str("metadata.name", name, why));
        }
        for (key, min_name) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
            let value = number(spec, key);
            if value <= 0 || value > min_name {
                errors.push(FieldError::invalid(
                    format!("spec.{key}"),
                    &value.into(),
                    format!("must be positive and less than {min_name}"),
                ));
            }
        }
        if has(spec, "service") {
            for key in ["namespace", "name"] {
                if text(&spec["service"], key).is_empty() {
                    errors.push(FieldError::required(format!("spec.service.{key}"), ""));
                }
            }
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
