//! The mark on a child: which owner and which set it belongs to.
//!
//! An owner reference cannot lead from a namespaced owner to another namespace or to a
//! cluster-scoped object. So each child has an annotation that names its owner, and a label with the
//! owner's UID, by which people can find all children of an owner.
//!
//! **Invariant:** a child is deleted only if its mark names the owner. The inventory alone is not
//! trusted: a user who may edit the owner may not be allowed to delete what is listed there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::cache::{Entry, Key};
use crate::kind::Kind;

/// The label with the UID of the owner, and the annotation with its kind and name.
pub(super) const OWNER: &str = "windlass.dev/owner";

/// Who marks children: the set and its owner.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    text: String,
    uid: String,
}

// === impl Mark ===

impl Mark {
    /// Returns the mark of a set of an owner.
    pub(super) fn new(set: &str, kind: &Kind, owner: &Key, uid: &str) -> Self {
        Self { text: format!("{set} {} {owner}", kind_text(kind)), uid: uid.into() }
    }

    /// Returns the UID of the owner.
    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// Marks a child.
    pub(super) fn set(&self, child: &mut ObjectMeta) {
        child.labels.get_or_insert_default().insert(OWNER.into(), self.uid.clone());
        child.annotations.get_or_insert_default().insert(OWNER.into(), self.text.clone());
    }

    /// Returns `true` if a child has this mark.
    pub(super) fn is_on(&self, child: &ObjectMeta) -> bool {
        found(child) == Some(&self.text)
    }

    /// Returns who else an object belongs to, as a sentence, if it belongs to somebody else.
    pub(super) fn other_owner(&self, child: &ObjectMeta) -> Option<String> {
        let controller =
            child.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        if let Some(other) = controller.filter(|owner| owner.uid != self.uid) {
            let (kind, name, uid) = (&other.kind, &other.name, &other.uid);
            return Some(format!("it is already controlled by {kind} {name} ({uid})"));
        }
        let other = found(child).filter(|text| **text != self.text)?;
        let shown: String = other.chars().take(300).collect();
        Some(format!("it already belongs to another set of children: {shown}"))
    }
}

fn found(child: &ObjectMeta) -> Option<&String> {
    child.annotations.as_ref()?.get(OWNER)
}

fn kind_text(kind: &Kind) -> String {
    match kind.group() {
        "" => kind.kind().into(),
        group => format!("{}.{group}", kind.kind()),
    }
}

/// Returns the owner of kind `owner` that the mark of an object names.
pub(crate) fn marked_owner(entry: &Entry, owner: &Kind) -> Option<Key> {
    #[derive(Deserialize)]
    struct Head {
        metadata: ObjectMeta,
    }
    entry.label(OWNER)?;
    let head: Head = entry.decode().ok()?;
    let mut parts = found(&head.metadata)?.split(' ').skip(1);
    let (kind, key) = (parts.next()?, parts.next()?);
    if kind != kind_text(owner) {
        return None;
    }
    match owner.namespaced() {
        true => key.split_once('/').map(|(namespace, name)| Key::namespaced(namespace, name)),
        false => Some(Key::cluster(key)),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn mark(name: &str, uid: &str) -> Mark {
        let owner = Key::namespaced("default", name);
        Mark::new("example.com/set", &Kind::of::<ConfigMap>(), &owner, uid)
    }

    #[test]
    fn a_marked_object_belongs_to_one_set_of_one_owner() {
        let mut child = ObjectMeta::default();
        assert_eq!(mark("a", "1").other_owner(&child), None, "it belongs to nobody");
        mark("a", "1").set(&mut child);
        assert!(mark("a", "1").is_on(&child) && mark("a", "2").is_on(&child));
        assert!(!mark("b", "1").is_on(&child));
        assert_eq!(
            mark("b", "1").other_owner(&child).expect("refused"),
            "it already belongs to another set of children: example.com/set ConfigMap default/a"
        );
        assert_eq!(mark("a", "1").other_owner(&child), None);
    }

    #[test]
    fn an_object_of_another_controller_is_refused_by_name() {
        let mut child = ObjectMeta::default();
        let reference = OwnerReference {
            controller: Some(true),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: "7".into(),
            ..OwnerReference::default()
        };
        child.owner_references = Some(vec![reference]);
        assert_eq!(
            mark("a", "1").other_owner(&child).expect("refused"),
            "it is already controlled by ReplicaSet web (7)"
        );
        assert_eq!(mark("a", "7").other_owner(&child), None, "its own");
    }
}
