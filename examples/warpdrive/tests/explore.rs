//! The operator under every single fault, as far as a few seconds allow.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;
use warpdrive_operator::{WarpdrivePool, WarpdrivePoolSpec, operator};
use windlass_sim::{Sim, explore};

#[test]
fn warpdrive() {
    explore("warpdrive", async |sim: &mut Sim| {
        sim.runs(operator);
        let spec = WarpdrivePoolSpec {
            node_selector: BTreeMap::from([("kubernetes.io/os".into(), "linux".into())]),
            replicas: 1,
            volumes_per_node: 1,
            volume_size: Quantity("1Gi".into()),
            agent_namespace: "default".into(),
        };
        sim.apply(&WarpdrivePool::new("fast", spec)).await?;
        sim.settle("one volume").await?;
        sim.merge::<WarpdrivePool>("fast", json!({"spec": {"volumesPerNode": 2}})).await?;
        sim.settle("two volumes").await?;
        sim.scale::<WarpdrivePool>("fast", 0).await?;
        sim.settle("no node").await?;
        sim.delete::<WarpdrivePool>("fast").await?;
        sim.settle("deleted").await?;
        sim.sometimes("two volumes", |world| world.count::<PersistentVolume>() == 2);
        sim.eventually("nothing is left", |world| {
            world.count::<PersistentVolume>() + world.count::<DaemonSet>() == 0
        });
        Ok(())
    });
}
