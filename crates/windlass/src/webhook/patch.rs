//! The JSON patch that brings the changes of a handler into the object that the API server sent.
//!
//! A handler works on a Rust type, which may not know all fields of the object and may write fields
//! that the object does not have. So three values are merged: the object as it was sent, the
//! decoded object as the handler got it, and as the handler returned it.
//!
//! **Invariant:** a field that the handler did not change is not touched, whether the type knows it or
//! not.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::Result;

/// How many levels of fields are compared as texts, such as `metadata` and `labels` below it.
const TEXT_LEVELS: usize = 2;

/// Returns the operations that bring the difference between `before` and `after` into `raw`. All three
/// are texts of an object.
///
/// # Errors
///
/// Fails if one of them is not JSON.
pub(super) fn patch(raw: &str, before: &str, after: &str) -> Result<Vec<Value>> {
    let mut operations = Vec::new();
    if before != after {
        let [raw, before, after] = changed([raw, before, after], TEXT_LEVELS)?;
        let merged = merge(&raw, &before, &after);
        diff(&mut String::new(), &raw, &merged, &mut operations);
    }
    Ok(operations)
}

/// Reads three texts without the fields that are equal in the last two: most of an object is not
/// changed, and need not be read.
fn changed(texts: [&str; 3], levels: usize) -> Result<[Value; 3]> {
    if levels == 0 || !texts.iter().all(|text| text.starts_with('{')) {
        let [raw, before, after] = texts.map(serde_json::from_str::<Value>);
        return Ok([raw?, before?, after?]);
    }
    let read = |text| serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
    let [raw, before, after] = [read(texts[0])?, read(texts[1])?, read(texts[2])?];
    let mut found = [Map::new(), Map::new(), Map::new()];
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let (was, is) = (before.get(name), after.get(name));
        if was.map(|value| value.get()) == is.map(|value| value.get()) {
            continue;
        }
        match (raw.get(name), was, is) {
            (Some(sent), Some(was), Some(is)) => {
                let values = changed([sent.get(), was.get(), is.get()], levels - 1)?;
                for (fields, value) in found.iter_mut().zip(values) {
                    fields.insert(name.clone(), value);
                }
            }
            all => {
                for (fields, value) in found.iter_mut().zip([all.0, all.1, all.2]) {
                    if let Some(value) = value {
                        fields.insert(name.clone(), serde_json::from_str(value.get())?);
                    }
                }
            }
        }
    }
    Ok(found.map(Value::Object))
}

/// Applies to `raw` what changed from `before` to `after`.
fn merge(raw: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return raw.clone();
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            Value::Object(merge_fields(raw, before, after))
        }
        (Value::Array(raw), Value::Array(before), Value::Array(after))
            if raw.len() == before.len() =>
        {
            Value::Array(merge_items(raw, before, after))
        }
        _ => after.clone(),
    }
}

fn merge_fields(
    raw: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = Map::new();
    for (name, value) in raw {
        match (before.get(name), after.get(name)) {
            (Some(before), Some(after)) => {
                drop(merged.insert(name.clone(), merge(value, before, after)));
            }
            (None, Some(after)) => drop(merged.insert(name.clone(), after.clone())),
            // The type does not know the field.
            (None, None) => drop(merged.insert(name.clone(), value.clone())),
            (Some(_), None) => {}
        }
    }
    for (name, value) in after {
        // A field that the type writes although it was not sent is no change.
        if !raw.contains_key(name) && before.get(name) != Some(value) {
            merged.insert(name.clone(), value.clone());
        }
    }
    merged
}

fn merge_items(raw: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let partners = partners(before, after);
    let merged = after.iter().zip(partners).map(|(item, partner)| match partner {
        Some(at) => merge(&raw[at], &before[at], item),
        None => item.clone(),
    });
    merged.collect()
}

/// Finds for each item the one it was made from: an equal one, or else one of the same name, or else
/// the one in the same place if the list is as long as before.
fn partners(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut found: Vec<Option<usize>> = vec![None; after.len()];
    let mut taken = vec![false; before.len()];
    let keys: [fn(&Value) -> Option<String>; 2] = [
        |item| Some(item.to_string()),
        |item| item.get("name").and_then(Value::as_str).map(str::to_owned),
    ];
    for key in keys {
        let mut free: HashMap<String, VecDeque<usize>> = HashMap::new();
        for (at, item) in before.iter().enumerate().filter(|(at, _)| !taken[*at]) {
            if let Some(key) = key(item) {
                free.entry(key).or_default().push_back(at);
            }
        }
        for (item, partner) in after.iter().zip(&mut found).filter(|(_, known)| known.is_none()) {
            let same = key(item).and_then(|key| free.get_mut(&key)?.pop_front());
            if let Some(at) = same {
                (taken[at], *partner) = (true, Some(at));
            }
        }
    }
    if before.len() == after.len() {
        for (at, partner) in found.iter_mut().enumerate().filter(|(_, known)| known.is_none()) {
            *partner = (!taken[at]).then_some(at);
        }
    }
    found
}

/// Adds the operations that turn one value into another.
fn diff(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                let path = format!("{path}/{}", escape(name));
                operations.push(json!({"op": "remove", "path": path}));
            }
            for (name, value) in to {
                let length = path.len();
                path.push('/');
                path.push_str(&escape(name));
                match from.get(name) {
                    Some(old) => diff(path, old, value, operations),
                    None => operations.push(json!({"op": "add", "path": *path, "value": value})),
                }
                path.truncate(length);
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (at, (old, new)) in from.iter().zip(to).enumerate() {
                let length = path.len();
                path.push_str(&format!("/{at}"));
                diff(path, old, new, operations);
                path.truncate(length);
            }
        }
        _ => operations.push(json!({"op": "replace", "path": *path, "value": to})),
    }
}

/// Escapes a segment of a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patch(raw: &Value, before: &Value, after: &Value) -> Vec<Value> {
        let texts = [raw, before, after].map(Value::to_string);
        super::patch(&texts[0], &texts[1], &texts[2]).expect("JSON")
    }

    /// Applies operations as the API server does.
    fn apply(raw: &Value, operations: &[Value]) -> Value {
        let mut object = raw.clone();
        for operation in operations {
            let path = operation["path"].as_str().expect("a path");
            let Some((parent, last)) = path.rsplit_once('/') else {
                object = operation["value"].clone();
                continue;
            };
            let last = last.replace("~1", "/").replace("~0", "~");
            match object.pointer_mut(parent).expect("the parent exists") {
                Value::Object(fields) => match operation["op"].as_str() {
                    Some("remove") => drop(fields.remove(&last).expect("it was there")),
                    Some("replace") => {
                        fields.insert(last, operation["value"].clone()).expect("it was there");
                    }
                    _ => assert!(fields.insert(last, operation["value"].clone()).is_none()),
                },
                Value::Array(items) => {
                    items[last.parse::<usize>().expect("an index")] = operation["value"].clone();
                }
                other => panic!("{other} has no parts"),
            }
        }
        object
    }

    #[test]
    fn unknown_fields_of_list_items_survive_a_new_item_in_front() {
        let raw = json!({"spec": {"containers": [
            {"name": "app", "image": "a", "newField": 1}, {"name": "log", "newField": 2}]}});
        let before = json!({"spec": {"containers": [
            {"name": "app", "image": "a"}, {"name": "log"}], "nodeName": null}});
        let after = json!({"spec": {"containers": [
            {"name": "proxy"}, {"name": "app", "image": "b"}, {"name": "log"}], "nodeName": null}});
        let merged = apply(&raw, &patch(&raw, &before, &after));
        let wanted = json!({"spec": {"containers": [{"name": "proxy"},
            {"name": "app", "image": "b", "newField": 1}, {"name": "log", "newField": 2}]}});
        assert_eq!(merged, wanted);
    }

    #[test]
    fn a_default_below_a_missing_parent_is_added_with_the_parent() {
        let (raw, before) = (json!({"spec": {}}), json!({"spec": {"a": {}}}));
        let after = json!({"spec": {"a": {"x/y": 1}}});
        let operations = patch(&raw, &before, &after);
        assert_eq!(operations, [json!({"op": "add", "path": "/spec/a", "value": {"x/y": 1}})]);
        assert_eq!(patch(&raw, &before, &before), [] as [Value; 0]);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[a-c~/]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/]{1,2}|name", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Adds a field that no type knows to every object.
    fn with_unknown(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(with_unknown).collect(),
            Value::Object(fields) => {
                let known = fields.iter().map(|(name, field)| (name.clone(), with_unknown(field)));
                Value::Object(known.chain([("unknown".into(), json!(7))]).collect())
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn without_unknown_fields_the_result_is_what_the_handler_returned(
            before in value(), after in value()
        ) {
            prop_assert_eq!(apply(&before, &patch(&before, &before, &after)), after);
        }

        #[test]
        fn an_added_field_changes_nothing_else(sent in value()) {
            let before = json!({"spec": sent});
            let raw = with_unknown(&before);
            let mut after = before.clone();
            after["spec2"] = json!(true);
            let mut wanted = raw.clone();
            wanted["spec2"] = json!(true);
            prop_assert_eq!(apply(&raw, &patch(&raw, &before, &after)), wanted);
        }
    }
}
