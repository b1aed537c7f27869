//! Faults between the caches of a running operator and the API server: each is survived, heals by
//! itself, and shows in the log, the metrics and the state as long as it lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use windlass::controller::{Context, Controller, Next, Predicate};
use windlass::manager::{Handle, Running};
use windlass::{Client, Index, Manager};
use windlass_apiserver::{ApiServer, User};

use crate::common::{config_map, eventually, key, manager, metric};
use crate::proxy::{Log, Meddle, Proxy};

const MAPS: &str = r#"{cluster="",group="",version="v1",kind="ConfigMap"}"#;

fn counting(runs: &Arc<AtomicUsize>) -> Controller<ConfigMap> {
    let count = runs.clone();
    Controller::<ConfigMap>::builder("maps").build(move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    })
}

fn start(client: kube::Client, runs: &Arc<AtomicUsize>) -> Running {
    Manager::new(client).namespaces(["default"]).add(counting(runs)).spawn().expect("starts")
}

fn state(handle: &Handle) -> String {
    handle.diagnostics()["clusters"][0]["watches"][0]["state"].to_string()
}

fn figure(handle: &Handle, name: &str) -> f64 {
    metric(handle, &format!("windlass_{name}{MAPS}"))
}

/// Asserts that a fault shows everywhere.
async fn ill(handle: &Handle, what: &str, says: &str) {
    assert!(state(handle).contains(says), "{what}: {}", state(handle));
    let behind = handle.diagnostics()["behind"].to_string();
    assert!(behind.contains("ConfigMap.v1: ") && behind.contains(says), "{what}: {behind}");
    match (handle.diagnostics()["ready"] == true, handle.readyz().await) {
        (false, Err(page)) => assert!(page.contains("[-]caches failed"), "{what}: {page}"),
        (true, Ok(page)) => assert!(page.contains("[+]caches ok: ConfigMap.v1 is "), "{page}"),
        (ready, page) => panic!("{what}: ready {ready}, but {page:?}"),
    }
    assert_eq!(figure(handle, "watch_synced"), 0.0, "{what}");
    assert!(figure(handle, "watch_failures_total") >= 1.0, "{what}");
}

/// Asserts that nothing of a fault is left.
async fn well(handle: &Handle, what: &str) {
    assert!(state(handle).contains("synced"), "{what}: {}", state(handle));
    assert_eq!(handle.diagnostics()["behind"].as_array().map(Vec::len), Some(0), "{what}");
    assert!(handle.readyz().await.is_ok(), "{what}");
    assert_eq!(figure(handle, "watch_synced"), 1.0, "{what}");
    assert_eq!(figure(handle, "watch_stale_seconds"), 0.0, "{what}");
}

fn answer(code: u16, media: &'static str, body: &str) -> Meddle {
    Meddle::Answer(code, media, body.as_bytes().to_vec())
}

fn failure(code: u16, reason: &str, message: &str) -> Meddle {
    let body = format!(
        r#"{{"kind":"Status","status":"Failure","code":{code},"reason":"{reason}","message":"{message}"}}"#
    );
    answer(code, "application/json", &body)
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

/// Runs an operator through a fault: begins well, is ill for ten minutes, and is well again.
async fn endure(what: &str, says: &str, watch_only: bool, meddle: Meddle) {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let (proxy, runs) = (Proxy::new(&server), Arc::new(AtomicUsize::new(0)));
    let others = Client::new(server.client());
    let handle = start(proxy.client(), &runs);
    assert!(handle.ready().await, "{what}");
    others.api().create(&config_map("before", &[])).await.expect("created");
    eventually(what, || runs.load(Ordering::SeqCst) == 1).await;
    well(&handle, what).await;

    proxy.meddle(move |request| (!watch_only || is_watch(request)).then(|| meddle.clone()));
    tokio::time::sleep(Duration::from_secs(600)).await;
    ill(&handle, what, says).await;
    let logged = log.lines(&["watch failed"]);
    // Once for each face that it shows: an open watch, a streaming list, a list.
    assert!((1..=3).contains(&logged.len()), "{what}: {logged:#?}");
    for part in [r#""kind":"ConfigMap""#, r#""apiVersion":"v1""#, r#""namespace":"default""#] {
        assert!(
            logged[0].contains(part) && logged[0].contains(r#""hint":""#),
            "{what}: {logged:#?}"
        );
    }
    let cached = handle.client().cached().get::<ConfigMap>(&key("before")).expect("cached");
    assert!(cached.is_some(), "{what}: what is known stays");

    others.api().create(&config_map("meanwhile", &[])).await.expect("created");
    proxy.heal();
    tokio::time::sleep(Duration::from_secs(120)).await;
    well(&handle, what).await;
    others.api().create(&config_map("after", &[])).await.expect("created");
    eventually(what, || runs.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(runs.load(Ordering::SeqCst), 3, "{what}: one run per object");
    assert_eq!(log.lines(&["watch works again"]).len(), 1, "{what}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_or_never_answers_is_waited_for() {
    endure("away", "connection refused", false, Meddle::Away).await;
    endure("hangs", "server does not answer", false, Meddle::Hang).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_list_and_watch_is_asked_until_it_does_not() {
    let etcd = || failure(500, "InternalError", "etcd is away");
    endure("500 to all", "etcd is away", false, etcd()).await;
    endure("500 to watches", "etcd is away", true, etcd()).await;
    let busy = failure(429, "TooManyRequests", "too many");
    endure("429", "too many", false, busy).await;
    endure("503 of a proxy", "no backend", false, answer(503, "text/plain", "no backend")).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_becomes_invalid_and_a_right_that_is_taken_are_named_until_they_are_back() {
    let token = failure(401, "Unauthorized", "Unauthorized");
    endure("401", "forbidden: Unauthorized", false, token).await;
    let right = failure(403, "Forbidden", "configmaps is forbidden");
    endure("403", "forbidden: configmaps is forbidden", false, right).await;
}

#[tokio::test(start_paused = true)]
async fn garbage_instead_of_lists_and_watches_takes_nothing_away() {
    let html = || answer(200, "text/html", "<html>Sign in\nplease</html>");
    endure("HTML", "instead of JSON", false, html()).await;
    endure("HTML to watches", "instead of JSON", true, html()).await;
    let json = |text| answer(200, "application/json", text);
    endure("HTML as JSON", "is not a list", false, json("<html>Sign in</html>")).await;
    endure("nothing", "list ended in the middle", false, json("")).await;
    let half = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[{"meta"#;
    endure("half a list", "list ended in the middle", false, json(half)).await;
    endure("no list", "answer is not a list", false, json("{}")).await;
    let cut = Meddle::Answer(200, "application/vnd.kubernetes.protobuf", b"k8s\0\x0a\x10".into());
    endure("half a message", "list ended in the middle", false, cut).await;
}

#[tokio::test(start_paused = true)]
async fn garbage_within_watches_is_logged_once_and_replaced_by_a_list() {
    let json = |text| answer(200, "application/json", text);
    endure("a line", "not a watch event", true, json("<html>\nSign in</html>\n")).await;
    let half = r#"{"type":"ADDED","object":{"kind":"Con"#;
    endure("half a line", "ended within an event", true, json(half)).await;
    endure("nothing", "without anything new", true, json("")).await;
    let status = r#"{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd is away"}}
"#;
    endure("a status", "etcd is away", true, json(status)).await;
    let cut = Meddle::Answer(
        200,
        "application/vnd.kubernetes.protobuf;stream=watch",
        b"\0\0\0\x40k8s\0".into(),
    );
    endure("half a frame", "ended within an event", true, cut).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stalls_within_an_event_is_opened_anew() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let (proxy, runs) = (Proxy::new(&server), Arc::new(AtomicUsize::new(0)));
    let handle = start(proxy.client(), &runs);
    assert!(handle.ready().await);
    proxy.meddle(|request| {
        is_watch(request).then_some(Meddle::Stall(r#"{"type":"ADDED","object":{"#))
    });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(figure(&handle, "watch_breaks_total") >= 5.0);
    for line in ["watch connection broke", "watch failed"] {
        let logged = log.lines(&[line, "the rest of an event did not arrive"]);
        assert!((1..=11).contains(&logged.len()), "once a minute at most: {logged:#?}");
    }
    let mut seconds = 0;
    while !state(&handle).contains("stale") {
        seconds += 1;
        assert!(seconds < 60, "{}", state(&handle));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ill(&handle, "stalls", "the rest of an event did not arrive").await;
    proxy.heal();
    tokio::time::sleep(Duration::from_secs(120)).await;
    well(&handle, "healed").await;
    Client::new(server.client()).api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_an_hour_at_the_start_is_waited_for() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let (proxy, runs) = (Proxy::new(&server), Arc::new(AtomicUsize::new(0)));
    proxy.meddle(|_| Some(Meddle::Away));
    let options = windlass::lease::LeaseOptions::new("op").namespace("default");
    let handle = Manager::new(proxy.client())
        .namespaces(["default"])
        .lease(options)
        .add(counting(&runs))
        .spawn()
        .expect("starts");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    ill(&handle, "away", "unreachable: ").await;
    assert_eq!(log.lines(&["watch failed"]).len(), 1);
    assert_eq!(log.lines(&["lease cannot be read or taken", "default/op"]).len(), 1);
    assert_eq!(log.lines(&["not synced: their controllers wait"]).len(), 1);
    let refused = r#"rest_client_requests_total{code="<error>",method="GET",host="kubernetes"}"#;
    assert!(metric(&handle, refused) > 100.0);
    assert_eq!(handle.diagnostics()["lease"]["held"], false);
    Client::new(server.client()).api().create(&config_map("a", &[])).await.expect("created");
    proxy.heal();
    let ready = tokio::time::timeout(Duration::from_secs(120), handle.ready()).await;
    assert!(ready.expect("within two minutes"));
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    well(&handle, "back").await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_from_the_start_runs_when_it_is_allowed() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let handle = start(server.client_as(User::new("jane", &["system:authenticated"])), &runs);
    let root = Client::new(server.client());
    root.api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(600)).await;
    ill(&handle, "forbidden", r#"User \"jane\" cannot list resource"#).await;
    let logged = log.lines(&["watch failed", "grant get, list and watch of this kind"]);
    assert_eq!(logged.len(), 1, "{logged:#?}");
    let role: k8s_openapi::api::rbac::v1::ClusterRoleBinding =
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "jane"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"},
            ],
        }))
        .expect("a binding");
    root.api().create(&role).await.expect("created");
    eventually("a run", || runs.load(Ordering::SeqCst) == 1).await;
    well(&handle, "allowed").await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_predicate_and_an_index_function_that_panic_are_logged_and_counted() {
    let (log, _guard) = Log::start();
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let by_color = Index::new("color", |map: &ConfigMap| {
        assert_ne!(map.metadata.name.as_deref(), Some("unfiled"), "on purpose");
        vec!["blue".to_string()]
    });
    let declared = by_color.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let (count, by_color) = (count.clone(), by_color.clone());
        async move {
            cx.list::<ConfigMap>().by(&by_color, "blue").items()?;
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps")
        .when(Predicate::object(|map: &ConfigMap| {
            assert_ne!(map.metadata.name.as_deref(), Some("unasked"), "on purpose");
            true
        }))
        .index(&declared)
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    for name in ["unasked", "unfiled", "good"] {
        handle.client().api().create(&config_map(name, &[])).await.expect("created");
    }
    eventually("all three", || runs.load(Ordering::SeqCst) == 3).await;
    assert_eq!(metric(&handle, r#"windlass_handler_panics_total{controller="maps"}"#), 1.0);
    assert_eq!(handle.diagnostics()["controllers"][0]["handlerPanics"], 1);
    assert_eq!(figure(&handle, "cache_index_panics_total"), 1.0);
    assert_eq!(handle.diagnostics()["clusters"][0]["watches"][0]["indexPanics"], 1);
    assert_eq!(log.lines(&["index function panicked", "default/unfiled"]).len(), 1);
    assert_eq!(log.lines(&["panicked", "default/unasked", "on purpose"]).len(), 1);
    well(&handle, "the watch continues").await;
    handle.stop().await.expect("stops");
}
