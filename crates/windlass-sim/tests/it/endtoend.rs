//! An exploration from the first run to the kept plan: shrinking, replay, budget, pairs, limits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::{Context, Key, Next, Result};
use windlass_sim::{Explore, Fault, Oracle, Sim};

use crate::corpus::c10_generate_name::bad;
use crate::corpus::{App, app, config_map, operator};

/// Creates a child with a generated name unless the cache has one: a retry finds it.
async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if cx.list::<ConfigMap>().owned().names()?.is_empty() {
        let mut child = config_map("", &app.spec.config);
        (child.metadata.name, child.metadata.generate_name) = (None, Some("web-".into()));
        cx.create(&child).await?;
    }
    Ok(Next::Done)
}

macro_rules! steps {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the child exists").await?;
            sim.create(&config_map("other", "")).await?;
            sim.settle("another object").await?;
            sim.merge::<ConfigMap>("other", json!({"data": {"config": "b"}})).await?;
            sim.settle("it has changed").await
        }
    };
}

/// The scenario with the bug, of which one step is needed.
pub async fn three_steps(sim: &mut Sim) -> Result<()> {
    let scenario = steps!(bad);
    scenario(sim).await
}

/// The text of a panic.
fn panic_of(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

fn kept_in(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).expect("the directory exists");
    files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_failure_is_shrunk_and_kept_and_its_plan_is_green_when_the_bug_is_fixed() {
    let plans = tempfile::tempdir().expect("a directory");
    let lost = &[Fault::Lost];
    let text = panic_of(|| {
        Explore::of("children", steps!(bad)).faults(lost).all_singles().plans(plans.path()).check();
    });
    assert!(text.contains("from 3 steps to 1"), "{text}");
    let plan = "skip 2; skip 3; lost operator create configmaps default/~web- #1";
    assert!(text.contains(&format!("WINDLASS_REPLAY='children@7: {plan}'")), "{text}");
    assert_eq!(kept_in(plans.path()), ["children-lost-create-configmaps-web.plan"]);

    let explore = Explore::of("children", steps!(fixed)).plans(plans.path());
    let report = explore.faults(&[Fault::Throttle]).all_singles().run();
    assert!(report.is_ok() && report.ran == report.singles + 1, "\n{report}");

    let replay = format!("children@7: {plan}");
    let report = Explore::of("children", steps!(bad)).replay(&replay).run();
    assert!(report.violates(Oracle::NoLeak), "\n{report}");
    let report = Explore::of("children", steps!(fixed)).replay(&replay).run();
    assert!(report.is_ok() && report.ran == 1, "\n{report}");
}

#[test]
fn a_plan_whose_remaining_steps_fail_by_themselves_fails() {
    let plan = "children@7: skip 2; lost operator create configmaps default/~web- #1";
    let report = Explore::of("children", steps!(fixed)).replay(plan).run();
    assert!(report.violates(Oracle::Completes), "\n{report}");
    assert!(report.to_string().contains("if the steps of the plan are left out"), "\n{report}");
}

#[test]
fn a_replay_of_another_scenario_or_of_a_site_that_does_not_occur_fails() {
    let fault = "error operator get pods default/a #1";
    let other =
        || drop(Explore::of("children", steps!(fixed)).replay(&format!("x@7: {fault}")).run());
    assert!(panic_of(other).contains("is about the scenario \"x\""));
    let report =
        Explore::of("children", steps!(fixed)).replay(&format!("children@7: {fault}")).run();
    assert!(!report.is_ok() && report.to_string().contains("does not happen any more"), "{report}");
}

#[test]
fn the_budget_begins_after_the_reference_and_kept_plans_run_without_one() {
    let plans = tempfile::tempdir().expect("a directory");
    let explore = || Explore::of("children", steps!(fixed)).plans(plans.path());
    let report = explore().budget(Duration::ZERO).run();
    assert!(report.ran == 0 && !report.is_ok(), "\n{report}");
    assert!(report.to_string().contains("no plan ran"), "\n{report}");
    let report = explore().budget(Duration::from_millis(1)).run();
    assert!(report.ran > 0 && report.is_ok(), "\n{report}");

    let plan = "lost operator create configmaps default/~web- #1";
    std::fs::write(plans.path().join("children-lost-a.plan"), plan).expect("is written");
    let report = explore().budget(Duration::ZERO).run();
    assert!(report.ran == 1 && report.is_ok(), "\n{report}");

    std::fs::write(plans.path().join("children-lost-b.plan"), "lost it").expect("is written");
    let report = explore().budget(Duration::ZERO).run();
    assert!(
        !report.is_ok() && report.to_string().contains("lost-b.plan is not a plan"),
        "{report}"
    );
}

/// Makes an object that is too much when two of its requests have failed.
async fn counting(cx: Context<App>, failed: Arc<AtomicU32>) -> Result<Next> {
    if cx.object().is_none() {
        return Ok(Next::Done);
    }
    for name in ["one", "two"] {
        if cx.get::<ConfigMap>(name)?.is_none()
            && let Err(error) = cx.create(&config_map(name, "")).await
        {
            if failed.fetch_add(1, Ordering::Relaxed) > 0 {
                cx.create(&config_map("three", "")).await?;
            }
            return Err(error);
        }
    }
    Ok(Next::Done)
}

async fn pair(sim: &mut Sim) -> Result<()> {
    let failed = Arc::new(AtomicU32::new(0));
    sim.install::<App>().operator(operator(move |cx| counting(cx, failed.clone())));
    sim.apply(&app(1, "")).await?;
    sim.settle("two children").await
}

#[test]
fn two_faults_are_found_together_and_one_that_is_not_needed_is_dropped() {
    let plans = tempfile::tempdir().expect("a directory");
    let explore = || Explore::of("pair", pair).faults(&[Fault::Error]).plans(plans.path());
    let report = explore().all_singles().run();
    assert!(report.is_ok(), "one fault does no harm\n{report}");
    let report = explore().budget(Duration::from_secs(60)).until(Oracle::NoLeak).run();
    assert!(report.violates(Oracle::NoLeak), "\n{report}");
    assert_eq!(report.failures[0].plan.faults.len(), 2, "\n{report}");

    let plan = "error operator watch configmaps * #1
        error operator create configmaps default/one #1
        error operator create configmaps default/two #1";
    std::fs::write(plans.path().join("pair-error-three.plan"), plan).expect("is written");
    let report = explore().budget(Duration::ZERO).run();
    assert_eq!(report.failures[0].plan.faults.len(), 2, "\n{report}");
    assert!(report.to_string().contains("shrunk from 3 faults to 2"), "\n{report}");
}

/// Asks for what is not there, without end.
async fn ask(cx: Context<App>) -> Result<Next> {
    let key = Key::new(cx.namespace(), "missing");
    while cx.client().api::<ConfigMap>().get(&key).await?.is_none() {}
    Ok(Next::Done)
}

#[test]
fn requests_without_end_are_found_also_without_a_fault() {
    let report = Explore::of("asks", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(ask));
        sim.apply(&app(1, "")).await?;
        sim.settle("never").await
    });
    let report = report.all_singles().run();
    assert!(report.violates(Oracle::Bounded), "\n{report}");
    assert!(report.to_string().contains("sends more than 3000 requests"), "\n{report}");
}

/// Makes a child with the name that the user wants, and leaves the one before.
async fn rename(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    cx.apply(&config_map(&app.spec.config, "")).await?;
    Ok(Next::Done)
}

#[test]
fn what_is_left_behind_without_a_fault_is_a_leak() {
    let report = Explore::of("renames", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(rename));
        sim.apply(&app(1, "a")).await?;
        sim.settle("a").await?;
        sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
        sim.settle("b").await
    });
    let report = report.all_singles().run();
    assert!(report.violates(Oracle::NoLeak) && report.violates(Oracle::SameFromZero), "\n{report}");
}

#[test]
fn a_property_that_is_never_looked_at_does_not_pass() {
    let scenario = async |sim: &mut Sim| {
        sim.operator(operator(fixed)).install::<App>();
        sim.settle("nothing happens").await?;
        sim.always("there is no map", |world| world.count::<ConfigMap>() == 0);
        Ok(())
    };
    let report = Explore::of("idle", scenario).faults(&[Fault::Reset]).all_singles().run();
    assert_eq!(report.unseen, ["there is no map"], "\n{report}");
    let text = report.to_string();
    assert!(!report.is_ok() && text.contains("\"there is no map\" was not looked at"), "{text}");
    assert!(text.contains("Rbac (no role: see `sim.runs`)"), "{text}");
}
