//! Duplicates in lists of type `set` and `map`.

use std::collections::HashMap;

use serde_json::{Map, Value};
use windlass_cel::Schema;

use super::prune::child;
use crate::status::{FieldError, FieldErrors};

/// Problems of all sets and maps in an object.
pub fn validate(schema: &Schema, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    walk(schema, object, "", &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut FieldErrors) {
    match value {
        Value::Object(map) => {
            if let Some(rest) = schema.additional_schema() {
                for (key, value) in map {
                    walk(rest, value, &format!("{path}[{key}]"), errors);
                }
            }
            for (key, value) in map {
                if let Some(field) = schema.properties.get(key) {
                    walk(field, value, &child(path, key), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => {
                    for index in duplicates(items.iter().map(Value::to_string)) {
                        let place = format!("{path}[{index}]");
                        errors.push(FieldError::duplicate(place, &items[index]));
                    }
                }
                Some("map") => check_map(schema, items, path, errors),
                _ => {}
            }
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(item_schema, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(schema: &Schema, items: &[Value], path: &str, errors: &mut FieldErrors) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{index}]"), &items[index], detail));
        return;
    }
    let key_of = |item: &Value| -> Value {
        let keys = schema.list_map_keys.iter();
        let found = keys.filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(found.collect::<Map<_, _>>())
    };
    let keys: Vec<Value> = items.iter().map(key_of).collect();
    for index in duplicates(keys.iter().map(Value::to_string)) {
        errors.push(FieldError::duplicate(format!("{path}[{index}]"), &keys[index]));
    }
}

/// The index of the second one of each value that is there more than once.
fn duplicates(values: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
