//! Runs that begin and end early find what whole runs find.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Key, Next, Result};
use windlass_sim::{Explore, Report, Sim};

use crate::corpus::{App, app, config_map, operator};

/// Copies the config in two writes, and forgets the second one after a crash between them.
async fn reconcile(cx: Context<App>, forgets: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let config = &app.spec.config;
    let first = cx.get::<ConfigMap>("first")?;
    if forgets && first.is_some_and(|map| map.data == config_map("first", config).data) {
        return Ok(Next::Done);
    }
    cx.apply(&config_map("first", config)).await?;
    cx.apply(&config_map("second", config)).await?;
    Ok(Next::Done)
}

fn explored(forgets: bool, stateless: bool) -> Report {
    let scenario = async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(move |cx| reconcile(cx, forgets)));
        for config in ["a", "b", "c"] {
            match config {
                "a" => sim.apply(&app(1, "a")).await?,
                _ => sim.merge::<App>("web", json!({"spec": {"config": config}})).await?,
            }
            sim.settle("copied").await?;
        }
        sim.always("no more than two", |world| world.count::<ConfigMap>() <= 3);
        sim.eventually("two", |world| world.get::<ConfigMap>("second").is_some());
        Ok(())
    };
    let explore = Explore::of("copies", scenario).all_singles();
    if stateless { explore.stateless().run() } else { explore.run() }
}

#[test]
fn a_correct_operator_is_green_and_most_runs_end_early() {
    let report = explored(false, true);
    assert!(report.is_ok(), "\n{report}");
    assert!(report.rejoined * 2 > report.ran, "\n{report}");
    assert_eq!((report.ran, explored(false, false).rejoined), (report.singles, 0), "\n{report}");
}

#[test]
fn early_runs_fail_with_the_plans_with_which_whole_runs_fail() {
    let plans = |report: &Report| -> Vec<String> {
        report.failures.iter().map(|failure| failure.plan.to_string()).collect()
    };
    let (early, whole) = (explored(true, true), explored(true, false));
    assert!(!whole.failures.is_empty(), "\n{whole}");
    assert_eq!(plans(&early), plans(&whole), "\n{early}\n{whole}");
}

/// A fault that leaves something behind until the end of the scenario.
async fn tainted(cx: Context<App>) -> Result<Next> {
    let key = Key::namespaced("default", "web");
    let config = config_map("web", "x");
    if let Err(error) = cx.apply(&config).await {
        let mark = Patch::Merge(json!({"metadata": {"labels": {"failed": "yes"}}}));
        cx.client().api::<App>().patch(&key, &mark).await?;
        return Err(error);
    }
    Ok(Next::Done)
}

#[test]
fn a_run_that_is_not_back_does_not_end_early() {
    let report = Explore::of("tainted", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(|cx| async move {
            if cx.object().is_none() { Ok(Next::Done) } else { tainted(cx).await }
        }));
        sim.apply(&app(1, "a")).await?;
        sim.settle("made").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
        sim.settle("nothing to do").await
    })
    .stateless()
    .all_singles()
    .run();
    assert!(report.violates(windlass_sim::Oracle::Converges), "\n{report}");
}
