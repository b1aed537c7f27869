//! Takes every error of a read for "not there", and begins again from the start.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Key, Next, Result};
use windlass_sim::{Explore, Oracle, Sim};

use super::{App, app, config_map, operator};

async fn reconcile(cx: Context<App>, careless: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let key = Key::new(cx.namespace(), "ledger");
    let api = cx.client().api::<ConfigMap>();
    let found = match api.get(&key).await {
        Err(_) if careless => None,
        found => found?,
    };
    // An entry per config that there ever was.
    let entry = json!({"data": {app.spec.config.as_str(): "seen"}});
    match found {
        None => {
            let mut map = config_map("ledger", "first");
            map.data = serde_json::from_value(entry["data"].clone())?;
            cx.apply(&map).await?;
        }
        Some(map) if map.data.as_ref().is_some_and(|data| data.contains_key(&app.spec.config)) => {}
        Some(_) => drop(api.patch(&key, &Patch::Merge(entry)).await?),
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($careless:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $careless)));
            sim.apply(&app(1, "a")).await?;
            sim.settle("one entry").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("two entries").await
        }
    };
}

// The ledger depends on the way by design.

#[test]
fn an_error_that_is_taken_for_nothing_is_found() {
    let explore = Explore::of("error-is-not-found", scenario!(true)).all_singles();
    let report = explore.without(Oracle::SameFromZero).without(Oracle::Rollback);
    let report = report.without(Oracle::NoLeak).until(Oracle::Converges).run();
    assert!(report.violates(Oracle::Converges), "\n{report}");
    assert!(!report.failures[0].plan.faults.is_empty(), "without a fault\n{report}");
}

#[test]
fn an_error_that_is_returned_survives() {
    let explore = Explore::of("error-is-not-found-fixed", scenario!(false)).all_singles();
    let report = explore.without(Oracle::SameFromZero).without(Oracle::Rollback).run();
    assert!(report.is_ok() && report.ran > 10, "\n{report}");
}
