//! Reads an object, changes it and writes the whole of it without its version. What somebody else has
//! written in between is lost. (elastic/cloud-on-k8s#3147)

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let Some(found) = cx.client().api::<ConfigMap>().get(cx.key()).await? else {
        cx.create(&config_map("web", &app.spec.config)).await?;
        return Ok(Next::Done);
    };
    let mut wanted = found.as_ref().clone();
    wanted.data = config_map("web", &app.spec.config).data;
    if wanted != *found {
        wanted.metadata.resource_version = None;
        cx.client().api().update(&wanted).await?;
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    cx.apply(&config_map("web", &app.spec.config)).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the child exists").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("the child has changed").await?;
            let note = json!({"metadata": {"annotations": {"note": "mine"}}});
            sim.merge::<ConfigMap>("web", note).await?;
            sim.settle("the child has a note").await
        }
    };
}

#[test]
fn an_update_that_loses_a_change_of_the_user_is_found() {
    flagged("put-without-version", Oracle::OneOwner, scenario!(bad));
}

#[test]
fn an_apply_of_the_own_fields_survives() {
    green("put-without-version-fixed", scenario!(fixed));
}
