//! Both operators under every single fault, as far as a few seconds allow.

use std::time::Duration;

use demo_operator::{Demo, DemoSpec, dynamic_operator, operator};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use windlass::{Operator, Result};
use windlass_sim::{Explore, Sim, named};

async fn scenario(sim: &mut Sim, operator: fn() -> Operator) -> Result<()> {
    sim.runs(operator);
    let spec = DemoSpec { image: "nginx".into(), replicas: 1 };
    sim.apply(&Demo { metadata: named("web"), spec, status: None }).await?;
    sim.settle("one pod").await?;
    sim.merge::<Deployment>("web", json!({"spec": {"replicas": 0}})).await?;
    sim.settle("put right").await?;
    sim.scale::<Demo>("web", 2).await?;
    sim.settle("two pods").await?;
    sim.delete::<Demo>("web").await?;
    sim.settle("deleted").await?;
    sim.sometimes("two pods", |world| world.count::<Pod>() == 2);
    sim.eventually("nothing is left", |world| {
        world.count::<Demo>() + world.count::<Deployment>() + world.count::<Pod>() == 0
    });
    Ok(())
}

#[test]
fn typed() {
    let scenario = async |sim: &mut Sim| scenario(sim, operator).await;
    Explore::of("typed", scenario).budget(Duration::from_secs(3)).check();
}

#[test]
fn dynamic() {
    let scenario = async |sim: &mut Sim| scenario(sim, dynamic_operator).await;
    Explore::of("dynamic", scenario).budget(Duration::from_secs(3)).check();
}
