//! What goes wrong stays where it went wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::core::{DynamicObject, NotUsed, Object};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::cache::{Cache, Change};
use windlass::controller::{Context, Controller, Next, Predicate, Watch};
use windlass::{Error, Key, Kind};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, metric, secret};
use crate::proxy::Log;

#[tokio::test(start_paused = true)]
async fn a_panic_is_contained_counted_and_retried() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let count = count.clone();
        async move {
            if cx.name() == "bad" && count.fetch_add(1, Ordering::SeqCst) < 3 {
                panic!("on purpose");
            }
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("panics").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("bad", &[])).await.expect("created");
    handle.client().api().create(&config_map("good", &[])).await.expect("created");
    eventually("the fourth try", || runs.load(Ordering::SeqCst) == 4).await;
    assert_eq!(metric(&handle, "controller_runtime_reconcile_panics_total"), 3.0);
    assert_eq!(metric(&handle, "controller_runtime_reconcile_errors_total"), 3.0);
    let success = r#"controller_runtime_reconcile_total{controller="panics",result="success"}"#;
    eventually("both done", || metric(&handle, success) == 2.0).await;
    assert_eq!(metric(&handle, "controller_runtime_active_workers"), 0.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn errors_back_off_and_success_resets() {
    let server = ApiServer::start();
    let times: Arc<Mutex<Vec<(Instant, u32)>>> = Arc::default();
    let log = times.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let mut log = log.lock();
        log.push((Instant::now(), cx.failures()));
        let fail = log.len() < 8;
        async move { if fail { Err(Error::from("not yet")) } else { Ok(Next::Done) } }
    };
    let controller = Controller::<ConfigMap>::builder("back-off").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("eight tries", || times.lock().len() == 8).await;
    let log = times.lock().clone();
    let gaps: Vec<Duration> = log.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    for (at, gap) in gaps.iter().enumerate() {
        let wanted = Duration::from_millis(5 << at);
        assert!(*gap >= wanted && *gap < wanted + Duration::from_millis(5), "{gaps:?}");
    }
    assert_eq!(
        log.iter().map(|(_, failures)| *failures).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
    handle.controller("back-off").expect("is there").enqueue(key("a"));
    eventually("one more", || times.lock().len() == 9).await;
    assert_eq!(times.lock()[8].1, 0, "success resets the count");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn terminal_errors_wait_for_a_change() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Err(Error::terminal("spec.size must not shrink")) }
    };
    let controller = Controller::<ConfigMap>::builder("final").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let map = handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(metric(&handle, "controller_runtime_terminal_reconcile_errors_total"), 1.0);
    let map = ConfigMap { data: Some([("a".into(), "b".into())].into()), ..map };
    handle.client().api().update(&map).await.expect("updated");
    eventually("another run", || runs.load(Ordering::SeqCst) == 2).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_past_its_deadline_is_dropped_and_tried_again() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok(Next::Done)
        }
    };
    let controller =
        Controller::<ConfigMap>::builder("hangs").timeout(Duration::from_secs(5)).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("the second try", || runs.load(Ordering::SeqCst) == 2).await;
    assert_eq!(metric(&handle, "controller_runtime_reconcile_timeouts_total"), 1.0);
    handle.stop().await.expect("stops");
}

/// A controller named `map` that logs the keys it reconciles, and maps secrets with `map`.
fn mapping<R, E>(map: R) -> (Controller<ConfigMap>, Arc<Mutex<Vec<String>>>)
where
    R: Fn(&Secret) -> Result<Vec<Key>, E> + Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        log.lock().push(cx.name().to_string());
        async { Ok(Next::Done) }
    };
    (Controller::<ConfigMap>::builder("map").watch(Watch::map(map)).build(reconcile), runs)
}

#[tokio::test(start_paused = true)]
async fn a_map_function_that_panics_is_called_again_and_delays_no_other_change() {
    let server = ApiServer::start();
    let left = AtomicUsize::new(3);
    let one_less = |left: usize| left.checked_sub(1);
    let (controller, runs) = mapping(move |secret: &Secret| {
        let bad = secret.metadata.name.as_deref() == Some("bad");
        assert!(
            !bad || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err(),
            "on purpose"
        );
        Ok::<_, Error>(vec![Key::of(secret)])
    });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&secret("bad")).await.expect("created");
    handle.client().api().create(&secret("good")).await.expect("created");
    eventually("both", || runs.lock().len() == 2).await;
    assert_eq!(*runs.lock(), ["good", "bad"]);
    assert_eq!(metric(&handle, r#"windlass_handler_panics_total{controller="map"}"#), 3.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_map_function_that_fails_is_called_again_with_a_growing_delay() {
    let server = ApiServer::start();
    let calls: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let seen = calls.clone();
    let (controller, runs) = mapping(move |secret: &Secret| {
        let mut calls = seen.lock();
        calls.push(Instant::now());
        if calls.len() < 5 { Err("not yet") } else { Ok(vec![Key::of(secret)]) }
    });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&secret("a")).await.expect("created");
    eventually("the reconcile", || *runs.lock() == ["a"]).await;
    let delays: Vec<_> = calls.lock().windows(2).map(|two| two[1] - two[0]).collect();
    for (delay, expected) in delays.iter().zip([100, 200, 400, 800]) {
        let expected = Duration::from_millis(expected);
        assert!(*delay >= expected && *delay < expected * 3 / 2, "{delays:?}");
    }
    assert_eq!(delays.len(), 4);
    assert_eq!(metric(&handle, r#"windlass_handler_panics_total{controller="map"}"#), 0.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_map_function_failed_is_mapped_with_the_last_state() {
    let server = ApiServer::start();
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let (controller, runs) = mapping(move |secret: &Secret| {
        if failing.load(Ordering::SeqCst) { Err("not now") } else { Ok(vec![Key::of(secret)]) }
    });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&secret("a")).await.expect("created");
    eventually("the creation", || runs.lock().len() == 1).await;
    fails.store(true, Ordering::SeqCst);
    handle.client().api::<Secret>().delete(&key("a")).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(runs.lock().len(), 1);
    fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(300)).await; // the longest delay
    eventually("the deletion", || runs.lock().len() == 2).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_map_function_is_not_called_before_it_can_read_the_reconciled_kind() {
    let server = ApiServer::start();
    let client = windlass::Client::new(server.client());
    client.api().create(&config_map("a", &[])).await.expect("created");
    client.api().create(&secret("s")).await.expect("created");
    server.inject(Some(Box::new(|request| Fault {
        delay: Duration::from_secs(if request.resource == "configmaps" { 30 } else { 0 }),
        ..Fault::default()
    })));
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let log = outcomes.clone();
    let map = move |_: &Change, cache: &Cache| {
        let keys = cache.list::<ConfigMap>().keys();
        log.lock().push(keys.as_ref().map(Vec::clone).map_err(ToString::to_string));
        keys
    };
    let controller = Controller::<ConfigMap>::builder("map")
        .watch(Watch::changes(Kind::of::<Secret>(), map))
        .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    assert_eq!(*outcomes.lock(), [Ok(vec![key("a")])]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_ended_calls_its_map_function_no_more() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("map")
        .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let watch = Watch::map(move |_: &Secret| {
        seen.fetch_add(1, Ordering::SeqCst);
        Err::<Vec<Key>, _>("never")
    });
    let guard = handle.controller("map").expect("runs").watch(watch).expect("added");
    handle.client().api().create(&secret("a")).await.expect("created");
    eventually("a retry", || calls.load(Ordering::SeqCst) >= 2).await;
    drop(guard);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(calls.load(Ordering::SeqCst), before);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_change_passes_a_predicate_that_panics() {
    let server = ApiServer::start();
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = runs.clone();
    let controller = Controller::<ConfigMap>::builder("owner")
        .when(Predicate::new(|_| panic!("on purpose")))
        .build(move |cx: Context<ConfigMap>| {
            log.lock().push(cx.name().to_string());
            async { Ok(Next::Done) }
        });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("the reconcile", || *runs.lock() == ["a"]).await;
    assert_eq!(metric(&handle, r#"windlass_handler_panics_total{controller="owner"}"#), 1.0);
    handle.stop().await.expect("stops");
}

/// Secrets whose type is a number, as none is.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, kube::Resource)]
#[resource(inherit = Secret)]
struct Numbered {
    metadata: kube::core::ObjectMeta,
    r#type: u32,
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_for_a_map_function_is_counted_once() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("map")
        .watch(Watch::map(|_: &Numbered| vec![key("never")]))
        .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let counted = || {
        let text = handle.metrics();
        let series = "windlass_cache_undecodable_objects";
        let line = text.lines().find(|l| l.starts_with(series) && l.contains("\"Secret\""));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
    };
    let mut bad = handle.client().api().create(&secret("bad")).await.expect("created");
    eventually("one", || counted() == Some(1)).await;
    bad.metadata.labels = Some([("a".to_string(), "b".to_string())].into());
    handle.client().api().update(&bad).await.expect("updated");
    eventually("its next state", || counted() == Some(2)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(counted(), Some(2), "the state before was counted already");
    handle.stop().await.expect("stops");
}

fn definitions() -> Kind {
    let plural = "customresourcedefinitions";
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", plural).cluster_scoped()
}

async fn define_boxes(client: &windlass::Client) {
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
            }}],
        },
    });
    let definition = serde_json::from_value(definition).expect("an object");
    client.api_of::<DynamicObject>(&definitions()).create(&definition).await.expect("created");
}

/// Creates a box, waiting until its kind is served.
async fn create_box(client: &windlass::Client, name: &str, size: serde_json::Value) {
    let boxes = Kind::new("example.com", "v1", "Box", "boxes");
    let object = serde_json::json!({
        "apiVersion": "example.com/v1", "kind": "Box",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size},
    });
    let object = serde_json::from_value(object).expect("an object");
    let mut tries = 0;
    while let Err(error) = client.api_of::<DynamicObject>(&boxes).create(&object).await {
        tries += 1;
        assert!(tries < 50, "{error:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_vanishes_is_named_and_followed_again_when_it_is_back() {
    let (logged, _guard) = Log::start();
    let server = ApiServer::start();
    let setup = windlass::Client::new(server.client());
    define_boxes(&setup).await;
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = runs.clone();
    let reconcile = move |cx: Context<DynamicObject>| {
        log.lock().push(cx.name().to_string());
        async { Ok(Next::Done) }
    };
    let boxes = Kind::new("example.com", "v1", "Box", "boxes");
    let controller = Controller::<DynamicObject>::of_kind("boxes", &boxes).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    create_box(&setup, "one", serde_json::json!(1)).await;
    eventually("one", || runs.lock().contains(&"one".to_string())).await;
    let api = setup.api_of::<DynamicObject>(&definitions());
    api.delete(&Key::cluster("boxes.example.com")).await.expect("deleted");
    let state = || handle.diagnostics()["clusters"][0]["watches"][0]["state"].to_string();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(state().contains("no such kind"), "{}", state());
    let behind = handle.diagnostics()["behind"].to_string();
    assert!(behind.contains("Box.example.com/v1: no such kind"), "{behind}");
    let page = handle.readyz().await.expect("stays ready");
    assert!(page.contains("Box.example.com/v1 is not synced"), "{page}");
    let lines = logged.lines(&["watch failed", "\"Box\"", "install the definition of this kind"]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    define_boxes(&setup).await;
    create_box(&setup, "two", serde_json::json!(2)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(runs.lock().contains(&"two".to_string()), "{}", state());
    assert!(state().contains("synced"), "{}", state());
    assert!(handle.readyz().await.is_ok());
    handle.stop().await.expect("stops");
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Strict {
    size: u32,
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_reported_and_the_rest_continues() {
    let (logged, _guard) = Log::start();
    let server = ApiServer::start();
    let setup = windlass::Client::new(server.client());
    define_boxes(&setup).await;
    let boxes = Kind::new("example.com", "v1", "Box", "boxes");
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = runs.clone();
    let reconcile = move |cx: Context<Object<Strict, NotUsed>>| {
        let size = cx.object().map(|object| object.spec.size);
        log.lock().push(format!("{} {size:?}", cx.name()));
        async { Ok(Next::Done) }
    };
    let controller =
        Controller::<Object<Strict, NotUsed>>::of_kind("boxes", &boxes).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    create_box(&setup, "bad", serde_json::json!("large")).await;
    create_box(&setup, "good", serde_json::json!(3)).await;
    eventually("the good one", || runs.lock().contains(&"good Some(3)".to_string())).await;
    let terminal = "controller_runtime_terminal_reconcile_errors_total";
    eventually("the bad one", || metric(&handle, terminal) == 1.0).await;
    assert_eq!(*runs.lock(), ["good Some(3)"]);
    let lines = logged.lines(&["does not fit the Rust type", "Box.example.com/v1 default/bad"]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let series = "windlass_cache_undecodable_objects_total";
    assert_eq!(metric(&handle, series), 1.0);
    assert_eq!(handle.diagnostics()["clusters"][0]["watches"][0]["undecodable"], 1);
    let right = windlass::client::Patch::Merge(serde_json::json!({"spec": {"size": 7}}));
    setup.api_of::<DynamicObject>(&boxes).patch(&key("bad"), &right).await.expect("patched");
    eventually("it is right", || runs.lock().contains(&"bad Some(7)".to_string())).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_never_enters_the_code_of_the_author() {
    let server = ApiServer::start();
    let setup = windlass::Client::new(server.client());
    define_boxes(&setup).await;
    let boxes = Kind::new("example.com", "v1", "Box", "boxes");
    // A lock of the standard library is poisoned by whatever unwinds while it is held.
    let runs: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let log = runs.clone();
    let reconcile = move |cx: Context<Object<Strict, NotUsed>>| {
        let mut log = log.lock().expect("not poisoned");
        log.push(cx.name().to_string());
        assert!(cx.object().is_some());
        async { Ok(Next::Done) }
    };
    let controller =
        Controller::<Object<Strict, NotUsed>>::of_kind("boxes", &boxes).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    create_box(&setup, "bad", serde_json::json!("large")).await;
    let terminal = "controller_runtime_terminal_reconcile_errors_total";
    eventually("the bad one", || metric(&handle, terminal) == 1.0).await;
    create_box(&setup, "good", serde_json::json!(3)).await;
    eventually("the good one", || *runs.lock().expect("not poisoned") == ["good"]).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(metric(&handle, terminal), 1.0, "not tried again");
    let events = handle.client().api::<Event>().list().namespace("default");
    let events = events.items().await.expect("listed");
    let reasons: Vec<_> = events.iter().map(|event| event.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("Undecodable")]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn reads_of_undeclared_kinds_fail_and_say_what_to_do() {
    let server = ApiServer::start();
    let text: Arc<Mutex<String>> = Arc::default();
    let said = text.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let error = cx.list::<Secret>().names().expect_err("not declared");
        *said.lock() = error.to_string();
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("reads").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || !text.lock().is_empty()).await;
    assert_eq!(
        *text.lock(),
        "Secret.v1 is not in the cache: declare it with owns, watch or reads, or read it with \
         Client::api"
    );
    handle.stop().await.expect("stops");
}

/// Closes a runtime while a controller on it has all hands full, and more keys come from outside.
fn close_under_load() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().expect("starts");
    let loaded = async {
        let server = ApiServer::start();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let reconcile = move |_: Context<ConfigMap>| {
            count.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::task::yield_now().await;
                Ok(Next::Done)
            }
        };
        let controller = Controller::<ConfigMap>::builder("load").workers(64).build(reconcile);
        let handle = manager(&server).add(controller).spawn().expect("starts");
        handle.ready().await;
        let controller = handle.controller("load").expect("runs");
        while runs.load(Ordering::SeqCst) < 100 {
            (0..40).for_each(|at| controller.enqueue(key(&format!("m{at}"))));
            tokio::task::yield_now().await;
        }
        controller
    };
    let controller = runtime.block_on(loaded);
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !closed.load(Ordering::SeqCst) {
                (0..40).for_each(|at| controller.enqueue(key(&format!("m{at}"))));
            }
        });
        drop(runtime);
        closed.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_runtime_that_closes_under_load_does_not_hang() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        (0..20).for_each(|_| close_under_load());
        done.send(()).expect("is waited for");
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("ends");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_at_once_and_is_no_error() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let run = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let Some(object) = cx.object() else { return Ok(Next::Done) };
            let mut late = (*object).clone();
            late.metadata.resource_version = Some("1".into());
            assert_eq!(cx.failures(), 0);
            match run {
                0..3 => cx.client().api().update(&late).await.map(|_| Next::Done),
                _ => Ok(Next::Done),
            }
        }
    };
    let minute = Duration::from_secs(60);
    let controller =
        Controller::<ConfigMap>::builder("maps").limiter(move |_: &Key, _| minute).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    let began = Instant::now();
    eventually("success", || {
        metric(&handle, r#"controller_runtime_reconcile_total{controller="maps",result="success"}"#)
            == 1.0
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(1), "not after the delays of failures");
    let of = |series: &str| metric(&handle, &format!(r#"{series}{{controller="maps""#));
    assert_eq!(of("windlass_reconcile_conflicts_total"), 3.0);
    assert_eq!(of("controller_runtime_reconcile_errors_total"), 0.0);
    assert_eq!(handle.diagnostics()["controllers"][0]["reconciles"]["conflicts"], 3);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_never_ends_becomes_an_error() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let reconcile = |cx: Context<ConfigMap>| async move {
        let Some(object) = cx.object() else { return Ok(Next::Done) };
        let mut late = (*object).clone();
        late.metadata.resource_version = Some("1".into());
        cx.client().api().update(&late).await.map(|_| Next::Done)
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(log.lines(&["Reconciler error"]), Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let logged = log.lines(&["Reconciler error", "update ConfigMap default/a"]);
    assert!((5..50).contains(&logged.len()), "{}", logged.len());
    handle.stop().await.expect("stops");
}
