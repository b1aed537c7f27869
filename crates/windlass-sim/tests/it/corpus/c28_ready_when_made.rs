//! Reports Ready as soon as the Deployment exists, whether or not its pods run.

use k8s_openapi::api::apps::v1::Deployment;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::c24_replicas_fight::deployment;
use super::{App, app, flagged, green, watching};

async fn reconcile(cx: Context<App>, at_once: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let deployment = cx.apply(&deployment(Some(app.spec.size), "app")?).await?;
    let status = deployment.status.clone().unwrap_or_default();
    let current = status.observed_generation == deployment.metadata.generation;
    let runs = current && status.ready_replicas.unwrap_or_default() == app.spec.size;
    cx.status(|status| {
        cx.condition("Ready", at_once || runs).reason("Looked").set(&mut status.conditions);
    })
    .await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($at_once:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>();
            sim.operator(watching(|b| b.owns::<Deployment>(), |cx| reconcile(cx, $at_once)));
            sim.apply(&app(1, "")).await?;
            sim.settle("one pod").await
        }
    };
}

#[test]
fn a_claim_without_a_look_is_found() {
    flagged("ready-when-made", Oracle::Truthful, scenario!(true));
}

#[test]
fn a_claim_after_a_look_survives() {
    green("ready-when-made-fixed", scenario!(false));
}
