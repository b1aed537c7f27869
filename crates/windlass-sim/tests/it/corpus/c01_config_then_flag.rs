//! Updates the ConfigMap, then sets the flag that restarts the pod. A crash in between leaves the
//! old pod for ever. (konpyutaika/nifikop#49)

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use windlass::client::Deletion;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, watching};

const CONFIG: &str = "example.com/config";

fn pod(config: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "web", "annotations": {CONFIG: config}},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    }))?)
}

/// Deletes the pod that the cache shows, and no other one.
async fn restart(cx: &Context<App>) -> Result<()> {
    let Some(pod) = cx.get::<Pod>("web")? else { return Ok(()) };
    cx.client().api::<Pod>().delete(Deletion::only(&*pod)).await.map(drop)
}

async fn bad(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let wanted = config_map("web", &app.spec.config);
    let found = cx.get::<ConfigMap>("web")?;
    let mut out_of_sync = app.status.clone().unwrap_or_default().out_of_sync;
    if found.is_some_and(|found| found.data != wanted.data) {
        cx.apply(&wanted).await?;
        cx.status(|status| status.out_of_sync = true).await?;
        out_of_sync = true;
    }
    cx.apply(&wanted).await?;
    if out_of_sync {
        restart(&cx).await?;
        cx.status(|status| status.out_of_sync = false).await?;
    }
    if cx.get::<Pod>("web")?.is_none() {
        cx.create(&pod(&app.spec.config)?).await?;
    }
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    cx.apply(&config_map("web", &app.spec.config)).await?;
    let config = |pod: &Pod| pod.metadata.annotations.as_ref()?.get(CONFIG).cloned();
    match cx.get::<Pod>("web")? {
        None => drop(cx.create(&pod(&app.spec.config)?).await?),
        Some(pod) if config(&pod).as_ref() != Some(&app.spec.config) => restart(&cx).await?,
        Some(_) => {}
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>()
                .operator(watching(|b| b.owns::<ConfigMap>().owns::<Pod>(), $reconcile));
            sim.apply(&app(1, "a")).await?;
            sim.settle("the pod runs").await?;
            sim.merge::<App>("web", json!({"spec": {"config": "b"}})).await?;
            sim.settle("the pod was restarted").await
        }
    };
}

#[test]
fn a_flag_that_is_lost_in_a_crash_is_found() {
    flagged("config-then-flag", Oracle::Converges, scenario!(bad));
}

#[test]
fn a_pod_that_is_compared_with_its_config_survives() {
    green("config-then-flag-fixed", scenario!(fixed));
}
