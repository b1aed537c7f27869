//! Sets of children of windlass itself: no single fault leaves an orphan or deletes a wrong object.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume};
use serde_json::json;
use windlass::{Context, Next, Result};
use windlass_sim::Sim;

use crate::corpus::{App, app, config_map, green, watching};

/// Wants as many ConfigMaps as `spec.size`, one of them in another namespace, and a volume, which
/// is cluster-scoped and cannot have an owner reference.
async fn reconcile(cx: Context<App>) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    let mut children = cx.children("corpus.example.com/children");
    for index in 0..app.spec.size {
        let mut child = config_map(&format!("child-{index}"), &app.spec.config);
        child.metadata.namespace = Some(if index == 0 { "kube-public" } else { "default" }.into());
        children.add(&child)?;
    }
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {"name": "child"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
        },
    }))?;
    children.add(&volume)?;
    children.apply().await?;
    Ok(Next::Done)
}

#[test]
fn a_set_of_children_survives_every_single_fault() {
    green("children", async |sim: &mut Sim| {
        sim.install::<App>().operator(watching(
            |builder| {
                let builder = builder.owns::<ConfigMap>().owns::<PersistentVolume>();
                builder.deletes::<ConfigMap>().deletes::<PersistentVolume>().finalizes()
            },
            reconcile,
        ));
        sim.apply(&app(2, "a")).await?;
        sim.settle("two children and a volume").await?;
        sim.merge::<App>("web", json!({"spec": {"size": 1, "config": "b"}})).await?;
        sim.settle("one child is gone, the other has changed").await?;
        sim.delete::<App>("web").await?;
        sim.settle("deleted").await?;
        sim.sometimes("the volume exists", |world| world.count::<PersistentVolume>() == 1);
        sim.eventually("no volume is left", |world| world.count::<PersistentVolume>() == 0);
        Ok(())
    });
}
