//! Start, run, stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::{Handle, RunContext};
use windlass::{Client, Error, Kind, Manager};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, metric, secret};

async fn nothing(_: Context<ConfigMap>) -> windlass::Result<Next> {
    Ok(Next::Done)
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_reconcile_under_way() {
    let server = ApiServer::start();
    let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (set_began, set_ended) = (began.clone(), ended.clone());
    let reconcile = move |_: Context<ConfigMap>| {
        let (began, ended) = (set_began.clone(), set_ended.clone());
        async move {
            began.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(5)).await;
            ended.store(true, Ordering::SeqCst);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("slow").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a reconcile", || began.load(Ordering::SeqCst)).await;
    let at = Instant::now();
    handle.stop().await.expect("stops");
    assert!(ended.load(Ordering::SeqCst), "acknowledged work was lost");
    assert!(at.elapsed() <= Duration::from_secs(5), "{:?}", at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_with_the_grace_period() {
    let server = ApiServer::start();
    let began = Arc::new(AtomicBool::new(false));
    let set = began.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        set.store(true, Ordering::SeqCst);
        std::future::pending()
    };
    let controller = Controller::<ConfigMap>::builder("hangs").build(reconcile);
    let grace = Duration::from_secs(7);
    let handle = manager(&server).grace(grace).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a reconcile", || began.load(Ordering::SeqCst)).await;
    let at = Instant::now();
    handle.stop().await.expect("stops");
    let took = at.elapsed();
    assert!(took >= grace && took < grace + Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_has_half_a_minute_by_default() {
    let server = ApiServer::start();
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let handle = manager(&server)
        .runnable("in time", async move |cx| {
            cx.stopping().await;
            tokio::time::sleep(Duration::from_secs(29)).await;
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
        .runnable("too late", async |_| std::future::pending().await)
        .spawn()
        .expect("starts");
    handle.ready().await;
    let at = Instant::now();
    handle.stop().await.expect("stops");
    assert_eq!(at.elapsed().as_secs(), 30);
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_fails_or_panics_stops_the_manager_and_says_which() {
    let server = ApiServer::start();
    let handle = manager(&server)
        .runnable("importer", async |_| Err(Error::from("no disk")))
        .spawn()
        .expect("starts");
    let error = handle.wait().await.expect_err("fails");
    assert_eq!(error.to_string(), "importer: no disk");
    let handle = manager(&server)
        .runnable("importer", async |_| panic!("on purpose"))
        .spawn()
        .expect("starts");
    let error = handle.wait().await.expect_err("fails");
    let text = error.to_string();
    assert!(text.starts_with("panic: importer: on purpose (at "), "{text}");
    assert!(text.contains("manager_life.rs:"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn all_runnables_are_asked_to_stop_at_once_and_end_before_the_caches() {
    let server = ApiServer::start();
    let log: Arc<Mutex<Vec<&str>>> = Arc::default();
    let (first, second) = (log.clone(), log.clone());
    let controller = Controller::<ConfigMap>::builder("c").build(nothing);
    let handle = manager(&server)
        .add(controller)
        .runnable_everywhere("everywhere", async move |cx| {
            cx.stopping().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The cache still answers while work drains.
            cx.client.cached().list::<ConfigMap>().items()?;
            first.lock().push("everywhere");
            Ok(())
        })
        .runnable("leader", async move |cx| {
            cx.stopping().await;
            // The cache still answers while the leader's work ends.
            cx.client.cached().list::<ConfigMap>().items()?;
            second.lock().push("leader");
            Ok(())
        })
        .spawn()
        .expect("starts");
    handle.ready().await;
    handle.stop().await.expect("stops");
    assert_eq!(*log.lock(), ["leader", "everywhere"]);
}

#[tokio::test(start_paused = true)]
async fn no_reconcile_begins_while_a_runnable_of_every_replica_is_still_draining() {
    let server = ApiServer::start();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let ticking = Controller::<ConfigMap>::builder("ticks").build(move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::After(Duration::from_millis(300))) }
    });
    let handle = manager(&server)
        .add(ticking)
        .runnable_everywhere("never ends", async |_| std::future::pending().await)
        .grace(Duration::from_secs(10))
        .spawn()
        .expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("some reconciles", || begun.load(Ordering::SeqCst) >= 5).await;
    let before = begun.load(Ordering::SeqCst);
    handle.stop().await.expect("stops");
    assert_eq!(begun.load(Ordering::SeqCst), before, "reconciles began after the stop");
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_refused() {
    let server = ApiServer::start();
    let one = Controller::<ConfigMap>::builder("same").build(nothing);
    let two = Controller::<ConfigMap>::builder("same").build(nothing);
    let error = manager(&server).add(one).add(two).spawn().expect_err("refused");
    assert_eq!(error.to_string(), "two controllers are named same");
}

#[tokio::test(start_paused = true)]
async fn controllers_of_several_clusters_share_one_manager() {
    let (home, away) = (ApiServer::start(), ApiServer::start());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        log.lock().push(cx.name().to_string());
        async { Ok(Next::Done) }
    };
    let handle = manager(&home)
        .cluster("away", away.client())
        .add(Controller::<ConfigMap>::builder("maps").build(reconcile.clone()))
        .add_to("away", Controller::<ConfigMap>::builder("maps").build(reconcile))
        .spawn()
        .expect("starts");
    handle.client().api().create(&config_map("here", &[])).await.expect("created");
    let client = handle.cluster("away").expect("is there");
    client.api().create(&config_map("there", &[])).await.expect("created");
    eventually("both", || seen.lock().len() == 2).await;
    assert!(client.api::<ConfigMap>().get(&key("here")).await.expect("read").is_none());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_found_by_its_name_also_if_that_has_a_slash() {
    let (home, away) = (ApiServer::start(), ApiServer::start());
    let controller = |name: &str| {
        Controller::<ConfigMap>::builder(name)
            .build(|_: Context<ConfigMap>| async { Ok(Next::Done) })
    };
    let handle = manager(&home)
        .cluster("eu/west", away.client())
        .add(controller("team/maps"))
        .add_to("eu/west", controller("maps"))
        .spawn()
        .expect("starts");
    handle.ready().await;
    for (asked, name) in [("team/maps", "team/maps"), ("eu/west/maps", "maps"), ("maps", "maps")] {
        let found = handle.controller(asked).unwrap_or_else(|| panic!("{asked} is there"));
        assert!(format!("{found:?}").contains(&format!("name: {name:?}")), "{asked}: {found:?}");
    }
    assert!(handle.controller("eu/maps").is_none());
    assert!(handle.controller("/maps").is_none(), "the home cluster has no name");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_controller_can_be_added_while_running() {
    let server = ApiServer::start();
    let handle = manager(&server).spawn().expect("starts");
    handle.ready().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let late = Controller::<ConfigMap>::builder("late").build(move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    });
    handle.add(late).expect("added").await.expect("started").synced().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_read_right_after_the_start_waits_for_the_controllers_that_declare_its_kind() {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    let maps = Controller::<ConfigMap>::builder("maps").reads::<Secret>().build(nothing);
    let handle = manager(&server).add(maps).spawn().expect("starts");
    let key = key("a");
    let (cache, minute) = (handle.client().cached(), Duration::from_secs(60));
    cache.synced(&Kind::of::<ConfigMap>(), minute).await.expect("is declared");
    assert!(cache.get::<ConfigMap>(&key).expect("reads").is_some());
    cache.synced(&Kind::of::<Secret>(), minute).await.expect("is declared");
    assert!(cache.get::<Secret>(&key).expect("reads").is_none());
    // The same goes for one that is added, without waiting for it.
    let pods = Controller::<Pod>::builder("pods").build(|_: Context<Pod>| async { Ok(Next::Done) });
    drop(handle.add(pods).expect("added"));
    cache.synced(&Kind::of::<Pod>(), minute).await.expect("is declared");
    assert!(cache.get::<Pod>(&key).expect("reads").is_none());
    // What nobody declares is not waited for.
    let began = Instant::now();
    let error = cache.synced(&Kind::of::<Service>(), minute).await.expect_err("not declared");
    assert!(matches!(error, Error::NotCached { .. }), "{error}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_manager_that_does_not_run_yet_ends_and_says_so() {
    let server = ApiServer::start();
    let maps = Controller::<ConfigMap>::builder("maps").build(nothing);
    // Its task does not run before this one waits.
    let handle = manager(&server).add(maps).spawn().expect("is complete");
    let cache = handle.client().cached();
    let waited = cache.synced(&Kind::of::<ConfigMap>(), Duration::ZERO).await;
    let error = waited.expect_err("it does not run");
    assert!(error.to_string().contains("its manager does not run yet"), "{error}");
    let late = Controller::<ConfigMap>::builder("late").build(nothing);
    let added = handle.add(late).expect("waits for the manager");
    handle.abort();
    let error = added.await.expect_err("the manager never ran");
    let text = "controller late was not started: the manager has ended";
    assert_eq!(error.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_at_start_is_waited_for() {
    let server = ApiServer::start();
    let away = Arc::new(AtomicBool::new(true));
    let switch = away.clone();
    server.inject(Some(Box::new(move |_| Fault {
        fail: switch
            .load(Ordering::SeqCst)
            .then(|| windlass_apiserver::Status::internal("etcd is away")),
        ..Fault::default()
    })));
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let page = handle.diagnostics();
    let watch = &page["clusters"][0]["watches"][0];
    assert_eq!(page["ready"], false);
    assert_eq!(watch["synced"], false);
    assert!(watch["state"].as_str().is_some_and(|s| s.contains("etcd is away")), "{watch}");
    away.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(90)).await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    assert_eq!(handle.diagnostics()["ready"], true);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_named_and_does_not_hold_up_the_others() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let nope = Kind::new("example.com", "v1", "Nope", "nopes");
    let missing =
        Controller::<DynamicObject>::of_kind("missing", &nope).build(async |_| Ok(Next::Done));
    let works = Controller::<ConfigMap>::builder("works").reads::<Secret>().build(
        move |_: Context<ConfigMap>| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(Next::Done) }
        },
    );
    let handle = manager(&server).add(missing).add(works).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    handle.client().api().create(&secret("b")).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    let watches = handle.diagnostics()["clusters"][0]["watches"].clone();
    let watch =
        watches.as_array().expect("a list").iter().find(|w| w["kind"] == "Nope.example.com/v1");
    let state = watch.expect("is listed")["state"].as_str().unwrap_or_default().to_string();
    assert!(state.starts_with("no such kind"), "{state}");
    handle.stop().await.expect("stops");
}

/// Adds runnables that say what they find in the cache when they begin.
fn finding(builder: Manager, found: &Arc<Mutex<Vec<(&'static str, usize)>>>) -> Manager {
    let (one, two) = (found.clone(), found.clone());
    let look = async |cx: RunContext, name, found: Arc<Mutex<Vec<_>>>| {
        let maps = cx.client.cached().list::<ConfigMap>().items();
        found.lock().push((name, maps.map_or(0, |maps| maps.len())));
        cx.stopping().await;
        Ok(())
    };
    builder
        .runnable("leader", move |cx| look(cx, "leader", one))
        .runnable_everywhere("everywhere", move |cx| look(cx, "everywhere", two))
}

#[tokio::test(start_paused = true)]
async fn runnables_begin_when_the_caches_are_synced() {
    let server = ApiServer::start();
    Client::new(server.client()).api().create(&config_map("a", &[])).await.expect("created");
    server.inject(Some(Box::new(|request| Fault {
        delay: Duration::from_secs(if request.resource == "configmaps" { 5 } else { 0 }),
        ..Fault::default()
    })));
    let found = Arc::default();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing);
    let handle = finding(manager(&server).add(controller), &found).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(found.lock().is_empty(), "before the caches");
    assert!(handle.ready().await);
    eventually("both begin", || found.lock().len() == 2).await;
    found.lock().sort_unstable();
    assert_eq!(*found.lock(), [("everywhere", 1), ("leader", 1)]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_cannot_sync_does_not_hold_up_runnables_for_ever() {
    // A kind that is missing is not waited for: a runnable may be about to install it.
    let server = ApiServer::start();
    let nope = Kind::new("example.com", "v1", "Nope", "nopes");
    let missing =
        Controller::<DynamicObject>::of_kind("missing", &nope).build(async |_| Ok(Next::Done));
    let found = Arc::default();
    let handle = finding(manager(&server).add(missing), &found).spawn().expect("starts");
    eventually("both begin", || found.lock().len() == 2).await;
    handle.stop().await.expect("stops");
    // A server that fails is waited for, but not for ever: a runnable may be a webhook of it.
    server.inject(Some(Box::new(|request| Fault {
        fail: (request.resource == "configmaps")
            .then(|| windlass_apiserver::Status::internal("conversion webhook failed")),
        ..Fault::default()
    })));
    found.lock().clear();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing);
    let handle = finding(manager(&server).add(controller), &found).spawn().expect("starts");
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert!(found.lock().is_empty(), "before the caches");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(found.lock().len(), 2);
    assert_eq!(handle.diagnostics()["ready"], false);
    handle.stop().await.expect("stops");
}

pub async fn http_get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    answer
}

#[tokio::test]
async fn probes_metrics_and_diagnostics_are_served_and_end_with_the_manager() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing);
    let handle = manager(&server)
        .add(controller)
        .probes("127.0.0.1:0")
        .metrics("127.0.0.1:0")
        .serve_diagnostics()
        .spawn()
        .expect("starts");
    handle.ready().await;
    let probes = handle.probe_address().expect("listens");
    let metrics = handle.metrics_address().expect("listens");
    assert!(http_get(probes, "/healthz").await.ends_with("\r\n\r\nok"));
    let ready = http_get(probes, "/readyz?verbose").await;
    assert!(ready.contains("[+]caches ok\n[+]ping ok\nreadyz check passed"), "{ready}");
    let text = http_get(metrics, "/metrics").await;
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains(r#"workqueue_depth{name="maps",controller="maps",priority="0"} 0"#));
    let page = http_get(metrics, "/debug/windlass").await;
    assert!(page.contains(r#""kind": "ConfigMap.v1""#), "{page}");
    handle.stop().await.expect("stops");
    assert!(tokio::net::TcpStream::connect(probes).await.is_err(), "still listens");
}

#[tokio::test]
async fn diagnostics_are_not_served_unless_enabled() {
    let server = ApiServer::start();
    let handle = manager(&server).metrics("127.0.0.1:0").spawn().expect("starts");
    handle.ready().await;
    let metrics = handle.metrics_address().expect("listens");
    let page = http_get(metrics, "/debug/windlass").await;
    assert!(page.starts_with("HTTP/1.1 404"), "{page}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_day_passes_for_a_manager_with_nothing_configured() {
    let server = ApiServer::start();
    let times: Arc<Mutex<Vec<jiff::Timestamp>>> = Arc::default();
    let seen = times.clone();
    let hourly = Controller::<ConfigMap>::builder("hourly").build(move |cx: Context<ConfigMap>| {
        seen.lock().push(cx.clock().now());
        async { Ok(Next::After(Duration::from_secs(3600))) }
    });
    let handle = manager(&server).add(hourly).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("the first run", || !times.lock().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let times = times.lock().clone();
    assert_eq!(times.len(), 25);
    let day = times[24].duration_since(times[0]).as_secs();
    assert!((86_400..86_410).contains(&day), "{day} s");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn readiness_is_kept_when_a_watch_is_too_old_and_staleness_is_shown() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("maps").build(nothing);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let page = handle.readyz().await.expect_err("nothing has synced yet");
    assert!(page.contains("[-]caches failed"), "{page}");
    handle.ready().await;
    // From now on every watch is refused as too old, and lists fail for a while.
    let broken = Arc::new(AtomicBool::new(true));
    let breaks = broken.clone();
    server.inject(Some(Box::new(move |request| {
        let maps = request.resource == "configmaps" && breaks.load(Ordering::SeqCst);
        let gone = || windlass_apiserver::Status::new(410, "Expired", "too old resource version");
        let fail = (maps && matches!(request.verb.as_str(), "watch" | "list")).then(gone);
        Fault { fail, ..Fault::default() }
    })));
    let mut stale = 0;
    for _ in 0..20 * 60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let page = handle.readyz().await.expect("stays ready");
        stale += usize::from(page.contains("[+]caches ok: ConfigMap.v1 is stale for "));
    }
    assert!(stale > 60, "shown for {stale} s");
    let series =
        r#"windlass_watch_stale_seconds{cluster="",group="",version="v1",kind="ConfigMap"}"#;
    assert!(metric(&handle, series) > 60.0);
    broken.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(handle.readyz().await.expect("is ready").contains("[+]caches ok\n"));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_handle_can_be_cloned_and_a_running_manager_waits_for_its_end() {
    let server = ApiServer::start();
    let manager = manager(&server)
        .runnable("slow", async |cx| {
            cx.stopping().await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            Err(Error::from("too late to matter"))
        })
        .spawn()
        .expect("starts");
    let (one, two) = (Handle::clone(&manager), Handle::clone(&manager));
    assert!(one.ready().await);
    two.shutdown();
    let at = Instant::now();
    manager.wait().await.expect("was asked to stop");
    assert_eq!(at.elapsed().as_secs(), 3);
    assert!(!one.ready().await);
}

#[tokio::test]
async fn checks_of_the_author_are_not_replaced_by_the_usual_ones() {
    let server = ApiServer::start();
    let handle = manager(&server)
        .probes("127.0.0.1:0")
        .health_check("ping", || async { Err("the author says no".into()) })
        .ready_check("ping", || async { Err("the author says no".into()) })
        .ready_check("caches", || async { Err("the author says no".into()) })
        .spawn()
        .expect("starts");
    handle.ready().await;
    let probes = handle.probe_address().expect("listens");
    let health = http_get(probes, "/healthz").await;
    assert!(health.contains("[-]ping failed"), "{health}");
    let ready = http_get(probes, "/readyz").await;
    assert!(ready.contains("[-]caches failed: reason withheld\n[-]ping failed"), "{ready}");
    handle.stop().await.expect("stops");
}

#[tokio::test]
async fn a_taken_port_is_one_clear_error() {
    let server = ApiServer::start();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = taken.local_addr().expect("has one").to_string();
    let error = manager(&server).probes(&address).spawn().expect("starts").wait().await;
    let text = error.expect_err("taken").to_string();
    assert!(text.starts_with(&format!("health probe cannot listen on {address}")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn twenty_controllers_share_one_watch_per_kind_and_wait_for_no_timer() {
    let server = ApiServer::start();
    let mut builder = Manager::new(server.client());
    for at in 0..20 {
        let controller = Controller::<ConfigMap>::builder(&format!("c{at}"))
            .owns::<Secret>()
            .owns::<Pod>()
            .build(nothing);
        builder = builder.add(controller);
    }
    let began = Instant::now();
    let handle = builder.spawn().expect("starts");
    handle.ready().await;
    let waited = began.elapsed();
    let watches = handle.diagnostics()["clusters"][0]["watches"].clone();
    assert_eq!(watches.as_array().map(Vec::len), Some(3), "one watch per kind");
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_under_the_host_of_their_cluster() {
    let (home, edge, far) = (ApiServer::start(), ApiServer::start(), ApiServer::start());
    let controller = || {
        Controller::<ConfigMap>::builder("maps")
            .build(|_: Context<ConfigMap>| async { Ok(Next::Done) })
    };
    let handle = manager(&home)
        .cluster("edge", edge.client())
        .cluster("far", far.client())
        .add(controller())
        .add_to("edge", controller())
        .add_to("far", controller())
        .spawn()
        .expect("starts");
    handle.ready().await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    for name in ["edge", "far"] {
        let client = handle.cluster(name).expect("is there");
        client.api().create(&config_map("a", &[])).await.expect("created");
    }
    for host in ["kubernetes", "edge", "far"] {
        for (code, method) in [(200, "GET"), (201, "POST")] {
            let labels = format!(r#"{{code="{code}",method="{method}",host="{host}"}}"#);
            let count = metric(&handle, &format!("rest_client_requests_total{labels}"));
            assert!(count >= 1.0, "{labels}");
        }
    }
    handle.stop().await.expect("stops");
}
