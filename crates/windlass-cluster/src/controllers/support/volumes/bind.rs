//! Writing a binding: the volume first, then the claim.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Client, Key, Result};

use super::matching::refers_to;
use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, has_annotation};

/// Binds a volume and a claim to each other; writes only what is not bound yet.
pub async fn bind(
    client: &Client,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let volume = volume_to_claim(client, volume, claim).await?;
    volume_phase(client, &volume, "Bound", "").await?;
    let claim = claim_to_volume(client, &volume, claim).await?;
    claim_status(client, &claim, "Bound", Some(&volume)).await
}

async fn volume_to_claim(
    client: &Client,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<PersistentVolume> {
    let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    if reference.is_some_and(|r| r.uid.is_some() && r.uid == claim.metadata.uid) {
        return Ok(volume.clone());
    }
    let mut patch = json!({
        "metadata": {"resourceVersion": volume.metadata.resource_version},
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace, "name": claim.metadata.name,
            "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version,
        }},
    });
    if !refers_to(volume, claim) {
        patch["metadata"]["annotations"] = json!({(BOUND_BY_CONTROLLER): "yes"});
    }
    client.api().patch(&Key::of(volume), &Patch::Merge(patch)).await
}

async fn claim_to_volume(
    client: &Client,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<PersistentVolumeClaim> {
    let mut annotations = json!({});
    let mut patch = json!({"metadata": {"resourceVersion": claim.metadata.resource_version}});
    let named = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref());
    if named != volume.metadata.name.as_deref() {
        patch["spec"] = json!({"volumeName": volume.metadata.name});
        annotations[BOUND_BY_CONTROLLER] = json!("yes");
    }
    if !has_annotation(&claim.metadata, BIND_COMPLETED) {
        annotations[BIND_COMPLETED] = json!("yes");
    }
    if annotations.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(claim.clone());
    }
    patch["metadata"]["annotations"] = annotations;
    client.api().patch(&Key::of(claim), &Patch::Merge(patch)).await
}

/// Sets the phase of a volume.
pub async fn volume_phase(
    client: &Client,
    volume: &PersistentVolume,
    phase: &str,
    message: &str,
) -> Result<()> {
    let status = volume.status.clone().unwrap_or_default();
    let old = status.message.as_deref().unwrap_or_default();
    if status.phase.as_deref() == Some(phase) && old == message {
        return Ok(());
    }
    let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    let patch = json!({
        "metadata": {"uid": volume.metadata.uid},
        "status": {"phase": phase, "message": text(message), "reason": null},
    });
    let api = client.api::<PersistentVolume>();
    api.subresource("status").patch(&Key::of(volume), &Patch::Merge(patch)).await.map(drop)
}

/// Sets the phase of a claim, and what its volume offers.
pub async fn claim_status(
    client: &Client,
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> Result<()> {
    let old = claim.status.clone().unwrap_or_default();
    let spec = volume.and_then(|v| v.spec.as_ref());
    let modes = spec.and_then(|s| s.access_modes.clone());
    // Changes of the size of a bound claim are left to the controller that resizes volumes.
    let capacity = match (old.phase.as_deref(), spec) {
        (Some("Bound"), Some(_)) if phase == "Bound" => old.capacity.clone(),
        (_, spec) => spec.and_then(|s| s.capacity.clone()),
    };
    if old.phase.as_deref() == Some(phase) && old.access_modes == modes && old.capacity == capacity
    {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"uid": claim.metadata.uid},
        "status": {"phase": phase, "accessModes": modes, "capacity": capacity},
    });
    let api = client.api::<PersistentVolumeClaim>();
    api.subresource("status").patch(&Key::of(claim), &Patch::Merge(patch)).await.map(drop)
}
