//! Creates as many pods as the cache lacks, past the client. If the view of the pods is old, it
//! creates them twice and deletes the surplus. (kuberay#715, kubebuilder#1381, cluster-api#13649)

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;
use windlass::client::Deletion;
use windlass::{Context, Kind, Next, Result};
use windlass_sim::{Explore, Oracle, Sim};

use super::{App, app, flagged, watching};

fn pod(metadata: serde_json::Value) -> Result<Pod> {
    let spec = json!({"containers": [{"name": "app", "image": "app"}]});
    Ok(serde_json::from_value(json!({"metadata": metadata, "spec": spec}))?)
}

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let pods = cx.list::<Pod>().owned().items()?;
    let wanted = app.spec.size as usize;
    let api: kube::Api<Pod> = kube::Api::namespaced(cx.client().kube().clone(), "default");
    for _ in pods.len()..wanted {
        let mut pod = pod(json!({"generateName": "web-"}))?;
        cx.adopt(&Kind::of::<Pod>(), &mut pod)?;
        api.create(&PostParams::default(), &pod).await?;
    }
    for pod in pods.iter().skip(wanted) {
        cx.client().api::<Pod>().delete(Deletion::only(&**pod)).await?;
    }
    let marks = vec![format!("{wanted} wanted")];
    cx.status(|status| status.marks.clone_from(&marks)).await?;
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    for index in 0..app.spec.size {
        let name = format!("web-{index}");
        if cx.get::<Pod>(&name)?.is_none() {
            cx.create(&pod(json!({"name": name}))?).await?;
        }
    }
    let marks = vec![format!("{} wanted", app.spec.size)];
    cx.status(|status| status.marks.clone_from(&marks)).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(watching(|b| b.owns::<Pod>(), $reconcile));
            sim.apply(&app(1, "")).await?;
            sim.settle("one pod").await?;
            sim.merge::<App>("web", json!({"spec": {"size": 2}})).await?;
            sim.settle("two pods").await
        }
    };
}

#[test]
fn pods_that_are_created_twice_are_found() {
    flagged("count-from-cache", Oracle::NoWrongDelete, scenario!(bad));
}

#[test]
fn pods_with_names_of_their_own_survive() {
    // Pods that are left over after a transition back are not this operator's concern.
    let explore = Explore::of("count-from-cache-fixed", scenario!(fixed)).all_singles();
    let report = explore.without(Oracle::Rollback).run();
    assert!(report.is_ok(), "\n{report}");
}
