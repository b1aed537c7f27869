//! Takes the first pod without looking whether there is one. (percona K8SPSMDB-434)

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use windlass::{Context, Next, Result, Watch};
use windlass_sim::{Oracle, Sim};

use super::c24_replicas_fight::deployment;
use super::{App, app, flagged, green, watching};

async fn reconcile(cx: Context<App>, careless: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let deployment = cx.apply(&deployment(Some(app.spec.size), "app")?).await?;
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
    if available.unwrap_or_default() > 0 {
        let pods = cx.list::<Pod>().labels([("app", "web")]).names()?;
        let first = if careless { Some(pods[0].clone()) } else { pods.first().cloned() };
        cx.status(|status| status.id = first.clone().unwrap_or_default()).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($careless:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>();
            sim.operator(watching(
                |b| {
                    b.owns::<Deployment>().watch(Watch::map(|pod: &Pod| {
                        let labels = pod.metadata.labels.clone().unwrap_or_default();
                        let ours = labels.contains_key("app");
                        let key = windlass::Key::namespaced("default", "web");
                        ours.then_some(key).into_iter().collect::<Vec<_>>()
                    }))
                },
                |cx| reconcile(cx, $careless),
            ));
            sim.apply(&app(1, "")).await?;
            sim.settle("one pod").await
        }
    };
}

#[test]
fn an_index_out_of_bounds_is_found() {
    flagged("index-zero", Oracle::NoPanic, scenario!(true));
}

#[test]
fn a_list_that_may_be_empty_survives() {
    green("index-zero-fixed", scenario!(false));
}
