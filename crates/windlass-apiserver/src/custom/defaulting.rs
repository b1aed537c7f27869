//! Filling in defaults.

use serde_json::Value;
use windlass_cel::Schema;

/// Fills in defaults below a value: for fields that are missing, and for nulls that are not
/// allowed.
pub fn apply(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, field) in &schema.properties {
                let Some(default) = &field.default else { continue };
                match map.get_mut(key) {
                    None => drop(map.insert(key.clone(), default.clone())),
                    Some(value) if value.is_null() && !field.nullable => *value = default.clone(),
                    Some(_) => {}
                }
            }
            for (key, value) in map {
                if let Some(field) = schema.properties.get(key) {
                    apply(field, value);
                } else if let Some(rest) = schema.additional_schema() {
                    apply_over_null(rest, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                items.iter_mut().for_each(|item| apply_over_null(item_schema, item));
            }
        }
        _ => {}
    }
}

fn apply_over_null(schema: &Schema, value: &mut Value) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or_default();
    }
    apply(schema, value);
}
