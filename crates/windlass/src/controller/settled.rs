//! Which objects have nothing left to do, as far as their status says.
//!
//! When a controller starts, it reconciles every object once. Those that are settled come last, so
//! that after a restart the others do not wait for thousands of objects that need nothing.

use serde::Deserialize;

use crate::cache::Entry;

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    observed_generation: Option<i64>,
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(default, rename = "type")]
    type_: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    observed_generation: Option<i64>,
}

/// Returns `true` if the status says that the newest spec is in effect: `Ready` is `True`, and was
/// observed for the current generation.
pub(super) fn is_settled(object: &Entry) -> bool {
    if object.deleting() {
        return false;
    }
    let Ok(Object { status: Some(status) }) = object.decode::<Object>() else { return false };
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let observed = ready.and_then(|ready| ready.observed_generation.or(status.observed_generation));
    // Kinds without a generation cannot say which one was observed.
    let newest = object.generation() == 0 || observed == Some(object.generation());
    ready.is_some_and(|ready| ready.status == "True") && newest
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::Change;

    fn settled(metadata: &Value, status: &Value) -> bool {
        let mut object = json!({"metadata": {"name": "a", "generation": 2}, "status": status});
        for (name, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][name] = value.clone();
        }
        let object: Service = serde_json::from_value(object).expect("a service");
        is_settled(Change::between(None, Some(&object)).expect("a change").entry())
    }

    #[test]
    fn an_object_is_settled_if_it_is_ready_for_its_current_generation() {
        let ready = |status: &str, observed: Value| {
            json!({"conditions": [
                {"type": "Other", "status": "False", "reason": "r", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Ready", "status": status, "reason": "r", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": observed},
            ]})
        };
        let none = json!({});
        assert!(settled(&none, &ready("True", json!(2))));
        assert!(!settled(&none, &ready("True", json!(1))), "an older generation");
        assert!(!settled(&none, &ready("True", json!(null))), "nobody says which generation");
        assert!(!settled(&none, &ready("False", json!(2))));
        assert!(!settled(&none, &json!({"conditions": []})));
        assert!(!settled(&none, &json!(null)));
        assert!(settled(&json!({"generation": null}), &ready("True", json!(null))));
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!settled(&deleting, &ready("True", json!(2))));
    }
}
