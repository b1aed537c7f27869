//! Authors' code that misbehaves, and worlds that change behind a controller's back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::controller::{Context, Controller, Next, Predicate, Watch};
use windlass::queue::LOW_PRIORITY;
use windlass::{Client, Error, Key, Kind};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, metric, queue, secret};

type Log = Arc<Mutex<Vec<String>>>;

#[tokio::test(start_paused = true)]
async fn an_object_replaced_in_a_watch_gap_passes_every_comparing_predicate() {
    let server = ApiServer::start();
    let seen: Log = Arc::default();
    let log = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let uid = cx.object().and_then(|map| map.metadata.uid.clone()).unwrap_or_default();
        log.lock().push(uid);
        async { Ok(Next::Done) }
    };
    let away = Arc::new(AtomicBool::new(false));
    let (gap, first) = (away.clone(), AtomicBool::new(true));
    server.inject(Some(Box::new(move |request| {
        let asks = ["list", "watch"].contains(&&*request.verb);
        let fail = (gap.load(Ordering::SeqCst) && asks)
            .then(|| windlass_apiserver::Status::internal("away"));
        let ends = request.verb == "watch" && first.swap(false, Ordering::SeqCst);
        Fault { fail, watch_events_max: ends.then_some(2), ..Fault::default() }
    })));
    let controller = Controller::<ConfigMap>::builder("picky")
        .when(Predicate::generation_changed())
        .when(Predicate::labels_changed() | Predicate::annotations_changed())
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let other = Client::new(server.client());
    other.api().create(&config_map("a", &[])).await.expect("created");
    eventually("the first", || seen.lock().len() == 1).await;
    away.store(true, Ordering::SeqCst);
    other.api().create(&config_map("ends-the-watch", &[])).await.expect("created");
    other.api::<ConfigMap>().delete(&key("a")).await.expect("deleted");
    let second = other.api().create(&config_map("a", &[])).await.expect("created");
    server.compact();
    tokio::time::sleep(Duration::from_secs(5)).await;
    away.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(90)).await;
    let uid = second.metadata.uid.expect("has one");
    assert!(seen.lock().contains(&uid), "{:?}", seen.lock());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_panics_loses_no_key() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        let run = count.fetch_add(1, Ordering::SeqCst);
        async move { if run < 2 { Err(Error::from("again")) } else { Ok(Next::Done) } }
    };
    let calls = AtomicUsize::new(0);
    let limiter = move |_: &Key, _: u32| {
        assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "panics once");
        Duration::ZERO
    };
    let controller = Controller::<ConfigMap>::builder("limits").limiter(limiter).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("three runs", || runs.load(Ordering::SeqCst) == 3).await;
    assert_eq!(metric(&handle, "controller_runtime_reconcile_panics_total"), 1.0);
    eventually("rest", || metric(&handle, "controller_runtime_active_workers") == 0.0).await;
    handle.stop().await.expect("stops");
}

#[derive(Clone, Debug, serde::Serialize)]
struct Bomb;

impl<'de> serde::Deserialize<'de> for Bomb {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("does not like what it reads")
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_that_panics_when_it_is_read_is_contained_like_a_reconcile() {
    let server = ApiServer::start();
    type Explosive = kube::core::Object<Bomb, kube::core::NotUsed>;
    let kind = Kind::of::<Deployment>();
    let controller = Controller::<Explosive>::of_kind("bombs", &kind).build(
        |cx: Context<Explosive>| async move {
            drop(cx.object());
            Ok(Next::Done)
        },
    );
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let deployment: Deployment = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment");
    handle.client().api().create(&deployment).await.expect("created");
    let panics = "controller_runtime_reconcile_panics_total";
    eventually("it is tried again", || metric(&handle, panics) >= 3.0).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    eventually("rest", || metric(&handle, "controller_runtime_active_workers") == 0.0).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_ends_alone_and_a_wait_without_end_is_one() {
    let server = ApiServer::start();
    let runs: Log = Arc::default();
    let log = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        log.lock().push(cx.name().to_string());
        async { Ok(Next::After(Duration::MAX)) }
    };
    let mut left = 2;
    let source = futures::stream::poll_fn(move |_| {
        left -= 1;
        assert!(left >= 0, "on purpose");
        std::task::Poll::Ready(Some(key(&format!("s{left}"))))
    });
    let controller = Controller::<ConfigMap>::builder("sources").source(source).build(reconcile);
    let handle = manager(&server).add(controller).grace(Duration::MAX).spawn().expect("starts");
    eventually("both keys", || runs.lock().len() == 2).await;
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("the watch continues", || runs.lock().contains(&"a".to_string())).await;
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!(runs.lock().len(), 3);
    assert_eq!(queue(&handle, "sources")["waiting"], 3);
    assert_eq!(metric(&handle, r#"windlass_handler_panics_total{controller="sources"}"#), 1.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_never_returns_shows_and_holds_up_nobody_else() {
    let (logged, _guard) = crate::proxy::Log::start();
    let server = ApiServer::start();
    let done: Log = Arc::default();
    let log = done.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let log = log.clone();
        async move {
            if cx.name() == "stuck" {
                std::future::pending::<()>().await;
            }
            log.lock().push(cx.name().to_string());
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("stuck").workers(2).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("stuck", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(600)).await;
    handle.client().api().create(&config_map("other", &[])).await.expect("created");
    eventually("the other", || *done.lock() == ["other"]).await;
    let longest = metric(&handle, "workqueue_longest_running_processor_seconds");
    assert!(longest >= 600.0, "{longest}");
    assert_eq!(metric(&handle, "controller_runtime_active_workers"), 1.0);
    let page = handle.diagnostics();
    assert_eq!(page["controllers"][0]["queue"]["processing"], 1);
    let lines = logged.lines(&["Reconcile does not return", r#""name":"stuck""#]);
    assert!((9..=11).contains(&lines.len()), "once a minute: {lines:#?}");
    let at = Instant::now();
    handle.stop().await.expect("stops within the grace period");
    assert_eq!(at.elapsed().as_secs(), 30);
    let lines = logged.lines(&["reconcile dropped: the grace period is over", "stuck"]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_holds_up_neither_the_cache_nor_others() {
    let server = ApiServer::start();
    let cache = windlass::cache::Cache::new(server.client());
    let wanted = windlass::cache::Scope::default().namespace("default");
    let informer = cache.informer::<ConfigMap>(&wanted);
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let mut stuck = informer.subscribe();
    tokio::spawn(async move {
        while stuck.recv().await.is_some() {
            let _ = blocked.recv();
        }
    });
    let received = Arc::new(AtomicUsize::new(0));
    let (count, mut other) = (received.clone(), informer.subscribe());
    tokio::spawn(async move {
        while other.recv().await.is_some() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let client = Client::new(server.client());
    for at in 0..50 {
        client.api().create(&config_map(&format!("m{at}"), &[])).await.expect("created");
    }
    let began = std::time::Instant::now();
    while received.load(Ordering::SeqCst) < 50 {
        assert!(began.elapsed() < Duration::from_secs(20), "held up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(informer.reader().list().len(), 50);
    assert!(informer.stats().lag >= 49, "{}", informer.stats().lag);
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn reminders_pass_predicates() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("reminded")
        .when(Predicate::generation_changed())
        .resync(Duration::from_secs(60))
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(190)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 4, "once, and after 60, 120 and 180 s");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn changes_precede_the_first_list_and_a_watch_with_priority_precedes_both() {
    let server = ApiServer::start();
    let plain = Client::new(server.client());
    for name in ["a", "b"] {
        plain.api().create(&config_map(name, &[])).await.expect("created");
    }
    let (seen, gate): (Log, _) = (Arc::default(), Arc::new(tokio::sync::Notify::new()));
    let (log, held) = (seen.clone(), gate.clone());
    let reconcile = move |cx: Context<ConfigMap>| {
        log.lock().push(cx.name().to_string());
        let held = held.clone();
        async move {
            if cx.name() == "a" {
                held.notified().await;
            }
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps")
        .workers(1)
        .watch(Watch::map(|secret: &Secret| vec![Key::of(secret)]).priority(7))
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    eventually("the first", || seen.lock().len() == 1).await;
    plain.api().create(&config_map("c", &[])).await.expect("created");
    plain.api().create(&secret("s")).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.notify_one();
    eventually("all", || seen.lock().len() == 4).await;
    assert_eq!(*seen.lock(), ["a", "s", "c", "b"]);
    assert_eq!(LOW_PRIORITY, -100);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_a_day_ends_no_controller() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::After(Duration::from_secs(3600))) }
    };
    let controller = Controller::<ConfigMap>::builder("jumps").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    tokio::time::advance(Duration::from_secs(86_400)).await;
    eventually("one more run, not twenty-four", || runs.load(Ordering::SeqCst) == 2).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    handle.client().api().create(&config_map("b", &[])).await.expect("created");
    eventually("the watch continues", || runs.load(Ordering::SeqCst) == 3).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_request_still_waiting_when_the_lease_runs_out_is_given_up() {
    let server = ApiServer::start();
    let cut = Arc::new(AtomicBool::new(false));
    let switch = cut.clone();
    // The lease cannot be renewed, and other requests do not leave: they wait for a connection.
    server.inject(Some(Box::new(move |request| {
        let cut = switch.load(Ordering::SeqCst);
        let lease = request.resource == "leases";
        Fault {
            fail: (cut && lease).then(|| windlass_apiserver::Status::internal("no")),
            delay: if cut && !lease { Duration::from_secs(40) } else { Duration::ZERO },
            ..Fault::default()
        }
    })));
    let options = windlass::lease::LeaseOptions::new("op").namespace("default");
    let controller = Controller::<ConfigMap>::builder("maps")
        .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    let handle = manager(&server).lease(options).add(controller).spawn().expect("starts");
    eventually("it leads", || handle.lease().is_some_and(|l| l.held)).await;
    let client = handle.client().clone();
    cut.store(true, Ordering::SeqCst);
    let at = Instant::now();
    let late = client.api().create(&config_map("late", &[])).await.expect_err("given up");
    assert!(matches!(late, Error::Fenced { .. }), "{late}");
    assert!(at.elapsed() <= Duration::from_secs(10), "{:?}", at.elapsed());
    tokio::time::sleep(Duration::from_secs(120)).await;
    let other = Client::new(server.client()).timeout(Duration::from_secs(120));
    assert!(other.api::<ConfigMap>().get(&key("late")).await.expect("read").is_none(), "it left");
    handle.wait().await.expect_err("leadership is lost");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_does_not_reset_the_count_of_failures() {
    let server = ApiServer::start();
    let failures: Arc<Mutex<Vec<u32>>> = Arc::default();
    let log = failures.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let mut log = log.lock();
        log.push(cx.failures());
        let run = log.len();
        async move {
            match run {
                1 | 2 => Err(Error::from("again")),
                3 => Err(Error::terminal("for good")),
                _ => Ok(Next::Done),
            }
        }
    };
    let controller = Controller::<ConfigMap>::builder("terminal").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("three runs", || failures.lock().len() == 3).await;
    handle.controller("terminal").expect("is there").enqueue(key("a"));
    eventually("one more", || failures.lock().len() == 4).await;
    assert_eq!(*failures.lock(), [0, 1, 2, 2]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_waits_is_notified_of_the_shutdown() {
    let server = ApiServer::start();
    let began = Arc::new(AtomicBool::new(false));
    let set = began.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        set.store(true, Ordering::SeqCst);
        async move {
            cx.stopping().await;
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("waits").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a reconcile", || began.load(Ordering::SeqCst)).await;
    let at = Instant::now();
    handle.stop().await.expect("stops");
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_its_owner_concerns_both_in_whatever_version_and_scope() {
    use k8s_openapi::api::core::v1::Node;
    let server = ApiServer::start();
    let seen: Log = Arc::default();
    let (maps, nodes) = (seen.clone(), seen.clone());
    let maps = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(
        move |cx: Context<ConfigMap>| {
            maps.lock().push(cx.key().to_string());
            async { Ok(Next::Done) }
        },
    );
    let nodes =
        Controller::<Node>::builder("nodes").owns::<Secret>().build(move |cx: Context<Node>| {
            nodes.lock().push(cx.key().to_string());
            async { Ok(Next::Done) }
        });
    let handle = manager(&server).add(maps).add(nodes).spawn().expect("starts");
    handle.ready().await;
    let owned = |owners: serde_json::Value| -> Secret {
        let meta = serde_json::json!({
            "name": "s", "namespace": "default", "ownerReferences": owners,
        });
        serde_json::from_value(serde_json::json!({"metadata": meta})).expect("a secret")
    };
    let owner = |version: &str, kind: &str, name: &str| {
        serde_json::json!({
            "apiVersion": version, "kind": kind, "name": name, "uid": format!("u-{name}"),
            "controller": true,
        })
    };
    let client = handle.client();
    client
        .api()
        .create(&owned(serde_json::json!([owner("v9", "ConfigMap", "one")])))
        .await
        .expect("made");
    eventually("one", || *seen.lock() == ["default/one"]).await;
    seen.lock().clear();
    client
        .api()
        .update(&owned(serde_json::json!([owner("v7", "Node", "two")])))
        .await
        .expect("changed");
    eventually("both", || seen.lock().len() == 2).await;
    let mut both = seen.lock().clone();
    both.sort();
    assert_eq!(both, ["default/one", "two"], "an owner without namespace has none");
    seen.lock().clear();
    client.api::<Secret>().delete(&key("s")).await.expect("deleted");
    eventually("the last owner", || *seen.lock() == ["two"]).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_always_has_one_more_key_lets_others_run() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let controller = Controller::<ConfigMap>::builder("maps")
        .source(futures::stream::repeat(key("a")))
        .build(move |_: Context<ConfigMap>| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(Next::Done) }
        });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    while runs.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    handle.stop().await.expect("stops");
}
