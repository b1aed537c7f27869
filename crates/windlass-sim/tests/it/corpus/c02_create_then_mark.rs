//! Creates a child, then marks it as created and as ready in two patches of the status. Scaling down
//! deletes only what has both marks. (konpyutaika/nifikop#79)

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::{Context, Key, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

fn name(index: i32) -> String {
    format!("node-{index}")
}

async fn remove(cx: &Context<App>, node: &str) -> Result<()> {
    let key = Key::new(cx.namespace(), node);
    cx.client().api::<ConfigMap>().delete(&key).await.map(drop)
}

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    for index in 0..app.spec.size {
        if cx.get::<ConfigMap>(&name(index))?.is_none() {
            cx.create(&config_map(&name(index), "")).await?;
            cx.status(|status| status.marks.push(format!("created {}", name(index)))).await?;
            cx.status(|status| status.marks.push(format!("ready {}", name(index)))).await?;
        }
    }
    let marks = app.status.clone().unwrap_or_default().marks;
    for index in app.spec.size..5 {
        if marks.contains(&format!("ready {}", name(index))) {
            remove(&cx, &name(index)).await?;
            cx.status(|status| status.marks.retain(|mark| !mark.ends_with(&name(index)))).await?;
        }
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    for index in 0..app.spec.size {
        cx.apply(&config_map(&name(index), "")).await?;
    }
    for index in app.spec.size..5 {
        if cx.get::<ConfigMap>(&name(index))?.is_some() {
            remove(&cx, &name(index)).await?;
        }
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&app(2, "")).await?;
            sim.settle("two nodes").await?;
            sim.merge::<App>("web", json!({"spec": {"size": 1}})).await?;
            sim.settle("one node").await
        }
    };
}

#[test]
fn a_child_without_its_mark_is_found() {
    flagged("create-then-mark", Oracle::Converges, scenario!(bad));
}

#[test]
fn children_that_are_looked_up_survive() {
    green("create-then-mark-fixed", scenario!(fixed));
}
