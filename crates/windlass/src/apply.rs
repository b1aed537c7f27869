//! Server-side apply that sends nothing when nothing would change.
//!
//! The cache does not keep `managedFields`, so it cannot tell which fields this owner applied
//! before. What was applied last by this process is remembered as a hash, and so is what the server
//! made of it, which may say the same in other words (`1` for `1000m`): an apply is left out only if
//! it says what the last one said *and* the cached object has of it what the answer to that apply
//! had. The first apply after a start is always sent; the server treats it as no change if it is
//! none.
//!
//! **Invariant:** the memory is bounded; forgetting costs a request, never a wrong state.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// Most objects whose last apply is remembered.
const REMEMBERED_MAX: usize = 100_000;

/// What a controller applied last, per object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Applied(Arc<Mutex<HashMap<(Kind, Key), Last>>>);

/// What was applied last.
#[derive(Debug, Clone, Copy)]
struct Last {
    applied: u64,
    /// What the server had of it then.
    stored: u64,
}

/// Applies `object` as the client's field owner unless it is so already.
pub(crate) async fn apply<K: Object<DynamicType = ()>>(
    client: &Client,
    applied: &Applied,
    object: &K,
) -> Result<Arc<K>> {
    let api = client.api::<K>();
    let kind = api.kind().clone();
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
        && part_of(&current, &body) == Some(last.stored)
        && let Ok(Some(current)) = client.cached().get::<K>(&key)
    {
        return Ok(current);
    }
    let patch = Patch::Apply { object: body.clone(), force: true };
    // What is wrong is told without the text that is wrong: it may be a secret.
    let decode = |error: serde_json::Error| Error::Decode {
        what: format!("{kind} {key}"),
        source: serde::de::Error::custom(crate::cache::discreet(&error)),
    };
    let stored = client.dynamic(&kind).patch(&key, &patch).await?;
    let stored = serde_json::to_value(stored).map_err(decode)?;
    let part = part_of(&stored, &body);
    let stored: K = serde_json::from_value(stored).map_err(decode)?;
    let mut memory = applied.0.lock();
    if memory.len() >= REMEMBERED_MAX {
        memory.clear();
    }
    match part {
        Some(stored) => memory.insert(slot, Last { applied: hash, stored }),
        // What the server puts elsewhere, such as `stringData`, cannot be watched.
        None => memory.remove(&slot),
    };
    Ok(Arc::new(stored))
}

/// The hash of what `current` has where `wanted` says something; `None` if it lacks any of that
/// but what is empty, or has lists of other lengths.
fn part_of(current: &Value, wanted: &Value) -> Option<u64> {
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
    add(current, wanted, &mut hasher).then(|| hasher.finish())
}

/// Tells whether `current` shows everything `wanted` says.
///
/// Lists have to be of one length and cover each other item by item; items may carry more fields,
/// the server's defaults.
///
/// ```
/// use serde_json::json;
/// let current = json!({"spec": {"replicas": 3, "paused": false}});
/// assert!(windlass::apply::covers(&current, &json!({"spec": {"replicas": 3}})));
/// assert!(!windlass::apply::covers(&current, &json!({"spec": {"replicas": 4}})));
/// ```
pub fn covers(current: &Value, wanted: &Value) -> bool {
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

/// The server may drop what is empty.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The merge patch that turns `before` into `after`; `None` if there is nothing to do. What is null
/// is not there, on either side.
///
/// ```
/// use serde_json::json;
/// let (before, after) = (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 3}));
/// let patch = windlass::apply::merge_diff(&before, &after);
/// assert_eq!(patch, Some(json!({"b": null, "c": 3})));
/// assert_eq!(windlass::apply::merge_diff(&after, &after), None);
/// ```
pub fn merge_diff(before: &Value, after: &Value) -> Option<Value> {
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

/// A member that is null is none: a patch could not say otherwise.
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
    fn what_is_empty_counts_once_the_server_has_kept_it() {
        let wanted = json!({"volumes": [{"name": "tmp", "emptyDir": {}, "gone": null}]});
        let other = json!({"volumes": [{"name": "tmp", "hostPath": {"path": "/"}}]});
        let kept = json!({"volumes": [{"name": "tmp", "emptyDir": {}}]});
        let more = json!({"volumes": [{"name": "tmp", "emptyDir": {}, "new": 1}], "more": 2});
        assert_eq!(part_of(&kept, &wanted), part_of(&more, &wanted));
        assert_ne!(part_of(&kept, &wanted), part_of(&other, &wanted));
        assert!(covers(&kept, &wanted) && covers(&other, &wanted));
    }

    #[test]
    fn other_words_of_the_server_are_told_from_other_hands() {
        let wanted = json!({"limits": {"cpu": "1000m"}, "args": ["a"]});
        let of = |current| part_of(&current, &wanted);
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
