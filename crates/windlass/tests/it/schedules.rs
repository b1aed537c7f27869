//! Reconciles at times of a schedule, in virtual time.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;
use windlass::clock::Clock;
use windlass::controller::{Context, Controller, Next};
use windlass::schedule::Schedule;
use windlass_apiserver::ApiServer;

use crate::common::{config_map, manager};

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_a_key_at_its_times_and_not_in_between() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let (sender, mut seen) = mpsc::channel(8);
    let controller =
        Controller::<ConfigMap>::builder("daily").build(move |cx: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                let schedule = Schedule::new("30 2 * * *", "Europe/Berlin")?;
                let _ = sender.send(cx.clock().now()).await;
                Ok(schedule.next(cx.clock().now()))
            }
        });
    let start: Timestamp = "2026-03-27T12:00:00Z".parse().expect("a time");
    let manager = manager(&server).clock(Clock::fixed(start)).add(controller);
    let running = manager.spawn().expect("starts");
    let mut next = async || seen.recv().await.expect("a reconcile");
    let first = next().await;
    assert!(first.duration_since(start).as_secs() < 60, "{first}: the first list");
    for due in ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"] {
        let due: Timestamp = due.parse().expect("a time");
        let late = next().await.duration_since(due).as_millis();
        assert!((0..100).contains(&late), "{late} ms after {due}");
    }
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_time_that_has_passed_does_not_keep_a_worker_busy() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let (sender, mut seen) = mpsc::channel(1000);
    let controller =
        Controller::<ConfigMap>::builder("late").build(move |_: Context<ConfigMap>| {
            let sender = sender.clone();
            async move {
                sender.try_send(()).map_err(|_| "the test listens")?;
                Ok(Next::At(Timestamp::UNIX_EPOCH))
            }
        });
    let running = manager(&server).add(controller).spawn().expect("starts");
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let mut runs = 0;
    while seen.try_recv().is_ok() {
        runs += 1;
    }
    assert!((5..50).contains(&runs), "{runs} runs in ten minutes");
    running.stop().await.expect("stops");
}
