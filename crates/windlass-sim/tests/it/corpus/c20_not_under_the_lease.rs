//! A task in the background writes past the client of the manager, and so after the lease is lost.
//! (kyverno#14984, cilium#42920)

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use windlass::lease::LeaseOptions;
use windlass::manager::RunContext;
use windlass::{Key, Manager, Result};
use windlass_sim::{Explore, Fault, Oracle, Sim};

use super::config_map;

const EVERY: Duration = Duration::from_secs(5);

async fn bad(cx: RunContext, client: kube::Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let clock = cx.clock.clone();
    // The task is not the manager's, so it does not end with the lease.
    tokio::spawn(async move {
        loop {
            let now = json!({"data": {"config": clock.time().0.to_string()}});
            let _ = maps.patch("beat", &PatchParams::default(), &Patch::Merge(now)).await;
            tokio::time::sleep(EVERY).await;
        }
    });
    cx.stopping().await;
    Ok(())
}

async fn fixed(cx: RunContext, _: kube::Client) -> Result<()> {
    loop {
        let now = json!({"data": {"config": cx.clock.time().0.to_string()}});
        let key = Key::namespaced("default", "beat");
        let _ =
            cx.client.api::<ConfigMap>().patch(&key, &windlass::client::Patch::Merge(now)).await;
        tokio::time::sleep(EVERY).await;
    }
}

/// The manager of a replica with a name of its own.
fn manager(client: kube::Client, started: &AtomicUsize) -> Manager {
    let replica = format!("app-{}", started.fetch_add(1, Ordering::Relaxed));
    let lease = LeaseOptions::new("app").namespace("default");
    Manager::new(client).name("app").replica(&replica).lease(lease)
}

macro_rules! scenario {
    ($beat:expr) => {
        async |sim: &mut Sim| {
            sim.replicas(2).expects_writes::<ConfigMap>();
            let started = AtomicUsize::new(0);
            sim.operator(move |client| {
                let own = client.clone();
                manager(client, &started).runnable("beat", |cx| $beat(cx, own))
            });
            sim.create(&config_map("beat", "")).await?;
            sim.settle("it beats").await
        }
    };
}

#[test]
fn a_write_without_the_lease_is_found() {
    let report = Explore::of("not-under-the-lease", scenario!(bad))
        .all_singles()
        .faults(&[Fault::Pause])
        .until(Oracle::OneOwner)
        .run();
    assert!(report.violates(Oracle::OneOwner), "\n{report}");
}

#[test]
fn writes_with_the_client_of_the_manager_survive() {
    let report = Explore::of("not-under-the-lease-fixed", scenario!(fixed)).all_singles().run();
    assert!(report.is_ok(), "\n{report}");
}
