//! Writes the time of the last reconcile into the status, with every reconcile.
//! (knative/serving#1181, kubeflow/notebooks#1343)

use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, flagged, green, operator};

async fn bad(cx: Context<App>) -> Result<Next> {
    if cx.object().is_some() {
        let now = cx.clock().time().0.to_string();
        cx.status(|status| status.time.clone_from(&now)).await?;
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    if let Some(app) = cx.object() {
        let changed = cx.clock().time().0.to_string();
        cx.status(|status| {
            if status.id != app.spec.config {
                (status.id, status.time) = (app.spec.config.clone(), changed.clone());
            }
        })
        .await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&app(1, "a")).await?;
            sim.settle("reported").await
        }
    };
}

#[test]
fn a_time_that_is_written_with_every_reconcile_is_found() {
    flagged("now-in-status", Oracle::Quiet, scenario!(bad));
}

#[test]
fn a_time_that_is_written_with_a_change_survives() {
    green("now-in-status-fixed", scenario!(fixed));
}
