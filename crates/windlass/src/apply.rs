//! Server-side apply that sends nothing when nothing would change.
//!
//! The cache does not keep `managedFields`, so it cannot tell which fields this owner applied
//! before. What was applied last by this process is remembered as a hash: an apply is left out only
//! if it says what the last one said *and* the cached object shows all of it. The first apply after
//! a start is always sent; the server treats it as no change if it is none.
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
pub(crate) struct Applied(Arc<Mutex<HashMap<(Kind, Key), u64>>>);

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
    let repeated = applied.0.lock().get(&slot) == Some(&hash);
    if repeated
        && let Ok(Some(current)) = client.caches().json(&kind, &key)
        && covers(&current, &body)
        && let Ok(Some(current)) = client.caches().get::<K>(&kind, &key)
    {
        return Ok(current);
    }
    let stored = api.patch(&key, &Patch::Apply { object: body, force: true }).await?;
    let mut memory = applied.0.lock();
    if memory.len() >= REMEMBERED_MAX {
        memory.clear();
    }
    memory.insert(slot, hash);
    Ok(Arc::new(stored))
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
        (Value::Object(current), Value::Object(wanted)) => wanted.iter().all(|(name, value)| {
            let there = current.get(name);
            there.map_or_else(|| is_empty(value), |there| covers(there, value))
        }),
        (Value::Array(current), Value::Array(wanted)) => {
            current.len() == wanted.len()
                && current.iter().zip(wanted).all(|(current, wanted)| covers(current, wanted))
        }
        _ => current == wanted,
    }
}

/// The server drops what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The merge patch that turns `before` into `after`; `None` if there is nothing to do.
///
/// ```
/// use serde_json::json;
/// let (before, after) = (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 3}));
/// let patch = windlass::apply::merge_diff(&before, &after);
/// assert_eq!(patch, Some(json!({"b": null, "c": 3})));
/// assert_eq!(windlass::apply::merge_diff(&after, &after), None);
/// ```
pub fn merge_diff(before: &Value, after: &Value) -> Option<Value> {
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
        match old.get(name) {
            None => {
                patch.insert(name.clone(), value.clone());
            }
            Some(known) => {
                if let Some(difference) = merge_diff(known, value) {
                    patch.insert(name.clone(), difference);
                }
            }
        }
    }
    Some(Value::Object(patch))
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
}
