//! Which volume fits a claim best.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::core::{Selector, SelectorExt};
use windlass_text::quantity::Quantity;

use super::{class, request};

/// Returns `true` if a volume refers to a claim: by name, and by UID if it has one.
pub fn refers_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()) else {
        return false;
    };
    let uid = reference.uid.as_deref().unwrap_or_default();
    reference.name == claim.metadata.name
        && reference.namespace == claim.metadata.namespace
        && (uid.is_empty() || Some(uid) == claim.metadata.uid.as_deref())
}

/// The storage of a volume.
pub fn capacity(volume: &PersistentVolume) -> Quantity {
    let capacity = volume.spec.as_ref().and_then(|s| s.capacity.as_ref());
    let text = capacity.and_then(|c| c.get("storage"));
    text.and_then(|text| text.0.parse().ok()).unwrap_or_else(Quantity::zero)
}

/// The volume for a claim: one that was reserved for it, or else the smallest that is enough.
///
/// With `reserved_only` no volume is taken that does not refer to the claim already.
pub fn best(
    volumes: &[Arc<PersistentVolume>],
    claim: &PersistentVolumeClaim,
    reserved_only: bool,
) -> Option<Arc<PersistentVolume>> {
    let wanted = request(claim);
    let alive = || volumes.iter().filter(|v| v.metadata.deletion_timestamp.is_none());
    let fits = |v: &&Arc<PersistentVolume>| same_mode(v, claim) && capacity(v) >= wanted;
    if let Some(volume) = alive().filter(fits).find(|v| refers_to(v, claim)) {
        return Some(volume.clone());
    }
    if reserved_only {
        return None;
    }
    let free = alive().filter(fits).filter(|v| is_free(v) && suits(v, claim));
    let order = |v: &&Arc<PersistentVolume>| {
        let modes = v.spec.as_ref().and_then(|s| s.access_modes.as_ref()).map_or(0, Vec::len);
        (modes, capacity(v), v.metadata.name.clone())
    };
    free.min_by_key(order).cloned()
}

fn is_free(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref());
    let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    phase == Some("Available") && reference.is_none()
}

/// Returns `true` if labels, class and access modes are what a claim asks for.
fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else { return false };
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    let selected = match wants.selector.clone().map(Selector::try_from) {
        None => true,
        Some(Ok(selector)) => selector.matches(&labels),
        Some(Err(_)) => false,
    };
    let attributes = |name: &Option<String>| name.clone().unwrap_or_default();
    selected
        && volume_class(volume) == class(claim)
        && attributes(&has.volume_attributes_class_name)
            == attributes(&wants.volume_attributes_class_name)
        && has_modes(volume, claim)
}

/// The class of a volume; empty for none.
pub fn volume_class(volume: &PersistentVolume) -> &str {
    let old = volume.metadata.annotations.as_ref().and_then(|a| a.get(super::BETA_CLASS));
    let new = volume.spec.as_ref().and_then(|s| s.storage_class_name.as_ref());
    old.or(new).map(String::as_str).unwrap_or_default()
}

fn has_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let has = volume.spec.as_ref().and_then(|s| s.access_modes.clone()).unwrap_or_default();
    let wants = claim.spec.as_ref().and_then(|s| s.access_modes.clone()).unwrap_or_default();
    wants.iter().all(|mode| has.contains(mode))
}

/// Returns `true` if both are block devices, or both file systems.
pub fn same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |text: Option<&str>| text.unwrap_or("Filesystem").to_string();
    mode(volume.spec.as_ref().and_then(|s| s.volume_mode.as_deref()))
        == mode(claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()))
}

/// Returns why a volume that a claim names cannot be bound to it.
pub fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.metadata.deletion_timestamp.is_some() {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        return Some(format!("the volume is marked for deletion {name:?}"));
    }
    unfit(volume, claim).map(Into::into)
}

fn unfit(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let has = volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
    let wants = claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
    if capacity(volume) < request(claim) {
        Some("requested PV is too small")
    } else if volume_class(volume) != class(claim) {
        Some("storageClassName does not match")
    } else if has.unwrap_or_default() != wants.unwrap_or_default() {
        Some("volumeAttributesClassName does not match")
    } else if !same_mode(volume, claim) {
        Some("incompatible volumeMode")
    } else if !has_modes(volume, claim) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, size: &str, modes: &[&str]) -> Arc<PersistentVolume> {
        let volume = json!({
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": size}, "accessModes": modes},
            "status": {"phase": "Available"},
        });
        Arc::new(serde_json::from_value(volume).expect("a volume"))
    }

    fn claim(size: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "a", "uid": "1"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
        }))
        .expect("a claim")
    }

    fn name(volume: Option<Arc<PersistentVolume>>) -> Option<String> {
        volume.and_then(|v| v.metadata.name.clone())
    }

    #[test]
    fn the_smallest_volume_that_is_enough_wins() {
        let modes = ["ReadWriteOnce"];
        let volumes = [
            volume("big", "10Gi", &modes),
            volume("mid", "3Gi", &modes),
            volume("tiny", "1Gi", &modes),
            volume("many", "2Gi", &["ReadWriteOnce", "ReadOnlyMany"]),
        ];
        assert_eq!(name(best(&volumes, &claim("2Gi"), false)).as_deref(), Some("mid"));
        assert_eq!(name(best(&volumes, &claim("20Gi"), false)), None);
        assert_eq!(name(best(&volumes, &claim("2Gi"), true)), None);
    }

    #[test]
    fn a_volume_reserved_for_the_claim_comes_first() {
        let modes = ["ReadWriteOnce"];
        let mut mine = (*volume("mine", "10Gi", &modes)).clone();
        mine.spec.get_or_insert_default().claim_ref =
            serde_json::from_value(json!({"name": "c", "namespace": "a"})).ok();
        let volumes = [volume("small", "1Gi", &modes), Arc::new(mine)];
        assert_eq!(name(best(&volumes, &claim("1Gi"), true)).as_deref(), Some("mine"));
    }
}
