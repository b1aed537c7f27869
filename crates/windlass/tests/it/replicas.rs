//! What runs on every replica is not bound to the lease, and what is bound to it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::controller::{Context, Controller, Next};
use windlass::lease::LeaseOptions;
use windlass::{Client, Key};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, secret};

fn options(identity: &str) -> LeaseOptions {
    LeaseOptions {
        namespace: Some("default".into()),
        identity: identity.into(),
        ..LeaseOptions::new("op")
    }
}

async fn exists(client: &Client, name: &str) -> bool {
    let live = client.live();
    live.get::<Secret>(&Key::namespaced("default", name)).await.expect("read").is_some()
}

#[tokio::test(start_paused = true)]
async fn what_runs_on_every_replica_writes_without_the_lease() {
    let server = ApiServer::start();
    let leader = manager(&server).lease(options("one")).spawn().expect("starts");
    eventually("one leads", || leader.lease().is_some_and(|l| l.held)).await;
    let everywhere = |cx: Context<ConfigMap>| async move {
        cx.client().create(&secret("by-controller")).await?;
        // The plain client of kube is as free.
        let api: kube::Api<Secret> = kube::Api::namespaced(cx.client().kube(), "default");
        api.create(&Default::default(), &secret("by-kube"))
            .await
            .map_err(windlass::Error::other)?;
        Ok(Next::Done)
    };
    let controller =
        Controller::<ConfigMap>::builder("everywhere").on_every_replica().build(everywhere);
    let follower = manager(&server)
        .lease(options("two"))
        .add(controller)
        .runnable_everywhere("runs", async |cx| {
            cx.client().create(&secret("by-runnable")).await?;
            cx.stopping().await;
            Ok(())
        })
        .spawn()
        .expect("starts");
    leader.client().create(&config_map("a", &[])).await.expect("created");
    for name in ["by-controller", "by-kube", "by-runnable"] {
        for _ in 0..100 {
            if exists(leader.client(), name).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(exists(leader.client(), name).await, "{name} was not written");
    }
    assert!(follower.lease().is_some_and(|l| !l.held && l.holder == "one"));
    // What is not said to run everywhere waits for the lease.
    let error = follower.client().create(&secret("by-handle")).await.expect_err("does not lead");
    assert!(error.is_fenced(), "{error}");
    follower.stop().await.expect("stops");
    leader.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_runs_on_every_replica_goes_on_until_a_lost_lease_ends_the_process() {
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
        .lease(options("one"))
        .runnable("leads", async move |cx| {
            // Told to stop, it would go on for long; a lost lease does not wait for that.
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
    assert_eq!(error.to_string(), "leader election lost");
    assert!(!ended.load(Ordering::SeqCst), "no grace without the lease");
}

#[tokio::test(start_paused = true)]
async fn who_leads_is_told_by_events_as_elsewhere() {
    let server = ApiServer::start();
    let handle = manager(&server).lease(options("one")).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.stop().await.expect("stops");
    let client = Client::new(server.client());
    let events = client
        .list::<k8s_openapi::api::events::v1::Event>(&windlass::List::within("default"))
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
    let wanted = ["one became leader", "one stopped leading"];
    assert_eq!(notes, wanted.map(|note| ("op".to_string(), note.to_string())));
    assert!(client.get::<ConfigMap>(&key("none")).await.expect("read").is_none());
}
