//! Adds an entry to the status with each poll, whether or not something has changed.

use std::time::Duration;

use windlass::{Context, Next, Predicate, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, flagged, green, watching};

async fn reconcile(cx: Context<App>, replaces: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let mark = format!("checked {}", app.spec.config);
    cx.status(|status| {
        if replaces {
            status.marks.clear();
        }
        status.marks.push(mark.clone());
    })
    .await?;
    Ok(Next::After(Duration::from_secs(50)))
}

macro_rules! scenario {
    ($replaces:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>();
            sim.operator(watching(
                |builder| builder.when(Predicate::generation_changed()),
                |cx| reconcile(cx, $replaces),
            ));
            sim.apply(&app(1, "a")).await?;
            sim.settle("checked").await
        }
    };
}

#[test]
fn a_status_that_grows_is_found() {
    flagged("grows-with-each-poll", Oracle::Quiet, scenario!(false));
}

#[test]
fn an_entry_that_is_replaced_survives() {
    green("grows-with-each-poll-fixed", scenario!(true));
}
