//! What other versions of an object had that this one cannot express, in an annotation.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::delta::{self, Entry};
use crate::error::{Error, Result};

/// The annotation; its value maps versions to what has to be restored in them.
pub(super) const ANNOTATION: &str = "windlass.dev/conversion";

/// How large the annotation may be. All annotations of an object together may have 256 KiB.
pub(super) const BYTES_MAX: usize = 192 << 10;

/// What is kept for other versions.
#[derive(Default)]
pub(super) struct Stash(BTreeMap<String, Vec<Entry>>);

// === impl Stash ===

impl Stash {
    /// Returns what an object keeps for other versions, and the object without it. A text that is not
    /// ours is dropped.
    pub(super) fn take(object: &Value) -> (Self, Value) {
        let mut object = object.clone();
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return (Self::default(), object);
        };
        let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
            return (Self::default(), object);
        };
        let Some(text) = annotations.remove(ANNOTATION) else { return (Self::default(), object) };
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        let kept = text.as_str().and_then(|text| serde_json::from_str(text).ok());
        (Self(kept.unwrap_or_default()), object)
    }

    /// Restores what was kept for a version. Everybody who can write an annotation can change what is
    /// kept, so it is dropped if it does not fit the types of the schema.
    pub(super) fn restore(&mut self, api_version: &str, schema: &Value, object: &mut Value) {
        let Some(entries) = self.0.remove(name_of(api_version)) else { return };
        let mut restored = object.clone();
        delta::restore(&entries, &mut restored);
        if fits(&restored, schema) || !fits(object, schema) {
            *object = restored;
        }
    }

    /// Keeps what a version loses: `returned` is what comes back of `original`.
    pub(super) fn keep(&mut self, api_version: &str, returned: &Value, original: &Value) {
        let entries = delta::between(returned, original);
        let name = name_of(api_version);
        if entries.is_empty() {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), entries);
        }
    }

    /// Writes the annotation, unless nothing is kept.
    ///
    /// # Errors
    /// Fails if there is too much to keep.
    pub(super) fn put(self, object: &mut Value) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(&self.0)?;
        if text.len() > BYTES_MAX {
            return Err(Error::Invalid(format!(
                "{} bytes of the object cannot be expressed in {}, more than the {BYTES_MAX} that fit \
                 into an annotation; limit the size of the fields that only other versions have",
                text.len(),
                object["apiVersion"].as_str().unwrap_or_default(),
            )));
        }
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return Err(Error::Invalid("the object has no metadata".into()));
        };
        let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
        if let Value::Object(annotations) = annotations {
            annotations.insert(ANNOTATION.into(), text.into());
        }
        Ok(())
    }
}

/// The version without its group: all versions of a kind share one.
fn name_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or(api_version)
}

/// Returns `true` if all fields that a schema describes are of its types. Values are not looked at: a
/// newer version of the schema may allow more of them.
fn fits(value: &Value, schema: &Value) -> bool {
    let of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer" | "number") => value.is_number(),
        _ => true,
    };
    if !of_type {
        return value.is_null();
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            let known = schema["properties"].get(name);
            fits(value, known.unwrap_or(&schema["additionalProperties"]))
        }),
        Value::Array(items) => items.iter().all(|item| fits(item, &schema["items"])),
        _ => true,
    }
}
