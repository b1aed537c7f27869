//! Names a child after the time at which it is made. If the response is lost, the second try has another
//! name.

use windlass::{Context, Next, Result, ResultExt};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn reconcile(cx: Context<App>, clock: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if !app.status.clone().unwrap_or_default().id.is_empty() {
        return Ok(Next::Done);
    }
    let name = match clock {
        true => format!("backup-{}", cx.clock().now().as_second()),
        false => format!("backup-{}", app.metadata.generation.unwrap_or_default()),
    };
    cx.create(&config_map(&name, &app.spec.config)).await.ignore_already_exists()?;
    cx.status(|status| status.id = "made".into()).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($clock:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $clock)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("one backup").await
        }
    };
}

#[test]
fn a_second_child_with_another_time_is_found() {
    flagged("name-from-the-clock", Oracle::NoLeak, scenario!(true));
}

#[test]
fn a_name_that_follows_from_the_parent_survives() {
    green("name-from-the-clock-fixed", scenario!(false));
}
