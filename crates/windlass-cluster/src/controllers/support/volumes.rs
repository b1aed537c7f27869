//! Binding of PersistentVolumeClaims and PersistentVolumes.
//!
//! Two controllers share one state: the controller of claims finds volumes and binds them, and the
//! controller of volumes releases a volume when its claim is deleted. Every write names the version
//! it is based on; the second of two concurrent writers reads again.
//!
//! **Invariant:** a volume refers to its claim before the claim names the volume, so no two claims
//! can hold one volume.

mod bind;
mod claim;
mod matching;
mod provision;
mod volume;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use parking_lot::Mutex;
use windlass::cache::Change;
use windlass::controller::Watch;
use windlass::{Controller, Index, Key, Kind, Manager};
use windlass_text::quantity::Quantity;

use super::ephemeral::claim_name;
use crate::controllers::Shared;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Adds both controllers.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let state = Arc::new(State::default());
    let (a, b, c, d) = (state.clone(), state.clone(), state.clone(), state.clone());
    let claims = Controller::<PersistentVolumeClaim>::builder("persistentvolume-binder-controller")
        .reports_as("persistentvolume-controller")
        .watch(Watch::changes(Kind::of::<PersistentVolume>(), move |change, _| a.claims_of(change)))
        .watch(Watch::changes(Kind::of::<StorageClass>(), move |_, _| b.unbound()))
        .watch(Watch::changes(Kind::of::<Pod>(), move |change, _| c.used_by(change)))
        .reads::<Node>()
        .index(&pods_by_claim())
        .build_with(claim::Claims { state: state.clone(), pods: pods_by_claim() });
    let volumes = Controller::<PersistentVolume>::builder("persistentvolume-controller")
        .watch(Watch::changes(Kind::of::<PersistentVolumeClaim>(), move |change, _| {
            d.volumes_of(change)
        }))
        .build_with(volume::Volumes { state });
    builder.add(claims).add(volumes)
}

/// What the two controllers know of each other's objects.
#[derive(Debug, Default)]
struct State {
    /// Claims that wait for a volume.
    unbound: Mutex<BTreeSet<Key>>,
    /// Volumes by the claim they refer to.
    reserved: Mutex<BTreeMap<Key, BTreeSet<String>>>,
}

// === impl State ===

impl State {
    fn unbound(&self) -> Vec<Key> {
        self.unbound.lock().iter().cloned().collect()
    }

    /// The claims a change of a volume matters to.
    fn claims_of(&self, change: &Change) -> Vec<Key> {
        let mut keys = self.unbound();
        for entry in [&change.old, &change.new].into_iter().flatten() {
            let volume = entry.decode::<PersistentVolume>().ok();
            keys.extend(volume.as_ref().and_then(claim_key));
        }
        keys
    }

    /// The waiting claims a pod uses.
    fn used_by(&self, change: &Change) -> Vec<Key> {
        let unbound = self.unbound.lock();
        if unbound.is_empty() {
            return Vec::new();
        }
        let pod = change.object::<Pod>();
        let keys = pod.iter().flat_map(|pod| claims_used(pod));
        keys.filter(|key| unbound.contains(key)).collect()
    }

    /// The volumes a change of a claim matters to.
    fn volumes_of(&self, change: &Change) -> Vec<Key> {
        let mut names = self.reserved.lock().get(change.key()).cloned().unwrap_or_default();
        let claim = change.object::<PersistentVolumeClaim>();
        let volume = claim.as_ref().and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
        names.extend(volume.filter(|name| !name.is_empty()));
        names.iter().map(|name| Key::cluster(name)).collect()
    }

    /// Writes down which claim a volume refers to.
    fn reserve(&self, name: &str, claim: Option<Key>) {
        let mut reserved = self.reserved.lock();
        reserved.retain(|key, names| {
            if Some(key) != claim.as_ref() {
                names.remove(name);
            }
            !names.is_empty()
        });
        if let Some(key) = claim {
            reserved.entry(key).or_default().insert(name.to_string());
        }
    }
}

/// The class of a claim; empty for none.
pub(super) fn class(claim: &PersistentVolumeClaim) -> &str {
    let old = claim.metadata.annotations.as_ref().and_then(|a| a.get(BETA_CLASS));
    let new = claim.spec.as_ref().and_then(|s| s.storage_class_name.as_ref());
    old.or(new).map(String::as_str).unwrap_or_default()
}

/// The storage a claim asks for.
pub(super) fn request(claim: &PersistentVolumeClaim) -> Quantity {
    let requests = claim.spec.as_ref().and_then(|s| s.resources.as_ref()?.requests.as_ref());
    let text = requests.and_then(|r| r.get("storage"));
    text.and_then(|text| text.0.parse().ok()).unwrap_or_else(Quantity::zero)
}

/// The claims of a pod.
pub(super) fn claims_used(pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref();
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let names = volumes.filter_map(|volume| {
        if volume.ephemeral.is_some() {
            return Some(claim_name(pod, volume));
        }
        volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone())
    });
    names.map(|name| Key::new(namespace, &name)).collect()
}

/// Pods by the claims they use.
pub(super) fn pods_by_claim() -> Index<Pod, String> {
    Index::new("claim", |pod: &Pod| claims_used(pod).iter().map(ToString::to_string).collect())
}

/// The claim a volume refers to.
fn claim_key(volume: &PersistentVolume) -> Option<Key> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(Key::new(reference.namespace.as_deref(), reference.name.as_deref()?))
}

fn has_annotation(meta: &kube::core::ObjectMeta, name: &str) -> bool {
    meta.annotations.as_ref().is_some_and(|a| a.contains_key(name))
}
