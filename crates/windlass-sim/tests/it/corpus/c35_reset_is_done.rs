//! Takes a broken connection for success: the request will have arrived.

use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn reconcile(cx: Context<App>, hopes: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    match cx.apply(&config_map("web", &app.spec.config)).await {
        Err(error) if hopes && format!("{error:?}").contains("connection") => Ok(Next::Done),
        applied => applied.map(|_| Next::Done),
    }
}

macro_rules! scenario {
    ($hopes:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $hopes)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("applied").await
        }
    };
}

#[test]
fn a_hope_instead_of_an_answer_is_found() {
    flagged("reset-is-done", Oracle::Converges, scenario!(true));
}

#[test]
fn a_second_try_survives() {
    green("reset-is-done-fixed", scenario!(false));
}
