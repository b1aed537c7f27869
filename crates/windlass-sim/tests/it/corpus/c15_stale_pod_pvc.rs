//! Deletes the volume claim of a pod that it believes to be going. If its view of the pods is old, the
//! claim belongs to the next pod. (instaclustr/cassandra-operator#407)

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::json;
use windlass::client::Deletion;
use windlass::{Context, Key, Next, Result, ResultExt};
use windlass_sim::{Oracle, Sim};

use super::{App, app, flagged, green, watching};

fn pod() -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "web-0", "annotations": {"windlass.dev/terminate-after": "5s"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    }))?)
}

fn claim() -> Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "web-0"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))?)
}

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let key = Key::new(cx.namespace(), "web-0");
    let pod_seen = cx.get::<Pod>("web-0")?;
    let going = pod_seen.as_ref().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
    if app.spec.size == 0 {
        if let Some(pod) = pod_seen.filter(|_| !going) {
            cx.client().api::<Pod>().delete(Deletion::only(&*pod)).await?;
        }
    } else if cx.client().api::<Pod>().get(&key).await?.is_none() {
        cx.create(&claim()?).await.ignore_already_exists()?;
        // Past the client, so that the cache does not know it before the watch does.
        let mut pod = pod()?;
        cx.adopt(&windlass::Kind::of::<Pod>(), &mut pod)?;
        let pods: kube::Api<Pod> = kube::Api::namespaced(cx.client().kube().clone(), "default");
        pods.create(&kube::api::PostParams::default(), &pod).await?;
    }
    if going {
        let claims = cx.client().api::<PersistentVolumeClaim>();
        claims.delete(&key).await?;
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let (pod_seen, claim_seen) =
        (cx.get::<Pod>("web-0")?, cx.get::<PersistentVolumeClaim>("web-0")?);
    if app.spec.size > 0 {
        cx.apply(&claim()?).await?;
        if pod_seen.is_none() {
            cx.create(&pod()?).await.ignore_already_exists()?;
        }
        return Ok(Next::Done);
    }
    if let Some(pod) = pod_seen.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        cx.client().api::<Pod>().delete(Deletion::only(&*pod)).await?;
    }
    if let Some(claim) = claim_seen {
        let claims = cx.client().api::<PersistentVolumeClaim>();
        claims.delete(Deletion::only(&*claim)).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(watching(
                |b| b.owns::<Pod>().owns::<PersistentVolumeClaim>(),
                $reconcile,
            ));
            sim.apply(&app(1, "")).await?;
            sim.settle("one pod").await?;
            sim.merge::<App>("web", json!({"spec": {"size": 0}})).await?;
            sim.settle("no pod").await?;
            sim.merge::<App>("web", json!({"spec": {"size": 1}})).await?;
            sim.settle("one pod again").await
        }
    };
}

#[test]
fn the_claim_of_a_pod_on_an_old_view_is_found() {
    flagged("stale-pod-pvc", Oracle::NoWrongDelete, scenario!(bad));
}

#[test]
fn a_claim_that_follows_the_spec_survives() {
    green("stale-pod-pvc-fixed", scenario!(fixed));
}
