//! The operator under every single fault, as far as a few seconds allow.

use guestbook_operator::{Alias, Guestbook, GuestbookSpec, operator};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass_sim::{Sim, explore, named};

#[test]
fn guestbook() {
    explore("guestbook", async |sim: &mut Sim| {
        sim.runs(operator);
        let spec =
            GuestbookSpec { size: 2, config_map_name: "settings".into(), alias: Alias::Name };
        sim.apply(&Guestbook::new("visitors", spec)).await?;
        sim.settle("no settings").await?;
        sim.create(&ConfigMap { metadata: named("settings"), ..ConfigMap::default() }).await?;
        sim.settle("two pods").await?;
        sim.merge::<Guestbook>("visitors", json!({"spec": {"size": 3}})).await?;
        sim.settle("three pods").await?;
        sim.delete::<Guestbook>("visitors").await?;
        sim.settle("deleted").await?;
        sim.always("the front end never outlives its store", |world| {
            world.count::<Deployment>() <= world.count::<StatefulSet>()
        });
        sim.sometimes("it runs", |world| world.count::<Deployment>() == 1);
        sim.eventually("nothing is left", |world| {
            world.count::<Guestbook>() + world.count::<StatefulSet>() == 0
        });
        Ok(())
    });
}
