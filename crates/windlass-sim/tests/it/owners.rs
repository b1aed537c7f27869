//! `OneOwner`: what somebody else has set stays, with any verb and also without a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Context, Controller, Key, Manager, Next, Result};
use windlass_sim::{Explore, Fault, Oracle, Report, Sim};

use crate::corpus::{App, app, config_map, operator};

const ASKED: &str = "corpus.example.com/restart";

/// Explores with one sort of fault, which is enough for what happens in every run.
fn run<F>(name: &str, scenario: F) -> Report
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    Explore::of(name, scenario).faults(&[Fault::Reset]).all_singles().run()
}

fn assert_owner(report: &Report, words: &str) {
    assert!(report.violates(Oracle::OneOwner), "\n{report}");
    assert!(report.to_string().contains(words), "\n{report}");
}

/// Reads the child from the API server, and replaces its metadata and data if they are not its own.
async fn replace(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let mut wanted = config_map("web", &app.spec.config);
    let Some(found) = cx.client().api::<ConfigMap>().get(cx.key()).await? else {
        cx.create(&wanted).await?;
        return Ok(Next::Done);
    };
    wanted.metadata.resource_version.clone_from(&found.metadata.resource_version);
    wanted.metadata.owner_references.clone_from(&found.metadata.owner_references);
    let annotations = found.metadata.annotations.clone().unwrap_or_default();
    if found.data != wanted.data || !annotations.is_empty() {
        cx.client().api().update(&wanted).await?;
    }
    Ok(Next::Done)
}

async fn apply(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    cx.apply(&config_map("web", &app.spec.config)).await?;
    Ok(Next::Done)
}

/// Patches the child if it has what the user sets.
async fn patch(cx: &Context<App>, patch: Value) -> Result<()> {
    let maps = cx.client().api::<ConfigMap>();
    maps.patch(&Key::new(cx.namespace(), "web"), &Patch::Merge(patch)).await.map(drop)
}

async fn clear_finalizers(cx: Context<App>) -> Result<Next> {
    apply(cx.clone()).await?;
    let child = cx.get::<ConfigMap>("web")?;
    if child.is_some_and(|child| child.metadata.finalizers.is_some()) {
        patch(&cx, json!({"metadata": {"finalizers": []}})).await?;
    }
    Ok(Next::Done)
}

/// The user asks for something with an annotation, and the operator removes it when that is done.
async fn acknowledge(cx: Context<App>) -> Result<Next> {
    apply(cx.clone()).await?;
    let child = cx.get::<ConfigMap>("web")?;
    let annotations =
        child.and_then(|child| child.metadata.annotations.clone()).unwrap_or_default();
    for name in annotations.keys().filter(|name| name.ends_with("restart")) {
        patch(&cx, json!({"metadata": {"annotations": {name: null}}})).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr, $patch:tt) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the child exists").await?;
            sim.merge::<ConfigMap>("web", json!({"metadata": $patch})).await?;
            sim.settle("the user has changed it").await
        }
    };
}

#[test]
fn an_update_with_the_newest_version_that_removes_a_foreign_annotation_is_found() {
    let note = scenario!(replace, {"annotations": {"note": "mine"}});
    assert_owner(
        &run("strips", note),
        "removes metadata.annotations.note of configmaps default/web",
    );
    let report = run("strips-fixed", scenario!(apply, {"annotations": {"note": "mine"}}));
    assert!(report.is_ok(), "\n{report}");
}

#[test]
fn a_patch_that_removes_a_foreign_finalizer_is_found() {
    let hold = scenario!(clear_finalizers, {"finalizers": ["user.example.com/hold"]});
    let words = "removes metadata.finalizers[user.example.com/hold] of configmaps default/web";
    assert_owner(&run("clears", hold), words);
    let report = run("clears-fixed", scenario!(apply, {"finalizers": ["user.example.com/hold"]}));
    assert!(report.is_ok(), "\n{report}");
}

#[test]
fn a_request_that_the_operator_removes_when_it_is_done_is_fine() {
    let report = run("asked", scenario!(acknowledge, {"annotations": {ASKED: "now"}}));
    assert!(report.is_ok(), "\n{report}");
    let other = scenario!(acknowledge, {"annotations": {"example.com/restart": "now"}});
    let report = run("asked-elsewhere", other);
    assert!(report.is_ok(), "it names what it removes\n{report}");
}

/// Sets one field of the child to a value of its own, a few times.
async fn insist(cx: Context<App>, value: &'static str, rounds: Arc<AtomicU32>) -> Result<Next> {
    if cx.object().is_none() {
        return Ok(Next::Done);
    }
    let child = cx.get::<ConfigMap>("web")?;
    let data = child.and_then(|child| child.data.clone()).unwrap_or_default();
    let differs = data.get("config").map(String::as_str) != Some(value);
    if differs && rounds.fetch_add(1, Ordering::Relaxed) < 10 {
        cx.apply(&config_map("web", value)).await?;
    }
    Ok(Next::Done)
}

#[test]
fn two_controllers_of_one_manager_that_take_turns_with_a_field_are_found() {
    let report = run("two-controllers", async |sim: &mut Sim| {
        let rounds = Arc::new(AtomicU32::new(0));
        sim.install::<App>().operator(move |client| {
            let controller = |name: &str, value: &'static str| {
                let rounds = rounds.clone();
                let builder = Controller::<App>::builder(name).owns::<ConfigMap>();
                builder.build(move |cx| insist(cx, value, rounds.clone()))
            };
            let manager = Manager::new(client).name("app");
            manager.add(controller("red", "red")).add(controller("blue", "blue"))
        });
        sim.apply(&app(1, "a")).await?;
        sim.settle("they have given up").await
    });
    assert_owner(&report, "take turns with data.config of configmaps default/web");
    let text = report.to_string();
    assert!(text.contains("red of default/web") && text.contains("blue of default/web"), "{text}");
}
