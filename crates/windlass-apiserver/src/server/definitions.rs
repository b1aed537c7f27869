//! Definitions of custom resources: what is served follows from what is stored.
//!
//! The real server has controllers for this, seconds behind; here it happens within the write, so
//! a definition is served when its create returns.
//!
//! **Invariant:** the work of a write is proportional to the definitions it changed and those of
//! their groups whose names are in conflict; all others are only compared by revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Inner;
use crate::custom::definition::{gvk as definition_gvk, storage as definitions};
use crate::custom::{self, names};
use crate::merge::{PathSet, UpdateRequest};
use crate::object;
use crate::registry::Family;
use crate::store::{Change, Key, ResourceKey, Store, Table};

/// Rounds until the status of all definitions has settled; names free each other at most once.
const ROUNDS: usize = 16;
/// Who writes the status of definitions.
const MANAGER: &str = "kube-apiserver";

/// Definitions as they were last read.
#[derive(Default)]
pub(super) struct Known {
    /// What happened up to this revision was read; `None` before the first time.
    seen: Option<u64>,
    by_name: BTreeMap<Arc<str>, (u64, Arc<Value>)>,
    by_group: BTreeMap<String, BTreeSet<Arc<str>>>,
}

// === impl Known ===

impl Known {
    /// Reads what changed since the last time, and gives its names.
    fn refresh(&mut self, store: &Store) -> BTreeSet<Arc<str>> {
        // Events arrive after the changes they report: the table is at least as new.
        let events = match self.seen {
            Some(seen) => store.log(&definitions()).follow(seen, usize::MAX).ok(),
            None => None,
        };
        let table = store.world().table(&definitions());
        let names: BTreeSet<Arc<str>> = match &events {
            Some(events) => events.iter().map(|event| event.entry.key.name.clone()).collect(),
            None => {
                let stored = table.items.keys().map(|key| key.name.clone());
                stored.chain(self.by_name.keys().cloned()).collect()
            }
        };
        match &events {
            Some(events) => self.seen = events.last().map(|e| e.revision).or(self.seen),
            None => self.seen = Some(table.revision),
        }
        names.into_iter().filter(|name| self.read(name, &table)).collect()
    }

    /// Reads one definition. Returns `true` if it differs from the one before.
    fn read(&mut self, name: &Arc<str>, table: &Table) -> bool {
        let Some(entry) = table.items.get(&Key::new("", name)) else {
            let known = self.by_name.contains_key(name);
            self.forget(name);
            return known;
        };
        if self.by_name.get(name).is_some_and(|(revision, _)| *revision == entry.revision) {
            return false;
        }
        let mut object = entry.object();
        let gvk = definition_gvk();
        object::set_type(&mut object, &gvk.api_version(), &gvk.kind);
        self.by_group.entry(group_of(&object)).or_default().insert(name.clone());
        self.by_name.insert(name.clone(), (entry.revision, Arc::new(object)));
        true
    }

    fn forget(&mut self, name: &str) {
        let Some((_, object)) = self.by_name.remove(name) else { return };
        let group = group_of(&object);
        if let Some(names) = self.by_group.get_mut(&group) {
            names.remove(name);
            if names.is_empty() {
                self.by_group.remove(&group);
            }
        }
    }

    fn get(&self, name: &str) -> Option<(u64, Arc<Value>)> {
        self.by_name.get(name).cloned()
    }

    /// All definitions of a group.
    fn of_group(&self, group: &str) -> Vec<Arc<Value>> {
        let names = self.by_group.get(group).into_iter().flatten();
        names.filter_map(|name| self.by_name.get(name)).map(|(_, d)| d.clone()).collect()
    }

    /// The changed definitions, and those that waited for names of their groups.
    fn due(&self, changed: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        let mut due = changed.clone();
        // The name of a definition is `<plural>.<group>`, also when it is gone.
        for group in changed.iter().filter_map(|name| Some(name.split_once('.')?.1)) {
            for name in self.by_group.get(group).into_iter().flatten() {
                let waits = |(_, d): &(u64, Arc<Value>)| !names::is_true(d, "NamesAccepted");
                if self.by_name.get(name).is_some_and(waits) {
                    due.insert(name.clone());
                }
            }
        }
        due
    }
}

// === impl Inner ===

impl Inner {
    /// Brings definitions up to date and serves exactly what they say.
    pub fn sync_definitions(&self) {
        self.sync_definitions_and(BTreeSet::new());
    }

    /// An instance of a custom resource is gone: perhaps its definition waited for that.
    pub fn instance_gone(&self, resource: &ResourceKey) {
        let Some(family) = self.registry.family(resource) else { return };
        if object::is_deleting(&family.definition) {
            let name = object::name(&family.definition);
            self.sync_definitions_and([name.into()].into());
        }
    }

    fn sync_definitions_and(&self, waiting: BTreeSet<Arc<str>>) {
        let mut known = self.definitions.lock();
        let mut touched = BTreeSet::new();
        let mut waiting = waiting;
        for _ in 0..ROUNDS {
            let mut changed = known.refresh(&self.store);
            changed.append(&mut waiting);
            if changed.is_empty() {
                break;
            }
            for name in known.due(&changed) {
                self.settle(&known, &name);
            }
            touched.append(&mut changed);
        }
        let found = |name: Arc<str>| {
            let definition = known.get(&name).map(|(_, definition)| definition);
            (name, definition)
        };
        let touched: Vec<_> = touched.into_iter().map(found).collect();
        if !touched.is_empty() {
            self.serve(&touched);
        }
    }

    /// Updates what the server itself keeps in a definition.
    fn settle(&self, known: &Known, name: &str) {
        let Some((revision, stored)) = known.get(name) else { return };
        if object::is_deleting(&stored) {
            return self.settle_deletion(name, revision, &stored);
        }
        let others = known.of_group(&group_of(&stored));
        let others: Vec<&Value> = others.iter().map(|other| &**other).collect();
        let mut object = Value::clone(&stored);
        names::update_status(&mut object, &others, true, &self.clock.stamp());
        if object != *stored {
            // A client that sees the definition established may use it at once.
            if names::is_true(&object, "Established") && !names::is_true(&stored, "Established") {
                self.serve(&[(Arc::from(name), Some(Arc::new(object.clone())))]);
            }
            self.put_definition(name, revision, &stored, object);
        }
    }

    /// Deletes the instances of a definition that is to go, and lets it go when they are gone.
    fn settle_deletion(&self, name: &str, revision: u64, stored: &Value) {
        if !object::finalizers(stored).contains(&names::FINALIZER) {
            return;
        }
        let mut object = stored.clone();
        let deletion = match names::is_true(stored, "Established") {
            false => names::Deletion::NeverEstablished,
            true if self.clear_instances(&instances(name)) => names::Deletion::Completed,
            true => names::Deletion::InProgress,
        };
        names::set_terminating(&mut object, &deletion, &self.clock.stamp());
        if deletion == names::Deletion::InProgress {
            if object != *stored {
                self.put_definition(name, revision, stored, object);
            }
            return;
        }
        let rest = object::finalizers(&object).into_iter().filter(|f| *f != names::FINALIZER);
        let rest: Vec<String> = rest.map(str::to_owned).collect();
        if !rest.is_empty() {
            object::set_finalizers(&mut object, rest);
            return self.put_definition(name, revision, stored, object);
        }
        // Who wrote in between brings the definition here again.
        let key = Key::new("", name);
        let _ = self.store.write(&definitions(), &key, Some(revision), Change::Delete);
    }

    /// Deletes all instances without finalizers and marks the others. Returns `true` if no instance
    /// is left.
    fn clear_instances(&self, resource: &ResourceKey) -> bool {
        let table = self.store.world().table(resource);
        for entry in table.items.values() {
            let mut object = entry.object();
            // A write in between is seen by the next round, or holds the definition until then.
            if object::finalizers(&object).is_empty() {
                let _ =
                    self.store.write(resource, &entry.key, Some(entry.revision), Change::Delete);
            } else if !object::is_deleting(&object) {
                let metadata = object::meta_mut(&mut object);
                metadata.insert("deletionTimestamp".into(), self.clock.stamp().into());
                metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
                let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
                metadata.insert("generation".into(), (generation + 1).into());
                let change = Change::Put { object, fields: entry.fields.clone() };
                let _ = self.store.write(resource, &entry.key, Some(entry.revision), change);
            }
        }
        self.store.world().table(resource).items.is_empty()
    }

    /// Stores a definition with a changed status, in the name of the server.
    fn put_definition(&self, name: &str, revision: u64, stored: &Value, mut object: Value) {
        let key = Key::new("", name);
        let gvk = definition_gvk();
        let Some(entry) = self.store.world().get(&definitions(), &key) else { return };
        let Some(resource) = self.registry.find(&gvk.group, &gvk.version, &definitions().plural)
        else {
            return;
        };
        let request = UpdateRequest {
            live: Some(stored),
            shape: &resource.shape,
            gvk: &gvk,
            subresource: "status",
            manager: MANAGER,
            now: &self.clock.stamp(),
            reset: &PathSet::of(&["spec", "metadata"]),
            convert: &|_, _| None,
        };
        crate::merge::track_update(&request, &mut object);
        object::strip_type(&mut object);
        let change = Change::Put { object, fields: entry.fields.clone() };
        // Who wrote in between brings the definition here again.
        let _ = self.store.write(&definitions(), &key, Some(revision), change);
    }

    /// Compiles definitions that changed and serves them; watches of changed resources end. A
    /// definition that is `None` is deleted.
    fn serve(&self, touched: &[(Arc<str>, Option<Arc<Value>>)]) {
        let mut ended: Vec<CancellationToken> = Vec::new();
        let gone = touched.iter().filter(|(_, definition)| definition.is_none());
        let gone: Vec<ResourceKey> = gone.map(|(name, _)| instances(name)).collect();
        self.registry.change_custom(|set| {
            for (name, definition) in touched {
                let key = instances(name);
                let before = self.registry.family(&key);
                let served = definition.clone().filter(|d| names::is_true(d, "Established"));
                let Some(definition) = served else {
                    set.remove(&key);
                    ended.extend(before.map(|family| family.token.clone()));
                    continue;
                };
                let same = before.as_ref().filter(|f| f.definition["spec"] == definition["spec"]);
                let versions =
                    same.map_or_else(|| custom::compile(&definition), |f| f.versions.clone());
                let accepted = |d: &Value| d["status"]["acceptedNames"].clone();
                let continues = same.filter(|f| accepted(&f.definition) == accepted(&definition));
                let token = match continues {
                    Some(family) => family.token.clone(),
                    None => {
                        ended.extend(before.as_ref().map(|family| family.token.clone()));
                        CancellationToken::new()
                    }
                };
                let resources = custom::resources(&definition, &versions);
                set.put(key, Family { definition, versions, resources, token });
            }
        });
        for token in ended {
            token.cancel();
        }
        for resource in gone {
            self.store.forget(&resource);
        }
    }
}

/// Where the instances of a definition are kept: its name is `<plural>.<group>`.
fn instances(name: &str) -> ResourceKey {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    ResourceKey::new(group, plural)
}

fn group_of(definition: &Value) -> String {
    definition["spec"]["group"].as_str().unwrap_or_default().to_owned()
}
