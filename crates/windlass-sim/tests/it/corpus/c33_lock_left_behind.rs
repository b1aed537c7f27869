//! Marks the object as being worked on, works, and removes the mark. After a crash it takes its own mark
//! for that of somebody else, and waits for ever.

use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

const LOCK: &str = "corpus.example.com/busy";

async fn mark(cx: &Context<App>, value: Option<&str>) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {LOCK: value}}}));
    cx.client().api::<App>().patch(cx.key(), &patch).await.map(drop)
}

async fn reconcile(cx: Context<App>, respects: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let done = app.status.clone().unwrap_or_default().id == app.spec.config;
    let annotations = app.metadata.annotations.as_ref();
    let busy = annotations.is_some_and(|annotations| annotations.contains_key(LOCK));
    if busy && respects {
        return Ok(Next::Done); // somebody else is at it
    }
    if !done {
        mark(&cx, Some("yes")).await?;
        cx.apply(&config_map("web", &app.spec.config)).await?;
        cx.status(|status| status.id.clone_from(&app.spec.config)).await?;
    }
    if !done || busy {
        mark(&cx, None).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($respects:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $respects)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("done").await
        }
    };
}

#[test]
fn a_lock_of_an_earlier_life_is_found() {
    flagged("lock-left-behind", Oracle::Converges, scenario!(true));
}

#[test]
fn work_that_is_taken_up_again_survives() {
    green("lock-left-behind-fixed", scenario!(false));
}
