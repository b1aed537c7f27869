//! Creates a child with a generated name and notes the name in the status. A lost response creates
//! another one. (argo-rollouts#243, scylla-operator#2492)

use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

pub async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if app.status.clone().unwrap_or_default().id.is_empty() {
        let mut child = config_map("", &app.spec.config);
        (child.metadata.name, child.metadata.generate_name) = (None, Some("web-".into()));
        let child = cx.create(&child).await?;
        let name = child.metadata.name.clone().unwrap_or_default();
        cx.status(|status| status.id.clone_from(&name)).await?;
    }
    Ok(Next::Done)
}

pub async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let child = cx.apply(&config_map("web-child", &app.spec.config)).await?;
    let name = child.metadata.name.clone().unwrap_or_default();
    cx.status(|status| status.id.clone_from(&name)).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the child exists").await
        }
    };
}

#[test]
fn a_second_child_is_found() {
    flagged("generate-name", Oracle::NoLeak, scenario!(bad));
}

#[test]
fn a_child_with_a_name_of_its_own_survives() {
    green("generate-name-fixed", scenario!(fixed));
}
