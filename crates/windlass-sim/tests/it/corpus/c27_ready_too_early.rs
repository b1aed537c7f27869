//! Reports Ready because of counts that belong to an earlier generation of the Deployment.
//! (cloudnative-pg#11390, koku-service-operator#176)

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::c24_replicas_fight::deployment;
use super::{App, app, flagged, green, watching};

async fn reconcile(cx: Context<App>, early: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let size = app.spec.size;
    let deployment = cx.apply(&deployment(Some(size), &app.spec.config)?).await?;
    let status = deployment.status.clone().unwrap_or_default();
    let current = status.observed_generation == deployment.metadata.generation;
    let updated = status.updated_replicas == Some(size) && status.replicas == Some(size);
    let available = status.available_replicas == Some(size);
    let ready = available && (early || (current && updated));
    cx.status(|status| {
        cx.condition("Ready", ready).reason("Counted").set(&mut status.conditions);
    })
    .await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($early:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>();
            sim.operator(watching(|b| b.owns::<Deployment>(), |cx| reconcile(cx, $early)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("one pod").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("one new pod").await
        }
    };
}

#[test]
fn a_status_from_an_earlier_generation_is_found() {
    flagged("ready-too-early", Oracle::Truthful, scenario!(true));
}

#[test]
fn a_status_that_waits_for_its_generation_survives() {
    green("ready-too-early-fixed", scenario!(false));
}
