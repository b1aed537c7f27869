//! Lease.

use serde_json::Value;

use super::tools::{drop_field, has, object, text};
use crate::builtin::Strategy;
use crate::status::{FieldError, FieldErrors};

/// Lease.
pub(super) struct Lease;

impl Strategy for Lease {
    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn defaults(&self, lease: &mut Value) {
        object(lease, "spec");
    }

    fn prepare_create(&self, lease: &mut Value) {
        drop_election(lease, &Value::Null);
    }

    fn prepare_update(&self, lease: &mut Value, old: &Value) {
        drop_election(lease, old);
    }

    fn validate(&self, lease: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &lease["spec"];
        if spec["leaseDurationSeconds"].as_i64().is_some_and(|n| n <= 0) {
            errors.push(FieldError::invalid(
                "spec.leaseDurationSeconds",
                &spec["leaseDurationSeconds"],
                "must be greater than 0",
            ));
        }
        if spec["leaseTransitions"].as_i64().is_some_and(|n| n < 0) {
            errors.push(FieldError::invalid(
                "spec.leaseTransitions",
                &spec["leaseTransitions"],
                "must be greater than or equal to 0",
            ));
        }
        if has(spec, "preferredHolder") && text(spec, "strategy").is_empty() {
            errors.push(FieldError::forbidden(
                "spec.preferredHolder",
                "may only be specified if `strategy` is defined",
            ));
        }
        errors
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Election by the server itself is off in the real one, too: what asks for it is not kept.
fn drop_election(lease: &mut Value, old: &Value) {
    for key in ["strategy", "preferredHolder"] {
        if !has(&old["spec"], key) {
            drop_field(object(lease, "spec"), key);
        }
    }
}
