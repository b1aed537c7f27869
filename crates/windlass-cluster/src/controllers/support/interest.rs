//! Which objects have to be reconciled when another object changes.
//!
//! The map function of a watch gets one changed object and returns the keys to reconcile. Objects
//! with a selector (services, budgets, replication controllers) register it here at the start of
//! each reconcile, and map functions look it up.
//!
//! **Invariant:** a reconciler registers before it lists, so a change before the registration is
//! part of the list, and a change after it is mapped.

use std::collections::BTreeMap;

use kube::core::{Selector, SelectorExt};
use parking_lot::RwLock;
use windlass::Key;
use windlass::cache::{Change, Entry};

/// Selectors by the key of the object they belong to.
#[derive(Debug, Default)]
pub struct Interest(RwLock<BTreeMap<Key, Selector>>);

// === impl Interest ===

impl Interest {
    /// Writes down what an object selects.
    pub fn set(&self, key: &Key, selector: Selector) {
        self.0.write().insert(key.clone(), selector);
    }

    /// Writes down that an object selects everything in its namespace.
    pub fn set_all(&self, key: &Key) {
        self.set(key, Selector::default());
    }

    /// Forgets an object.
    pub fn forget(&self, key: &Key) {
        self.0.write().remove(key);
    }

    /// The objects whose selector matches the labels before or after a change.
    pub fn matching(&self, change: &Change) -> Vec<Key> {
        let mut keys = Vec::new();
        for entry in [&change.old, &change.new].into_iter().flatten() {
            self.collect(entry, &mut keys);
        }
        keys
    }

    /// The objects whose selector matches the labels of an object as it is.
    pub fn of(&self, entry: &Entry) -> Vec<Key> {
        let mut keys = Vec::new();
        self.collect(entry, &mut keys);
        keys
    }

    fn collect(&self, entry: &Entry, keys: &mut Vec<Key>) {
        if self.0.read().is_empty() {
            return;
        }
        let labels: BTreeMap<String, String> =
            entry.labels().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        keys.extend(self.selecting(entry.key.namespace(), &labels));
    }

    /// The objects of a namespace whose selector matches these labels.
    pub fn selecting(
        &self,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Key> {
        let known = self.0.read();
        let here = known.range(Key::new(namespace, "")..);
        let here = here.take_while(|(key, _)| key.namespace() == namespace);
        here.filter(|(_, s)| s.matches(labels)).map(|(key, _)| key.clone()).collect()
    }

    /// Every object that is written down.
    pub fn all(&self) -> Vec<Key> {
        self.0.read().keys().cloned().collect()
    }
}
