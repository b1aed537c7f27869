//! Ignores the error of a cleanup and removes the finalizer. (openkube-hub/KubeUser#54, kserve#5991)

use windlass::finalizer::Finalizing;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::c05_external_id_in_status::Cloud;
use super::{App, app, flagged, green, operator};

const FINALIZER: &str = "corpus.example.com/lb";

async fn reconcile(cx: Context<App>, cloud: Cloud, ignore: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let cleanup = || async {
        match cloud.delete(cx.name()).await {
            Err(error) if ignore => cx.warn("CleanupFailed", error.to_string()),
            result => result?,
        }
        Ok(())
    };
    if let Finalizing::Active = cx.finalize(FINALIZER, cleanup).await? {
        cloud.create(cx.name(), app.metadata.uid.as_deref()).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($ignore:expr) => {
        async |sim: &mut Sim| {
            let cloud = Cloud::default();
            sim.install::<App>();
            sim.operator(operator(move |cx| reconcile(cx, cloud.clone(), $ignore)));
            sim.apply(&app(1, "")).await?;
            sim.settle("the load balancer exists").await?;
            sim.delete::<App>("web").await?;
            sim.settle("nothing is left").await
        }
    };
}

#[test]
fn an_ignored_error_of_a_cleanup_is_found() {
    flagged("cleanup-errors-ignored", Oracle::NoLeak, scenario!(true));
}

#[test]
fn a_cleanup_that_is_retried_survives() {
    green("cleanup-errors-ignored-fixed", scenario!(false));
}
