//! What runs on every replica is not bound to the lease, and what is bound to it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::controller::{Context, Controller, Next};
use windlass::lease::LeaseOptions;
use windlass::manager::Handle;
use windlass::{Client, Error, Key};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, secret};

fn options() -> LeaseOptions {
    LeaseOptions::new("op").namespace("default")
}

async fn exists(client: &Client, name: &str) -> bool {
    client.api::<Secret>().get(&Key::namespaced("default", name)).await.expect("read").is_some()
}

#[tokio::test(start_paused = true)]
async fn what_runs_on_every_replica_writes_without_the_lease() {
    let server = ApiServer::start();
    let leader = manager(&server).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("one leads", || leader.lease().is_some_and(|l| l.held)).await;
    let everywhere = |cx: Context<ConfigMap>| async move {
        cx.client().api().create(&secret("by-controller")).await?;
        // The plain client of kube is as free.
        let api: kube::Api<Secret> = kube::Api::namespaced(cx.client().kube(), "default");
        api.create(&Default::default(), &secret("by-kube")).await.map_err(Error::other)?;
        Ok(Next::Done)
    };
    let controller =
        Controller::<ConfigMap>::builder("everywhere").on_every_replica().build(everywhere);
    let follower = manager(&server)
        .replica("two")
        .seed(7)
        .lease(options())
        .add(controller)
        .runnable_everywhere("runs", async |cx| {
            cx.client.api().create(&secret("by-runnable")).await?;
            cx.stopping().await;
            Ok(())
        })
        .spawn()
        .expect("starts");
    leader.client().api().create(&config_map("a", &[])).await.expect("created");
    for name in ["by-controller", "by-kube", "by-runnable"] {
        for _ in 0..100 {
            if exists(leader.client(), name).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(exists(leader.client(), name).await, "{name} was not written");
    }
    assert!(follower.lease().is_some_and(|l| !l.held && l.holder.starts_with("one_")));
    // What is not said to run everywhere waits for the lease.
    let error =
        follower.client().api().create(&secret("by-handle")).await.expect_err("does not lead");
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    follower.stop().await.expect("stops");
    leader.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn work_of_every_replica_continues_until_a_lost_lease_ends_the_process() {
    let server = ApiServer::start();
    let cut = Arc::new(AtomicBool::new(false));
    let switch = cut.clone();
    server.inject(Some(Box::new(move |request| Fault {
        fail: (switch.load(Ordering::SeqCst) && request.resource == "leases")
            .then(|| windlass_apiserver::Status::internal("no")),
        ..Fault::default()
    })));
    let ended = Arc::new(AtomicBool::new(false));
    let set = ended.clone();
    let handle = manager(&server)
        .replica("one")
        .seed(7)
        .lease(options())
        .runnable("leads", async move |cx| {
            // Asked to stop, it would run for long; a lost lease does not wait for that.
            cx.stopping().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            set.store(true, Ordering::SeqCst);
            Ok(())
        })
        .spawn()
        .expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    cut.store(true, Ordering::SeqCst);
    let error = handle.wait().await.expect_err("leadership is lost");
    assert_eq!(error.to_string(), "lease default/op was lost, so this process stopped");
    assert!(!ended.load(Ordering::SeqCst), "no grace without the lease");
}

#[tokio::test(start_paused = true)]
async fn leader_changes_are_published_as_events() {
    let server = ApiServer::start();
    let handle = manager(&server).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.stop().await.expect("stops");
    let client = Client::new(server.client());
    let events = client
        .api::<k8s_openapi::api::events::v1::Event>()
        .list()
        .namespace("default")
        .items()
        .await
        .expect("listed");
    let mut notes: Vec<(String, String)> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("LeaderElection"))
        .map(|event| {
            let about = event.regarding.clone().unwrap_or_default();
            (about.name.unwrap_or_default(), event.note.clone().unwrap_or_default())
        })
        .collect();
    notes.sort();
    let [(_, first), (_, last)] = &notes[..] else { panic!("two events: {notes:?}") };
    assert!(notes.iter().all(|(about, note)| about == "op" && note.starts_with("one_")));
    assert!(first.ends_with(" became leader") && last.ends_with(" stopped leading"), "{notes:?}");
    assert!(client.api::<ConfigMap>().get(&key("none")).await.expect("read").is_none());
}

async fn lease_object(server: &ApiServer) -> Lease {
    let client = Client::new(server.client());
    (*client.api::<Lease>().get(&key("op")).await.expect("read").expect("is there")).clone()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_taken_again_by_its_holder() {
    let server = ApiServer::start();
    let handle = manager(&server).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    let before = lease_object(&server).await;
    let client = Client::new(server.client());
    client.api::<Lease>().delete(&key("op")).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = lease_object(&server).await;
    assert_ne!(after.metadata.uid, before.metadata.uid);
    let holder = after.spec.and_then(|spec| spec.holder_identity);
    assert!(holder.is_some_and(|holder| holder.starts_with("one_")));
    assert!(handle.lease().is_some_and(|l| l.held), "it led all the time");
    handle.client().api().create(&config_map("a", &[])).await.expect("written");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_takes_ends_leadership_without_waiting_for_the_deadline() {
    let server = ApiServer::start();
    let handle = manager(&server).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    let observer = Handle::clone(&handle);
    let mut object = lease_object(&server).await;
    object.spec.get_or_insert_default().holder_identity = Some("robber".into());
    let at = tokio::time::Instant::now();
    Client::new(server.client()).api().update(&object).await.expect("updated");
    handle.wait().await.expect_err("leadership is lost");
    assert!(at.elapsed() <= Duration::from_millis(2_500), "one renewal: {:?}", at.elapsed());
    assert!(observer.lease().is_some_and(|lease| !lease.held));
    let spec = lease_object(&server).await.spec.unwrap_or_default();
    assert_eq!(spec.holder_identity.as_deref(), Some("robber"), "and is not taken back");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_was_heard_but_not_answered_keeps_the_lease() {
    let server = ApiServer::start();
    let handle = manager(&server).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    // One write of the lease happens, and its response is lost; the next finds another version than it
    // knows, looks, and writes again.
    let turn = std::sync::atomic::AtomicUsize::new(0);
    server.inject(Some(Box::new(move |request| {
        let write = request.resource == "leases" && request.verb == "update";
        let lost = write && turn.fetch_add(1, Ordering::SeqCst).is_multiple_of(3);
        let fail_after = lost.then(|| windlass_apiserver::Status::internal("the line was cut"));
        Fault { fail_after, ..Fault::default() }
    })));
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(handle.lease().is_some_and(|l| l.held));
    }
    assert_eq!(lease_object(&server).await.spec.and_then(|s| s.lease_transitions), Some(0));
    server.inject(None);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_the_home_cluster_guards_writes_to_all_of_them() {
    let (home, away) = (ApiServer::start(), ApiServer::start());
    let leader = manager(&home).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("one leads", || leader.lease().is_some_and(|l| l.held)).await;
    let follower = manager(&home)
        .cluster("away", away.client())
        .replica("two")
        .seed(7)
        .lease(options())
        .spawn()
        .expect("starts");
    let there = follower.cluster("away").expect("is there").clone();
    let error = there.api().create(&config_map("a", &[])).await.expect_err("does not lead");
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    leader.stop().await.expect("stops");
    eventually("two leads", || follower.lease().is_some_and(|l| l.held)).await;
    there.api().create(&config_map("a", &[])).await.expect("leads");
    follower.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_its_own_writes_before_the_lease_is_held_and_that_of_the_manager_does_not() {
    let server = ApiServer::start();
    let leader = manager(&server).replica("one").seed(7).lease(options()).spawn().expect("starts");
    eventually("it leads", || leader.lease().is_some_and(|l| l.held)).await;
    let handle = manager(&server).replica("two").seed(7).lease(options()).spawn().expect("starts");
    let refused = handle.client().api().create(&config_map("a", &[])).await.expect_err("fenced");
    assert_eq!(
        refused.to_string(),
        "create ConfigMap default/a: stopped, because this process does not hold lease default/op"
    );
    Client::new(server.client()).api().create(&config_map("a", &[])).await.expect("written");
    handle.stop().await.expect("stops");
    leader.stop().await.expect("stops");
}
