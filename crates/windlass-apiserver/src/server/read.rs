//! The store as the rest of the server reads it.

use std::sync::Arc;

use serde_json::Value;

use super::Inner;
use crate::lookup::Lookup;
use crate::object;
use crate::store::{Entry, Key, ResourceKey};

/// Lists up to this length are kept as values between reads.
const KEPT_MAX: usize = 64;

impl Lookup for Inner {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let resource = ResourceKey::new(group, plural);
        let entry = self.store.world().get(&resource, &Key::new(namespace, name))?;
        Some(self.read(&resource, &entry))
    }

    fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let resource = ResourceKey::new(group, plural);
        let table = self.store.world().table(&resource);
        let kept = table.items.len() <= KEPT_MAX;
        let read = |entry: &Arc<Entry>| match kept {
            true => self.read(&resource, entry),
            false => Arc::new(self.typed(&resource, entry)),
        };
        table.range(namespace, None).map(read).collect()
    }

    fn revision(&self, group: &str, plural: &str) -> u64 {
        self.store.world().table(&ResourceKey::new(group, plural)).revision
    }
}

impl Inner {
    /// A stored object, read once where nothing but a write can change how it reads.
    fn read(&self, resource: &ResourceKey, entry: &Entry) -> Arc<Value> {
        match self.registry.family(resource) {
            Some(_) => Arc::new(self.typed(resource, entry)),
            None => entry.known(|entry| self.typed(resource, entry)),
        }
    }

    /// A stored object in its stored version, with apiVersion and kind.
    fn typed(&self, resource: &ResourceKey, entry: &Entry) -> Value {
        let mut object = entry.object();
        if let Some(found) = self.registry.find_stored(resource) {
            object::set_type(&mut object, &found.gvk.api_version(), &found.gvk.kind);
        }
        object
    }
}
