//! Ownership: what a write takes from other managers, where it conflicts with them, and which
//! fields are removed because no manager applies them any more.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::apply::Convert;
use super::managed::{Entry, ManagedFields, ManagerId};
use super::path::{PathElement, PathSet};
use super::typed::{field_set, reconciled, same, with_named};
use super::walk::{Comparison, compare, merge, remove_items};
use crate::shape::ShapeRef;

/// One field of another manager that an apply would change.
pub(super) struct Conflict {
    pub(super) manager: ManagerId,
    pub(super) api_version: String,
    pub(super) path: Vec<PathElement>,
}

/// What all steps of one request share.
pub(super) struct Updater<'a> {
    pub(super) version: &'a str,
    pub(super) shape: &'a ShapeRef,
    pub(super) reset: &'a PathSet,
    pub(super) convert: Convert<'a>,
}

/// A value in some API version, with its shape.
struct Versioned<'v> {
    value: Cow<'v, Value>,
    shape: ShapeRef,
}

impl Updater<'_> {
    /// What an update changes, other than what the strategy resets.
    pub(super) fn changes(&self, live: &Value, new: &Value) -> Comparison {
        compare(live, new, self.shape).without(self.reset)
    }

    /// Records an update: other managers lose what changed. Returns the fields that the writer
    /// changed.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        changes: Comparison,
        managed: &mut ManagedFields,
    ) -> PathSet {
        if changes.is_same() {
            return PathSet::default();
        }
        self.reconcile(live, managed);
        // A forced settlement has no conflicts left to report.
        let _ = self.settle(live, new, &changes, managed, None, true);
        let Comparison { modified, added, .. } = changes;
        let mut own = modified;
        own.unite(added);
        own
    }

    /// Applies a configuration; `None` if it changes nothing of the object.
    pub(super) fn apply(
        &self,
        live: &Value,
        patch: &Value,
        managed: &mut ManagedFields,
        id: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, Vec<Conflict>> {
        self.reconcile(live, managed);
        let merged = merge(live, patch, self.shape);
        let mut set = field_set(patch, self.shape);
        set.subtract_all(self.reset);
        let time = managed.entries.get(id).and_then(|entry| entry.time.clone());
        let last = managed.entries.insert(id.clone(), Entry::new(set, self.version, time));
        let merged = match last {
            Some(last) if !last.set.is_empty() => self.prune(merged, managed, &last),
            _ => merged,
        };
        let changes = self.changes(live, &merged);
        self.settle(live, &merged, &changes, managed, Some(id), force)?;
        Ok((!same(live, &merged)).then_some(merged))
    }

    /// Removes what changed from the other managers, or returns the conflicts.
    fn settle(
        &self,
        old: &Value,
        new: &Value,
        own: &Comparison,
        managed: &mut ManagedFields,
        me: Option<&ManagerId>,
        force: bool,
    ) -> Result<(), Vec<Conflict>> {
        let mut versions: BTreeMap<String, Option<Comparison>> = BTreeMap::new();
        let mut conflicts = Vec::new();
        let mut unknown = Vec::new();
        let mut losses: Vec<(ManagerId, PathSet)> = Vec::new();
        for (id, entry) in managed.entries.iter().filter(|(id, _)| Some(*id) != me) {
            let comparison = if entry.api_version == self.version {
                own
            } else {
                let there = versions.entry(entry.api_version.clone()).or_insert_with(|| {
                    let old = self.to_version(old, self.version, &entry.api_version)?;
                    let new = self.to_version(new, self.version, &entry.api_version)?;
                    Some(compare(&old.value, &new.value, &new.shape).without(self.reset))
                });
                match there {
                    Some(comparison) => &*comparison,
                    None => {
                        unknown.push(id.clone());
                        continue;
                    }
                }
            };
            let mut lost = entry.set.intersection(&comparison.modified);
            lost.unite(entry.set.intersection(&comparison.added));
            if !force {
                conflicts.extend(lost.paths().into_iter().map(|path| Conflict {
                    manager: id.clone(),
                    api_version: entry.api_version.clone(),
                    path,
                }));
            }
            lost.unite(entry.set.intersection(&comparison.removed));
            if !lost.is_empty() {
                losses.push((id.clone(), lost));
            }
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        for id in unknown {
            managed.entries.remove(&id);
        }
        for (id, lost) in losses {
            if let Some(entry) = managed.entries.get_mut(&id) {
                entry.subtract(&lost);
            }
        }
        managed.drop_empty();
        Ok(())
    }

    /// Brings sets in line with shapes that became atomic; drops entries of unknown versions.
    fn reconcile(&self, live: &Value, managed: &mut ManagedFields) {
        // Conversions take long, and many entries may be of one version.
        let mut shapes: BTreeMap<String, Option<ShapeRef>> = BTreeMap::new();
        shapes.insert(self.version.to_owned(), Some(self.shape.clone()));
        managed.entries.retain(|_, entry| {
            let shape = shapes
                .entry(entry.api_version.clone())
                .or_insert_with(|| Some((self.convert)(live, &entry.api_version)?.1));
            let Some(shape) = shape else { return false };
            if let Some(set) = reconciled(&entry.set, shape) {
                entry.replace_set(set);
            }
            true
        });
    }

    /// Removes what the manager applied last time and no manager applies now.
    fn prune(&self, merged: Value, managed: &ManagedFields, last: &Entry) -> Value {
        let version = last.api_version.as_str();
        let Some(there) = self.to_version(&merged, self.version, version) else { return merged };
        let last_set = with_named(&last.set, Some(&there.shape));
        let mut pruned = Versioned {
            value: Cow::Owned(remove_items(&there.value, &last_set, &there.shape)),
            shape: there.shape.clone(),
        };
        let mut at = version.to_owned();
        for (version, owned) in owned_by_version(managed, version) {
            let (Some(full), Some(less)) = (
                self.to_version(&merged, self.version, &version),
                self.to_version(&pruned.value, &at, &version),
            ) else {
                continue;
            };
            let shape = Some(&full.shape);
            let mut gone = with_named(&field_set(&full.value, &full.shape), shape);
            gone.subtract(&with_named(&field_set(&less.value, &full.shape), shape));
            gone.subtract(&with_named(&owned, shape));
            let kept = remove_items(&full.value, &gone, &full.shape);
            pruned = Versioned { value: Cow::Owned(kept), shape: full.shape.clone() };
            at = version;
        }
        let Some(less) = self.to_version(&pruned.value, &at, version) else { return merged };
        let shape = Some(&there.shape);
        let mut gone = with_named(&field_set(&there.value, &there.shape), shape);
        gone.subtract(&with_named(&field_set(&less.value, &there.shape), shape));
        let pruned = remove_items(&there.value, &gone.intersection(&last_set), &there.shape);
        match self.to_version(&pruned, version, self.version) {
            Some(own) if own.value.is_object() => own.value.into_owned(),
            Some(_) => Value::Object(Map::new()),
            None => merged,
        }
    }

    fn to_version<'v>(&self, value: &'v Value, from: &str, to: &str) -> Option<Versioned<'v>> {
        if from == to && to == self.version {
            return Some(Versioned { value: Cow::Borrowed(value), shape: self.shape.clone() });
        }
        let (converted, shape) = (self.convert)(value, to)?;
        let value = if from == to { Cow::Borrowed(value) } else { Cow::Owned(converted) };
        Some(Versioned { value, shape })
    }
}

/// What managers own in each version, the given version first.
fn owned_by_version(managed: &ManagedFields, first: &str) -> Vec<(String, PathSet)> {
    let mut versions: BTreeMap<&str, Vec<PathSet>> = BTreeMap::new();
    for entry in managed.entries.values() {
        versions.entry(&entry.api_version).or_default().push(entry.set.clone());
    }
    let head = versions.remove(first).map(|sets| (first, sets));
    let all = head.into_iter().chain(versions);
    all.map(|(version, sets)| (version.to_owned(), PathSet::united(sets))).collect()
}
