//! Replaces a child whose content is wrong, past the client. On an old view it replaces the new one
//! again.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use windlass::{Context, Kind, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let mut wanted = config_map("web", &app.spec.config);
    let maps: Api<ConfigMap> = Api::namespaced(cx.client().kube().clone(), "default");
    let seen = cx.get::<ConfigMap>("web")?;
    if seen.as_ref().is_some_and(|map| map.data == wanted.data) {
        return Ok(Next::Done);
    }
    if seen.is_some() {
        let deleted = maps.delete("web", &DeleteParams::default()).await;
        deleted.map(drop).or_else(|error| if is(&error, 404) { Ok(()) } else { Err(error) })?;
    }
    cx.adopt(&Kind::of::<ConfigMap>(), &mut wanted)?;
    let created = maps.create(&PostParams::default(), &wanted).await;
    created.map(drop).or_else(|error| if is(&error, 409) { Ok(()) } else { Err(error) })?;
    Ok(Next::Done)
}

fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
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
            sim.settle("made").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("replaced").await?;
            sim.merge::<App>("web", json!({"spec": {"size": 2}})).await?;
            sim.settle("nothing to do").await
        }
    };
}

#[test]
fn a_second_replacement_is_found() {
    flagged("replaces-on-an-old-view", Oracle::NoWrongDelete, scenario!(bad));
}

#[test]
fn a_change_in_place_survives() {
    green("replaces-on-an-old-view-fixed", scenario!(fixed));
}
