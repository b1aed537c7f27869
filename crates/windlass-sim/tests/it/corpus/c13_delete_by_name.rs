//! Deletes the volume claim by the name of an App that is being deleted. On an old view, the claim
//! belongs to the next App of that name. (datastax/cass-operator#412, casskop#316)

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;
use windlass::client::Deletion;
use windlass::finalizer::Finalizing;
use windlass::{Context, Next, Result, owner};
use windlass_sim::{Explore, Oracle, Sim};

use super::{App, app, green, watching};

const FINALIZER: &str = "corpus.example.com/claim";

fn claim() -> Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))?)
}

async fn reconcile(cx: Context<App>, by_name: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let cleanup = || async {
        let claims = cx.client().api::<PersistentVolumeClaim>();
        if by_name {
            claims.delete(cx.key()).await?;
        } else if let Some(claim) = cx.get::<PersistentVolumeClaim>(cx.name())?
            && owner::is_controlled_by(&*claim, &*app)
        {
            claims.delete(Deletion::only(&*claim)).await?;
        }
        Ok(())
    };
    if let Finalizing::Active = cx.finalize(FINALIZER, cleanup).await? {
        cx.apply(&claim()?).await?;
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($by_name:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>();
            sim.operator(watching(
                |b| b.owns::<PersistentVolumeClaim>(),
                |cx| reconcile(cx, $by_name),
            ));
            sim.apply(&app(1, "")).await?;
            sim.settle("the claim exists").await?;
            sim.delete::<App>("web").await?;
            sim.settle("nothing is left").await?;
            sim.apply(&app(1, "")).await?;
            sim.settle("a new claim exists").await
        }
    };
}

#[test]
fn a_claim_that_is_deleted_on_an_old_view_is_found() {
    let report = Explore::of("delete-by-name", scenario!(true))
        .all_singles()
        .stale_lists()
        .until(Oracle::NoWrongDelete)
        .run();
    assert!(report.violates(Oracle::NoWrongDelete), "\n{report}");
}

#[test]
fn a_claim_that_is_deleted_with_its_uid_survives() {
    green("delete-by-name-fixed", scenario!(false));
}
