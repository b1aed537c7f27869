//! What the user wanted in the end, brought about at once and from nothing.

use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Key, Kind, Result};

use super::{Mode, Sim, boot};
use crate::world::{Change, ObjectKey, World};

/// One thing that the user wanted.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub key: ObjectKey,
    pub kind: Kind,
    pub wish: Wish,
}

#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// This object exists.
    Object(Value),
    /// An object of somebody else has these fields.
    Fields(Value),
}

impl Sim {
    /// Performs the intents once; all later steps do nothing.
    pub(super) async fn begin_at_zero(&mut self) -> Result<()> {
        let Mode::FromZero(intents) = std::mem::replace(&mut self.mode, done()) else {
            return Ok(());
        };
        let live = self.live.as_ref().expect("a step begins with the start");
        let client = live.client.clone();
        for foreign in [false, true] {
            for intent in intents.iter() {
                let namespace = Some(&*intent.key.namespace).filter(|name| !name.is_empty());
                let key = Key::new(namespace, &intent.key.name);
                match &intent.wish {
                    Wish::Object(object) if !foreign => {
                        boot::put(&client, &intent.kind, object.clone()).await?;
                    }
                    Wish::Fields(fields) if foreign => {
                        let patch = Patch::Merge(fields.clone());
                        client.api_of::<DynamicObject>(&intent.kind).patch(&key, &patch).await?;
                    }
                    _ => {}
                }
            }
            self.rest(Duration::from_secs(20), Duration::from_secs(600)).await?;
        }
        Ok(())
    }
}

/// All intents are fulfilled.
fn done() -> Mode {
    Mode::FromZero(Arc::default())
}

/// Reads from a run what the user wanted in the end.
///
/// `by_user` returns `true` for changes that the user made.
pub(crate) fn intents(
    history: &[Change],
    end: &World,
    kinds: &dyn Fn(&str) -> Option<Kind>,
    by_user: impl Fn(&Change) -> bool,
) -> Vec<Intent> {
    let mut made: Vec<&ObjectKey> = Vec::new();
    let mut foreign: Vec<(&ObjectKey, Value)> = Vec::new();
    for change in history {
        if crate::site::is_background(&change.key.resource) {
            continue;
        }
        match (&change.before, &change.after) {
            (None, Some(_)) => {
                made.retain(|key| **key != change.key);
                foreign.retain(|(key, _)| **key != change.key);
                if by_user(change) {
                    made.push(&change.key);
                }
            }
            (Some(before), Some(after)) if by_user(change) && !made.contains(&&change.key) => {
                if let Some(fields) = merge_patch(before, after) {
                    foreign.push((&change.key, fields));
                }
            }
            _ => {}
        }
    }
    let mut intents = Vec::new();
    for key in made {
        let alive = |object: &&Arc<Value>| object["metadata"]["deletionTimestamp"].is_null();
        let object = end.objects.get(key).filter(alive);
        if let (Some(object), Some(kind)) = (object, kinds(&key.resource)) {
            let wish = Wish::Object(wanted(object));
            intents.push(Intent { key: key.clone(), kind, wish });
        }
    }
    for (key, fields) in foreign {
        if let (true, Some(kind)) = (end.objects.contains_key(key), kinds(&key.resource)) {
            intents.push(Intent { key: key.clone(), kind, wish: Wish::Fields(fields) });
        }
    }
    intents
}

/// The part of an object that its author writes.
fn wanted(object: &Value) -> Value {
    let mut wanted = object.clone();
    if let Some(fields) = wanted.as_object_mut() {
        fields.remove("status");
    }
    let meta = &object["metadata"];
    wanted["metadata"] = json!({"name": meta["name"]});
    for field in ["namespace", "labels", "annotations"] {
        if !meta[field].is_null() {
            wanted["metadata"][field] = meta[field].clone();
        }
    }
    wanted
}

/// The merge patch from one state to another, without what the server writes.
pub(crate) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    fn difference(before: &Value, after: &Value) -> Option<Value> {
        let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
            return (before != after).then(|| after.clone());
        };
        let mut patch = serde_json::Map::new();
        for (field, value) in new {
            if let Some(change) = difference(old.get(field).unwrap_or(&Value::Null), value) {
                patch.insert(field.clone(), change);
            }
        }
        for field in old.keys().filter(|field| !new.contains_key(*field)) {
            patch.insert(field.clone(), Value::Null);
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
    let plain = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) = object["metadata"].as_object_mut() {
            for field in ["resourceVersion", "generation", "managedFields"] {
                meta.remove(field);
            }
        }
        object
    };
    difference(&plain(before), &plain(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_has_what_changed_and_nulls_for_what_went() {
        let before =
            json!({"metadata": {"resourceVersion": "1", "labels": {"a": "1"}}, "spec": {"n": 1}});
        let after = json!({"metadata": {"resourceVersion": "2"}, "spec": {"n": 2}});
        let patch = merge_patch(&before, &after);
        assert_eq!(patch, Some(json!({"metadata": {"labels": null}, "spec": {"n": 2}})));
        assert_eq!(merge_patch(&after, &after), None);
    }
}
