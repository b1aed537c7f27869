//! The wanted replicas of whatever controls a pod.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;
use windlass::controller::Context;
use windlass::{Error, Result};

use super::sibling;

/// The UID and the replicas of the controller at the top; `None` if it is not there.
pub async fn of(
    cx: &Context<PodDisruptionBudget>,
    owner: &OwnerReference,
) -> Result<Option<(String, i32)>> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let key = sibling(cx, &owner.name);
    let same = |uid: &Option<String>| uid.as_deref() == Some(&owner.uid);
    match (group, owner.kind.as_str()) {
        ("", "ReplicationController") => {
            let found = cx.client().cached().get::<ReplicationController>(&key)?;
            let found = found.filter(|o| same(&o.metadata.uid));
            Ok(found.map(|o| {
                (owner.uid.clone(), o.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1))
            }))
        }
        ("apps", "StatefulSet") => {
            let found =
                cx.client().cached().get::<StatefulSet>(&key)?.filter(|o| same(&o.metadata.uid));
            Ok(found.map(|o| {
                (owner.uid.clone(), o.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1))
            }))
        }
        ("apps", "ReplicaSet") => {
            let found =
                cx.client().cached().get::<ReplicaSet>(&key)?.filter(|o| same(&o.metadata.uid));
            let Some(set) = found else { return Ok(None) };
            let above = windlass::owner::controller_of(&*set).filter(|o| o.kind == "Deployment");
            let Some(above) = above else {
                let replicas = set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
                return Ok(Some((owner.uid.clone(), replicas)));
            };
            let found = cx.client().cached().get::<Deployment>(&sibling(cx, &above.name))?;
            let found = found.filter(|o| o.metadata.uid.as_deref() == Some(&above.uid));
            Ok(found.map(|o| {
                (above.uid.clone(), o.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1))
            }))
        }
        _ => by_subresource(cx, owner, group).await,
    }
}

/// Any other kind says its replicas through its scale subresource.
async fn by_subresource(
    cx: &Context<PodDisruptionBudget>,
    owner: &OwnerReference,
    group: &str,
) -> Result<Option<(String, i32)>> {
    let version = owner.api_version.rsplit('/').next().unwrap_or_default();
    let kind = match cx.client().kind_of(group, version, &owner.kind).await {
        Ok(kind) => kind,
        Err(Error::NoKind { .. }) => {
            let (kind, version) = (&owner.kind, &owner.api_version);
            return Err(Error::other(format!(
                "no matches for kind {kind:?} in version {version:?}"
            )));
        }
        Err(error) => return Err(error),
    };
    let key = sibling(cx, &owner.name);
    let scales = cx.client().api_of::<Scale>(&kind).subresource("scale");
    if let Some(scale) = scales.get(&key).await? {
        let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        return Ok(Some((owner.uid.clone(), replicas)));
    }
    if cx.client().api_of::<DynamicObject>(&kind).get(&key).await?.is_none() {
        return Ok(None);
    }
    let resource = super::super::qualified(kind.plural(), group);
    Err(Error::other(format!("{resource} does not implement the scale subresource")))
}
