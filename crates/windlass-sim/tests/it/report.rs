//! What a report says, and that nothing passes unseen.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::PolicyRule;
use windlass::{Context, Next, Result};
use windlass_sim::{Explore, Fault, Oracle, Report, Sim};

use crate::corpus::c10_generate_name::bad;
use crate::corpus::{self, App, app, config_map, operator};
use crate::endtoend::three_steps;

const EXPECTED: &str = include_str!("report.txt");
const GUIDE: &str = include_str!("../../../../docs/sim.md");

async fn copy(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    cx.apply(&config_map("web", &app.spec.config)).await?;
    Ok(Next::Done)
}

async fn generate_name(sim: &mut Sim) -> Result<()> {
    sim.install::<App>().operator(operator(bad));
    sim.apply(&app(1, "a")).await?;
    sim.settle("the child exists").await
}

fn lost<F>(name: &str, scenario: F) -> Report
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    Explore::of(name, scenario).faults(&[Fault::Lost]).all_singles().until(Oracle::NoLeak).run()
}

#[test]
fn a_report_has_the_oracle_the_fault_the_timeline_and_the_replay() {
    let text = as_test("generate_name", || lost("generate-name", generate_name));
    assert_eq!(text.trim(), EXPECTED.trim(), "the report is now:\n{text}");
    assert!(GUIDE.contains(EXPECTED.trim()), "docs/sim.md shows another report");
}

/// Runs on a thread with the name of the test, so that the replay line is the same however many threads
/// the tests have.
fn as_test(name: &str, explore: fn() -> Report) -> String {
    let thread = std::thread::Builder::new().name(name.into());
    let report = thread.spawn(explore).expect("a thread starts").join().expect("it does not panic");
    report.to_string()
}

/// Compares a report with a file. With `WINDLASS_REPORTS` set, writes the file instead.
fn assert_report(file: &str, text: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reports");
    let file = directory.join(format!("{file}.txt"));
    if std::env::var_os("WINDLASS_REPORTS").is_some() {
        std::fs::write(&file, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{} is now:\n{text}", file.display());
}

fn found(
    name: &str,
    oracle: Oracle,
    scenario: impl AsyncFn(&mut Sim) -> Result<()> + Sync,
) -> Report {
    let report = Explore::of(name, scenario).all_singles().until(oracle).run();
    assert!(report.violates(oracle), "{report}");
    report
}

#[test]
fn a_field_that_differs_is_shown_with_both_values() {
    let text = as_test("conflicts", || {
        found("conflict-is-done", Oracle::Converges, corpus::c11_conflict_is_done::bad_scenario)
    });
    assert_report("conflict", &text);
}

#[test]
fn a_call_to_an_external_system_is_in_the_timeline() {
    let text = as_test("passwords", || {
        let scenario = corpus::c04_password_then_secret::bad_scenario;
        found("password-then-secret", Oracle::Truthful, scenario)
    });
    assert_report("external", &text);
}

#[test]
fn a_failure_that_needs_no_fault_says_so() {
    let text = as_test("autoscaler", || {
        found("replicas-fight", Oracle::OneOwner, corpus::c24_replicas_fight::bad_scenario)
    });
    assert!(text.contains("No fault is needed"), "{text}");
    assert_report("no-fault", &text);
}

#[test]
fn a_failure_is_shown_with_the_steps_that_it_needs() {
    let text = as_test("children", || found("children", Oracle::NoLeak, three_steps));
    assert!(text.contains("from 3 steps to 1"), "{text}");
    assert_report("steps", &text);
}

#[test]
fn two_runs_that_differ_are_reported_with_the_first_difference() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let report = lost("differs", async |sim: &mut Sim| {
        let config = format!("run {}", RUNS.fetch_add(1, Ordering::Relaxed));
        sim.install::<App>().operator(operator(copy));
        sim.apply(&app(1, &config)).await?;
        sim.settle("copied").await
    });
    let text = report.to_string();
    assert!(!report.is_ok() && text.contains("not deterministic"), "{text}");
    assert!(text.contains("first:") && text.contains("HashMap"), "{text}");
}

#[test]
fn a_property_that_is_never_true_does_not_pass() {
    let report = lost("never", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(copy));
        sim.apply(&app(1, "a")).await?;
        sim.settle("copied").await?;
        sim.sometimes("a thousand maps", |world| world.count::<ConfigMap>() == 1000);
        Ok(())
    });
    assert_eq!(report.never, ["a thousand maps"]);
    assert!(!report.is_ok() && report.to_string().contains("\"a thousand maps\" was not true"));
}

#[test]
fn a_kept_plan_whose_site_does_not_occur_does_not_pass() {
    let report = lost("outdated", async |sim: &mut Sim| {
        sim.install::<App>().operator(operator(copy));
        sim.apply(&app(1, "a")).await?;
        sim.settle("copied").await
    });
    assert_eq!(report.outdated, ["outdated-lost-create-pods.plan"]);
    assert!(!report.is_ok() && report.to_string().contains("does not happen any more"));
}

#[test]
fn a_scenario_without_an_operator_says_so() {
    let report = lost("nobody", async |sim: &mut Sim| sim.settle("nothing").await);
    assert!(report.violates(Oracle::Completes), "{report}");
    assert!(report.to_string().contains("call `sim.operator`"), "{report}");
}

#[test]
fn a_request_that_the_role_does_not_allow_is_found() {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(vec![resource.into()]),
        verbs: verbs.iter().map(|verb| verb.to_string()).collect(),
        ..PolicyRule::default()
    };
    let explore = |maps: &'static [&'static str]| {
        let apps = rule("corpus.example.com", "apps", &["get", "list", "watch"]);
        let rules = vec![apps, rule("", "configmaps", maps)];
        lost("role", async move |sim: &mut Sim| {
            sim.install::<App>().role(rules.clone()).operator(operator(copy));
            sim.apply(&app(1, "a")).await?;
            sim.settle("copied").await
        })
    };
    let report = explore(&["get", "list", "watch"]);
    assert!(report.violates(Oracle::Rbac), "{report}");
    let report = explore(&["get", "list", "watch", "create", "patch"]);
    assert!(report.is_ok(), "{report}");
}
