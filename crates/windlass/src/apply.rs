//! Server-side apply that sends nothing when nothing would change.
//!
//! The cache does not keep `managedFields`, so it does not show which fields this owner applied
//! before. Instead, two hashes are remembered per object: of what this process applied last, and of
//! what the server stored for it, which may be written differently (`1` for `1000m`). An apply is
//! skipped only if it equals the last one *and* the cached object still has the values that the
//! server stored then, under the same UID. The first apply after a start is always sent; the server
//! ignores it if nothing changes.
//!
//! **Invariant:** the memory is bounded; forgetting costs a request, never a wrong state.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashMap;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// How many objects the memory holds at most.
const REMEMBERED_MAX: usize = 100_000;

/// The last apply of a controller, per object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Applied(Arc<Mutex<HashMap<(Kind, Key), Last>>>);

/// The last apply of an object.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Hash of the body that was sent.
    applied: u64,
    /// Hash of the values that the server stored for it.
    stored: u64,
}

/// Applies `object` as the client's field owner unless the cache shows that nothing would change.
pub(crate) async fn apply<K: Object<DynamicType = ()>>(
    client: &Client,
    applied: &Applied,
    object: &K,
) -> Result<Arc<K>> {
    let (api, kind) = (client.api::<K>(), Kind::of::<K>());
    let key = Key::of(object);
    if key.name().is_empty() {
        return Err(Error::Invalid(format!("{kind} has no name and cannot be applied")));
    }
    let body = api.apply_body(object)?;
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    let hash = hasher.finish();
    let slot = (kind.clone(), key.clone());
    let last = applied.0.lock().get(&slot).copied().filter(|last| last.applied == hash);
    if let Some(last) = last
        && let Ok(Some(current)) = client.cached().json(&kind, &key)
        && hash_of_part(&current, &body) == Some(last.stored)
        && let Ok(Some(current)) = client.cached().get::<K>(&key)
    {
        return Ok(current);
    }
    let patch = Patch::Apply { object: body.clone(), force: true };
    // The error must not quote the object: it may be a secret.
    let decode = |error: serde_json::Error| Error::Decode {
        what: format!("{kind} {key}"),
        source: serde::de::Error::custom(crate::cache::redacted(&error)),
    };
    let stored = client.api_of::<DynamicObject>(&kind).patch(&key, &patch).await?;
    let stored = serde_json::to_value(stored).map_err(decode)?;
    let part = hash_of_part(&stored, &body);
    let stored: K = serde_json::from_value(stored).map_err(decode)?;
    let mut memory = applied.0.lock();
    if memory.len() >= REMEMBERED_MAX {
        memory.clear();
    }
    match part {
        Some(stored) => memory.insert(slot, Last { applied: hash, stored }),
        // A value that the server stores elsewhere, such as `stringData`, cannot be compared.
        None => memory.remove(&slot),
    };
    Ok(Arc::new(stored))
}

/// Returns the hash of the UID of `current` and of its values for the fields of `wanted`.
///
/// Returns `None` if a field that is not empty is missing, or if a list has another length.
pub(crate) fn hash_of_part(current: &Value, wanted: &Value) -> Option<u64> {
    fn add(current: &Value, wanted: &Value, to: &mut DefaultHasher) -> bool {
        match (current, wanted) {
            (Value::Object(current), Value::Object(wanted)) => {
                wanted.iter().all(|(name, value)| match current.get(name) {
                    Some(there) => {
                        name.hash(to);
                        add(there, value, to)
                    }
                    None => is_empty(value),
                })
            }
            (Value::Array(current), Value::Array(wanted)) => {
                let mut pairs = current.iter().zip(wanted);
                current.len() == wanted.len() && pairs.all(|(one, other)| add(one, other, to))
            }
            (Value::Object(_) | Value::Array(_), wanted) if !wanted.is_null() => false,
            (_, Value::Object(_) | Value::Array(_)) => false,
            (current, _) => {
                current.hash(to);
                true
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    // An object that was deleted and created again is another one.
    current.get("metadata").and_then(|metadata| metadata.get("uid")).hash(&mut hasher);
    add(current, wanted, &mut hasher).then(|| hasher.finish())
}

/// Returns `true` if `current` has all the values of `wanted`.
///
/// Lists have to have the same length and are compared item by item; items may have more fields,
/// such as defaults of the server.
pub(crate) fn covers(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| match current.get(name) {
                Some(there) => covers(there, value),
                None => is_empty(value),
            })
        }
        (Value::Array(current), Value::Array(wanted)) => {
            let mut pairs = current.iter().zip(wanted);
            current.len() == wanted.len() && pairs.all(|(one, other)| covers(one, other))
        }
        _ => current == wanted,
    }
}

/// Returns `true` for a value that the server may drop because it is empty.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns the merge patch that turns `before` into `after`, or `None` if they are equal.
///
/// A field that is null counts as missing.
pub(crate) fn merge_diff(before: &Value, after: &Value) -> Option<Value> {
    let before = match before {
        Value::Null => Value::Object(Map::new()),
        before => without_nulls(before),
    };
    difference(&before, &without_nulls(after))
}

fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        let differs = match old.get(name) {
            None => Some(value.clone()),
            Some(known) => difference(known, value),
        };
        if let Some(differs) = differs {
            patch.insert(name.clone(), differs);
        }
    }
    Some(Value::Object(patch))
}

/// Drops fields that are null: a merge patch cannot set a field to null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_server_do_not_count_as_a_difference() {
        let current = json!({"spec": {"list": [{"name": "a", "pull": "Always"}], "extra": 1}});
        assert!(covers(&current, &json!({"spec": {"list": [{"name": "a"}]}})));
        assert!(covers(&current, &json!({"spec": {}, "status": {}})));
        assert!(!covers(&current, &json!({"spec": {"list": [{"name": "b"}]}})));
        assert!(!covers(&current, &json!({"spec": {"list": []}})));
    }

    #[test]
    fn a_merge_diff_names_only_what_differs_and_removes_with_null() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1]});
        let after = json!({"a": 1, "b": {"c": 3}, "e": [2]});
        assert_eq!(merge_diff(&before, &after), Some(json!({"b": {"c": 3, "d": null}, "e": [2]})));
        assert_eq!(merge_diff(&before, &before), None);
    }

    #[test]
    fn null_is_no_difference_to_what_is_not_there() {
        let nulls = json!({"phase": null, "list": [{"a": 1, "b": null}], "deep": {"x": null}});
        let stored = json!({"list": [{"a": 1}], "deep": {}});
        assert_eq!(merge_diff(&stored, &nulls), None);
        assert_eq!(merge_diff(&nulls, &stored), None);
        assert_eq!(merge_diff(&Value::Null, &json!({"phase": null})), None);
        assert_eq!(merge_diff(&json!({"phase": "a"}), &nulls).unwrap()["phase"], Value::Null);
    }

    #[test]
    fn an_empty_value_counts_once_the_server_has_stored_it() {
        let wanted = json!({"volumes": [{"name": "tmp", "emptyDir": {}, "gone": null}]});
        let other = json!({"volumes": [{"name": "tmp", "hostPath": {"path": "/"}}]});
        let kept = json!({"volumes": [{"name": "tmp", "emptyDir": {}}]});
        let more = json!({"volumes": [{"name": "tmp", "emptyDir": {}, "new": 1}], "more": 2});
        assert_eq!(hash_of_part(&kept, &wanted), hash_of_part(&more, &wanted));
        assert_ne!(hash_of_part(&kept, &wanted), hash_of_part(&other, &wanted));
        assert!(covers(&kept, &wanted) && covers(&other, &wanted));
    }

    #[test]
    fn a_value_the_server_writes_differently_is_not_taken_for_a_change_by_others() {
        let wanted = json!({"limits": {"cpu": "1000m"}, "args": ["a"]});
        let of = |current| hash_of_part(&current, &wanted);
        let stored = of(json!({"limits": {"cpu": "1"}, "args": ["a"]}));
        assert!(stored.is_some());
        assert_eq!(stored, of(json!({"limits": {"cpu": "1", "memory": "1"}, "args": ["a"]})));
        assert_ne!(stored, of(json!({"limits": {"cpu": "2"}, "args": ["a"]})));
        assert_ne!(stored, of(json!({"limits": {"cpu": "1"}, "args": ["b"]})));
        for lacking in [
            json!({"limits": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1"}, "args": ["a", "b"]}),
            json!({"limits": {"cpu": "1"}, "args": "a"}),
            json!({"limits": {"cpu": {"is": 1}}, "args": ["a"]}),
        ] {
            assert_eq!(of(lacking), None);
        }
    }
}
