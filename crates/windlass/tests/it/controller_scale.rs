//! Many keys at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use windlass::controller::{Context, Controller, Next};
use windlass_apiserver::ApiServer;

use crate::common::{eventually, key, manager, metric};

#[derive(Default)]
struct Load {
    running: AtomicUsize,
    most: AtomicUsize,
    done: AtomicUsize,
}

/// Reconciles `keys` keys that wait a second each, with room for `workers`.
async fn run(keys: usize, workers: usize) -> (Arc<Load>, Duration, Duration) {
    let server = ApiServer::start();
    let load = Arc::new(Load::default());
    let shared = load.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        let load = shared.clone();
        async move {
            let now = load.running.fetch_add(1, Ordering::SeqCst) + 1;
            load.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            load.running.fetch_sub(1, Ordering::SeqCst);
            load.done.fetch_add(1, Ordering::SeqCst);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("many").workers(workers).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let controller = handle.controller("many").expect("is there");
    let (began, wall) = (tokio::time::Instant::now(), std::time::Instant::now());
    for at in 0..keys {
        controller.enqueue(key(&format!("k{at}")));
    }
    eventually("all", || load.done.load(Ordering::SeqCst) == keys).await;
    let took = (began.elapsed(), wall.elapsed());
    handle.stop().await.expect("stops");
    (load, took.0, took.1)
}

#[tokio::test(start_paused = true)]
async fn workers_bound_what_runs_at_once() {
    let (load, took, _) = run(20, 4).await;
    assert_eq!(load.most.load(Ordering::SeqCst), 4);
    assert!(took >= Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn thirty_two_thousand_in_flight_run_side_by_side() {
    let (load, took, wall) = run(32_000, 32_000).await;
    assert_eq!(load.most.load(Ordering::SeqCst), 32_000);
    assert!(took < Duration::from_secs(2), "{took:?}");
    println!("32,000 in flight: {wall:?}");
    let (_, _, wall) = run(1_000, 1_000).await;
    println!("1,000 in flight: {wall:?}");
}

#[tokio::test]
async fn empty_reconciles_are_fast() {
    let server = ApiServer::start();
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("empty").workers(8).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let controller = handle.controller("empty").expect("is there");
    let keys: Vec<_> = (0..20_000).map(|at| key(&format!("k{at}"))).collect();
    let began = std::time::Instant::now();
    for key in &keys {
        controller.enqueue(key.clone());
    }
    while done.load(Ordering::Relaxed) < keys.len() {
        tokio::task::yield_now().await;
        assert!(began.elapsed() < Duration::from_secs(30), "{}", done.load(Ordering::Relaxed));
    }
    println!("20,000 empty reconciles: {:?}", began.elapsed());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_context_that_is_kept_stays_what_it_was() {
    let server = ApiServer::start();
    let kept: Arc<Mutex<Vec<Context<ConfigMap>>>> = Arc::default();
    let keeps = kept.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        if cx.name() == "kept" {
            keeps.lock().push(cx);
        }
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("keeps").workers(1).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let controller = handle.controller("keeps").expect("is there");
    // The memory of a context is used again, but not while somebody holds it.
    for name in ["kept", "a", "b", "kept", "c"] {
        let done = || metric(&handle, "workqueue_work_duration_seconds_count");
        let before = done();
        controller.enqueue(key(name));
        eventually("the reconcile", || done() > before).await;
    }
    let names: Vec<_> = kept.lock().iter().map(|cx| cx.name().to_owned()).collect();
    assert_eq!(names, ["kept", "kept"]);
    handle.stop().await.expect("stops");
}
