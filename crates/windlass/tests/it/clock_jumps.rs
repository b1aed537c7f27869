//! A wall clock that jumps, or a machine that was suspended, which looks like a jump ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::clock::Clock;
use windlass::controller::{Context, Controller, Next};
use windlass::lease::LeaseOptions;
use windlass::manager::{Handle, Running};
use windlass::{Client, Error};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, metric};

fn clock() -> Clock {
    Clock::fixed("2026-01-01T00:00:00Z".parse().expect("a time"))
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

/// A manager that asks for the lease and goes by `clock`.
fn start(server: &ApiServer, replica: &str, clock: &Clock) -> Running {
    let options = LeaseOptions::new("op").namespace("default");
    manager(server)
        .replica(replica)
        .seed(7)
        .clock(clock.clone())
        .lease(options)
        .spawn()
        .expect("starts")
}

async fn leads(handle: &Handle) {
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
}

async fn lease(server: &ApiServer) -> LeaseSpec {
    let client = Client::new(server.client());
    let lease = client.api::<Lease>().get(&key("op")).await.expect("read").expect("is there");
    lease.spec.clone().expect("has a spec")
}

/// When which key was reconciled within five minutes, while the clock jumps by these durations.
async fn trace(jumps: [SignedDuration; 2]) -> Vec<String> {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = start(&server, "one", &clock);
    leads(&handle).await;
    let (log, began): (Arc<Mutex<Vec<String>>>, _) = (Arc::default(), Instant::now());
    let sink = log.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        sink.lock().push(format!("{:?} {} {}", began.elapsed(), cx.name(), cx.failures()));
        async move {
            match cx.name() {
                "fails" => Err(Error::from("always")),
                _ => Ok(Next::After(Duration::from_secs(20))),
            }
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    drop(handle.add(controller).expect("added"));
    for name in ["fails", "again"] {
        handle.client().api().create(&config_map(name, &[])).await.expect("created");
    }
    for by in jumps {
        tokio::time::sleep(Duration::from_secs(150)).await;
        clock.shift(by);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(handle.lease().is_some_and(|l| l.held && l.transitions == 0), "leads all the time");
    handle.stop().await.expect("is still up");
    std::mem::take(&mut *log.lock())
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_moves_no_requeue_and_no_backoff() {
    let unmoved = trace([SignedDuration::ZERO; 2]).await;
    assert!(unmoved.iter().filter(|line| line.contains("again")).count() >= 15, "{unmoved:?}");
    assert!(unmoved.iter().filter(|line| line.contains("fails")).count() >= 12, "{unmoved:?}");
    assert_eq!(trace([hours(1), hours(-2)]).await, unmoved);
    assert_eq!(trace([hours(-1), hours(48)]).await, unmoved);
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_is_shown_by_metrics_and_diagnostics() {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = manager(&server).clock(clock.clone()).spawn().expect("starts");
    let [ahead, back] = ["ahead", "back"]
        .map(|direction| format!(r#"windlass_clock_jumps_total{{direction="{direction}"}}"#));
    let counted = |handle: &Handle| (metric(handle, &ahead), metric(handle, &back));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(counted(&handle), (0.0, 0.0));
    assert_eq!(handle.diagnostics()["clock"], serde_json::json!({"jumps": 0, "lastJump": null}));
    clock.shift(hours(1));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(counted(&handle), (1.0, 0.0));
    let page = handle.diagnostics()["clock"].clone();
    assert_eq!((&page["jumps"], &page["lastJump"]["seconds"]), (&1.into(), &3600.0.into()));
    let at = page["lastJump"]["at"].as_str().unwrap_or_default();
    assert!(at.starts_with("2026-01-01T02:00:"), "{page}");
    clock.shift(hours(-2));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(counted(&handle), (1.0, 1.0));
    let page = handle.diagnostics()["clock"].clone();
    assert_eq!((&page["jumps"], &page["lastJump"]["seconds"]), (&2.into(), &(-7200.0).into()));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn virtual_time_is_no_jump_of_the_clock_of_the_machine() {
    let server = ApiServer::start();
    let handle = manager(&server).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!(handle.diagnostics()["clock"]["jumps"], 0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn after_a_jump_ahead_no_write_leaves_until_the_lease_is_renewed() {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = start(&server, "one", &clock);
    leads(&handle).await;
    let client = handle.client().clone();
    client.api().create(&config_map("before", &[])).await.expect("written");
    clock.shift(hours(1));
    let at = Instant::now();
    let error = client.api().create(&config_map("slept", &[])).await.expect_err("is fenced");
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    let api: kube::Api<ConfigMap> = kube::Api::namespaced(client.kube(), "default");
    assert!(api.create(&Default::default(), &config_map("slept", &[])).await.is_err());
    leads(&handle).await;
    assert!(at.elapsed() <= Duration::from_millis(2_500), "{:?}", at.elapsed());
    client.api().create(&config_map("after", &[])).await.expect("written");
    let spec = lease(&server).await;
    assert!(spec.holder_identity.is_some_and(|holder| holder.starts_with("one_")));
    assert_eq!(spec.lease_transitions, Some(0));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_jump_back_neither_closes_the_fence_nor_keeps_it_open() {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = start(&server, "one", &clock);
    leads(&handle).await;
    let client = handle.client().clone();
    clock.shift(hours(-1));
    client.api().create(&config_map("a", &[])).await.expect("written");
    server.inject(Some(Box::new(|request| Fault {
        fail: (request.resource == "leases").then(|| windlass_apiserver::Status::internal("no")),
        ..Fault::default()
    })));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(handle.lease().is_some_and(|lease| !lease.held));
    handle.wait().await.expect_err("leadership is lost");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_while_another_took_the_lease_writes_nothing_and_stops() {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = start(&server, "one", &clock);
    leads(&handle).await;
    let client = handle.client().clone();
    // What others do in the time it sleeps.
    clock.shift(hours(1));
    let other = Client::new(server.client());
    let found = other.api::<Lease>().get(&key("op")).await.expect("read").expect("is there");
    let mut taken = (*found).clone();
    taken.spec.get_or_insert_default().holder_identity = Some("two".into());
    other.api().update(&taken).await.expect("updated");
    let at = Instant::now();
    let end = tokio::spawn(handle.wait());
    while !end.is_finished() {
        let error = client.api().create(&config_map("a", &[])).await.expect_err("does not lead");
        assert!(matches!(error, Error::Fenced { .. }), "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let error = end.await.expect("joined").expect_err("leadership is lost");
    assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
    assert!(at.elapsed() <= Duration::from_secs(5), "at the next renewal: {:?}", at.elapsed());
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_was_under_way_when_the_machine_slept_opens_nothing() {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = start(&server, "one", &clock);
    leads(&handle).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    server.inject(Some(Box::new(move |request| {
        let renewal = request.resource == "leases" && request.verb == "update";
        count.fetch_add(usize::from(renewal), Ordering::SeqCst);
        let delay = Duration::from_secs(if renewal { 1 } else { 0 });
        Fault { delay, ..Fault::default() }
    })));
    eventually("a renewal has begun", || begun.load(Ordering::SeqCst) == 1).await;
    clock.shift(hours(1));
    // The answer comes, and the next renewal begins after that.
    while begun.load(Ordering::SeqCst) < 2 {
        assert!(handle.lease().is_some_and(|lease| !lease.held));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    leads(&handle).await;
    server.inject(None);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_while_the_machine_sleeps_is_given_up() {
    let (server, clock) = (ApiServer::start(), clock());
    let handle = start(&server, "one", &clock);
    leads(&handle).await;
    server.inject(Some(Box::new(|request| {
        let slow = request.resource == "configmaps" && request.verb == "create";
        let delay = Duration::from_secs(if slow { 1 } else { 0 });
        Fault { delay, ..Fault::default() }
    })));
    let client = handle.client().clone();
    let waits = tokio::spawn(async move { client.api().create(&config_map("a", &[])).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    clock.shift(hours(1));
    let error = waits.await.expect("joined").expect_err("is given up");
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_jump_does_not_make_a_living_holder_look_dead_or_a_dead_one_living() {
    let (server, clock) = (ApiServer::start(), clock());
    let first = start(&server, "one", &Clock::default());
    leads(&first).await;
    let second = start(&server, "two", &clock);
    second.ready().await;
    for by in [hours(24), hours(-48)] {
        clock.shift(by);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(second.lease().is_some_and(|l| !l.held && l.holder.starts_with("one_")));
    }
    assert!(first.lease().is_some_and(|l| l.held && l.transitions == 0));
    // It dies: nobody renews any more, and nothing is given back.
    drop(first);
    server.inject(Some(Box::new(|request| {
        let renewal = request.resource == "leases" && request.verb == "update";
        let fail = renewal.then(|| windlass_apiserver::Status::internal("no"));
        Fault { fail, ..Fault::default() }
    })));
    tokio::time::sleep(Duration::from_secs(12)).await;
    server.inject(None);
    clock.shift(hours(-24));
    assert!(second.lease().is_some_and(|l| !l.held), "too early");
    eventually("two leads", || second.lease().is_some_and(|l| l.held)).await;
    assert_eq!(lease(&server).await.lease_transitions, Some(1));
    second.stop().await.expect("stops");
}
