//! Notes that a spec cannot be fulfilled, and looks at nothing else any more: it does not recover when
//! the spec is corrected. (class of Acto: no recovery from an erroneous state)

use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

const FAILED: &str = "failed";

async fn reconcile(cx: Context<App>, for_good: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let failed = app.status.clone().unwrap_or_default().id == FAILED;
    if app.spec.config.is_empty() || (for_good && failed) {
        cx.status(|status| status.id = FAILED.into()).await?;
        return Ok(Next::Done);
    }
    cx.status(|status| status.id.clear()).await?;
    cx.apply(&config_map("web", &app.spec.config)).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($for_good:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $for_good)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the child exists").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("the child has changed").await
        }
    };
}

#[test]
fn a_failure_that_is_never_forgotten_is_found() {
    flagged("stuck-after-bad-spec", Oracle::Rollback, scenario!(true));
}

#[test]
fn a_failure_that_follows_from_the_spec_survives() {
    green("stuck-after-bad-spec-fixed", scenario!(false));
}
