//! The claims of a set's pods: made before the pod, kept or let go by policy.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::Resource;
use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Key, Result, ResultExt};

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
pub async fn create(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<()> {
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(()) };
    let pod_name = replica.metadata.name.as_deref().unwrap_or_default();
    for mut claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        if cx.get::<PersistentVolumeClaim>(&name)?.is_some() {
            continue;
        }
        claim.metadata.owner_references =
            owners(&claim.metadata, set, spec, replica).filter(|o| !o.is_empty());
        match cx.client().create(&claim).await {
            Ok(_) => cx.event(
                "SuccessfulCreate",
                format!("Create Claim {name} Pod {pod_name} in StatefulSet {} success", cx.name()),
            ),
            Err(error) if error.is_already_exists() => {}
            Err(error) => {
                cx.warn(
                    "FailedCreate",
                    format!(
                        "Create Claim {name} for Pod {pod_name} in StatefulSet {} failed error: {}",
                        cx.name(),
                        pod::message(&error)
                    ),
                );
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Tells whether a claim waits for its end, so that no pod may be made with it.
pub fn stale(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<bool> {
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(false) };
    for claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        if let Some(there) = cx.get::<PersistentVolumeClaim>(name)? {
            let owners = there.metadata.owner_references.iter().flatten();
            let old_pod = owners.filter(|o| o.kind == "Pod").any(|o| {
                o.name == replica.metadata.name.as_deref().unwrap_or_default()
                    && Some(&o.uid) != replica.metadata.uid.as_ref()
            });
            if there.metadata.deletion_timestamp.is_some() || old_pod {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Brings the owners of a pod's claims in line with the retention policy.
pub async fn retain(
    cx: &Context<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replica: &Pod,
) -> Result<()> {
    let Some(ordinal) = identity::ordinal(replica) else { return Ok(()) };
    for claim in wanted(set, spec, ordinal) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let Some(there) = cx.get::<PersistentVolumeClaim>(name)? else { continue };
        if there.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let Some(owners) = owners(&there.metadata, set, spec, replica) else { continue };
        let patch = Patch::Merge(json!({"metadata": {
            "uid": there.metadata.uid,
            "ownerReferences": owners,
        }}));
        let key = Key::of(&*there);
        cx.client().patch::<PersistentVolumeClaim>(&key, &patch).await.ignore_not_found()?;
    }
    Ok(())
}

/// The owners a claim has to have; `None` if they are so already.
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
    // Claims that another controller manages are not touched.
    if before
        .iter()
        .any(|o| o.controller == Some(true) && Some(&o.uid) != set.metadata.uid.as_ref())
    {
        return None;
    }
    let mut after = before.clone();
    put(&mut after, set, by_set);
    put(&mut after, replica, by_pod);
    (after != before).then_some(after)
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
            controller: None,
            block_owner_deletion: None,
        });
    }
}
