//! The claims of a set's pods: created before the pod, kept or deleted by policy.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::Resource;
use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Error, Key, Result, ResultExt};

use super::identity;
use crate::controllers::pod;

/// What happens to claims, by policy and position.
#[derive(Debug, Clone, Copy)]
struct Retention {
    deleted_with_set: bool,
    deleted_with_pod: bool,
}

fn retention(spec: &StatefulSetSpec) -> Retention {
    let policy = spec.persistent_volume_claim_retention_policy.clone().unwrap_or_default();
    Retention {
        deleted_with_set: policy.when_deleted.as_deref() == Some("Delete"),
        deleted_with_pod: policy.when_scaled.as_deref() == Some("Delete"),
    }
}

/// The claims of the pod with this ordinal.
fn wanted(set: &StatefulSet, spec: &StatefulSetSpec, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let parent = set.metadata.name.as_deref().unwrap_or_default();
    let templates = spec.volume_claim_templates.iter().flatten();
    let claims = templates.map(|template| {
        let stem = template.metadata.name.as_deref().unwrap_or_default();
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(identity::claim_name(parent, stem, ordinal)),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    });
    claims.collect()
}

/// Creates the claims of a pod that are missing.
///
/// # Errors
///
/// Fails if a claim could not be created, or is being deleted.
pub async fn create(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<()> {
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(()) };
    let pod_name = replica.metadata.name.as_deref().unwrap_or_default();
    let mut failure = None;
    for mut claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        if let Some(there) = cx.get::<PersistentVolumeClaim>(&name)? {
            if there.metadata.deletion_timestamp.is_some() {
                failure.get_or_insert(format!("pvc {name} is being deleted"));
            }
            continue;
        }
        claim.metadata.owner_references =
            owners(&claim.metadata, set, spec, replica).filter(|o| !o.is_empty());
        match cx.client().api().create(&claim).await {
            Ok(_) => cx.event(
                "SuccessfulCreate",
                format!("Create Claim {name} Pod {pod_name} in StatefulSet {} success", cx.name()),
            ),
            Err(error) if error.is_already_exists() => {}
            Err(error) => {
                let why = pod::message(&error);
                let text = format!(
                    "Create Claim {name} for Pod {pod_name} in StatefulSet {} failed error: {why}",
                    cx.name(),
                );
                cx.warn("FailedCreate", text);
                failure.get_or_insert(format!("failed to create PVC {name}: {why}"));
            }
        }
    }
    failure.map_or(Ok(()), |why| Err(Error::other(why)))
}

/// Returns `true` if a claim still belongs to an earlier pod of that name and is deleted with it.
pub fn stale(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<bool> {
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(false) };
    if !retention(spec).deleted_with_pod {
        return Ok(false);
    }
    for claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        if let Some(there) = cx.get::<PersistentVolumeClaim>(name)? {
            let owners = there.metadata.owner_references.iter().flatten();
            let old_pod = owners.filter(|o| o.kind == "Pod").any(|o| {
                o.name == replica.metadata.name.as_deref().unwrap_or_default()
                    && Some(&o.uid) != replica.metadata.uid.as_ref()
            });
            if old_pod {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Brings the owners of a pod's claims in line with the retention policy. Returns `true` if any
/// had to change.
pub async fn retain(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<bool> {
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(false) };
    let mut changed = false;
    for claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let Some(there) = cx.get::<PersistentVolumeClaim>(name)? else { continue };
        if there.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let Some(owners) = owners(&there.metadata, set, spec, replica) else { continue };
        changed = true;
        let patch = Patch::Merge(json!({"metadata": {
            "uid": there.metadata.uid,
            "ownerReferences": owners,
        }}));
        let key = Key::of(&*there);
        cx.client().api::<PersistentVolumeClaim>().patch(&key, &patch).await.ignore_not_found()?;
    }
    Ok(changed)
}

/// Publishes an event for claims whose retention another controller decides.
pub fn publish_conflicts(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<()> {
    let retention = retention(spec);
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(()) };
    if !retention.deleted_with_pod && !retention.deleted_with_set {
        return Ok(());
    }
    for claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let there = cx.get::<PersistentVolumeClaim>(name)?;
        if there.is_some_and(|there| is_managed_elsewhere(&there.metadata, set, replica)) {
            // The words are those of Kubernetes, slip included.
            let text = format!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a \
                 manging controller, the retention policy is ignored for this claim"
            );
            cx.warn("ConflictingController", text);
        }
    }
    Ok(())
}

/// The owners that a claim should have; `None` if it already has them.
fn owners(
    claim: &ObjectMeta,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Option<Vec<OwnerReference>> {
    let retention = retention(spec);
    let first = identity::start(spec);
    let end = first.saturating_add(spec.replicas.unwrap_or(1));
    let condemned = identity::ordinal(replica).is_none_or(|o| o < first || o >= end);
    let by_pod = retention.deleted_with_pod && condemned;
    let by_set = retention.deleted_with_set && !by_pod;
    let before = claim.owner_references.clone().unwrap_or_default();
    if is_managed_elsewhere(claim, set, replica) {
        return None;
    }
    let mut after = before.clone();
    put(&mut after, set, by_set);
    put(&mut after, replica, by_pod);
    (after != before).then_some(after)
}

/// Returns `true` if another controller manages a claim, which is then left alone.
fn is_managed_elsewhere(claim: &ObjectMeta, set: &StatefulSet, replica: &Pod) -> bool {
    let ours = [&set.metadata.uid, &replica.metadata.uid];
    let mut owners = claim.owner_references.iter().flatten();
    owners.any(|owner| {
        let mine = ours.iter().any(|uid| uid.as_ref() == Some(&owner.uid));
        owner.controller == Some(true) && !mine
    })
}

fn put<K: Resource<DynamicType = ()>>(owners: &mut Vec<OwnerReference>, owner: &K, wanted: bool) {
    let (Some(uid), Some(name)) = (&owner.meta().uid, &owner.meta().name) else { return };
    owners.retain(|o| o.uid != *uid);
    if wanted {
        owners.push(OwnerReference {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            name: name.clone(),
            uid: uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        });
    }
}
