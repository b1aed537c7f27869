//! The operator removes nothing that somebody else has set.
//!
//! A write of a whole object without what others have added to it removes that, also if the write
//! has the newest version. Without faults it does so as well, so a comparison with the reference
//! does not show it.

use serde_json::Value;

use crate::canonical::{ALLOCATED, schema_of};
use crate::diff::join;
use crate::kernel::Write;
use crate::oracle::{Oracle, Verdict};
use crate::sim::{Outcome, kind_of};
use crate::world::{Change, ObjectKey};

/// Metadata that the server writes.
const SERVER: &[&str] = &[
    "resourceVersion",
    "managedFields",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Lists of built-in kinds, with the fields that identify an item; without a field, its value does.
const LISTS: &[(&str, &[&str])] = &[
    ("finalizers", &[]),
    ("ownerReferences", &["uid"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("volumes", &["name"]),
    ("env", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("ports", &["containerPort", "port", "protocol"]),
];

/// The entries of these maps are content, which the creator of the object may replace as a whole.
const CONTENT: &[&str] = &["data", "stringData", "binaryData"];

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// An item of a list, by its identity.
    Item(String),
}

/// What identifies the items of the lists of a resource.
#[derive(Clone, Copy)]
struct Lists<'a> {
    /// The schema of a custom resource, or null.
    schema: &'a Value,
}

pub(super) fn check(run: &Outcome, verdict: &mut Verdict) {
    for (place, (change, write)) in run.changes().enumerate() {
        let Some(write) = write.filter(|write| write.actor != "user") else { continue };
        let changes = matches!(write.site.verb.as_str(), "update" | "patch");
        // An apply removes nothing that another manager owns.
        let free = !changes || write.sent.applies;
        if free || crate::site::is_background(&change.key.resource) {
            continue;
        }
        let lists = Lists { schema: schema_of(run, &change.key.resource) };
        for path in removed(change, lists) {
            if is_meant(run, change, write, &path) {
                continue;
            }
            let Some(by) = set_by(run, place, &path, lists) else { continue };
            let words = words(&path);
            let text = format!(
                "the operator removes {words} of {}, which {by} has set and the operator has not",
                change.key
            );
            let at = write.at.as_secs_f64();
            verdict.add(Oracle::OneOwner, text, vec![format!("{at:.3} s  {}", write.site.words())]);
            return;
        }
    }
}

/// The fields and items that a change removes from an object.
fn removed(change: &Change, lists: Lists<'_>) -> Vec<Vec<Step>> {
    let Some(before) = change.before.as_deref() else { return Vec::new() };
    let mut found = Vec::new();
    match change.after.as_deref() {
        Some(after) => compare(before, after, lists, &mut Vec::new(), &mut found),
        // Without finalizers, the object is removed as well.
        None => {
            for item in before["metadata"]["finalizers"].as_array().into_iter().flatten() {
                let steps = ["metadata", "finalizers"].map(|name| Step::Field(name.into()));
                found.push([&steps[..], &[Step::Item(text(item))]].concat());
            }
        }
    }
    found
}

fn compare(
    before: &Value,
    after: &Value,
    lists: Lists<'_>,
    path: &mut Vec<Step>,
    found: &mut Vec<Vec<Step>>,
) {
    match (before, after) {
        (a, b) if a == b => {}
        (Value::Object(old), _) => {
            for (name, value) in old {
                let server = matches!(&path[..], [Step::Field(meta)] if meta == "metadata")
                    && SERVER.contains(&name.as_str());
                if !server {
                    path.push(Step::Field(name.clone()));
                    compare(value, &after[name.as_str()], lists.below(name), path, found);
                    path.pop();
                }
            }
        }
        (Value::Array(old), _) if lists.keys(path).is_some() => {
            let new = after.as_array().map(Vec::as_slice).unwrap_or_default();
            let keys = lists.keys(path).unwrap_or_default();
            for item in old {
                let identity = identity(item, &keys);
                let same = new.iter().find(|other| self::identity(other, &keys) == identity);
                path.push(Step::Item(identity));
                match same {
                    None => found.push(path.clone()),
                    Some(same) => compare(item, same, lists.items(), path, found),
                }
                path.pop();
            }
        }
        (Value::Null, _) => {}
        (Value::Array(items), _) if items.is_empty() => {}
        (_, Value::Null) => found.push(path.clone()),
        _ => {}
    }
}

/// Returns `true` if a removal is meant to be one: the request says so, or it is not a question of
/// who owns the field.
fn is_meant(run: &Outcome, change: &Change, write: &Write, path: &[Step]) -> bool {
    let item = path.iter().any(|step| matches!(step, Step::Item(_)));
    // A list of finalizers is replaced as a whole: it names what stays.
    if !item && write.sent.removes(&words(path)) {
        return true;
    }
    let (Some(Step::Field(first)), Some(last)) = (path.first(), path.last()) else { return true };
    let (Step::Field(name) | Step::Item(name)) = last;
    let content = CONTENT.contains(&first.as_str()) && made_by_operator(run, &change.key);
    content || ALLOCATED.contains(&name.as_str()) || is_of_operator(run, path, name)
}

/// Returns `true` if the operator has created an object.
fn made_by_operator(run: &Outcome, key: &ObjectKey) -> bool {
    let made = run.changes().filter(|(change, _)| change.key == *key && change.before.is_none());
    made.last().and_then(|(_, write)| write).is_some_and(|write| write.actor != "user")
}

/// Returns `true` for a label, annotation or finalizer in the domain of the operator's own kinds: the
/// user sets it to ask for something, and the operator removes it when that is done.
fn is_of_operator(run: &Outcome, path: &[Step], name: &str) -> bool {
    let meta = matches!(path, [Step::Field(meta), _, _] if meta == "metadata");
    let Some((domain, _)) = name.split_once('/').filter(|_| meta) else { return false };
    run.definitions.iter().filter_map(kind_of).any(|kind| {
        let below = domain.strip_suffix(kind.group());
        below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Who has set a field of an object before a change; `None` if nobody else has, or the operator has
/// as well.
fn set_by(run: &Outcome, place: usize, path: &[Step], lists: Lists<'_>) -> Option<&'static str> {
    let key = &run.history[place].key;
    let mut by = None;
    let mut known = false;
    for (change, write) in run.changes().take(place).filter(|(change, _)| change.key == *key) {
        let before = change.before.as_deref().and_then(|object| find(object, path, lists));
        let after = change.after.as_deref().and_then(|object| find(object, path, lists));
        if change.before.is_none() {
            by = None; // another object of that name
        } else if !known && before.is_some() {
            by = Some("the cluster");
        }
        known = true;
        if after.is_some() && before != after {
            by = Some(match write {
                Some(write) if write.actor == "user" => "the user",
                None => "the cluster",
                Some(_) => return None,
            });
        }
    }
    if !known {
        return Some("the cluster"); // it was there before the first step
    }
    by
}

/// The value at a path.
fn find<'a>(object: &'a Value, path: &[Step], mut lists: Lists<'_>) -> Option<&'a Value> {
    let mut value = object;
    for (depth, step) in path.iter().enumerate() {
        value = match step {
            Step::Field(name) => {
                lists = lists.below(name);
                value.get(name.as_str())?
            }
            Step::Item(wanted) => {
                let keys = lists.keys(&path[..depth])?;
                lists = lists.items();
                value.as_array()?.iter().find(|item| identity(item, &keys) == *wanted)?
            }
        };
    }
    Some(value).filter(|value| !value.is_null())
}

// === impl Lists ===

impl<'a> Lists<'a> {
    fn below(self, field: &str) -> Self {
        let schema = &self.schema["properties"][field];
        Self {
            schema: if schema.is_null() { &self.schema["additionalProperties"] } else { schema },
        }
    }

    fn items(self) -> Self {
        Self { schema: &self.schema["items"] }
    }

    /// The fields that identify the items of the list at a path; `None` if its items have no identity
    /// and the list is one value.
    fn keys(self, path: &[Step]) -> Option<Vec<&'a str>> {
        match self.schema["x-kubernetes-list-type"].as_str() {
            Some("set") => return Some(Vec::new()),
            Some("map") => {
                let keys = self.schema["x-kubernetes-list-map-keys"].as_array()?;
                return Some(keys.iter().filter_map(Value::as_str).collect());
            }
            Some(_) => return None,
            None => {}
        }
        // A list of a custom resource that its schema does not declare is one value.
        let custom = !self.schema.is_null();
        let meta = matches!(path, [Step::Field(meta), ..] if meta == "metadata");
        let Some(Step::Field(name)) = path.last().filter(|_| meta || !custom) else { return None };
        let (_, keys) = LISTS.iter().find(|(list, _)| list == name)?;
        Some(keys.to_vec())
    }
}

/// What identifies an item of a list.
fn identity(item: &Value, keys: &[&str]) -> String {
    if keys.is_empty() {
        return text(item);
    }
    let parts = keys.iter().map(|key| &item[*key]).filter(|value| !value.is_null());
    parts.map(text).collect::<Vec<_>>().join("/")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The path as reports write it.
fn words(path: &[Step]) -> String {
    path.iter().fold(String::new(), |words, step| match step {
        Step::Field(name) => join(&words, name),
        Step::Item(identity) => format!("{words}[{identity}]"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn removed_from(before: Value, after: Option<Value>, schema: &Value) -> Vec<String> {
        let key = ObjectKey { resource: "x".into(), namespace: String::new(), name: String::new() };
        let (before, after) = (Some(Arc::new(before)), after.map(Arc::new));
        let change = Change { revision: 1, key, before, after };
        removed(&change, Lists { schema }).iter().map(|path| words(path)).collect()
    }

    #[test]
    fn fields_and_items_that_go_are_found() {
        let before = json!({
            "metadata": {"resourceVersion": "1", "finalizers": ["a", "b"],
                "annotations": {"x/y": "1", "z": "2"}},
            "spec": {"containers": [{"name": "one", "image": "i"}, {"name": "two"}],
                "args": ["a", "b"], "replicas": 1, "deep": {"empty": {}, "n": 1}},
        });
        let after = json!({
            "metadata": {"finalizers": ["b"], "annotations": {"z": "3"}},
            "spec": {"containers": [{"name": "one"}, {"name": "three"}], "args": ["b"], "replicas": 2},
        });
        assert_eq!(
            removed_from(before.clone(), Some(after), &Value::Null),
            [
                "metadata.annotations[\"x/y\"]",
                "metadata.finalizers[a]",
                "spec.containers[one].image",
                "spec.containers[two]",
                "spec.deep.n"
            ]
        );
        let gone = removed_from(before, None, &Value::Null);
        assert_eq!(gone, ["metadata.finalizers[a]", "metadata.finalizers[b]"]);
    }

    #[test]
    fn the_schema_says_which_lists_of_a_custom_resource_have_items() {
        let schema = json!({"properties": {"spec": {"properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set"},
            "map": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"]},
            "env": {"type": "array", "items": {}},
        }}}});
        let before = json!({"spec": {"set": [1, 2], "map": [{"id": 1}], "env": [{"name": "a"}]}});
        let after = json!({"spec": {"set": [2], "map": [{"id": 2}], "env": [{"name": "b"}]}});
        let found = removed_from(before, Some(after), &schema);
        assert_eq!(found, ["spec.map[1]", "spec.set[1]"]);
    }
}
