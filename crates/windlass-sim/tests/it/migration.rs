//! Storage migration under faults: `storedVersions` is trimmed once, and only when all is written.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use windlass::{Operator, Result};
use windlass_sim::{Explore, Oracle, Sim};

use crate::corpus::{App, app};

/// The definition of Apps with two versions that have one schema.
fn definition(storage: &str) -> CustomResourceDefinition {
    let mut definition = App::crd();
    let newer = definition.spec.versions[0].clone();
    let older = newer.clone();
    definition.spec.versions = vec![newer, older];
    definition.spec.versions[1].name = "v1beta1".into();
    for version in &mut definition.spec.versions {
        version.storage = version.name == storage;
    }
    definition
}

async fn migration(sim: &mut Sim) -> Result<()> {
    sim.mask::<CustomResourceDefinition>("/metadata/annotations");
    sim.operator(|client| Operator::new("app").api::<App>().migrate_storage().manager(client));
    sim.create(&definition("v1beta1")).await?;
    sim.settle("nothing to migrate").await?;
    sim.create(&app(1, "a")).await?;
    sim.apply(&definition("v1")).await?;
    sim.settle("another version is stored").await?;
    // The definitions are looked at every ten minutes.
    tokio::time::sleep(Duration::from_secs(1_300)).await;
    sim.settle("migrated").await?;
    sim.sometimes("two versions may be stored", |world| stored(world) == ["v1beta1", "v1"]);
    sim.eventually("one version may be stored", |world| stored(world) == ["v1"]);
    Ok(())
}

fn stored(world: &windlass_sim::World) -> Vec<String> {
    let definition = world.get::<CustomResourceDefinition>("apps.corpus.example.com");
    let status = definition.and_then(|definition| definition.status);
    status.and_then(|status| status.stored_versions).unwrap_or_default()
}

#[test]
fn a_storage_migration_survives_the_faults_of_some_seconds() {
    // The annotation with the progress is there only after a migration.
    let explore = Explore::of("migration", migration).without(Oracle::SameFromZero);
    explore.budget(Duration::from_secs(3)).check();
}
