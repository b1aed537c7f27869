//! Finalizers that protect claims in use and bound volumes from deletion.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use windlass::controller::{Context, Predicate, Watch};
use windlass::{
    Controller, Error, Index, Kind, Manager, Next, Object, Reconciler, Result, ResultExt,
};

use super::volumes::{claims_used, pods_by_claim};
use crate::controllers::Shared;
use crate::controllers::pod;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// Adds the controller of claims.
pub fn add_claims(builder: Manager, _: &Shared) -> Manager {
    let users = |change: &windlass::cache::Change| {
        let pod = change.object::<Pod>();
        pod.iter().flat_map(|pod| claims_used(pod)).collect::<Vec<_>>()
    };
    // A pod that is still there cannot free a claim.
    let gone = Predicate::new(|change| change.new.is_none()).resyncs();
    builder.add(
        Controller::<PersistentVolumeClaim>::builder("persistentvolumeclaim-protection-controller")
            .watch(Watch::changes(Kind::of::<Pod>(), move |change, _| users(change)).when(gone))
            .index(&pods_by_claim())
            .build_with(Claims { pods: pods_by_claim() }),
    )
}

/// Adds the controller of volumes.
pub fn add_volumes(builder: Manager, _: &Shared) -> Manager {
    builder.add(
        Controller::<PersistentVolume>::builder("persistentvolume-protection-controller")
            .build(volume),
    )
}

struct Claims {
    pods: Index<Pod, String>,
}

impl Reconciler<PersistentVolumeClaim> for Claims {
    type Error = Error;

    async fn reconcile(&self, cx: Context<PersistentVolumeClaim>) -> Result<Next, Error> {
        let cx = &cx;
        let Some(claim) = cx.object() else { return Ok(Next::Done) };
        // A pod without a node has not seen the claim, and will not once it is being deleted.
        let users = cx.list::<Pod>().by(&self.pods, cx.key().to_string()).items()?;
        let used = users.iter().any(|pod| pod::node(pod).is_some());
        protect(cx, claim, CLAIM, used).await?;
        Ok(Next::Done)
    }
}

async fn volume(cx: Context<PersistentVolume>) -> Result<Next> {
    let Some(volume) = cx.object() else { return Ok(Next::Done) };
    let bound = volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    protect(&cx, volume, VOLUME, bound).await?;
    Ok(Next::Done)
}

/// Adds the finalizer to an object, and removes it from one that is being deleted and not in use.
async fn protect<K>(cx: &Context<K>, object: Arc<K>, finalizer: &str, used: bool) -> Result<()>
where
    K: Object<DynamicType = ()>,
{
    let deleting = object.meta().deletion_timestamp.is_some();
    let api = cx.client().api::<K>();
    let changed = api.change(&object, |object| {
        let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
        let has = finalizers.iter().any(|name| name == finalizer);
        match (deleting, has) {
            (false, false) => finalizers.push(finalizer.into()),
            (true, true) if !used => finalizers.retain(|name| name != finalizer),
            _ => return,
        }
        object.meta_mut().finalizers = Some(finalizers).filter(|all| !all.is_empty());
    });
    changed.await.ignore_not_found()?;
    Ok(())
}
