//! Reading and writing parts of objects.

use serde_json::{Map, Value};

use crate::status::{FieldError, FieldErrors};
use crate::work;

/// Sets a field that is missing or null.
pub(super) fn fill(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(key).is_none_or(Value::is_null)
    {
        fields.insert(key.to_owned(), value.into());
    }
}

/// Sets a string field that is missing or empty.
pub(super) fn fill_text(object: &mut Value, key: &str, value: &str) {
    if text(object, key).is_empty()
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert(key.to_owned(), value.into());
    }
}

/// A field as an object to change, made if it is missing.
pub(super) fn object<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    fill(parent, key, Map::new());
    match parent {
        Value::Object(fields) => fields.entry(key).or_insert(Value::Null),
        other => other,
    }
}

/// The items of a list field to change.
pub(super) fn items_mut<'a>(
    parent: &'a mut Value,
    key: &str,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    parent.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The items of a list field.
pub(super) fn items<'a>(parent: &'a Value, key: &str) -> &'a [Value] {
    work::spent(1);
    parent.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The entries of a map field, in order.
pub(super) fn entries<'a>(
    parent: &'a Value,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    parent.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// A string field; empty if it is missing.
pub(super) fn text<'a>(parent: &'a Value, key: &str) -> &'a str {
    work::spent(1);
    parent.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// An integer field; 0 if it is missing.
pub(super) fn number(parent: &Value, key: &str) -> i64 {
    work::spent(1);
    parent.get(key).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns `true` if a field is there and not null.
pub(super) fn has(parent: &Value, key: &str) -> bool {
    work::spent(1);
    parent.get(key).is_some_and(|v| !v.is_null())
}

/// Takes a field away.
pub(super) fn drop_field(object: &mut Value, key: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(key);
    }
}

/// Takes a list or map field away if it is empty.
pub(super) fn drop_empty(object: &mut Value, key: &str) {
    let empty = match object.get(key) {
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Null) => true,
        _ => false,
    };
    if empty {
        drop_field(object, key);
    }
}

/// Makes a field what it was before.
pub(super) fn keep(object: &mut Value, old: &Value, key: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => fields.insert(key.to_owned(), value.clone()),
        None => fields.remove(key),
    };
}

/// Makes the metadata that clients write what it was before, as updates of many statuses do.
pub(super) fn keep_meta(object: &mut Value, old: &Value) {
    let Some(meta) = object.get_mut("metadata") else { return };
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        keep(meta, &old["metadata"], key);
    }
}

/// Sets a field.
pub(super) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value.into());
    }
}

/// Returns `true` if two fields are the same; missing, null and empty are.
pub(super) fn same(a: &Value, b: &Value, key: &str) -> bool {
    fn part<'a>(v: &'a Value, key: &str) -> Option<&'a Value> {
        v.get(key).filter(|v| match v {
            Value::Null => false,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => true,
        })
    }
    part(a, key) == part(b, key)
}

/// `field is immutable` for a field that changed; the value is shown as JSON.
pub(super) fn immutable(errors: &mut FieldErrors, path: &str, new: &Value, old: &Value) {
    if new != old {
        errors.push(FieldError::invalid(path, new, "field is immutable"));
    }
}

/// An error for a value that is not in a set; `Required` if it is empty.
pub(super) fn one_of(errors: &mut FieldErrors, path: &str, value: &str, allowed: &[&str]) -> bool {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(path, &value.into(), allowed));
    } else {
        return true;
    }
    false
}

/// As [`one_of`], for a field that may be left out; empty text is unsupported.
pub(super) fn one_of_if_set(errors: &mut FieldErrors, path: &str, value: &Value, allowed: &[&str]) {
    if let Some(text) = value.as_str()
        && !allowed.contains(&text)
    {
        errors.push(FieldError::not_supported(path, value, allowed));
    }
}
