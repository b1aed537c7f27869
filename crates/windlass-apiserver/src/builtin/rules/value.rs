//! Short ways to read and fill JSON values.

use serde_json::{Map, Value};

use crate::work;

/// Returns what `path` (keys joined by dots) leads to; `null` if it leads nowhere.
pub fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    work::spent(1);
    path.split('.').fold(value, |value, key| &value[key])
}

/// Returns the text at a path; empty if it is missing.
pub fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// Returns the integer at a path.
pub fn int(value: &Value, path: &str) -> Option<i64> {
    at(value, path).as_i64()
}

/// Returns `true` if the path leads to `true`.
pub fn flag(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

/// Returns the items of the list at a path; none if there is no list.
pub fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the entries of the object at a path, in the order of their keys.
pub fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    at(value, path).as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Returns `true` if there is something other than `null` at a path.
pub fn has(value: &Value, path: &str) -> bool {
    !at(value, path).is_null()
}

/// Returns the items of a list field, to change them.
pub fn items_mut<'a>(value: &'a mut Value, key: &str) -> &'a mut [Value] {
    match value.get_mut(key).and_then(Value::as_array_mut) {
        Some(items) => items,
        None => &mut [],
    }
}

/// Returns the object in a field, created if it is missing; `None` if `value` or the field is
/// something else.
pub fn object_mut<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let field = value.as_object_mut()?.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.is_object().then_some(field)
}

/// Sets a field that is absent, `null`, an empty string or (as Go's zero) 0.
pub fn default_to(value: &mut Value, key: &str, default: impl Into<Value>) {
    let Some(object) = value.as_object_mut() else { return };
    let empty = match object.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    };
    if empty {
        object.insert(key.to_owned(), default.into());
    }
}

/// Sets a field that is absent or `null` (Go fields that are pointers).
pub fn default_absent(value: &mut Value, key: &str, default: impl Into<Value>) {
    let Some(object) = value.as_object_mut() else { return };
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Sets an integer field that is absent or 0 (Go fields that are no pointers).
pub fn default_zero(value: &mut Value, key: &str, default: i64) {
    let Some(object) = value.as_object_mut() else { return };
    if object.get(key).is_none_or(|v| v.is_null() || v.as_i64() == Some(0)) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Removes a field of an object.
pub fn remove(value: &mut Value, key: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(key);
    }
}

/// Copies a field from another object, removing it where the other has none.
pub fn copy_field(to: &mut Value, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => {
            if let Some(object) = to.as_object_mut() {
                object.insert(key.to_owned(), value.clone());
            }
        }
        None => remove(to, key),
    }
}

/// Returns the JSON text of an object with its keys in a given order (unknown ones last), for
/// errors that show a value the way the real server's struct is ordered.
pub fn show_ordered(value: &Value, order: &[&str]) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| show_ordered(item, order)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => {
            let known = order.iter().filter_map(|key| object.get_key_value(*key));
            let rest = object.iter().filter(|(key, _)| !order.contains(&key.as_str()));
            let fields: Vec<_> = known
                .chain(rest)
                .map(|(key, v)| format!("{}:{}", Value::from(key.as_str()), show_ordered(v, order)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_empty_strings_but_keep_false() {
        let mut value = json!({"a": "", "b": false});
        default_to(&mut value, "a", "x");
        default_to(&mut value, "b", true);
        default_to(&mut value, "c", 3);
        assert_eq!(value, json!({"a": "x", "b": false, "c": 3}));
    }

    #[test]
    fn objects_are_shown_in_the_order_asked_for() {
        let value = json!([{"b": 1, "a": {"y": 2, "x": 3}, "z": null}]);
        assert_eq!(show_ordered(&value, &["b", "y"]), r#"[{"b":1,"a":{"y":2,"x":3},"z":null}]"#);
    }
}
