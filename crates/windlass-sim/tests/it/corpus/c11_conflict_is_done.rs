//! Takes a conflict for success. (Sieve: unhandled results)

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn reconcile(cx: Context<App>, ignore: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let Some(found) = cx.get::<ConfigMap>("web")? else {
        cx.create(&config_map("web", &app.spec.config)).await?;
        return Ok(Next::Done);
    };
    let mut wanted = found.as_ref().clone();
    wanted.data = config_map("web", &app.spec.config).data;
    if wanted != *found {
        match cx.client().api().update(&wanted).await {
            Err(error) if ignore && error.is_conflict() => return Ok(Next::Done),
            updated => drop(updated?),
        }
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($ignore:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $ignore)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the child exists").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("the child has changed").await
        }
    };
}

pub async fn bad_scenario(sim: &mut Sim) -> Result<()> {
    let scenario = scenario!(true);
    scenario(sim).await
}

#[test]
fn a_conflict_that_is_taken_for_success_is_found() {
    flagged("conflict-is-done", Oracle::Converges, scenario!(true));
}

#[test]
fn a_conflict_that_is_retried_survives() {
    green("conflict-is-done-fixed", scenario!(false));
}
