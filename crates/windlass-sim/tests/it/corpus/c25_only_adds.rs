//! Merges labels into a child, so that a label that was removed stays.
//! (acto#89, VictoriaMetrics/operator#1171)

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let Some(found) = cx.get::<ConfigMap>("web")? else {
        cx.create(&config_map("web", "")).await?;
        return Ok(Next::Done);
    };
    let labels = found.metadata.labels.clone().unwrap_or_default();
    if app.spec.labels.iter().any(|(name, value)| labels.get(name) != Some(value)) {
        let patch = json!({"metadata": {"labels": app.spec.labels}});
        cx.client().api::<ConfigMap>().patch(cx.key(), &Patch::Merge(patch)).await?;
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let mut child = config_map("web", "");
    child.metadata.labels = Some(app.spec.labels.clone());
    cx.apply(&child).await?;
    Ok(Next::Done)
}

fn labelled(labels: &[&str]) -> App {
    let mut app = app(1, "");
    app.spec.labels = labels.iter().map(|name| (name.to_string(), "yes".to_owned())).collect();
    app
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator($reconcile));
            sim.apply(&labelled(&["a", "b"])).await?;
            sim.settle("two labels").await?;
            sim.apply(&labelled(&["a"])).await?;
            sim.settle("one label").await
        }
    };
}

#[test]
fn a_label_that_stays_is_found() {
    flagged("only-adds", Oracle::SameFromZero, scenario!(bad));
}

#[test]
fn labels_that_are_applied_survive() {
    green("only-adds-fixed", scenario!(fixed));
}
