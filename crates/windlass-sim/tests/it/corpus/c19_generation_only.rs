//! Reconciles only when the generation changes, although an annotation matters.
//! (oadp-operator#2208, operator-builder#201)

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::{Context, Next, Predicate, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, watching};

const MODE: &str = "example.com/mode";

async fn reconcile(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let annotations = app.metadata.annotations.clone().unwrap_or_default();
    let mode = annotations.get(MODE).cloned().unwrap_or_default();
    cx.apply(&config_map("web", &mode)).await?;
    Ok(Next::Done)
}

macro_rules! scenario {
    ($predicate:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>();
            sim.operator(watching(|b| b.owns::<ConfigMap>().when($predicate), reconcile));
            sim.apply(&app(1, "")).await?;
            sim.settle("the child exists").await?;
            let annotate = json!({"metadata": {"annotations": {MODE: "fast"}}});
            sim.merge::<App>("web", annotate).await?;
            sim.settle("the child has changed").await
        }
    };
}

#[test]
fn a_change_that_is_not_noticed_is_found() {
    let predicate = scenario!(Predicate::generation_changed());
    flagged("generation-only", Oracle::SameFromZero, predicate);
}

#[test]
fn a_predicate_on_annotations_survives() {
    let predicate = scenario!(Predicate::generation_changed() | Predicate::annotations_changed());
    green("generation-only-fixed", predicate);
}
