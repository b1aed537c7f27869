//! Creates the external thing first and adds the finalizer after it. A deletion in between leaves the
//! thing behind. (elastic/cloud-on-k8s#9601)

use windlass::finalizer::Finalizing;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::c05_external_id_in_status::Cloud;
use super::{App, app, flagged, green, operator};

const FINALIZER: &str = "corpus.example.com/lb";

async fn bad(cx: Context<App>, cloud: Cloud) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if app.metadata.deletion_timestamp.is_none() {
        cloud.create(cx.name(), app.metadata.uid.as_deref()).await?;
    }
    cx.finalize(FINALIZER, || cloud.delete(cx.name())).await?;
    Ok(Next::Done)
}

async fn fixed(cx: Context<App>, cloud: Cloud) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if let Finalizing::Active = cx.finalize(FINALIZER, || cloud.delete(cx.name())).await? {
        cloud.create(cx.name(), app.metadata.uid.as_deref()).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($reconcile:expr) => {
        async |sim: &mut Sim| {
            let cloud = Cloud::default();
            sim.install::<App>().operator(operator(move |cx| $reconcile(cx, cloud.clone())));
            sim.apply(&app(1, "")).await?;
            sim.settle("the load balancer exists").await?;
            sim.delete::<App>("web").await?;
            sim.settle("nothing is left").await
        }
    };
}

#[test]
fn what_is_created_before_its_finalizer_is_found() {
    flagged("finalizer-late", Oracle::NoLeak, scenario!(bad));
}

#[test]
fn a_finalizer_that_comes_first_survives() {
    green("finalizer-late-fixed", scenario!(fixed));
}
