//! The store as the rest of the server reads it.

use std::sync::Arc;

use serde_json::Value;

use super::Inner;
use crate::lookup::Lookup;
use crate::object;
use crate::store::{Entry, Key, ResourceKey};

impl Lookup for Inner {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let resource = ResourceKey::new(group, plural);
        let entry = self.store.world().get(&resource, &Key::new(namespace, name))?;
        Some(Arc::new(self.typed(&resource, &entry)))
    }

    fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let resource = ResourceKey::new(group, plural);
        let table = self.store.world().table(&resource);
        table.range(namespace).map(|entry| Arc::new(self.typed(&resource, entry))).collect()
    }

    fn revision(&self, group: &str, plural: &str) -> u64 {
        self.store.world().table(&ResourceKey::new(group, plural)).revision
    }
}

impl Inner {
    /// A stored object in its stored version, with apiVersion and kind.
    fn typed(&self, resource: &ResourceKey, entry: &Entry) -> Value {
        let mut object = entry.object();
        if let Some(found) = self.registry.find_stored(resource) {
            object::set_type(&mut object, &found.gvk.api_version(), &found.gvk.kind);
        }
        object
    }
}
