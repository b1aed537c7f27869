//! Faults of the server as an operator shows them: in its state, its metrics and its probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Handle;
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, manager, metric};

fn counting(runs: &Arc<AtomicUsize>) -> Controller<ConfigMap> {
    let count = runs.clone();
    Controller::<ConfigMap>::builder("maps").build(move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    })
}

fn state(handle: &Handle) -> String {
    handle.diagnostics()["clusters"][0]["watches"][0]["state"].to_string()
}

const MAPS: &str = r#"{cluster="",group="",version="v1",kind="ConfigMap"}"#;

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_and_hangs_shows_everywhere_and_is_followed_again() {
    let server = ApiServer::start();
    // 0: well, 1: refuses with 500, 2: never answers.
    let mood = Arc::new(AtomicUsize::new(0));
    let now = mood.clone();
    let first = AtomicBool::new(true);
    server.inject(Some(Box::new(move |request| {
        let ends = request.verb == "watch" && first.swap(false, Ordering::SeqCst);
        let watch_events_max = ends.then_some(2);
        match now.load(Ordering::SeqCst) {
            0 => Fault { watch_events_max, ..Fault::default() },
            1 => Fault {
                fail: Some(windlass_apiserver::Status::internal("etcd is away")),
                ..Fault::default()
            },
            _ => Fault { delay: Duration::from_secs(86_400), ..Fault::default() },
        }
    })));
    let runs = Arc::new(AtomicUsize::new(0));
    let handle = manager(&server).add(counting(&runs)).spawn().expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    assert_eq!(metric(&handle, &format!("windlass_watch_synced{MAPS}")), 1.0);
    // The second event ends the watch, and the server is away when it is to go on.
    handle.client().api().create(&config_map("b", &[])).await.expect("created");
    mood.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(state(&handle).contains("stale for"), "{}", state(&handle));
    assert!(state(&handle).contains("etcd is away"), "{}", state(&handle));
    assert_eq!(metric(&handle, &format!("windlass_watch_synced{MAPS}")), 0.0);
    assert!(metric(&handle, &format!("windlass_watch_stale_seconds{MAPS}")) > 20.0);
    assert!(metric(&handle, &format!("windlass_watch_failures_total{MAPS}")) >= 3.0);
    let failed = r#"rest_client_requests_total{code="500",method="GET",host="kubernetes"}"#;
    assert!(metric(&handle, failed) >= 3.0);
    assert!(
        handle
            .client()
            .cached()
            .get::<ConfigMap>(&crate::common::key("a"))
            .expect("cached")
            .is_some()
    );
    mood.store(2, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(state(&handle).contains("stale for"), "{}", state(&handle));
    mood.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert!(state(&handle).contains("synced"), "{}", state(&handle));
    handle.client().api().create(&config_map("c", &[])).await.expect("created");
    eventually("all three", || runs.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(metric(&handle, &format!("windlass_watch_stale_seconds{MAPS}")), 0.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn every_watch_and_handler_has_its_figures_among_the_metrics() {
    let server = ApiServer::start();
    let handle = manager(&server).add(counting(&Arc::default())).spawn().expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let text = handle.metrics();
    for series in [
        &format!("windlass_watch_watches_total{MAPS} 1"),
        &format!("windlass_watch_events_total{MAPS} 1"),
        &format!("windlass_watch_skipped_objects_total{MAPS} 0"),
        &format!("windlass_cache_undecodable_objects_total{MAPS} 0"),
        &format!("windlass_cache_objects{MAPS} 1"),
        r#"informer_queued_items{name="",group="",version="v1",resource="configmaps"} 0"#,
        r#"informer_store_resource_version{name="",group="",version="v1",resource="configmaps"}"#,
        r#"windlass_handler_panics_total{controller="maps"} 0"#,
        r#"windlass_handler_lag{controller="maps"} 0"#,
        r#"rest_client_requests_total{code="200",method="GET",host="kubernetes"} 1"#,
        r#"rest_client_requests_total{code="201",method="POST",host="kubernetes"} 1"#,
        "# TYPE certwatcher_read_certificate_total counter",
        "# TYPE certwatcher_read_certificate_errors_total counter",
    ] {
        assert!(text.contains(series), "missing {series} in\n{text}");
    }
    if cfg!(target_os = "linux") {
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
            "process_start_time_seconds",
        ] {
            assert!(metric(&handle, name) > 0.0 || name.contains("cpu"), "{name}");
        }
    }
    handle.stop().await.expect("stops");
    // Nothing is kept alive for the metrics.
    let text = handle_text(&server).await;
    assert!(!text.contains("windlass_watch_synced{"), "{text}");
}

async fn handle_text(server: &ApiServer) -> String {
    let handle = manager(server).spawn().expect("starts");
    handle.ready().await;
    let text = handle.metrics();
    handle.stop().await.expect("stops");
    text
}

#[tokio::test(start_paused = true)]
async fn a_second_controller_of_a_name_is_refused_while_running_too() {
    let server = ApiServer::start();
    let handle = manager(&server).add(counting(&Arc::default())).spawn().expect("starts");
    handle.ready().await;
    let error = handle.add(counting(&Arc::default())).err().expect("refused");
    assert_eq!(error.to_string(), "two controllers are named maps");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_second_controller_of_a_name_is_refused_before_the_first_has_started() {
    let server = ApiServer::start();
    let handle = manager(&server).add(counting(&Arc::default())).spawn().expect("starts");
    let error = handle.add(counting(&Arc::default())).err().expect("refused");
    assert_eq!(error.to_string(), "two controllers are named maps");
    assert!(handle.ready().await);
    handle.stop().await.expect("stops");
}

#[tokio::test]
async fn nobody_waits_for_a_manager_that_has_ended_or_adds_to_it() {
    let server = ApiServer::start();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = taken.local_addr().expect("has one").to_string();
    let handle = manager(&server).probes(&address).spawn().expect("starts");
    assert!(!handle.ready().await, "its port is taken");
    assert!(handle.add(counting(&Arc::default())).is_err(), "it has ended");
    handle.wait().await.expect_err("its port is taken");
    let handle = manager(&server).spawn().expect("starts");
    handle.abort();
    assert!(!handle.ready().await, "it was aborted");
    assert!(handle.add(counting(&Arc::default())).is_err(), "it will never run");
    let error = handle.wait().await.expect_err("it was aborted");
    assert_eq!(error.to_string(), "the manager was aborted");
}

/// A server that answers nothing.
fn silent() -> ApiServer {
    let server = ApiServer::start();
    server.inject(Some(Box::new(|_| Fault {
        delay: Duration::from_secs(86_400),
        ..Fault::default()
    })));
    server
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_the_caches_wait_for_the_server_ends_at_once() {
    let server = silent();
    let handle = manager(&server).add(counting(&Arc::default())).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let at = tokio::time::Instant::now();
    handle.stop().await.expect("stops");
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
}

#[tokio::test]
async fn probes_answer_before_the_caches_are_there() {
    let server = silent();
    let handle = manager(&server)
        .add(counting(&Arc::default()))
        .probes("127.0.0.1:0")
        .spawn()
        .expect("starts");
    let mut tries = 0;
    let address = loop {
        if let Some(address) = handle.probe_address() {
            break address;
        }
        tries += 1;
        assert!(tries < 1000, "does not listen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let get = crate::manager_life::http_get;
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    let ready = get(address, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 500") && ready.contains("[-]caches failed"), "{ready}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_manager_whose_future_is_dropped_leaves_nothing_running() {
    let server = ApiServer::start();
    let beats = Arc::new(AtomicUsize::new(0));
    let count = beats.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        let count = count.clone();
        async move {
            loop {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    };
    let controller = Controller::<ConfigMap>::builder("beats").build(reconcile);
    windlass::Client::new(server.client())
        .api()
        .create(&config_map("a", &[]))
        .await
        .expect("created");
    let run = manager(&server).add(controller).run(std::future::pending());
    assert!(tokio::time::timeout(Duration::from_secs(10), run).await.is_err());
    let then = beats.load(Ordering::SeqCst);
    assert!(then > 5, "{then}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(beats.load(Ordering::SeqCst) <= then + 1, "still running");
}

#[tokio::test(start_paused = true)]
async fn a_kind_may_be_cached_in_part() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let wanted = kube::core::Expression::Equal("app".into(), "web".into());
    let handle = manager(&server)
        .scope::<ConfigMap>(windlass::cache::Scope::default().labels(wanted.into()))
        .add(counting(&runs))
        .spawn()
        .expect("starts");
    handle.ready().await;
    let client = handle.client();
    client.api().create(&config_map("other", &[])).await.expect("created");
    let mut web = config_map("web", &[]);
    web.metadata.labels = Some([("app".to_string(), "web".to_string())].into());
    client.api().create(&web).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = client.cached().list::<ConfigMap>().items().expect("listed");
    assert_eq!(all.len(), 1, "only what is selected");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    handle.stop().await.expect("stops");
}
