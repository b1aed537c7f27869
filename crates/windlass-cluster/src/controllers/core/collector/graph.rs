//! Which objects refer to which, as the watches report it.
//!
//! **Invariant:** `dependents` holds a UID under an owner exactly if the node of that UID refers
//! to the owner.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{DynamicObject, PartialObjectMeta};
use windlass::cache::Entry;
use windlass::{Key, Kind};

/// The finalizer of an owner that waits for its dependents to be deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are to stay.
pub const ORPHAN: &str = "orphan";

/// An object and its owner references.
#[derive(Debug, Clone)]
pub struct Node {
    pub kind: Kind,
    pub key: Key,
    pub owners: Vec<OwnerReference>,
    pub deleting: bool,
    pub foreground: bool,
    pub orphan: bool,
}

/// All objects by UID.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
}

// === impl Node ===

impl Node {
    fn read(kind: &Kind, entry: &Arc<Entry>) -> Self {
        let mut node = Self {
            kind: kind.clone(),
            key: entry.key.clone(),
            owners: Vec::new(),
            deleting: entry.deleting,
            foreground: false,
            orphan: false,
        };
        // Most objects have neither and are not decoded.
        if !entry.owners.is_empty() || node.deleting {
            let meta = entry.decode::<PartialObjectMeta<DynamicObject>>();
            let meta = meta.map(|object| object.metadata).unwrap_or_default();
            let finalizers = meta.finalizers.unwrap_or_default();
            node.owners = meta.owner_references.unwrap_or_default();
            node.foreground = finalizers.iter().any(|f| f == FOREGROUND);
            node.orphan = finalizers.iter().any(|f| f == ORPHAN);
        }
        node
    }

    /// Returns `true` if the object waits until its dependents are deleted.
    pub fn waits(&self) -> bool {
        self.deleting && self.foreground
    }

    fn refers(&self, owner: &str) -> Option<&OwnerReference> {
        self.owners.iter().find(|reference| reference.uid == owner)
    }

    /// A reference of `dependent` names this very object.
    fn is(&self, reference: &OwnerReference, dependent: &Node) -> bool {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        self.kind.group() == group
            && self.kind.kind() == reference.kind
            && self.key.name() == reference.name
            && !self.elsewhere(dependent)
    }

    /// Returns `true` if this object is in a namespace and `dependent` is not in the same one.
    pub fn elsewhere(&self, dependent: &Node) -> bool {
        self.kind.namespaced() && self.key.namespace() != dependent.key.namespace()
    }
}

// === impl Graph ===

impl Graph {
    /// The node of a UID.
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Who refers to a UID, in order.
    pub fn dependents(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The dependents whose reference blocks the deletion of the owner.
    pub fn blocking(&self, uid: &str) -> Vec<String> {
        let blocks = |dependent: &String| {
            let node = self.nodes.get(dependent).and_then(|node| node.refers(uid));
            node.is_some_and(|reference| reference.block_owner_deletion == Some(true))
        };
        self.dependents(uid).into_iter().filter(blocks).collect()
    }

    /// Records the newest state of an object. Returns the UIDs of the objects to look at.
    pub fn observe(&mut self, kind: &Kind, entry: &Arc<Entry>) -> Vec<String> {
        let uid = entry.uid().to_owned();
        let node = Node::read(kind, entry);
        let old = self.nodes.insert(uid.clone(), node.clone());
        let mut affected = self.unlink(&uid, old.as_ref(), &node);
        let mut doubtful = false;
        for reference in &node.owners {
            self.dependents.entry(reference.uid.clone()).or_default().insert(uid.clone());
            let known = old.as_ref().is_some_and(|old| old.refers(&reference.uid).is_some());
            let owner = self.nodes.get(&reference.uid);
            let sound = owner.is_some_and(|owner| owner.is(reference, &node) && !owner.waits());
            doubtful |= !known && !sound;
        }
        if doubtful {
            affected.push(uid.clone());
        }
        if old.is_none() {
            affected.extend(self.mistaken(&uid, &node));
        }
        let before = old.as_ref();
        if node.waits() && !before.is_some_and(Node::waits) {
            affected.extend(self.dependents(&uid));
            affected.push(uid);
        } else if node.deleting && node.orphan && !before.is_some_and(|b| b.deleting && b.orphan) {
            affected.push(uid);
        }
        affected
    }

    /// Dependents that named an owner before it was seen, and named it wrongly.
    fn mistaken(&self, uid: &str, owner: &Node) -> Vec<String> {
        let wrong = |dependent: &String| {
            let node = self.nodes.get(dependent);
            node.is_some_and(|node| node.refers(uid).is_some_and(|r| !owner.is(r, node)))
        };
        self.dependents(uid).into_iter().filter(wrong).collect()
    }

    /// Drops references that are no more; returns owners that may be free now.
    fn unlink(&mut self, uid: &str, old: Option<&Node>, new: &Node) -> Vec<String> {
        let mut affected = Vec::new();
        for reference in old.iter().flat_map(|old| &old.owners) {
            let still = new.refers(&reference.uid);
            if still.is_none() {
                self.drop_dependent(&reference.uid, uid);
            }
            let freed = still.is_none_or(|still| still.block_owner_deletion != Some(true));
            if freed && self.nodes.get(&reference.uid).is_some_and(Node::waits) {
                affected.push(reference.uid.clone());
            }
        }
        affected
    }

    fn drop_dependent(&mut self, owner: &str, dependent: &str) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Removes an object. Returns the UIDs of the objects to look at: its dependents, and owners
    /// that waited for it.
    pub fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut affected = self.dependents(uid);
        for reference in &node.owners {
            self.drop_dependent(&reference.uid, uid);
            if self.nodes.get(&reference.uid).is_some_and(Node::waits) {
                affected.push(reference.uid.clone());
            }
        }
        affected
    }

    /// Takes all objects of a kind out.
    pub fn forget_kind(&mut self, kind: &Kind) -> Vec<String> {
        let of_kind = self.nodes.iter().filter(|(_, node)| node.kind == *kind);
        let mut uids: Vec<String> = of_kind.map(|(uid, _)| uid.clone()).collect();
        uids.sort();
        uids.iter().flat_map(|uid| self.remove(uid)).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use windlass::cache::Change;

    use super::*;

    fn entry(uid: &str, owners: &[(&str, bool)], deleting: bool) -> Arc<Entry> {
        let owners: Vec<_> = owners
            .iter()
            .map(|(owner, blocks)| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner,
                       "blockOwnerDeletion": blocks})
            })
            .collect();
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "ownerReferences": owners},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            object["metadata"]["finalizers"] = json!([FOREGROUND]);
        }
        let object: ConfigMap = serde_json::from_value(object).expect("a config map");
        Change::between(None, Some(&object)).expect("has a name").entry().clone()
    }

    fn kind() -> Kind {
        Kind::of::<ConfigMap>()
    }

    #[test]
    fn a_dependent_of_an_unknown_owner_is_doubtful_and_of_a_known_one_is_not() {
        let mut graph = Graph::default();
        assert_eq!(graph.observe(&kind(), &entry("child", &[("owner", false)], false)), ["child"]);
        let mut graph = Graph::default();
        assert!(graph.observe(&kind(), &entry("owner", &[], false)).is_empty());
        let child = entry("child", &[("owner", false)], false);
        assert!(graph.observe(&kind(), &child).is_empty());
        assert_eq!(graph.remove("owner"), ["child"]);
    }

    #[test]
    fn an_owner_that_waits_is_freed_by_the_last_blocking_dependent() {
        let mut graph = Graph::default();
        graph.observe(&kind(), &entry("owner", &[], false));
        graph.observe(&kind(), &entry("child", &[("owner", true)], false));
        let affected = graph.observe(&kind(), &entry("owner", &[], true));
        assert_eq!(affected, ["child", "owner"]);
        assert_eq!(graph.blocking("owner"), ["child"]);
        assert_eq!(graph.observe(&kind(), &entry("child", &[("owner", false)], false)), ["owner"]);
        assert!(graph.blocking("owner").is_empty());
        assert_eq!(graph.remove("child"), ["owner"]);
        assert!(graph.dependents("owner").is_empty());
    }
}
