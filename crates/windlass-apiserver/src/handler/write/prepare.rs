//! Preparation: what the server itself sets in an object, or keeps, before it is validated.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::Call;
use super::{Intent, Part, Write};
use crate::object;
use crate::status::Result;
use crate::store::Key;

/// Tries for a free name when one is generated.
const NAME_TRIES: usize = 8;
/// The longest part of a generated name that the client chooses.
const GENERATE_BYTES_MAX: usize = 58;

impl Write<'_> {
    /// Sets what the server decides in a new object, keeps what an update may not change, or
    /// marks what is to be deleted.
    pub(super) fn prepare(&mut self) -> Result<()> {
        let call = self.call;
        match (&mut self.intent, &self.old) {
            (Intent::Create(new), _) => {
                call.dedup_owners(&mut self.new);
                new.name_generated = call.prepare_new(&mut self.new);
            }
            (Intent::Change { .. }, Some(old)) => {
                call.dedup_owners(&mut self.new);
                call.prepare_change(self.part, &mut self.new, &old.object);
            }
            (Intent::Delete(options), Some(old)) => {
                let options = *options;
                self.check_delete_preconditions(&old.object, options)?;
                self.new = old.object.clone();
                self.deletion = Some(call.plan_deletion(&mut self.new, options));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Call {
    /// Prepares a new object. Returns `true` if its name is generated.
    fn prepare_new(&self, object: &mut Value) -> bool {
        self.fill_system_fields(object);
        self.rules().hooks().record_creator(object, &self.user);
        let name_generated = object::name(object).is_empty();
        if name_generated {
            self.generate_free_name(object);
        }
        self.rules().prepare_create(object);
        name_generated
    }

    /// Keeps what an update may not change, and lets the strategy do the rest.
    fn prepare_change(&self, part: Part, new: &mut Value, old: &Value) {
        let old_meta = object::meta(old);
        let metadata = object::meta_mut(new);
        let keep = |metadata: &mut serde_json::Map<String, Value>, field: &str| {
            match old_meta.get(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        };
        keep(metadata, "creationTimestamp");
        keep(metadata, "generation");
        metadata.remove("selfLink");
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            let is_fixed = field == "deletionTimestamp" && object::is_deleting(old);
            if metadata.get(field).is_none_or(object::is_empty) || is_fixed {
                keep(metadata, field);
            }
        }
        let rules = self.rules();
        rules.prepare_part(part, new, old, &self.server.clock.stamp());
        if part.counts() && rules.has_generation() && self.spec_changed(new, old) {
            let generation = old_meta.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
            object::meta_mut(new).insert("generation".into(), generation.into());
        }
    }

    fn spec_changed(&self, new: &Value, old: &Value) -> bool {
        if let Some(version) = &self.resource.custom {
            return version.generation_changed(new, old);
        }
        !relevant(new).eq(relevant(old))
    }

    fn fill_system_fields(&self, object: &mut Value) {
        let generation = self.rules().has_generation();
        let uid = self.server.random.uuid(&[
            "uid",
            &self.storage.group,
            &self.storage.plural,
            self.namespace(),
            object::name(object),
        ]);
        let metadata = object::meta_mut(object);
        for field in ["selfLink", "resourceVersion"] {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), self.server.clock.stamp().into());
        if generation {
            metadata.insert("generation".into(), json!(1));
        }
    }

    /// Generates a name that is free at this moment; the last try stays if none is.
    fn generate_free_name(&self, object: &mut Value) {
        let world = self.server.store.world();
        for _ in 0..NAME_TRIES {
            self.generate_name(object);
            let key = Key::new(self.namespace(), object::name(object));
            if world.get(&self.storage, &key).is_none() {
                return;
            }
        }
    }

    fn generate_name(&self, object: &mut Value) {
        let base = object::meta_str(object, "generateName");
        if base.is_empty() {
            return;
        }
        let mut end = base.len().min(GENERATE_BYTES_MAX);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let purpose = ["name", &self.storage.group, &self.storage.plural, self.namespace(), base];
        let name = format!("{}{}", &base[..end], self.server.random.suffix(&purpose));
        object::meta_mut(object).insert("name".into(), name.into());
    }

    /// Keeps only the first of several equal owner references, with a warning.
    pub(in crate::handler) fn dedup_owners(&self, object: &mut Value) {
        let Some(owners) = object::meta_mut(object).get_mut("ownerReferences") else { return };
        let Some(list) = owners.as_array_mut() else { return };
        let mut known: HashSet<Value> = HashSet::with_capacity(list.len());
        let mut named: HashSet<String> = HashSet::new();
        let mut duplicates: Vec<String> = Vec::new();
        list.retain(|owner| {
            let first = known.insert(owner.clone());
            let uid = owner["uid"].as_str().unwrap_or_default();
            if !first && named.insert(uid.to_owned()) {
                duplicates.push(uid.to_owned());
            }
            first
        });
        if !duplicates.is_empty() {
            self.warn(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                duplicates.join(", ")
            ));
        }
    }
}

/// What of a built-in object counts for its generation.
fn relevant(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(k, _)| !matches!(k.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
}
