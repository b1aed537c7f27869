//! Does an old replica of the operator still run?
//!
//! The other replicas are found from the pod of this process: its controller is a Deployment or a
//! StatefulSet, of any name. Without such a controller, other replicas are the pods with the same
//! labels. What cannot be found out is a reason to wait.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use crate::cache::Key;
use crate::client::Client;
use crate::error::Result;

/// Labels that differ between pods of one controller.
const OF_ONE_POD: [&str; 4] = [
    "pod-template-hash",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// Where this process runs.
pub(crate) struct Place {
    /// The name of the deployment in the manifests of the operator.
    pub(crate) deployment: String,
    /// Whether this process runs in a pod.
    pub(crate) in_pod: bool,
}

/// What controls the pods of the operator.
struct Workload {
    key: Key,
    /// Whether its controller has seen the last change.
    is_observed: bool,
    wanted: i32,
    replicas: i32,
    updated: i32,
    selector: LabelSelector,
}

/// Returns why the rollout of the operator is not complete, or `None` if every pod that runs is of its
/// newest template.
///
/// An operator that runs outside of the cluster, and that is not installed in it, has no replica to wait
/// for.
pub(super) async fn unfinished(
    client: &Client,
    place: &Place,
    own_pod: &str,
) -> Result<Option<String>> {
    let namespace = client.default_namespace();
    let key = Key::namespaced(namespace, own_pod);
    if let Some(own) = client.api::<Pod>().get(&key).await? {
        return match workload(client, namespace, &own).await? {
            Some(workload) => unfinished_workload(client, &workload).await,
            None => unlike(client, namespace, &own).await,
        };
    }
    let named = Key::namespaced(namespace, &place.deployment);
    if let Some(deployment) = client.api::<Deployment>().get(&named).await? {
        return unfinished_workload(client, &Workload::of_deployment(named, &deployment)).await;
    }
    let unknown = format!(
        "there is no pod {key} for this process and no deployment {named}, so old replicas cannot be \
         found; set HOSTNAME to the name of the pod"
    );
    Ok(place.in_pod.then_some(unknown))
}

/// The Deployment or StatefulSet that controls a pod.
async fn workload(client: &Client, namespace: &str, pod: &Pod) -> Result<Option<Workload>> {
    let Some((kind, name)) = controller(&pod.metadata) else { return Ok(None) };
    let key = Key::namespaced(namespace, name);
    match kind {
        "StatefulSet" => {
            let found = client.api::<StatefulSet>().get(&key).await?;
            Ok(found.map(|set| Workload::of_stateful_set(key, &set)))
        }
        "ReplicaSet" => {
            let Some(set) = client.api::<ReplicaSet>().get(&key).await? else { return Ok(None) };
            let Some(("Deployment", name)) = controller(&set.metadata) else { return Ok(None) };
            let key = Key::namespaced(namespace, name);
            let found = client.api::<Deployment>().get(&key).await?;
            Ok(found.map(|deployment| Workload::of_deployment(key, &deployment)))
        }
        _ => Ok(None),
    }
}

/// The kind and name of the controller of an object.
fn controller(metadata: &ObjectMeta) -> Option<(&str, &str)> {
    let owners = metadata.owner_references.iter().flatten();
    let mut apps = owners.filter(|owner| owner.api_version.starts_with("apps/"));
    let owner = apps.find(|owner| owner.controller == Some(true))?;
    Some((&owner.kind, &owner.name))
}

/// The status of a workload does not count pods that are shutting down, but those still answer
/// conversions; so the pods themselves are counted too.
async fn unfinished_workload(client: &Client, workload: &Workload) -> Result<Option<String>> {
    let Workload { key, replicas, updated, .. } = workload;
    if !workload.is_observed {
        return Ok(Some(format!("{key} was changed and is not rolled out yet")));
    }
    if updated < replicas || *updated < workload.wanted {
        let text = format!("{updated} of {replicas} replicas of {key} are of the new version");
        return Ok(Some(text));
    }
    let namespace = client.default_namespace();
    let pods = client.api::<Pod>().list().namespace(namespace).matching(workload.selector.clone());
    let running = pods.items().await?.iter().filter(|pod| is_running(pod)).count();
    let updated = usize::try_from(*updated).unwrap_or(0);
    if running > updated {
        return Ok(Some(format!("{} old replicas of {key} are shutting down", running - updated)));
    }
    Ok(None)
}

/// Returns why pods with the labels of this one may be old replicas.
async fn unlike(client: &Client, namespace: &str, own: &Pod) -> Result<Option<String>> {
    let name = own.name_any();
    let labels: BTreeMap<String, String> = own.labels().clone();
    let mut labels: Vec<(&str, &str)> =
        labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    labels.retain(|(name, _)| !OF_ONE_POD.contains(name));
    if labels.is_empty() {
        return Ok(Some(format!(
            "the pod {name} has neither a Deployment or StatefulSet nor labels, so old replicas cannot \
             be found; give it labels"
        )));
    }
    let pods = client.api::<Pod>().list().namespace(namespace).labels(labels).items().await?;
    let others = pods.iter().filter(|pod| is_running(pod) && images(pod) != images(own)).count();
    let text = format!("{others} pods with the labels of {name} run other images");
    Ok((others > 0).then_some(text))
}

fn images(pod: &Pod) -> Vec<&str> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.as_deref()).collect()
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

// === impl Workload ===

impl Workload {
    fn of_deployment(key: Key, deployment: &Deployment) -> Self {
        let spec = deployment.spec.clone().unwrap_or_default();
        let status = deployment.status.clone().unwrap_or_default();
        Self {
            key,
            is_observed: status.observed_generation >= deployment.metadata.generation,
            wanted: spec.replicas.unwrap_or(1),
            replicas: status.replicas.unwrap_or(0),
            updated: status.updated_replicas.unwrap_or(0),
            selector: spec.selector,
        }
    }

    fn of_stateful_set(key: Key, set: &StatefulSet) -> Self {
        let spec = set.spec.clone().unwrap_or_default();
        let status = set.status.clone().unwrap_or_default();
        Self {
            key,
            is_observed: status.observed_generation >= set.metadata.generation,
            wanted: spec.replicas.unwrap_or(1),
            replicas: status.replicas,
            updated: status.updated_replicas.unwrap_or(0),
            selector: spec.selector,
        }
    }
}

#[cfg(test)]
mod tests;
