//! Pruning of fields that the schema does not know, and of nulls that are not allowed.

use serde_json::Value;
use windlass_cel::Schema;

use super::meta;
use crate::status::FieldError;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields of a whole object and returns their paths, sorted.
pub fn prune_object(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(object, Some(schema), true);
    pruner.unknown.sort();
    pruner.unknown
}

/// Drops unknown fields of a value; `root` is `true` for a whole object.
pub fn prune_value(schema: &Schema, value: &mut Value, root: bool) {
    Pruner::default().prune(value, Some(schema), root || schema.embedded);
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, embedded: bool) {
        if let Some(schema) = schema.filter(|s| s.preserves()) {
            return self.keep(value, schema, embedded);
        }
        match value {
            Value::Object(map) => {
                let at_root = self.path.is_empty();
                let Some(schema) = schema else {
                    map.keys().for_each(|key| self.record(key));
                    return map.clear();
                };
                map.retain(|key, value| {
                    let meta_field = META_FIELDS.contains(&key.as_str());
                    if embedded && meta_field {
                        return true;
                    }
                    let next = match (schema.properties.get(key), &schema.additional) {
                        (Some(field), _) => Some(Some(field)),
                        (None, Some(additional)) => Some(additional.schema.as_deref()),
                        (None, None) => None,
                    };
                    match next {
                        Some(next) => self.below(key, |pruner| {
                            pruner.prune(value, next, next.is_some_and(|s| s.embedded));
                        }),
                        None if !meta_field || !at_root => self.record(key),
                        None => {}
                    }
                    next.is_some()
                });
            }
            Value::Array(items) => {
                let item_schema = schema.and_then(|s| s.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    let embedded = item_schema.is_some_and(|s| s.embedded);
                    self.at(index, |pruner| pruner.prune(item, item_schema, embedded));
                }
            }
            _ => {}
        }
    }

    /// Below `x-kubernetes-preserve-unknown-fields` only declared fields are looked into.
    fn keep(&mut self, value: &mut Value, schema: &Schema, embedded: bool) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if embedded && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    let next = match (schema.properties.get(key), &schema.additional) {
                        (Some(field), _) => Some(field),
                        (None, Some(additional)) => additional.schema.as_deref(),
                        (None, None) => continue,
                    };
                    self.below(key, |pruner| {
                        pruner.prune(value, next, next.is_some_and(|s| s.embedded));
                    });
                }
            }
            Value::Array(items) => {
                let Some(item_schema) = schema.items.as_deref() else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.keep(item, item_schema, item_schema.embedded));
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        then(self);
        self.path.truncate(length);
    }

    fn at(&mut self, index: usize, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        then(self);
        self.path.truncate(length);
    }

    fn record(&mut self, key: &str) {
        let path = match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        };
        self.unknown.push(path);
    }
}

/// Drops nulls of fields that are not nullable and have no default.
pub fn prune_nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let field = schema.and_then(|s| s.field(key));
            if value.is_null() && field.is_some_and(|s| !s.nullable && s.default.is_none()) {
                return false;
            }
            prune_nulls(field, value);
            true
        }),
        Value::Array(items) => {
            let item_schema = schema.and_then(|s| s.items.as_deref());
            items.iter_mut().for_each(|item| prune_nulls(item_schema, item));
        }
        _ => {}
    }
}

/// Brings the metadata of embedded resources into shape; returns unknown fields, sorted.
///
/// # Errors
/// What cannot be read, unless `lenient`, which drops it.
pub fn coerce_embedded(
    schema: &Schema,
    value: &mut Value,
    root: bool,
    lenient: bool,
) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce(Some(schema), value, "", root || schema.embedded, lenient, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn coerce(
    schema: Option<&Schema>,
    value: &mut Value,
    path: &str,
    embedded: bool,
    lenient: bool,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    let Some(schema) = schema else { return Ok(()) };
    match value {
        Value::Object(map) => {
            if embedded {
                coerce_meta(map, path, lenient, unknown)?;
            }
            for (key, value) in map {
                let (next, place) = match (schema.properties.get(key), &schema.additional) {
                    (Some(field), _) => (Some(field), child(path, key)),
                    (None, Some(a)) => (a.schema.as_deref(), format!("{path}[{key}]")),
                    (None, None) => continue,
                };
                let embedded = next.is_some_and(|s| s.embedded);
                coerce(next, value, &place, embedded, lenient, unknown)?;
            }
        }
        Value::Array(items) => {
            let next = schema.items.as_deref();
            let embedded = next.is_some_and(|s| s.embedded);
            for (index, item) in items.iter_mut().enumerate() {
                coerce(next, item, &format!("{path}[{index}]"), embedded, lenient, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_meta(
    map: &mut serde_json::Map<String, Value>,
    path: &str,
    lenient: bool,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    for key in ["apiVersion", "kind"] {
        if map.get(key).is_some_and(|v| !v.is_string()) {
            if !lenient {
                return Err(FieldError::invalid(child(path, key), &map[key], "must be a string"));
            }
            map.remove(key);
        }
    }
    let Some(metadata) = map.get("metadata") else { return Ok(()) };
    let place = child(path, "metadata");
    match meta::read(metadata, lenient) {
        Ok((read, fields)) => {
            unknown.extend(fields.into_iter().map(|field| format!("{place}.{field}")));
            map.insert("metadata".into(), read);
        }
        Err(why) if !lenient => return Err(FieldError::invalid(place, metadata, why)),
        Err(_) => {}
    }
    Ok(())
}

/// Returns the path of a field below a path.
pub fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
