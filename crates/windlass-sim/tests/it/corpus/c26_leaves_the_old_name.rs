//! Names its child after a field of the spec. When the field changes, the child of the old name stays.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::client::Deletion;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn reconcile(cx: Context<App>, prunes: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let name = format!("web-{}", app.spec.config.len());
    cx.apply(&config_map(&name, "x")).await?;
    if prunes {
        let old = cx.list::<ConfigMap>().owned().items()?;
        for map in old.iter().filter(|map| map.metadata.name.as_ref() != Some(&name)) {
            cx.client().api::<ConfigMap>().delete(Deletion::only(&**map)).await?;
        }
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($prunes:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $prunes)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("made").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "bb"}})).await?;
            sim.settle("renamed").await
        }
    };
}

#[test]
fn a_child_of_an_old_name_is_found() {
    flagged("leaves-the-old-name", Oracle::NoLeak, scenario!(false));
}

#[test]
fn a_child_that_is_pruned_survives() {
    green("leaves-the-old-name-fixed", scenario!(true));
}
