//! Examples of objects.

use serde_json::{Map, Value, json};

use super::Objects;
use crate::model::Api;

/// How deep an example made from a schema may be.
const DEPTH_MAX: usize = 32;

/// Returns the examples of a kind: those of the author, or one made from the schema.
pub(super) fn of(api: &Api) -> Objects {
    if !api.samples.is_empty() {
        return api.samples.clone();
    }
    let mut sample = json!({
        "apiVersion": format!("{}/{}", api.group(), api.version()),
        "kind": api.kind(),
        "metadata": {"name": format!("{}-sample", api.singular())},
    });
    let schema = api.schema();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names =
        required.filter(|name| !["apiVersion", "kind", "metadata", "status"].contains(name));
    for name in names.chain(["spec"]) {
        if let Some(property) = schema["properties"].get(name) {
            sample[name] = value(property, 0);
        }
    }
    vec![sample]
}

/// A value that a schema describes: its example or default, or else the least that is valid.
fn value(schema: &Value, depth: usize) -> Value {
    let given = ["example", "default"].into_iter().find_map(|key| schema.get(key));
    let first = schema["enum"].as_array().and_then(|all| all.first());
    if let Some(value) = given.or(first) {
        return value.clone();
    }
    let least = |key: &str| schema[key].as_u64().unwrap_or(0);
    match schema["type"].as_str() {
        _ if depth > DEPTH_MAX => Value::Null,
        Some("object") => object(schema, depth),
        Some("array") => {
            let count = usize::try_from(least("minItems").min(16)).unwrap_or(0);
            vec![value(&schema["items"], depth + 1); count].into()
        }
        Some("string") => {
            let length = usize::try_from(least("minLength").min(256)).unwrap_or(0);
            "x".repeat(length).into()
        }
        Some("boolean") => false.into(),
        Some("integer" | "number") => number(schema),
        _ if schema["x-kubernetes-int-or-string"] == true => 1.into(),
        _ => json!({}),
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let mut fields: Map<String, Value> = Map::new();
    for name in required.filter_map(Value::as_str) {
        fields.insert(name.to_owned(), value(&schema["properties"][name], depth + 1));
    }
    let shown = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in shown.filter(|(_, property)| property.get("example").is_some()) {
        fields.insert(name.clone(), value(property, depth + 1));
    }
    Value::Object(fields)
}

fn number(schema: &Value) -> Value {
    let exclusive = schema["exclusiveMinimum"] == true;
    match &schema["minimum"] {
        Value::Number(least) if exclusive => match least.as_i64() {
            Some(least) => least.saturating_add(1).into(),
            None => least.as_f64().map_or(Value::Null, |least| json!(least + 1.0)),
        },
        Value::Number(least) => Value::Number(least.clone()),
        _ => match schema["maximum"].as_i64() {
            Some(most) if most < 1 => most.into(),
            _ => 1.into(),
        },
    }
}
