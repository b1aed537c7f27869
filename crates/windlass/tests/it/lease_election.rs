//! Who leads, and what happens to the writes of one who no longer does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::Error;
use windlass::controller::{Context, Controller, Next};
use windlass::lease::LeaseOptions;
use windlass::manager::Running;
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, metric};

fn options() -> LeaseOptions {
    LeaseOptions::new("op").namespace("default")
}

/// The options of `one` with these durations in seconds.
fn timing(duration: u64, renew_deadline: u64, retry_period: u64) -> LeaseOptions {
    let seconds = Duration::from_secs;
    options().timing(seconds(duration), seconds(renew_deadline), seconds(retry_period))
}

fn start(server: &ApiServer, replica: &str, runs: &Arc<AtomicUsize>) -> Running {
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    manager(server)
        .replica(replica)
        .seed(7)
        .lease(options())
        .add(controller)
        .spawn()
        .expect("starts")
}

async fn lease(server: &ApiServer) -> k8s_openapi::api::coordination::v1::LeaseSpec {
    let client = windlass::Client::new(server.client());
    let lease = client.api::<Lease>().get(&key("op")).await.expect("read").expect("is there");
    lease.spec.clone().expect("has a spec")
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_works_and_a_release_hands_over_at_once() {
    let server = ApiServer::start();
    let (one, two) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let first = start(&server, "one", &one);
    eventually("one leads", || first.lease().is_some_and(|l| l.held)).await;
    let second = start(&server, "two", &two);
    second.ready().await;
    first.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("one works", || one.load(Ordering::SeqCst) == 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(two.load(Ordering::SeqCst), 0);
    assert!(second.lease().is_some_and(|l| l.holder.starts_with("one_")));
    first.stop().await.expect("stops");
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some(""));
    let at = Instant::now();
    eventually("two leads", || second.lease().is_some_and(|l| l.held)).await;
    assert!(at.elapsed() < Duration::from_secs(6), "{:?}", at.elapsed());
    eventually("two works", || two.load(Ordering::SeqCst) == 1).await;
    assert_eq!(lease(&server).await.lease_transitions, Some(1));
    second.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_after_its_lease_ran_out_whatever_its_clock_says() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    // The holder's clock is an hour ahead: only the local time without a change counts.
    let record: Lease = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "op", "namespace": "default"},
        "spec": {
            "holderIdentity": "dead", "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "renewTime": "2999-01-01T00:00:00.000000Z",
            "acquireTime": "2999-01-01T00:00:00.000000Z",
        },
    }))
    .expect("a lease");
    client.api().create(&record).await.expect("created");
    let runs = Arc::new(AtomicUsize::new(0));
    let at = Instant::now();
    let handle = start(&server, "next", &runs);
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert!(handle.lease().is_some_and(|l| !l.held), "too early");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    assert!(at.elapsed() >= Duration::from_secs(15), "took over after {:?}", at.elapsed());
    assert_eq!(lease(&server).await.lease_transitions, Some(4));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn no_write_leaves_after_the_renew_deadline() {
    let server = ApiServer::start();
    let cut = Arc::new(AtomicBool::new(false));
    let switch = cut.clone();
    server.inject(Some(Box::new(move |request| Fault {
        fail: (switch.load(Ordering::SeqCst) && request.resource == "leases")
            .then(|| windlass_apiserver::Status::internal("no")),
        ..Fault::default()
    })));
    let runs = Arc::new(AtomicUsize::new(0));
    let handle = start(&server, "one", &runs);
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    let client = handle.client().clone();
    client.api().create(&config_map("before", &[])).await.expect("written");
    cut.store(true, Ordering::SeqCst);
    let at = Instant::now();
    let error = loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let name = format!("m{}", at.elapsed().as_millis());
        if let Err(error) = client.api().create(&config_map(&name, &[])).await {
            break error;
        }
        assert!(at.elapsed() < Duration::from_secs(20), "still writing");
    };
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    assert!(at.elapsed() <= Duration::from_millis(12_500), "{:?}", at.elapsed());
    // The plain client of kube stands behind the same fence.
    let api: kube::Api<ConfigMap> = kube::Api::namespaced(client.kube(), "default");
    assert!(api.create(&Default::default(), &config_map("raw", &[])).await.is_err());
    assert!(client.api::<ConfigMap>().get(&key("before")).await.expect("reads pass").is_some());
    let error = handle.wait().await.expect_err("leadership is lost");
    assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_finds_the_fence_closed() {
    let server = ApiServer::start();
    let handle = start(&server, "one", &Arc::default());
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    // No task runs in between: time jumps, as for a machine that was suspended.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(handle.lease().is_some_and(|lease| !lease.held));
    handle.shutdown();
}

#[tokio::test(start_paused = true)]
async fn durations_without_a_margin_are_refused() {
    let server = ApiServer::start();
    for (wrong, why) in [
        (timing(15, 15, 2), "duration must be longer than renew_deadline"),
        (timing(15, 10, 9), "renew_deadline must be longer than 1.2 times retry_period"),
        (timing(15, 10, 0), "duration must be at least a second and retry_period more than zero"),
    ] {
        let error = manager(&server).lease(wrong).spawn().expect_err("refused");
        assert_eq!(error.to_string(), format!("lease op: {why}"));
    }
    let error = manager(&server).lease(LeaseOptions::new("")).spawn().expect_err("refused");
    assert_eq!(error.to_string(), "the name of a lease must not be empty");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_never_led_ends_without_work() {
    let server = ApiServer::start();
    let (one, two) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let first = start(&server, "one", &one);
    eventually("one leads", || first.lease().is_some_and(|l| l.held)).await;
    let second = start(&server, "two", &two);
    second.ready().await;
    second.stop().await.expect("stops");
    assert!(lease(&server).await.holder_identity.is_some_and(|held| held.starts_with("one_")));
    first.stop().await.expect("stops");
    assert_eq!(two.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_drops_the_work_at_once() {
    let server = ApiServer::start();
    let cut = Arc::new(AtomicBool::new(false));
    let switch = cut.clone();
    server.inject(Some(Box::new(move |request| Fault {
        fail: (switch.load(Ordering::SeqCst) && request.resource == "leases")
            .then(|| windlass_apiserver::Status::internal("no")),
        ..Fault::default()
    })));
    let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (set_began, set_ended) = (began.clone(), ended.clone());
    let reconcile = move |_: Context<ConfigMap>| {
        let (began, ended) = (set_began.clone(), set_ended.clone());
        async move {
            began.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(3600)).await;
            ended.store(true, Ordering::SeqCst);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("slow").build(reconcile);
    let handle = manager(&server)
        .replica("one")
        .seed(7)
        .lease(options())
        .add(controller)
        .spawn()
        .expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("it works", || began.load(Ordering::SeqCst)).await;
    cut.store(true, Ordering::SeqCst);
    let at = Instant::now();
    handle.wait().await.expect_err("leadership is lost");
    assert!(at.elapsed() < Duration::from_secs(15), "before another may lead: {:?}", at.elapsed());
    assert!(!ended.load(Ordering::SeqCst));
}

/// A controller whose reconciles take a while and then create `done`.
fn slow(began: &Arc<AtomicBool>, takes: Duration) -> Controller<ConfigMap> {
    let began = began.clone();
    Controller::<ConfigMap>::builder("slow").build(move |cx: Context<ConfigMap>| {
        let began = began.clone();
        async move {
            if cx.name() == "a" {
                began.store(true, Ordering::SeqCst);
                tokio::time::sleep(takes).await;
                cx.client().api().create(&config_map("done", &[])).await?;
            }
            Ok(Next::Done)
        }
    })
}

async fn done(server: &ApiServer) -> bool {
    let client = windlass::Client::new(server.client());
    client.api::<ConfigMap>().get(&key("done")).await.expect("read").is_some()
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_until_the_work_has_drained_and_released_then() {
    let server = ApiServer::start();
    let began = Arc::new(AtomicBool::new(false));
    let controller = slow(&began, Duration::from_secs(12));
    let handle = manager(&server)
        .replica("one")
        .seed(7)
        .lease(options())
        .add(controller)
        .spawn()
        .expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("it works", || began.load(Ordering::SeqCst)).await;
    handle.stop().await.expect("stops");
    assert!(done(&server).await, "the fence closed on work within its grace period");
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_lease_lost_while_the_work_drains_ends_that_work() {
    let server = ApiServer::start();
    let began = Arc::new(AtomicBool::new(false));
    let controller = slow(&began, Duration::from_secs(25));
    let handle = manager(&server)
        .replica("one")
        .seed(7)
        .lease(options())
        .add(controller)
        .spawn()
        .expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("it works", || began.load(Ordering::SeqCst)).await;
    server.inject(Some(Box::new(|request| Fault {
        fail: (request.resource == "leases").then(|| windlass_apiserver::Status::internal("no")),
        ..Fault::default()
    })));
    let at = Instant::now();
    handle.stop().await.expect("it was asked to stop");
    assert!(at.elapsed() < Duration::from_secs(15), "before another may lead: {:?}", at.elapsed());
    server.inject(None);
    assert!(!done(&server).await);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_drains_without_the_lease_does_not_take_it() {
    let server = ApiServer::start();
    let first = start(&server, "one", &Arc::default());
    eventually("one leads", || first.lease().is_some_and(|l| l.held)).await;
    let second = manager(&server)
        .replica("two")
        .seed(7)
        .lease(options())
        .runnable_everywhere("slow", async |cx| {
            cx.stopping().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(())
        })
        .spawn()
        .expect("starts");
    second.ready().await;
    second.shutdown();
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.stop().await.expect("stops");
    second.wait().await.expect("stops");
    assert_eq!(lease(&server).await.lease_transitions, Some(0), "nobody followed");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_touched_is_released_all_the_same() {
    let server = ApiServer::start();
    let handle = start(&server, "one", &Arc::default());
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    let client = windlass::Client::new(server.client());
    let found = client.api::<Lease>().get(&key("op")).await.expect("read").expect("is there");
    let mut touched = (*found).clone();
    touched.metadata.annotations = Some([("seen".to_string(), "yes".to_string())].into());
    client.api().update(&touched).await.expect("updated");
    handle.stop().await.expect("stops");
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_released_without_any_grace_too() {
    let server = ApiServer::start();
    let none = Duration::ZERO;
    let handle = manager(&server)
        .grace(none)
        .replica("one")
        .seed(7)
        .lease(options())
        .spawn()
        .expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    let delay = Duration::from_millis(500);
    server.inject(Some(Box::new(move |_| Fault { delay, ..Fault::default() })));
    handle.stop().await.expect("stops");
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_noticed_at_the_renew_deadline_and_published_as_an_event() {
    let server = ApiServer::start();
    let rare = timing(15, 10, 8);
    let handle = manager(&server).lease(rare).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    server.inject(Some(Box::new(|request| Fault {
        delay: Duration::from_millis(100),
        fail: (request.resource == "leases").then(|| windlass_apiserver::Status::internal("no")),
        ..Fault::default()
    })));
    let at = Instant::now();
    handle.wait().await.expect_err("leadership is lost");
    assert!(at.elapsed() < Duration::from_secs(11), "{:?}", at.elapsed());
    let client = windlass::Client::new(server.client());
    let events = client
        .api::<k8s_openapi::api::events::v1::Event>()
        .list()
        .namespace("default")
        .items()
        .await
        .expect("listed");
    let notes: Vec<_> = events.iter().filter_map(|event| event.note.as_deref()).collect();
    assert!(notes.iter().any(|note| note.ends_with(" stopped leading")), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_written_for_no_less_than_its_holder_counts_on() {
    let server = ApiServer::start();
    let millis = Duration::from_millis;
    let uneven = options().timing(millis(15_900), millis(15_500), millis(2_000));
    let handle = manager(&server).lease(uneven).spawn().expect("starts");
    eventually("one leads", || handle.lease().is_some_and(|l| l.held)).await;
    assert_eq!(lease(&server).await.lease_duration_seconds, Some(16));
    handle.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reconcile_that_blocks_its_thread_stops_neither_renewals_nor_other_keys() {
    let server = ApiServer::start();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (blocked, began) = (Arc::new(Mutex::new(blocked)), Arc::new(AtomicBool::new(false)));
    let (done, set): (Arc<Mutex<Vec<String>>>, _) = (Arc::default(), began.clone());
    let log = done.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let (blocked, began, log) = (blocked.clone(), set.clone(), log.clone());
        async move {
            if cx.name() == "blocks" {
                began.store(true, Ordering::SeqCst);
                // No await: this thread is lost to the runtime until somebody lets go.
                let _ = blocked.lock().recv();
            }
            log.lock().push(cx.name().to_string());
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps").workers(2).build(reconcile);
    let millis = Duration::from_millis;
    let short = options().timing(millis(6_000), millis(5_000), millis(20));
    let handle = manager(&server).lease(short).add(controller).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    handle.client().api().create(&config_map("blocks", &[])).await.expect("created");
    eventually("it blocks", || began.load(Ordering::SeqCst)).await;
    for at in 0..8 {
        let before = lease(&server).await.renew_time;
        let at_once = Instant::now();
        while lease(&server).await.renew_time == before {
            assert!(at_once.elapsed() < Duration::from_secs(5), "renewed {at} times");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        handle.client().api().create(&config_map(&format!("m{at}"), &[])).await.expect("written");
    }
    eventually("the others are done", || done.lock().len() == 8).await;
    assert!(!done.lock().contains(&"blocks".to_string()));
    assert_eq!(metric(&handle, "controller_runtime_active_workers"), 1.0);
    assert!(handle.lease().is_some_and(|l| l.held && l.transitions == 0));
    drop(release);
    eventually("it lets go", || done.lock().contains(&"blocks".to_string())).await;
    handle.stop().await.expect("stops");
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some(""));
}
