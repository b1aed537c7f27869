//! What keeps a map from becoming a built-in object, in the words of Go's converter.
//!
//! The result of a strategic merge patch never is JSON text on the real server: its maps are
//! turned into structs directly, and their errors are worded differently from those of the JSON
//! decoder.

use serde_json::Value;

use super::{Node, typed};
use crate::schema::go::{Type, TypeId};

/// The first thing that does not fit, in the order of the struct's fields.
pub(super) fn misfit(value: &Value, id: TypeId) -> Option<String> {
    check(value, &Type::Named(id)).err()
}

fn check(value: &Value, typ: &Type) -> Result<(), String> {
    match (value, typ) {
        (Value::Null, _) => Ok(()),
        (_, Type::Any) => Ok(()),
        (_, Type::Pointer(inner)) => check(value, inner),
        (_, Type::Special(special)) => typed::special_fits(&Node::of(value), *special),
        (_, Type::List(item)) => list(value, item),
        (_, Type::Map(_, item)) => map(value, item),
        (_, Type::Named(id)) => match &id.get().named {
            Some(of @ (Type::Bool | Type::Float64 | Type::Int32 | Type::Int64 | Type::String)) => {
                simple(value, of, &typ.reflect())
            }
            Some(of) => check(value, of),
            None => strukt(value, *id),
        },
        (Value::String(text), Type::Bytes) => super::scalar::base64(text)
            .map(drop)
            .map_err(|error| format!("error decoding from json: {error}")),
        (Value::Array(items), Type::Bytes) => {
            items.iter().try_for_each(|item| simple(item, &Type::Int32, "uint8"))
        }
        (_, Type::Bytes) => Err(format!("cannot restore slice from {}", kind(value))),
        (_, simple_type) => simple(value, simple_type, &simple_type.reflect()),
    }
}

fn list(value: &Value, item: &Type) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|value| check(value, item)),
        other => Err(format!("cannot restore slice from {}", kind(other))),
    }
}

fn map(value: &Value, item: &Type) -> Result<(), String> {
    match value {
        Value::Object(entries) => entries.values().try_for_each(|value| check(value, item)),
        other => Err(format!("cannot restore map from {}", kind(other))),
    }
}

fn strukt(value: &Value, id: TypeId) -> Result<(), String> {
    let Value::Object(entries) = value else {
        return Err(format!("cannot restore struct from: {}", kind(value)));
    };
    let fields = id.get().fields.iter();
    fields
        .filter_map(|field| Some((entries.get(field.name)?, &field.typ)))
        .try_for_each(|(value, typ)| check(value, typ))
}

/// Texts become texts, and numbers numbers if nothing is lost.
fn simple(value: &Value, of: &Type, name: &str) -> Result<(), String> {
    let number = matches!(of, Type::Float64 | Type::Int32 | Type::Int64);
    let fits = match (value, of) {
        (Value::String(_), Type::String) | (Value::Bool(_), Type::Bool) => true,
        (Value::Number(_), Type::Float64) => true,
        (Value::Number(n), _) if number => n.as_f64().is_some_and(|n| n.trunc() == n),
        _ => false,
    };
    // Go could make a character of a whole number, which is why it says so.
    let whole = matches!(value, Value::Number(n) if !n.is_f64());
    match fits {
        true => Ok(()),
        false if value.is_number() && (number || whole && *of == Type::String) => {
            Err(format!("cannot convert {} to {name}", kind(value)))
        }
        false => Err(format!("unrecognized type: {}", base(of))),
    }
}

/// What Go calls the kind of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn base(typ: &Type) -> &'static str {
    match typ {
        Type::Bool => "bool",
        Type::Float64 => "float64",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(value: Value) -> String {
        let id = crate::schema::go::lookup("api.apps.v1.Deployment").unwrap();
        misfit(&value, id).unwrap_or_default()
    }

    #[test]
    fn maps_that_are_not_structs_are_reported_in_the_words_of_the_converter() {
        let spec = |spec: Value| message(json!({"spec": spec}));
        assert_eq!(spec(json!({"replicas": 2, "paused": null})), "");
        assert_eq!(spec(json!("x")), "cannot restore struct from: string");
        assert_eq!(spec(json!([])), "cannot restore struct from: slice");
        assert_eq!(spec(json!({"replicas": "x"})), "unrecognized type: int32");
        assert_eq!(spec(json!({"replicas": 1.5})), "cannot convert float64 to int32");
        assert_eq!(spec(json!({"paused": 1})), "unrecognized type: bool");
        let strategy = json!({"strategy": {"type": 1}});
        assert_eq!(spec(strategy), "cannot convert int64 to v1.DeploymentStrategyType");
        let containers = |value: Value| spec(json!({"template": {"spec": {"containers": value}}}));
        assert_eq!(containers(json!({})), "cannot restore slice from map");
        let labels = |value: Value| message(json!({"metadata": {"labels": value}}));
        assert_eq!(labels(json!("x")), "cannot restore map from string");
        assert_eq!(labels(json!({"a": 1})), "cannot convert int64 to string");
        assert_eq!(labels(json!({"a": true})), "unrecognized type: string");
    }
}
