//! A newer build takes over the children of an older one, with a crash at every request of either.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ObjectMeta;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Manager, Result};

use crate::children_world::{
    Fault, SET, Wire, children, come_to, delete, gone, operator, want, world,
};
use crate::common::{key, secret};

/// What the owner asks for: children in two namespaces and one in none.
const WAVES: [(&str, &str); 2] =
    [("1", "secret:default:a role::r"), ("2", "map:other:m secret:default:b")];
const OLDER: [&str; 4] = ["map:other:m", "role::r", "secret:default:a", "secret:default:b"];
const NEWER: [&str; 4] =
    ["secret:default:a-2", "secret:default:b-2", "secret:default:r-2", "secret:other:m-2"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The older build crashes, and the newer one finds what it left.
    OlderCrashes,
    /// The newer build crashes while it replaces the children.
    NewerCrashes,
    /// The owner is deleted between the builds, and the newer one crashes while it deletes.
    NewerDeletes,
}

/// The reconcile of the newer build, which makes Secrets of other names and knows no other kind.
async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let mut children = cx.children(SET);
    let waves = map.data.iter().flat_map(|data| data.values());
    for child in waves.flat_map(|wave| wave.split_whitespace()) {
        let parts: Vec<&str> = child.split(':').collect();
        let namespace = if parts[1].is_empty() { "default" } else { parts[1] };
        let metadata = ObjectMeta {
            name: Some(format!("{}-2", parts[2])),
            namespace: Some(namespace.into()),
            ..ObjectMeta::default()
        };
        children.add(&Secret { metadata, ..Secret::default() })?;
    }
    children.apply().await?;
    Ok(Next::Done)
}

fn newer(client: kube::Client) -> Running {
    let controller =
        Controller::<ConfigMap>::builder("sets").owns::<Secret>().workers(2).build(reconcile);
    Manager::new(client).grace(Duration::from_secs(1)).add(controller).spawn().expect("starts")
}

/// Replaces the older build by the newer one, with one crash; returns `false` if it did not happen.
async fn upgrade(case: Case, fault: Fault, at: usize) -> bool {
    let (server, client) = world().await;
    client.api().create(&secret("bystander")).await.expect("created");
    let crash = |here: bool| Some((at, fault)).filter(|_| here);
    let older = Wire::new(&server, crash(case == Case::OlderCrashes));
    let running = operator(older.client());
    want(&client, "owner", &WAVES).await;
    let there = come_to(&client, &OLDER).await;
    assert!(there || older.crashed(), "{case:?}, {fault:?} at {at}: not applied");
    running.stop().await.expect("stops");

    let wanted: &[&str] = match case {
        Case::NewerDeletes => &[],
        _ => &NEWER,
    };
    if case == Case::NewerDeletes {
        delete(&client, "owner").await;
    }
    let first = Wire::new(&server, crash(case != Case::OlderCrashes));
    if case != Case::OlderCrashes {
        let running = newer(first.client());
        come_to(&client, wanted).await;
        running.stop().await.expect("stops");
    }
    let second = Wire::new(&server, None);
    let running = newer(second.client());
    let there = come_to(&client, wanted).await;
    let found = children(&client).await;
    assert!(there, "{case:?}, {fault:?} at {at}: {found:?} instead of {wanted:?}");
    if case != Case::NewerDeletes {
        delete(&client, "owner").await;
    }
    assert!(gone(&client, "owner").await, "{case:?}, {fault:?} at {at}: the owner stays");
    assert!(come_to(&client, &[]).await, "{case:?}, {fault:?} at {at}: children stay");
    let bystander = client.api::<Secret>().get(&key("bystander")).await.expect("read");
    assert!(bystander.is_some(), "{case:?}, {fault:?} at {at}: a wrong delete");
    for wire in [&older, &first, &second] {
        let orphans = wire.orphans.lock();
        assert!(orphans.is_empty(), "{case:?}, {fault:?} at {at}: orphans {orphans:?}");
    }
    running.stop().await.expect("stops");
    older.crashed() || first.crashed()
}

/// Runs an upgrade with a crash before and after the first request, the second, and so on.
async fn at_every_request(case: Case) {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        let mut at = 1;
        while upgrade(case, fault, at).await {
            at += 1;
        }
        assert!(at > 6, "{case:?}, {fault:?}: only {at} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_build_takes_over_what_a_crash_of_the_older_one_left() {
    at_every_request(Case::OlderCrashes).await;
}

#[tokio::test(start_paused = true)]
async fn a_newer_build_that_crashes_deletes_kinds_that_it_does_not_create_in_the_end() {
    at_every_request(Case::NewerCrashes).await;
}

#[tokio::test(start_paused = true)]
async fn a_newer_build_that_crashes_deletes_the_children_of_a_deleted_owner_of_an_older_one() {
    at_every_request(Case::NewerDeletes).await;
}
