//! Conditions of parts that an earlier process reported.
//!
//! A process knows which conditions it has written. Those of the process before it are found by their
//! field manager: all conditions of a roll-up are written under a name of its own, so neither
//! conditions that the author writes nor those of other controllers are mistaken for them. Cached
//! objects have no field managers, so the object is requested once, and only if it has conditions
//! that this process does not know.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::DynamicObject;
use serde_json::Value;

use super::{Context, PAUSED, Result};
use crate::client::Client;
use crate::kind::Object;
use crate::readiness::{Readiness, is_built_in};

/// What the field manager of rolled-up conditions ends with.
const SUFFIX: &str = "-conditions";
/// Most bytes of the name of a field manager.
const MANAGER_MAX: usize = 128;
/// The conditions that every roll-up has.
const COMMON: [&str; 4] = ["Ready", "Reconciling", "Stalled", PAUSED];

impl<K: Object> Context<K> {
    /// Returns the client that writes rolled-up conditions.
    pub(super) fn conditions_client(&self) -> Client {
        let client = self.client();
        client.field_owner(&manager(client.owner()))
    }

    /// Returns the parts that a process before this one reported and this reconcile did not.
    pub(super) async fn inherited_parts(
        &self,
        parts: &[(String, Readiness)],
    ) -> Result<Vec<String>> {
        if is_built_in(self.kind().group()) || !self.reported_parts().first(self.key()) {
            return Ok(Vec::new());
        }
        let Some(object) = self.client().cached().json(self.kind(), self.key())? else {
            return Ok(Vec::new());
        };
        let all = object.pointer("/status/conditions").and_then(Value::as_array);
        let types = all.into_iter().flatten().filter_map(|condition| condition["type"].as_str());
        let unknown = |type_: &&str| {
            !COMMON.contains(type_) && parts.iter().all(|(reported, _)| reported != type_)
        };
        let unknown: Vec<&str> = types.filter(unknown).collect();
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let live = self.client().api_of::<DynamicObject>(self.kind()).get(self.key()).await?;
        let managed = live.and_then(|live| live.metadata.managed_fields.clone());
        let ours = owned_types(&managed.unwrap_or_default(), &manager(self.client().owner()));
        let stale = unknown.into_iter().filter(|type_| ours.contains(*type_));
        Ok(stale.map(str::to_string).collect())
    }
}

/// Returns the field manager of the rolled-up conditions of a controller.
fn manager(controller: &str) -> String {
    let mut end = controller.len().min(MANAGER_MAX - SUFFIX.len());
    while !controller.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SUFFIX}", &controller[..end])
}

/// Returns the types of the conditions that a field manager owns.
fn owned_types(managed: &[ManagedFieldsEntry], manager: &str) -> BTreeSet<String> {
    let ours = managed.iter().filter(|entry| entry.manager.as_deref() == Some(manager));
    let fields = ours.filter_map(|entry| entry.fields_v1.as_ref());
    let conditions = fields.filter_map(|fields| fields.0.pointer("/f:status/f:conditions"));
    let keys = conditions.filter_map(Value::as_object).flat_map(|items| items.keys());
    let types = keys.filter_map(|key| {
        let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        Some(key["type"].as_str()?.to_string())
    });
    types.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_manager_is_never_too_long() {
        assert_eq!(manager("shops"), "shops-conditions");
        assert!(manager(&"ä".repeat(64)).len() <= MANAGER_MAX);
    }

    #[test]
    fn only_conditions_of_the_field_manager_are_found() {
        let entry = |manager: &str, types: &[&str]| -> ManagedFieldsEntry {
            let items: serde_json::Map<String, Value> = types
                .iter()
                .map(|type_| (format!("k:{}", json!({"type": type_})), json!({".": {}})))
                .collect();
            let fields = json!({"f:status": {"f:conditions": items}});
            serde_json::from_value(json!({"manager": manager, "fieldsV1": fields}))
                .expect("an entry")
        };
        let managed =
            [entry("shops-conditions", &["A", "B"]), entry("shops", &["C"]), entry("else", &["D"])];
        let ours = owned_types(&managed, "shops-conditions");
        assert_eq!(ours, ["A".to_string(), "B".to_string()].into());
    }
}
