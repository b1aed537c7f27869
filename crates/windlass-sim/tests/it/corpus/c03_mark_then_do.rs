//! Notes in the status that a config is applied, then applies it. A crash in between leaves the old
//! config, and the note that nothing is to do.

use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn reconcile(cx: Context<App>, mark_first: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let config = &app.spec.config;
    if app.status.clone().unwrap_or_default().id == *config {
        return Ok(Next::Done);
    }
    if mark_first {
        cx.status(|status| status.id.clone_from(config)).await?;
        cx.apply(&config_map("web", config)).await?;
    } else {
        cx.apply(&config_map("web", config)).await?;
        cx.status(|status| status.id.clone_from(config)).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($mark_first:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $mark_first)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("applied").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("applied again").await
        }
    };
}

#[test]
fn a_mark_before_the_deed_is_found() {
    flagged("mark-then-do", Oracle::Converges, scenario!(true));
}

#[test]
fn a_mark_after_the_deed_survives() {
    green("mark-then-do-fixed", scenario!(false));
}
