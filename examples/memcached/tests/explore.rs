//! The operator under every single fault, as far as a few seconds allow.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use memcached_operator::{Memcached, MemcachedSpec, operator};
use serde_json::json;
use windlass_sim::{Explore, Sim, explore};

#[test]
fn memcached() {
    let scenario = async |sim: &mut Sim| {
        sim.runs(operator);
        sim.apply(&Memcached::new("sample", MemcachedSpec { size: 3 })).await?;
        sim.settle("three pods").await?;
        sim.delete_any::<Pod>().await?;
        sim.settle("healed").await?;
        sim.merge::<Deployment>("sample", json!({"spec": {"replicas": 0}})).await?;
        sim.settle("put right").await?;
        sim.merge::<Memcached>("sample", json!({"spec": {"size": 5}})).await?;
        sim.settle("five pods").await?;
        sim.always("never more than six pods", |world| world.count::<Pod>() <= 6);
        sim.sometimes("five pods at once", |world| world.count::<Pod>() == 5);
        Ok(())
    };
    Explore::of("memcached", scenario).stateless().check();
}

#[test]
fn deletion() {
    explore("deletion", async |sim: &mut Sim| {
        sim.runs(operator);
        sim.apply(&Memcached::new("sample", MemcachedSpec { size: 1 })).await?;
        sim.settle("one pod").await?;
        sim.delete::<Memcached>("sample").await?;
        sim.settle("deleted").await?;
        sim.eventually("nothing is left", |world| {
            world.count::<Memcached>() + world.count::<Deployment>() + world.count::<Pod>() == 0
        });
        Ok(())
    });
}
