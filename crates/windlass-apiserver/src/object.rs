//! Small readers and writers on objects: their metadata, by name.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::{Map, Value};

/// Returns the object's metadata; an empty map's worth of nothing if it has none.
pub fn meta(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// Returns the object's metadata, made if it is not there.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was just made one")
}

/// Returns a text field of the metadata; empty if absent.
pub fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    meta(object).get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the name.
pub fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// Returns the namespace; empty if absent.
pub fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

/// Returns the uid.
pub fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// Returns `true` if deletion was asked for.
pub fn is_deleting(object: &Value) -> bool {
    meta(object).get("deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// Returns the finalizers.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = meta(object).get("finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Replaces the finalizers; an empty list is left out.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = meta_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Takes apiVersion and kind off.
pub fn strip_type(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
    }
}

/// Puts apiVersion and kind on.
pub fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
}

/// Returns `true` if an optional part is absent, null or empty.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// An object with its kind and apiVersion in front, where Go's structs have them.
pub struct TypeFirst<'a>(pub &'a Value);

impl Serialize for TypeFirst<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const TYPE: [&str; 2] = ["kind", "apiVersion"];
        let Value::Object(map) = self.0 else { return self.0.serialize(serializer) };
        let first = TYPE.iter().filter_map(|name| map.get_key_value(*name));
        let rest = map.iter().filter(|(name, _)| !TYPE.contains(&name.as_str()));
        serializer.collect_map(first.chain(rest))
    }
}

/// Returns an object as JSON, with numbers as Go writes them.
pub fn encode(object: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, GoNumbers);
    // A `Value` has string keys and finite numbers only: writing it to memory cannot fail.
    object.serialize(&mut serializer).expect("a JSON value serialises");
    out
}

/// Floats have an exponent only if they are very large or very small.
struct GoNumbers;

impl Formatter for GoNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        match size == 0.0 || (1e-6..1e21).contains(&size) {
            true => write!(writer, "{value}"),
            false => CompactFormatter.write_f64(writer, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_are_written_as_go_writes_them() {
        let object = json!([1.5, 9.223372036854776e18, -1e20, 1e21, 1e-7, 0.25, 3]);
        let text = String::from_utf8(encode(&object)).unwrap();
        assert_eq!(text, "[1.5,9223372036854776000,-100000000000000000000,1e+21,1e-7,0.25,3]");
    }
}
