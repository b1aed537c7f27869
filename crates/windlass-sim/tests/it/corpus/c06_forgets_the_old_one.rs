//! Replaces a load balancer: makes the new one, notes it in the status, and deletes the old one. After a
//! crash before the deletion nobody knows the old one.

use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::c05_external_id_in_status::Cloud;
use super::{App, app, flagged, green, operator};

async fn reconcile(cx: Context<App>, cloud: Cloud, note_first: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let old = app.status.clone().unwrap_or_default().id;
    let new = format!("web-{}", app.spec.config);
    if old == new {
        return Ok(Next::Done);
    }
    cloud.create(&new, Some(&new)).await?;
    if note_first {
        cx.status(|status| status.id.clone_from(&new)).await?;
    }
    if !old.is_empty() {
        cloud.delete(&old).await?;
    }
    cx.status(|status| status.id.clone_from(&new)).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($note_first:expr) => {
        async |sim: &mut Sim| {
            let cloud = Cloud::default();
            sim.install::<App>();
            sim.operator(operator(move |cx| reconcile(cx, cloud.clone(), $note_first)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the first load balancer").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("the second load balancer").await
        }
    };
}

#[test]
fn a_load_balancer_that_is_forgotten_is_found() {
    flagged("forgets-the-old-one", Oracle::NoLeak, scenario!(true));
}

#[test]
fn a_load_balancer_that_is_noted_until_it_is_gone_survives() {
    green("forgets-the-old-one-fixed", scenario!(false));
}
