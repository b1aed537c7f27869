//! `CustomResourceDefinition` as a built-in kind: defaults, preparation, validation.
//!
//! The rules are written for the internal form that upstream validates: what all versions have in
//! common is seen at `spec.validation`, `spec.subresources` and so on, which is why those paths
//! show up in errors.

use crate::builtin::deletion::Plan;
use crate::custom::names;
use crate::object;
use jiff::Timestamp;
use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_text::format;

use crate::builtin::Strategy;
use crate::resource::Gvk;
use crate::status::FieldErrors;
use crate::store::ResourceKey;

mod canonical;
mod defaults;
mod openapi;
mod spec;
mod structural;
mod webhook;

use super::{Schema, put};

pub use structural::violations;

struct Definition;

/// Returns where definitions are stored.
pub fn storage() -> ResourceKey {
    ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Returns the kind of definitions.
pub fn gvk() -> Gvk {
    Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

/// Returns the strategy of `CustomResourceDefinition`.
pub(crate) fn strategy() -> &'static dyn Strategy {
    &Definition
}

impl Strategy for Definition {
    fn defaults(&self, object: &mut Value) {
        if !object["spec"].is_object() {
            return;
        }
        canonical::definition(object);
        let kind = object["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let missing = |names: &Value, key: &str| names[key].as_str().is_none_or(str::is_empty);
        if !kind.is_empty() {
            for (key, name) in [("singular", kind.to_lowercase()), ("listKind", kind + "List")] {
                if missing(&object["spec"]["names"], key) {
                    put(object, &["spec", "names", key], name.into());
                }
            }
        }
        if object["spec"]["conversion"].is_null() {
            put(object, &["spec", "conversion"], json!({"strategy": "None"}));
        }
        let service = object.pointer_mut("/spec/conversion/webhook/clientConfig/service");
        if let Some(Value::Object(service)) = service {
            let port = service.entry("port").or_insert(Value::Null);
            if port.is_null() {
                *port = 443.into();
            }
        }
        let stored = &object["status"]["storedVersions"];
        if stored.as_array().is_none_or(Vec::is_empty)
            && let Some(name) = storage_version(object)
        {
            put(object, &["status", "storedVersions"], json!([name]));
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let stored = match storage_version(object) {
            Some(name) => json!([name]),
            None => Value::Null,
        };
        let status = json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        });
        put(object, &["status"], status);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        put(object, &["status"], old["status"].clone());
        let Some(name) = storage_version(object) else { return };
        match object.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut) {
            Some(stored) if stored.iter().any(|stored| *stored == name) => {}
            Some(stored) => stored.push(name.into()),
            None => put(object, &["status", "storedVersions"], json!([name])),
        }
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        put(object, &["spec"], old["spec"].clone());
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        spec::validate(object, None)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        spec::validate(object, Some(old))
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> FieldErrors {
        spec::validate_names(&object["status"]["acceptedNames"], "status.acceptedNames")
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let before: HashSet<String> = old.map(all_warnings).into_iter().flatten().collect();
        let mut found = all_warnings(object);
        found.retain(|warning| !before.contains(warning));
        found
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }

    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("apiextensions.k8s.io/customresourcedefinitions")
    }

    fn defines_resources(&self) -> bool {
        true
    }

    /// A definition is deleted after its objects: until then it is terminating.
    fn plan_deletion(&self, definition: &mut Value, now: Timestamp) -> Option<Plan> {
        if object::is_deleting(definition) {
            return None;
        }
        let stamp = crate::clock::stamp(now);
        let mut finalizers: Vec<String> =
            object::finalizers(definition).into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == names::FINALIZER) {
            finalizers.push(names::FINALIZER.to_owned());
        }
        object::set_finalizers(definition, finalizers);
        object::meta_mut(definition).insert("deletionTimestamp".into(), stamp.clone().into());
        names::set_terminating(definition, &names::Deletion::Pending, &stamp);
        Some(Plan::Mark)
    }
}

fn storage_version(object: &Value) -> Option<String> {
    let versions = object["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|version| version["storage"] == true)?;
    Some(version["name"].as_str().unwrap_or_default().to_owned())
}

/// All warnings of a definition: unknown formats.
fn all_warnings(object: &Value) -> Vec<String> {
    let versions = object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let hoisted = spec::same(versions, "schema");
    let mut formats = Vec::new();
    for version in versions.iter().take(if hoisted { 1 } else { versions.len() }) {
        Schema::parse(&version["schema"]["openAPIV3Schema"]).walk(&mut |node| {
            if !node.format.is_empty() && !format::is_supported(&node.kind, &node.format) {
                let name = crate::status::quote(&node.format);
                formats.push(format!("unrecognized format {name}"));
            }
        });
    }
    formats
}

#[cfg(test)]
mod tests;
