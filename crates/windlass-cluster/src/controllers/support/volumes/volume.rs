//! The controller of volumes: follows the claim of a volume, and reclaims the volume when the claim
//! is deleted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;
use windlass::client::{Deletion, Patch};
use windlass::controller::Context;
use windlass::events::EventType;
use windlass::{Error, Next, Reconciler, Result, ResultExt};

use super::bind::volume_phase;
use super::{BOUND_BY_CONTROLLER, PROVISIONED_BY, State};
use super::{claim_key, has_annotation, matching, provision};
use crate::controllers::support::publish;

pub struct Volumes {
    pub state: Arc<State>,
}

type Cx = Context<PersistentVolume>;

impl Reconciler<PersistentVolume> for Volumes {
    type Error = Error;

    async fn reconcile(&self, cx: Cx) -> Result<Next, Error> {
        let cx = &cx;
        let Some(volume) = cx.object() else {
            self.state.reserve(cx.name(), None);
            return Ok(Next::Done);
        };
        self.state.reserve(cx.name(), claim_key(&volume));
        self.follow(cx, &volume).await.ignore_not_found()?;
        Ok(Next::Done)
    }
}

// === impl Volumes ===

impl Volumes {
    async fn follow(&self, cx: &Cx, volume: &PersistentVolume) -> Result<()> {
        let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.clone());
        let (Some(reference), Some(key)) = (reference, claim_key(volume)) else {
            return volume_phase(cx.client(), volume, "Available", "").await;
        };
        let uid = reference.uid.as_deref().unwrap_or_default();
        if uid.is_empty() {
            // Reserved by name; the claim will bind it.
            return volume_phase(cx.client(), volume, "Available", "").await;
        }
        let mut claim = cx.client().cached().get::<PersistentVolumeClaim>(&key)?;
        if claim.is_none() {
            // The volume may be newer than what is cached of claims.
            claim = cx.client().api::<PersistentVolumeClaim>().get(&key).await?;
        }
        let claim = claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid));
        let Some(claim) = claim else { return self.release(cx, volume).await };
        let named = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default();
        if named.is_empty() {
            if !matching::same_mode(volume, &claim) {
                let text = format!(
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to \
                     incompatible volumeMode.",
                    claim.metadata.name.as_deref().unwrap_or_default()
                );
                cx.warn("VolumeMismatch", text);
                let text = format!(
                    "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to \
                     incompatible volumeMode.",
                    cx.name()
                );
                publish(cx.recorder(), EventType::Warning, &*claim, "VolumeMismatch", text);
            }
            return Ok(());
        }
        if named == cx.name() {
            return volume_phase(cx.client(), volume, "Bound", "").await;
        }
        if has_annotation(&volume.metadata, PROVISIONED_BY) && policy(volume) == "Delete" {
            return self.release(cx, volume).await;
        }
        self.unbind(cx, volume).await
    }

    /// Gives up a claim that is bound to another volume.
    async fn unbind(&self, cx: &Cx, volume: &PersistentVolume) -> Result<()> {
        let mut patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version}});
        if has_annotation(&volume.metadata, BOUND_BY_CONTROLLER) {
            patch["metadata"]["annotations"] = json!({(BOUND_BY_CONTROLLER): null});
            patch["spec"] = json!({"claimRef": null});
        } else {
            patch["spec"] = json!({"claimRef": {"uid": null}});
        }
        let volume = cx.client().api().patch(cx.key(), &Patch::Merge(patch)).await?;
        volume_phase(cx.client(), &volume, "Available", "").await
    }

    /// Reclaims a volume whose claim is deleted.
    async fn release(&self, cx: &Cx, volume: &PersistentVolume) -> Result<()> {
        let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref());
        if !matches!(phase, Some("Released" | "Failed")) {
            volume_phase(cx.client(), volume, "Released", "").await?;
        }
        match policy(volume) {
            "Delete" => self.delete(cx, volume, phase).await,
            "Recycle" => {
                let text = "No recycler plugin found for the volume!";
                self.fail(cx, volume, phase, "VolumeFailedRecycle", text).await
            }
            _ => Ok(()),
        }
    }

    async fn delete(&self, cx: &Cx, volume: &PersistentVolume, phase: Option<&str>) -> Result<()> {
        if volume.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let annotations = volume.metadata.annotations.as_ref();
        match annotations.and_then(|a| a.get(PROVISIONED_BY)).map(String::as_str) {
            Some(by) if by.starts_with(provision::SIMULATED) => {
                let api = cx.client().api::<PersistentVolume>();
                return api.delete(Deletion::only(volume)).await.map(drop);
            }
            // It was created outside of the cluster and is deleted there.
            Some(by) if !by.starts_with("kubernetes.io/") => return Ok(()),
            _ => {}
        }
        let path = volume.spec.as_ref().and_then(|s| s.host_path.as_ref()).map(|h| &*h.path);
        let text = match path {
            Some(path) if path.starts_with("/tmp/") && path.len() > 5 => {
                let api = cx.client().api::<PersistentVolume>();
                return api.delete(Deletion::only(volume)).await.map(drop);
            }
            Some(path) => {
                format!("host_path deleter only supports /tmp/.+ but received provided {path}")
            }
            None => format!(
                "error getting deleter volume plugin for volume {:?}: no deletable volume plugin \
                 matched",
                cx.name()
            ),
        };
        self.fail(cx, volume, phase, "VolumeFailedDelete", &text).await
    }

    async fn fail(
        &self,
        cx: &Cx,
        volume: &PersistentVolume,
        phase: Option<&str>,
        reason: &str,
        text: &str,
    ) -> Result<()> {
        if phase != Some("Failed") {
            cx.warn(reason, text);
        }
        volume_phase(cx.client(), volume, "Failed", text).await
    }
}

fn policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    spec.and_then(|s| s.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}
