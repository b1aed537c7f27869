//! Owner references: which object controls which.
//!
//! **Invariant:** an owner is identified by its UID. An owner that was deleted and created again does
//! not own the objects of its predecessor. Only when it claims control of one of them, its reference
//! replaces the stale one with the same name and kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// Makes `owner` the managing controller of `object`.
///
/// # Errors
///
/// Fails if another controller owns the object, if `owner` has no UID yet, or if the two are in
/// different namespaces.
///
/// ```
/// use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
/// use kube::core::ObjectMeta;
/// let owner = ReplicaSet {
///     metadata: ObjectMeta {
///         name: Some("web".into()),
///         namespace: Some("shop".into()),
///         uid: Some("1234".into()),
///         ..ObjectMeta::default()
///     },
///     ..ReplicaSet::default()
/// };
/// let mut pod = Pod::default();
/// pod.metadata.namespace = Some("shop".into());
/// windlass::owner::set_controller(&owner, &mut pod)?;
/// assert_eq!(windlass::owner::controller_of(&pod).unwrap().name, "web");
/// # Ok::<(), windlass::Error>(())
/// ```
pub fn set_controller<O, K>(owner: &O, object: &mut K) -> Result<()>
where
    O: Object<DynamicType = ()>,
    K: Resource,
{
    set_controller_with(owner.meta(), &Kind::of::<O>(), object.meta_mut())
}

/// Makes an object of any kind the managing controller of another, given their metadata.
pub(crate) fn set_controller_with(
    owner: &ObjectMeta,
    kind: &Kind,
    object: &mut ObjectMeta,
) -> Result<()> {
    let reference = OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..reference(owner, kind)?
    };
    check_namespaces(owner, object)?;
    let references = object.owner_references.get_or_insert_default();
    let other = references.iter().find(|r| r.controller == Some(true) && !same(r, &reference));
    if let Some(other) = other {
        let name = object.name.as_deref().or(object.generate_name.as_deref());
        return Err(Error::Invalid(format!(
            "{} is already controlled by {} {} ({})",
            name.unwrap_or("the object"),
            other.kind,
            other.name,
            other.uid
        )));
    }
    match references.iter_mut().find(|known| same(known, &reference)) {
        Some(stale) => *stale = reference,
        None => references.push(reference),
    }
    Ok(())
}

/// Returns the reference to the managing controller of an object, if it has one.
pub fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|r| r.controller == Some(true))
}

/// Returns `true` if `owner` is the managing controller of `object`.
pub fn is_controlled_by<O: Resource, K: Resource>(object: &K, owner: &O) -> bool {
    controller_of(object).is_some_and(|r| owner.meta().uid.as_deref() == Some(&*r.uid))
}

/// Returns `true` if `owner` may own `object`: it has a UID and the namespaces match.
pub(crate) fn may_own(owner: &ObjectMeta, object: &ObjectMeta) -> bool {
    owner.uid.is_some() && check_namespaces(owner, object).is_ok()
}

fn reference(owner: &ObjectMeta, kind: &Kind) -> Result<OwnerReference> {
    let (Some(name), Some(uid)) = (owner.name.clone(), owner.uid.clone()) else {
        return Err(Error::Invalid(format!("{kind} has no UID yet and cannot own anything")));
    };
    Ok(OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind().into(),
        name,
        uid,
        ..OwnerReference::default()
    })
}

fn check_namespaces(owner: &ObjectMeta, object: &ObjectMeta) -> Result<()> {
    match (owner.namespace.as_deref(), object.namespace.as_deref()) {
        (None, _) => Ok(()),
        (Some(a), Some(b)) if a == b => Ok(()),
        (Some(a), None) => Err(Error::Invalid(format!(
            "an object in namespace {a} cannot own a cluster-scoped object"
        ))),
        (Some(a), Some(b)) => Err(Error::Invalid(format!(
            "an object in namespace {a} cannot own an object in namespace {b}"
        ))),
    }
}

fn same(a: &OwnerReference, b: &OwnerReference) -> bool {
    let group = |r: &OwnerReference| r.api_version.split_once('/').map(|(g, _)| g.to_string());
    a.uid == b.uid || (group(a) == group(b) && a.kind == b.kind && a.name == b.name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn owner(name: &str, uid: &str, namespace: &str) -> ReplicaSet {
        let mut owner = ReplicaSet::default();
        owner.metadata.name = Some(name.into());
        owner.metadata.uid = Some(uid.into());
        owner.metadata.namespace = Some(namespace.into());
        owner
    }

    fn pod() -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("a".into());
        pod
    }

    #[test]
    fn a_second_controller_is_refused_by_name() {
        let mut pod = pod();
        set_controller(&owner("one", "1", "a"), &mut pod).expect("first controller");
        set_controller(&owner("one", "1", "a"), &mut pod).expect("again is fine");
        let error = set_controller(&owner("two", "2", "a"), &mut pod).expect_err("second");
        assert_eq!(error.to_string(), "the object is already controlled by ReplicaSet one (1)");
        assert_eq!(pod.metadata.owner_references.as_ref().map(Vec::len), Some(1));
    }

    #[test]
    fn an_owner_created_again_replaces_its_stale_reference() {
        let mut pod = pod();
        set_controller(&owner("one", "1", "a"), &mut pod).expect("controls");
        assert!(!is_controlled_by(&pod, &owner("one", "2", "a")), "another object");
        set_controller(&owner("one", "2", "a"), &mut pod).expect("takes over");
        let references = pod.metadata.owner_references.iter().flatten();
        let uids: Vec<&str> = references.map(|reference| reference.uid.as_str()).collect();
        assert_eq!(uids, ["2"]);
        assert!(is_controlled_by(&pod, &owner("one", "2", "a")));
    }

    #[test]
    fn an_owner_of_another_namespace_is_refused() {
        let error = set_controller(&owner("one", "1", "b"), &mut pod()).expect_err("other ns");
        assert!(error.to_string().contains("namespace b"), "{error}");
    }
}
