//! Does an old replica of the operator still run?

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;

use crate::cache::Key;
use crate::client::Client;
use crate::error::Result;

/// Returns why the rollout of a deployment is not complete, or `None` if every pod that runs is of its
/// newest template.
///
/// The status of a deployment does not count pods that are shutting down, but those still answer
/// conversions; so the pods themselves are counted too. An operator without such a deployment, on a
/// laptop for example, has no replica to wait for.
pub(super) async fn unfinished(client: &Client, name: &str) -> Result<Option<String>> {
    let namespace = client.default_namespace().to_owned();
    let key = Key::namespaced(&namespace, name);
    let Some(deployment) = client.api::<Deployment>().get(&key).await? else { return Ok(None) };
    let (spec, status) = (deployment.spec.clone(), deployment.status.clone().unwrap_or_default());
    let spec = spec.unwrap_or_default();
    let replicas = status.replicas.unwrap_or(0);
    let updated = status.updated_replicas.unwrap_or(0);
    if status.observed_generation < deployment.metadata.generation {
        return Ok(Some(format!("the deployment {key} was changed and is not rolled out yet")));
    }
    if updated < replicas || updated < spec.replicas.unwrap_or(1) {
        let text = format!("{updated} of {replicas} replicas of {key} are of the new version");
        return Ok(Some(text));
    }
    let labels = spec.selector.match_labels.unwrap_or_default();
    let pods = client
        .api::<Pod>()
        .list()
        .namespace(&namespace)
        .labels(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
        .items()
        .await?;
    let is_running = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let running = pods.iter().filter(|pod| is_running(pod)).count();
    let updated = usize::try_from(updated).unwrap_or(0);
    if running > updated {
        return Ok(Some(format!("{} old replicas of {key} are shutting down", running - updated)));
    }
    Ok(None)
}
