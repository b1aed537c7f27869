//! The controller under every single fault, as far as a few seconds allow.

use appservice_controller::{AppService, AppServiceSpec, operator};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use windlass_sim::{Sim, explore};

#[test]
fn appservice() {
    explore("appservice", async |sim: &mut Sim| {
        sim.runs(operator);
        let spec = AppServiceSpec { deployment_name: "web".into(), replicas: 2 };
        sim.apply(&AppService::new("app", spec)).await?;
        sim.settle("two pods").await?;
        sim.merge::<Deployment>("web", json!({"spec": {"replicas": 5}})).await?;
        sim.settle("put right").await?;
        sim.merge::<AppService>("app", json!({"spec": {"deploymentName": "site"}})).await?;
        sim.settle("renamed").await?;
        sim.sometimes("it runs", |world| world.get::<Deployment>("web").is_some());
        sim.eventually("one Deployment, under the new name", |world| {
            world.count::<Deployment>() == 1 && world.get::<Deployment>("site").is_some()
        });
        Ok(())
    });
}
