//! Remembers in memory what it has applied, and does not look whether it is still there.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

/// The configs that were applied.
type Done = Arc<Mutex<BTreeSet<String>>>;

async fn reconcile(cx: Context<App>, done: Option<Done>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let config = &app.spec.config;
    let known = |done: &Done| done.lock().expect("nobody panics with it").contains(config);
    if done.as_ref().is_some_and(known) {
        return Ok(Next::Done);
    }
    cx.apply(&config_map("web", config)).await?;
    if let Some(done) = done {
        done.lock().expect("nobody panics with it").insert(config.clone());
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($remembers:expr) => {
        async |sim: &mut Sim| {
            // Each life of the operator has a memory of its own.
            sim.install::<App>().operator(|client| {
                let done = $remembers.then(Done::default);
                operator(move |cx| reconcile(cx, done.clone()))(client)
            });
            sim.apply(&app(1, "a")).await?;
            sim.settle("applied").await?;
            sim.delete::<ConfigMap>("web").await?;
            sim.settle("applied again").await
        }
    };
}

#[test]
fn a_memory_that_is_not_looked_after_is_found() {
    flagged("remembers-in-memory", Oracle::Quiet, scenario!(true));
}

#[test]
fn a_look_at_the_cluster_survives() {
    green("remembers-in-memory-fixed", scenario!(false));
}
