//! Runtime classes.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{pod_resources, pod_spec};
use crate::builtin::Strategy;
use crate::builtin::rules::value::{items, text};
use crate::builtin::rules::{each_invalid, immutable, meta, names};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `RuntimeClass`.
pub struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        match text(object, "handler") {
            "" => errors.push(FieldError::required("handler", "")),
            name => each_invalid(&mut errors, "handler", name, names::dns_label(name)),
        }
        if object["overhead"].is_object() {
            let limits = json!({"limits": object["overhead"]["podFixed"]});
            pod_resources::validate(&mut errors, &limits, "overhead");
        }
        let scheduling = &object["scheduling"];
        meta::labels(&mut errors, &scheduling["nodeSelector"], "scheduling.nodeSelector");
        pod_spec::tolerations(&mut errors, scheduling, "scheduling.tolerations");
        let mut seen = HashSet::new();
        for (index, toleration) in items(scheduling, "tolerations").iter().enumerate() {
            let key = ["key", "operator", "value", "effect"].map(|key| text(toleration, key));
            if !seen.insert(key) {
                let field = format!("scheduling.tolerations[{index}]");
                let [name, operator, value, effect] = key.map(Value::from);
                let shown = format!(
                    "{{\"Key\":{name},\"Operator\":{operator},\"Value\":{value},\
                     \"Effect\":{effect},\"TolerationSeconds\":{}}}",
                    toleration["tolerationSeconds"]
                );
                errors.push(FieldError::raw(FieldErrorKind::Duplicate, field, shown, ""));
            }
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(object);
        immutable(&mut errors, &object["handler"], &old["handler"], "handler");
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

#[cfg(test)]
mod tests {
    use super::super::shared::testing::texts;
    use super::*;

    #[test]
    fn a_handler_never_changes() {
        let errors =
            RuntimeClasses.validate_update(&json!({"handler": "b"}), &json!({"handler": "a"}));
        assert_eq!(texts(&errors), ["handler: Invalid value: \"b\": field is immutable"]);
    }
}
