//! Always applies `spec.replicas`, which an autoscaler owns.
//! (superset-kubernetes-operator#151, jaeger-operator#963)

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, flagged, green, watching};

/// The Deployment of an App.
pub fn deployment(replicas: Option<i32>, image: &str) -> Result<Deployment> {
    let labels = json!({"app": "web"});
    let mut deployment = json!({
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"windlass.dev/ready-after": "2s"},
                },
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
        },
    });
    deployment["spec"]["replicas"] = replicas.map_or(Value::Null, Value::from);
    Ok(serde_json::from_value(deployment)?)
}

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    cx.apply(&deployment(Some(app.spec.size), "app")?).await?;
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    if cx.object().is_some() {
        cx.apply(&deployment(None, "app")?).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(watching(|b| b.owns::<Deployment>(), $reconcile));
            sim.apply(&app(1, "")).await?;
            sim.settle("one pod").await?;
            sim.scale::<Deployment>("web", 2).await?;
            sim.settle("two pods").await
        }
    };
}

pub async fn bad_scenario(sim: &mut Sim) -> Result<()> {
    let scenario = scenario!(bad);
    scenario(sim).await
}

#[test]
fn a_fight_with_an_autoscaler_is_found() {
    flagged("replicas-fight", Oracle::OneOwner, scenario!(bad));
}

#[test]
fn an_apply_without_replicas_survives() {
    green("replicas-fight-fixed", scenario!(fixed));
}
