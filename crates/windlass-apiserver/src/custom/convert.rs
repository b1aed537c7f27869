//! Conversion between versions: by name only, and what a webhook may answer.

use serde_json::{Map, Value};

use super::meta;
use super::scale::go_type;

/// Converts by strategy `None`: only `apiVersion` changes.
pub fn rename(object: &mut Value, api_version: &str) {
    if let Value::Object(map) = object {
        map.insert("apiVersion".into(), api_version.into());
    }
}

/// Checks what a webhook made of an object and restores its metadata, except labels and
/// annotations.
///
/// # Errors
/// What is wrong, to follow `conversion webhook for <gvk> returned invalid object: ` or
/// `... returned invalid metadata: `.
pub fn check_converted(original: &Value, converted: &mut Value) -> Result<(), Refusal> {
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let meta = |object: &Value, key: &str| text(&object["metadata"], key);
    for (what, before, after) in [
        ("kind", text(original, "kind"), text(converted, "kind")),
        ("name", meta(original, "name"), meta(converted, "name")),
        ("namespace", meta(original, "namespace"), meta(converted, "namespace")),
        ("UID", meta(original, "uid"), meta(converted, "uid")),
    ] {
        if before != after {
            let why = format!("must have the same {what}: {before} != {after}");
            return Err(Refusal::Object(why));
        }
    }
    restore(original, converted).map_err(Refusal::Metadata)
}

/// Which part of a webhook's answer was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object itself.
    Object(String),
    /// Its metadata.
    Metadata(String),
}

impl Refusal {
    /// Returns the whole error text, for a single object.
    pub fn text(&self, gvk: &str) -> String {
        match self {
            Self::Object(why) => {
                format!("conversion webhook for {gvk} returned invalid object: {why}")
            }
            Self::Metadata(why) => {
                format!("conversion webhook for {gvk} returned invalid metadata: {why}")
            }
        }
    }

    /// Returns the whole error text, for one object of a list.
    pub fn text_at(&self, gvk: &str, index: usize) -> String {
        match self {
            Self::Object(why) => format!(
                "conversion webhook for {gvk} returned invalid converted object at index {index}: \
                 {why}"
            ),
            Self::Metadata(why) => format!(
                "conversion webhook for {gvk} returned invalid metadata in object at index \
                 {index}: {why}"
            ),
        }
    }
}

fn restore(original: &Value, converted: &mut Value) -> Result<(), String> {
    let Value::Object(object) = converted else {
        return Err("missing metadata in converted object".into());
    };
    let answered = match object.get("metadata") {
        None => return Err("missing metadata in converted object".into()),
        Some(Value::Object(map)) => map.clone(),
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", go_type(other)));
        }
    };
    let mut kept = match original.get("metadata") {
        None => Map::new(),
        Some(Value::Object(map)) => map.clone(),
        Some(other) => {
            return Err(format!("invalid metadata of type {} in input object", go_type(other)));
        }
    };
    for field in ["labels", "annotations"] {
        let new = match answered.get(field) {
            None | Some(Value::Null) => {
                kept.remove(field);
                continue;
            }
            Some(Value::Object(map)) => map,
            Some(other) => {
                let kind = go_type(other);
                return Err(format!("invalid metadata.{field} of type {kind} in converted object"));
            }
        };
        if let Some((key, other)) = new.iter().find(|(_, value)| !value.is_string()) {
            let kind = go_type(other);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {kind} in converted object"
            ));
        }
        if kept.get(field).and_then(Value::as_object) != Some(new) {
            let errors = match field {
                "labels" => meta::validate_labels(new, "metadata.labels"),
                _ => meta::validate_annotations(new, "metadata.annotation"),
            };
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            match &texts[..] {
                [] => {}
                [one] => return Err(one.clone()),
                all => return Err(format!("[{}]", all.join(", "))),
            }
        }
        kept.insert(field.into(), Value::Object(new.clone()));
    }
    object.insert("metadata".into(), Value::Object(kept));
    Ok(())
}
