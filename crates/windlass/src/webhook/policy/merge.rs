//! Merges a part of an object, as a policy makes it, into the object: by the rules of server-side
//! apply, without owners.
//!
//! **Invariant:** what the API server refuses to merge is refused here in the same words.

use serde_json::{Map, Value};
use windlass_cel::Schema;

/// Merges `part` into `object`.
///
/// # Errors
///
/// Fails if the part has a field that the schema does not declare, or changes what is owned as a
/// whole.
pub(super) fn merge(schema: &Schema, object: &Value, part: &Value) -> Result<Value, String> {
    let mut found = Found::default();
    found.look(schema, part, &mut String::new());
    if let Some(path) = found.undeclared {
        return Err(format!(
            "failed to convert patch object to typed object: {path}: field not declared in schema"
        ));
    }
    if !found.atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            found.atomics.join(", ")
        ));
    }
    Ok(merged(Some(schema), Some(object), part))
}

/// What cannot be merged.
#[derive(Default)]
struct Found {
    undeclared: Option<String>,
    atomics: Vec<String>,
}

impl Found {
    /// Recursion follows the value, whose depth the expression bounds.
    fn look(&mut self, schema: &Schema, value: &Value, path: &mut String) {
        let length = path.len();
        match value {
            Value::Object(fields) => {
                if schema.map_type.as_deref() == Some("atomic") {
                    self.atomics.push(path.clone());
                }
                for (key, value) in fields {
                    path.push('.');
                    path.push_str(key);
                    match below(schema, key) {
                        Some(schema) => self.look(schema, value, path),
                        None if is_open(schema) => {}
                        None => drop(self.undeclared.get_or_insert_with(|| path.clone())),
                    }
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                if !is_open(schema) && !merges(schema) {
                    self.atomics.push(path.clone());
                }
                for (at, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    if let Some(schema) = schema.items.as_deref() {
                        self.look(schema, item, path);
                    }
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

fn is_open(schema: &Schema) -> bool {
    schema.preserve_unknown == Some(true)
}

fn merges(schema: &Schema) -> bool {
    matches!(schema.list_type.as_deref(), Some("set" | "map"))
}

/// The schema of a field of an object or of a value of a map.
fn below<'a>(schema: &'a Schema, key: &str) -> Option<&'a Schema> {
    schema.properties.get(key).or_else(|| schema.additional_schema())
}

fn merged(schema: Option<&Schema>, live: Option<&Value>, part: &Value) -> Value {
    match (live, part) {
        (Some(Value::Object(live)), Value::Object(part)) => {
            let mut made = live.clone();
            for (key, value) in part {
                let schema = schema.and_then(|schema| below(schema, key));
                let value = merged(schema, live.get(key), value);
                made.insert(key.clone(), value);
            }
            Value::Object(made)
        }
        (Some(Value::Array(live)), Value::Array(part)) => match schema {
            Some(schema) if merges(schema) => Value::Array(merged_items(schema, live, part)),
            _ => Value::Array(part.clone()),
        },
        _ => part.clone(),
    }
}

/// Items of the part replace or complete those with the same key, and follow the others.
fn merged_items(schema: &Schema, live: &[Value], part: &[Value]) -> Vec<Value> {
    let keys = &schema.list_map_keys;
    let mut made = live.to_vec();
    let mut places: Map<String, Value> = Map::new();
    for (at, item) in made.iter().enumerate() {
        places.entry(identity(schema, keys, item)).or_insert(at.into());
    }
    for item in part {
        let place = places.get(&identity(schema, keys, item)).and_then(Value::as_u64);
        match place.and_then(|at| made.get_mut(usize::try_from(at).ok()?)) {
            Some(same) => *same = merged(schema.items.as_deref(), Some(&same.clone()), item),
            None => {
                places.insert(identity(schema, keys, item), made.len().into());
                made.push(item.clone());
            }
        }
    }
    made
}

/// What makes an item the same as another: its keys, with their defaults, or its value.
fn identity(schema: &Schema, keys: &[String], item: &Value) -> String {
    if keys.is_empty() {
        return item.to_string();
    }
    let default = |key: &str| {
        let items = schema.items.as_deref()?;
        items.properties.get(key)?.default.clone()
    };
    let key = |key: &String| match &item[key.as_str()] {
        Value::Null => default(key).unwrap_or_default(),
        value => value.clone(),
    };
    Value::Array(keys.iter().map(key).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use windlass_manifests::schema;

    use super::*;

    fn pod(part: Value) -> Result<Value, String> {
        let schema = Schema::parse(&schema::of::<Pod>());
        let live = json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}});
        merge(&schema, &live, &part)
    }

    #[test]
    fn items_merge_by_their_keys() {
        let made =
            pod(json!({"spec": {"containers": [{"name": "a", "tty": true}, {"name": "c"}]}}));
        let containers =
            json!([{"name": "a", "image": "x", "tty": true}, {"name": "b"}, {"name": "c"}]);
        assert_eq!(made, Ok(json!({"spec": {"containers": containers}})));
    }

    #[test]
    fn what_is_owned_as_a_whole_and_what_nobody_declares_is_refused() {
        let made = pod(json!({"spec": {"containers": [{"name": "a", "args": ["x"]}]}}));
        let why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
                   .spec.containers[0].args";
        assert_eq!(made, Err(why.to_owned()));
        let made = pod(json!({"spec": {"colour": "red"}}));
        assert!(made.unwrap_err().ends_with(".spec.colour: field not declared in schema"));
    }

    #[test]
    fn ports_are_the_same_if_the_default_makes_them_so() {
        let schema = Schema::parse(&schema::of::<Pod>());
        let ports = |ports: Value| json!({"spec": {"containers": [{"name": "a", "ports": ports}]}});
        let live = ports(json!([{"containerPort": 80, "protocol": "TCP"}]));
        let part = ports(json!([{"containerPort": 80, "name": "http"}]));
        let made = merge(&schema, &live, &part).unwrap();
        let expected = json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]);
        assert_eq!(made, ports(expected));
    }
}
