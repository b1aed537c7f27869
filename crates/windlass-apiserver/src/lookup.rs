//! Reading the server's own state: what authorization, admission and allocation need of the store.

use std::sync::Arc;

use serde_json::Value;

/// Read access to stored objects, at one moment or at the newest state.
pub trait Lookup: Send + Sync {
    /// One object, with apiVersion and kind.
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// All objects of a resource, of one namespace or of all, ordered by namespace and name.
    fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>>;

    /// The revision of the last change to a resource; 0 if it never changed. Lets readers cache.
    fn revision(&self, group: &str, plural: &str) -> u64;
}
