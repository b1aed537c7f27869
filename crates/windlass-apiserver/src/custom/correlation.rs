//! Old values that belong to new ones: unchanged parts of an object are forgiven on update.
//!
//! Objects correlate by field, lists of type `map` by their keys; atomic lists and sets do not
//! correlate.

use std::collections::HashMap;

use serde_json::Value;
use windlass_cel::Schema;

use crate::work;

/// The items of the old list, found by the keys of a list of type `map`.
///
/// Items of other lists have no old item.
pub(super) struct Correlation<'a> {
    keys: &'a [String],
    first: HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

// === impl Correlation ===

impl<'a> Correlation<'a> {
    /// Reads the old list once, for all items of the new one.
    pub(super) fn new(schema: &'a Schema, old: Option<&'a [Value]>) -> Self {
        let keys = schema.list_map_keys.as_slice();
        let mut first = HashMap::new();
        let keyed = schema.list_type.as_deref() == Some("map");
        for item in old.filter(|_| keyed).into_iter().flatten().filter(|item| item.is_object()) {
            work::spent(1);
            first.entry(keys.iter().map(|key| item.get(key)).collect()).or_insert(item);
        }
        Self { keys, first }
    }

    /// Returns the first old item with the same keys.
    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        work::spent(1);
        if self.first.is_empty() || !item.is_object() {
            return None;
        }
        let own: Vec<Option<&Value>> = self.keys.iter().map(|key| item.get(key)).collect();
        self.first.get(&own).copied()
    }
}

/// Returns `true` if a value equals its old value; items of lists of type `map` are compared by
/// their keys.
pub(super) fn unchanged(schema: Option<&Schema>, value: &Value, old: &Value) -> bool {
    work::spent(1);
    match (value, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| {
                    let field = schema.and_then(|s| s.field(key));
                    old.get(key).is_some_and(|old| unchanged(field, value, old))
                })
        }
        (Value::Array(new), Value::Array(old)) => {
            let keyed = schema.filter(|s| s.list_type.as_deref() == Some("map"));
            new == old
                || new.len() == old.len()
                    && keyed.is_some_and(|schema| {
                        let items = schema.items.as_deref();
                        let correlation = Correlation::new(schema, Some(old));
                        new.iter().all(|item| {
                            correlation.of(item).is_some_and(|old| unchanged(items, item, old))
                        })
                    })
        }
        _ => value == old,
    }
}
