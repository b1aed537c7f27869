//! Ephemeral volumes: claims that are created and deleted with their pod.
//!
//! The pod owns its claims, so the garbage collector deletes them with it. An existing claim of
//! that name that the pod does not own is left alone, and an event on the pod reports it.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;
use windlass::cache::Change;
use windlass::controller::{Context, Predicate, Watch};
use windlass::{Controller, Error, Key, Kind, Manager, Next, Result, owner};

use crate::controllers::{Shared, pod};

/// The part of a pod that says what volumes it has, cheap to decode.
#[derive(Debug, Deserialize)]
struct Brief {
    spec: BriefSpec,
}

#[derive(Debug, Deserialize)]
struct BriefSpec {
    #[serde(default)]
    volumes: Vec<BriefVolume>,
}

#[derive(Debug, Deserialize)]
struct BriefVolume {
    ephemeral: Option<IgnoredAny>,
}

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    // A claim that is lost is made again for the pod that owned it.
    let lost =
        Watch::changes(Kind::of::<PersistentVolumeClaim>(), move |change, _| owning_pod(change))
            .when(Predicate::new(|change| change.new.is_none()));
    builder.add(
        Controller::<Pod>::builder("ephemeral-volume-controller")
            .reports_as("ephemeral_volume")
            .when(Predicate::new(brings_claims))
            .watch(lost)
            .build(|cx: Context<Pod>| async move { reconcile(&cx).await }),
    )
}

/// The name of the claim of a volume.
pub(super) fn claim_name(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", pod::name(pod), volume.name)
}

/// Volumes of a pod never change, so only its creation matters.
fn brings_claims(change: &Change) -> bool {
    change.old.is_none()
        && change
            .object::<Brief>()
            .is_some_and(|pod| pod.spec.volumes.iter().any(|volume| volume.ephemeral.is_some()))
}

fn owning_pod(change: &Change) -> Vec<Key> {
    let entry = change.entry();
    let pod = entry.owners.iter().find(|o| o.controller && &*o.kind == "Pod");
    pod.map(|pod| Key::new(entry.key.namespace(), &pod.name)).into_iter().collect()
}

fn ephemeral(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|volume| volume.ephemeral.is_some())
}

async fn reconcile(cx: &Context<Pod>) -> Result<Next> {
    let Some(pod) = cx.object() else { return Ok(Next::Done) };
    if pod::is_terminating(&pod) {
        return Ok(Next::Done);
    }
    for volume in ephemeral(&pod) {
        if let Err(why) = provide(cx, &pod, volume).await? {
            let text = format!("ephemeral volume {}: {why}", volume.name);
            cx.warn("FailedBinding", &*text);
            return Err(Error::other(format!("pod {}, {text}", cx.key())));
        }
    }
    Ok(Next::Done)
}

/// Creates the claim of a volume unless it exists; the inner error is reported on the pod.
async fn provide(cx: &Context<Pod>, pod: &Pod, volume: &Volume) -> Result<Result<(), String>> {
    let name = claim_name(pod, volume);
    if let Some(there) = cx.get::<PersistentVolumeClaim>(&name)? {
        if owner::is_controlled_by(&*there, pod) {
            return Ok(Ok(()));
        }
        let place = there.metadata.namespace.as_deref().unwrap_or_default();
        let text =
            format!("PVC {place}/{name} was not created for pod {} (pod is not owner)", cx.key());
        return Ok(Err(text));
    }
    let template = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.clone());
    let Some(template) = template else { return Ok(Ok(())) };
    let meta = template.metadata.unwrap_or_default();
    let mut claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: pod.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            ..ObjectMeta::default()
        },
        spec: Some(template.spec),
        status: None,
    };
    owner::set_controller(pod, &mut claim)?;
    match cx.client().api().create(&claim).await {
        Ok(_) => Ok(Ok(())),
        Err(error) => Ok(Err(format!("create PVC {name}: {}", pod::message(&error)))),
    }
}
