//! The difference between what a value is and what a conversion alone makes of it.
//!
//! An entry names a place, what the conversion gave there, and what has to be there. It is applied
//! only if the conversion gives the same again.
//!
//! Lists of objects with a name are compared item by item, so an item keeps its values if others come
//! and go. In other lists of equal length, an item keeps its values as long as it is not changed.
//!
//! A field that another one selects, as `type: Rolling` selects `rolling`, is applied only while it is
//! selected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields that identify the items of a list, if all items have one.
const KEYS: [&str; 5] = ["name", "key", "id", "type", "port"];

/// One difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    path: Vec<Step>,
    /// The field beside this one whose value named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selected_by: Option<String>,
    #[serde(flatten)]
    change: Change,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Field(String),
    Item { key: String, value: Value, at: usize },
}

/// `was` and `is` hold one value, or none if there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Change {
    Value { was: Vec<Value>, is: Vec<Value> },
    Items { items: Vec<(Value, Value)> },
}

/// Returns what has to be restored in `was` to get `is`. Kind, version and metadata are left out.
pub(super) fn between(was: &Value, is: &Value) -> Vec<Entry> {
    let mut entries = Vec::new();
    let content = |value: &Value| -> Map<String, Value> {
        let fields = value.as_object().into_iter().flatten();
        let content = fields.filter(|(name, _)| !is_frame(name));
        content.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let (was, is) = (Value::Object(content(was)), Value::Object(content(is)));
    compare(Some(&was), Some(&is), &mut Vec::new(), &mut entries);
    entries
}

fn is_frame(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Applies all entries whose place is as it was.
///
/// Everybody who can write an annotation can write entries, so the work for them is bounded. What this
/// module wrote itself is far below the bound, because an item is looked for first where it was.
pub(super) fn restore(entries: &[Entry], target: &mut Value) {
    let mut work = Work(WORK_MAX);
    for entry in entries {
        let framed = matches!(entry.path.first(), Some(Step::Field(name)) if is_frame(name));
        if !framed && !entry.path.is_empty() && entry.restore(target, &mut work).is_none() {
            return;
        }
    }
}

/// How many items of lists may be looked at while an object is restored.
const WORK_MAX: usize = 4_000_000;

/// What may still be done.
struct Work(usize);

// === impl Work ===

impl Work {
    /// Returns `None` if this is more than what may be done.
    fn spend(&mut self, items: usize) -> Option<()> {
        self.0 = self.0.checked_sub(items)?;
        Some(())
    }

    /// The place of an item that has a value under a key; the outer `None` if too much was done.
    fn position(
        &mut self,
        list: &[Value],
        key: &str,
        value: &Value,
        at: usize,
    ) -> Option<Option<usize>> {
        let is_it = |item: &Value| item.get(key) == Some(value);
        if list.get(at).is_some_and(is_it) {
            return Some(Some(at));
        }
        self.spend(list.len())?;
        Some(list.iter().position(is_it))
    }
}

fn compare(was: Option<&Value>, is: Option<&Value>, path: &mut Vec<Step>, found: &mut Vec<Entry>) {
    match (was, is) {
        (was, is) if was == is => {}
        (Some(Value::Object(was)), Some(Value::Object(is))) => {
            let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
            for name in names {
                path.push(Step::Field(name.clone()));
                let first = found.len();
                compare(was.get(name), is.get(name), path, found);
                path.pop();
                // A field that was lost as a whole is one entry.
                if !was.contains_key(name)
                    && let Some(entry) = found.get_mut(first)
                {
                    entry.selected_by = selector(is, name);
                }
            }
        }
        (Some(Value::Array(was)), Some(Value::Array(is))) => lists(was, is, path, found),
        (was, is) => {
            let one = |value: Option<&Value>| value.cloned().into_iter().collect();
            let change = Change::Value { was: one(was), is: one(is) };
            found.push(Entry { path: path.clone(), selected_by: None, change });
        }
    }
}

/// The field whose value is the name of another one, by the convention of Kubernetes for unions:
/// `type: RollingUpdate` selects `rollingUpdate`.
fn selector(fields: &Map<String, Value>, selected: &str) -> Option<String> {
    let found = fields.iter().find(|(_, value)| selects(value, selected));
    found.map(|(name, _)| name.clone())
}

fn selects(value: &Value, selected: &str) -> bool {
    let mut given = value.as_str().unwrap_or_default().chars();
    let mut wanted = selected.chars();
    match (given.next(), wanted.next()) {
        (Some(first), Some(other)) => {
            (first == other || first.to_lowercase().eq([other])) && given.eq(wanted)
        }
        _ => false,
    }
}

fn lists(was: &[Value], is: &[Value], path: &mut Vec<Step>, found: &mut Vec<Entry>) {
    if let Some(key) = key_of(was, is) {
        let of = |list: &[Value]| -> BTreeMap<String, usize> {
            list.iter().enumerate().map(|(at, item)| (item[key].to_string(), at)).collect()
        };
        let (before, after) = (of(was), of(is));
        let gone =
            was.iter().enumerate().filter(|(_, item)| !after.contains_key(&item[key].to_string()));
        let items = is.iter().enumerate().chain(gone);
        for (at, item) in items {
            let text = item[key].to_string();
            path.push(Step::Item { key: key.to_owned(), value: item[key].clone(), at });
            let (was, is) =
                (before.get(&text).map(|at| &was[*at]), after.get(&text).map(|at| &is[*at]));
            compare(was, is, path, found);
            path.pop();
        }
    } else if was.len() == is.len() {
        let pairs = || was.iter().zip(is);
        let changed = pairs().filter(|(was, is)| was != is).map(|(was, _)| was.to_string());
        let changed: BTreeSet<String> = changed.collect();
        // Of equal items, the one that changed is known by those before it.
        let kept = pairs().filter(|(was, _)| changed.contains(&was.to_string()));
        let items = kept.map(|(was, is)| (was.clone(), is.clone())).collect();
        found.push(Entry {
            path: path.clone(),
            selected_by: None,
            change: Change::Items { items },
        });
    } else {
        let change = Change::Value { was: vec![was.to_vec().into()], is: vec![is.to_vec().into()] };
        found.push(Entry { path: path.clone(), selected_by: None, change });
    }
}

/// A field that identifies the items of both lists, whose common items are in the same order.
fn key_of(was: &[Value], is: &[Value]) -> Option<&'static str> {
    KEYS.into_iter().find(|key| {
        let keys = |list: &[Value]| -> Option<Vec<String>> {
            let scalar = |item: &Value| match item.get(key) {
                Some(value @ (Value::String(_) | Value::Number(_))) => Some(value.to_string()),
                _ => None,
            };
            list.iter().map(scalar).collect()
        };
        let (Some(one), Some(other)) = (keys(was), keys(is)) else { return false };
        let (mine, theirs): (BTreeSet<_>, BTreeSet<_>) =
            (one.iter().collect(), other.iter().collect());
        let unique = mine.len() == one.len() && theirs.len() == other.len();
        let common_of_one = one.iter().filter(|key| theirs.contains(key));
        unique && common_of_one.eq(other.iter().filter(|key| mine.contains(key)))
    })
}

// === impl Entry ===

impl Entry {
    /// Returns `false` if a field was selected by another one, and is not any more.
    fn is_selected(&self, parent: &Value, last: &Step) -> bool {
        match (&self.selected_by, last) {
            (Some(selector), Step::Field(name)) => selects(&parent[selector.as_str()], name),
            _ => true,
        }
    }

    /// Returns `None` if too much was done.
    fn restore(&self, target: &mut Value, work: &mut Work) -> Option<()> {
        match &self.change {
            Change::Value { was, is } => {
                let (last, parents) = self.path.split_last()?;
                match find(target, parents, work)? {
                    Some(parent) if !self.is_selected(parent, last) => Some(()),
                    Some(parent) => put(parent, last, was.first(), is.first(), work),
                    None => Some(()),
                }
            }
            Change::Items { items } => {
                let Some(Value::Array(list)) = find(target, &self.path, work)? else {
                    return Some(());
                };
                // Comparing whole items takes longer than looking for one.
                work.spend(list.len() * 4)?;
                restore_items(list, items);
                Some(())
            }
        }
    }
}

fn restore_items(list: &mut [Value], items: &[(Value, Value)]) {
    let mut known: BTreeMap<String, VecDeque<&Value>> = BTreeMap::new();
    for (was, is) in items {
        known.entry(was.to_string()).or_default().push_back(is);
    }
    for item in list {
        let is = known.get_mut(&item.to_string()).and_then(VecDeque::pop_front);
        if let Some(is) = is {
            *item = is.clone();
        }
    }
}

/// The place of a path, or `None` if somebody has removed it; the outer `None` if too much was done.
fn find<'a>(
    target: &'a mut Value,
    path: &[Step],
    work: &mut Work,
) -> Option<Option<&'a mut Value>> {
    let mut place = target;
    for step in path {
        let next = match (place, step) {
            (Value::Object(fields), Step::Field(name)) => fields.get_mut(name),
            (Value::Array(list), Step::Item { key, value, at }) => {
                let found = work.position(list, key, value, *at)?;
                found.and_then(|at| list.get_mut(at))
            }
            _ => None,
        };
        match next {
            Some(next) => place = next,
            None => return Some(None),
        }
    }
    Some(Some(place))
}

/// Puts a value where `was` is. Returns `None` if too much was done.
fn put(
    parent: &mut Value,
    step: &Step,
    was: Option<&Value>,
    is: Option<&Value>,
    work: &mut Work,
) -> Option<()> {
    match (parent, step) {
        (Value::Object(fields), Step::Field(name)) if fields.get(name) == was => match is {
            Some(is) => drop(fields.insert(name.clone(), is.clone())),
            None => drop(fields.remove(name)),
        },
        (Value::Array(list), Step::Item { key, value, at }) => {
            let found = work.position(list, key, value, *at)?;
            if found.map(|at| &list[at]) != was {
                return Some(());
            }
            match (found, is) {
                (Some(found), Some(is)) => list[found] = is.clone(),
                (Some(found), None) => {
                    work.spend(list.len() - found)?;
                    list.remove(found);
                }
                (None, Some(is)) => list.insert((*at).min(list.len()), is.clone()),
                (None, None) => {}
            }
        }
        _ => {}
    }
    Some(())
}
