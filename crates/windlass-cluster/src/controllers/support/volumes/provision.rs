//! Making volumes on demand.
//!
//! Real provisioners run outside of the cluster: a claim is marked with the one that should act.
//! For classes whose provisioner begins with `windlass.dev/` the volume is made here, so that a
//! simulated cluster has storage.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::Context;
use windlass::{Result, ResultExt};

use super::{PROVISIONED_BY, class, has_annotation, request};

/// Provisioners that are simulated.
pub const SIMULATED: &str = "windlass.dev/";
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// Has a volume made for a claim.
pub async fn provision(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let name = class(claim);
    let Some(class) = cx.get::<StorageClass>(name)? else {
        let text = format!("storageclass.storage.k8s.io {name:?} not found");
        cx.warn("ProvisioningFailed", text);
        return Ok(());
    };
    let provisioner = class.provisioner.as_str();
    if provisioner.starts_with("kubernetes.io/") {
        let text = format!("no volume plugin matched name: {provisioner}");
        cx.warn("ProvisioningFailed", text);
        return Ok(());
    }
    if !has_annotation(&claim.metadata, PROVISIONER) {
        let annotations = json!({(BETA_PROVISIONER): provisioner, (PROVISIONER): provisioner});
        let patch = Patch::Merge(json!({
            "metadata": {
                "resourceVersion": claim.metadata.resource_version, "annotations": annotations,
            },
        }));
        cx.client().api::<PersistentVolumeClaim>().patch(cx.key(), &patch).await?;
    }
    cx.event(
        "ExternalProvisioning",
        format!(
            "Waiting for a volume to be created either by the external provisioner \
             '{provisioner}' or manually by the system administrator. If volume creation is \
             delayed, please verify that the provisioner is running and correctly registered."
        ),
    );
    if provisioner.starts_with(SIMULATED) {
        simulate(cx, claim, &class).await?;
    }
    Ok(())
}

async fn simulate(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Result<()> {
    let spec = claim.spec.clone().unwrap_or_default();
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {(PROVISIONED_BY): class.provisioner}},
        "spec": {
            "capacity": {"storage": request(claim).to_string()},
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "storageClassName": class.metadata.name,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "mountOptions": class.mount_options,
            "hostPath": {"path": format!("/var/lib/windlass/{name}")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace, "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
        },
    }))?;
    if cx.client().api().create(&volume).await.ignore_already_exists()?.is_some() {
        cx.event("ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
    }
    Ok(())
}
