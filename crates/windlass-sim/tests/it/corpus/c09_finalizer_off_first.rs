//! Removes the finalizer, then cleans up. A crash in between leaves what nobody knows any more.

use serde_json::json;
use windlass::client::Patch;
use windlass::{Context, Next, Result};
use windlass_sim::{Oracle, Sim};

use super::c05_external_id_in_status::Cloud;
use super::{App, app, flagged, green, operator};

const FINALIZER: &str = "corpus.example.com/lb";

async fn finalizers(cx: &Context<App>, names: &[&str]) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": names}}));
    cx.client().api::<App>().patch(cx.key(), &patch).await.map(drop)
}

async fn reconcile(cx: Context<App>, cloud: Cloud, off_first: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let held = app.metadata.finalizers.as_ref().is_some_and(|names| !names.is_empty());
    match (app.metadata.deletion_timestamp.is_some(), held) {
        (true, true) if off_first => {
            finalizers(&cx, &[]).await?;
            cloud.delete(cx.name()).await?;
        }
        (true, true) => {
            cloud.delete(cx.name()).await?;
            finalizers(&cx, &[]).await?;
        }
        (true, false) => {}
        (false, held) => {
            if !held {
                finalizers(&cx, &[FINALIZER]).await?;
            }
            cloud.create(cx.name(), app.metadata.uid.as_deref()).await?;
        }
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($off_first:expr) => {
        async |sim: &mut Sim| {
            let cloud = Cloud::default();
            sim.install::<App>();
            sim.operator(operator(move |cx| reconcile(cx, cloud.clone(), $off_first)));
            sim.apply(&app(1, "")).await?;
            sim.settle("the load balancer exists").await?;
            sim.delete::<App>("web").await?;
            sim.settle("nothing is left").await
        }
    };
}

#[test]
fn a_finalizer_that_is_removed_too_early_is_found() {
    flagged("finalizer-off-first", Oracle::NoLeak, scenario!(true));
}

#[test]
fn a_finalizer_that_is_removed_last_survives() {
    green("finalizer-off-first-fixed", scenario!(false));
}
