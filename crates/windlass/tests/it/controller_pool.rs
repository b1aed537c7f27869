//! The tasks of a worker pool: spawned when they are needed, kept for a while when they are not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass_apiserver::ApiServer;

use crate::common::{eventually, key, manager};

/// The reconciles of a controller: how many there were, and in which tasks.
#[derive(Clone, Default)]
struct Seen {
    done: Arc<AtomicUsize>,
    tasks: Arc<Mutex<BTreeSet<String>>>,
}

/// Starts a controller of up to eight workers whose reconciles take a second each.
async fn start(server: &ApiServer) -> (Running, Seen) {
    let seen = Seen::default();
    let recorded = seen.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        let seen = recorded.clone();
        async move {
            let task = tokio::task::try_id().map(|id| id.to_string());
            seen.tasks.lock().insert(task.expect("runs in a task"));
            sleep(Duration::from_secs(1)).await;
            seen.done.fetch_add(1, Ordering::SeqCst);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("pool").workers(8).build(reconcile);
    let running = manager(server).add(controller).spawn().expect("starts");
    running.ready().await;
    (running, seen)
}

/// Queues `count` keys at once and waits until all are reconciled.
async fn burst(running: &Running, seen: &Seen, count: usize) {
    let wanted = seen.done.load(Ordering::SeqCst) + count;
    let controller = running.controller("pool").expect("is there");
    for n in 0..count {
        controller.enqueue(key(&format!("k{n}")));
    }
    eventually("all keys are reconciled", || seen.done.load(Ordering::SeqCst) == wanted).await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_comes_again_finds_its_workers_spawned() {
    let server = ApiServer::start();
    let (running, seen) = start(&server).await;
    for _ in 0..3 {
        burst(&running, &seen, 5).await;
    }
    assert_eq!(seen.tasks.lock().len(), 5);
    burst(&running, &seen, 20).await;
    assert_eq!(seen.tasks.lock().len(), 8, "no more workers than allowed");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_not_needed_between_two_checks_end() {
    let server = ApiServer::start();
    let (running, seen) = start(&server).await;
    let alive = || Handle::current().metrics().num_alive_tasks();
    let none = alive();
    burst(&running, &seen, 6).await;
    assert_eq!(alive(), none + 6);
    sleep(Duration::from_secs(65)).await;
    assert_eq!(alive(), none + 6, "all of them worked since the pool began");
    burst(&running, &seen, 2).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(alive(), none + 2, "those that were needed are kept");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(alive(), none);
    burst(&running, &seen, 1).await;
    assert_eq!(seen.tasks.lock().len(), 7, "a new worker is spawned");
    running.stop().await.expect("stops");
}

#[test]
fn a_runtime_that_shuts_down_with_busy_and_waiting_workers_causes_no_deadlock() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("starts");
        let kept = runtime.block_on(async {
            let server = ApiServer::start();
            let (running, seen) = start(&server).await;
            burst(&running, &seen, 4).await;
            let controller = running.controller("pool").expect("is there");
            for n in [0, 1, 0, 1] {
                controller.enqueue(key(&format!("k{n}")));
                tokio::task::yield_now().await;
            }
            (running, controller)
        });
        drop(runtime);
        kept.1.enqueue(key("late"));
        done.send(()).expect("is waited for");
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("ends");
}
