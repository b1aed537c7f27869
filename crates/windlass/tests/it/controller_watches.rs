//! Watches of a running controller live as long as somebody uses them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use windlass::cache::Scope;
use windlass::controller::{Context, Controller, Next, Watch};
use windlass::manager::Handle;
use windlass::queue::Exponential;
use windlass::{Client, Key, Kind};
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Status};

use crate::common::{config_map, eventually, key, manager, meta, metric, secret};

/// The kinds that are watched now.
fn watched(handle: &Handle) -> Vec<String> {
    let page = handle.diagnostics();
    let watches = page["clusters"][0]["watches"].as_array().expect("a list");
    watches.iter().map(|watch| watch["kind"].as_str().unwrap_or_default().to_string()).collect()
}

fn secrets() -> Watch {
    Watch::map(|secret: &Secret| vec![Key::of(secret)])
}

type Seen = Arc<Mutex<Vec<String>>>;

fn noting(seen: &Seen) -> Controller<ConfigMap> {
    let seen = seen.clone();
    Controller::<ConfigMap>::builder("maps").build(move |cx: Context<ConfigMap>| {
        seen.lock().push(cx.name().to_string());
        async { Ok(Next::Done) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_uses_any_more_ends_and_may_begin_again() {
    let server = ApiServer::start();
    let seen = Seen::default();
    let handle = manager(&server).add(noting(&seen)).spawn().expect("starts");
    handle.ready().await;
    let client = handle.client().clone();
    let controller = handle.controller("maps").expect("runs");
    client.api().create(&secret("a")).await.expect("created");
    let first = controller.watch(secrets()).expect("added");
    let second = controller.watch(secrets()).expect("added");
    eventually("a", || seen.lock().contains(&"a".to_string())).await;
    assert_eq!(watched(&handle), ["ConfigMap.v1", "Secret.v1"]);
    drop(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(watched(&handle), ["ConfigMap.v1", "Secret.v1"], "the second one uses it");
    drop(second);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(watched(&handle), ["ConfigMap.v1"]);
    let error = client.cached().get::<Secret>(&key("a")).expect_err("not cached any more");
    assert!(matches!(error, windlass::Error::NotCached { .. }), "{error}");
    // Again: it begins with what is there.
    seen.lock().clear();
    client.api().create(&secret("b")).await.expect("created");
    let _again = controller.watch(secrets()).expect("added");
    eventually("both", || {
        let seen = seen.lock();
        ["a", "b"].iter().all(|name| seen.contains(&(*name).to_string()))
    })
    .await;
    assert!(client.cached().get::<Secret>(&key("a")).expect("cached").is_some());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_watch_added_at_run_time_does_not_end_one_that_was_declared() {
    let server = ApiServer::start();
    let seen = Seen::default();
    let reader = Controller::<Secret>::builder("secrets")
        .build(|_: Context<Secret>| async { Ok(Next::Done) });
    let handle = manager(&server).add(noting(&seen)).add(reader).spawn().expect("starts");
    handle.ready().await;
    let controller = handle.controller("maps").expect("runs");
    drop(controller.watch(secrets()).expect("added"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(watched(&handle), ["ConfigMap.v1", "Secret.v1"]);
    // One who opens a kind by hand counts like everybody else.
    let kind = Kind::of::<Secret>();
    let cache = handle.client().cached();
    drop(cache.informer_of::<Secret>(&kind, &Scope::default().metadata_only()));
    assert!(cache.list_of::<DynamicObject>(&kind).items().is_ok(), "the controller uses it still");
    handle.client().api().create(&secret("a")).await.expect("created");
    assert!(handle.client().cached().get::<Secret>(&key("a")).expect("cached").is_some());
    handle.client().api().create(&config_map("m", &[])).await.expect("created");
    eventually("m", || *seen.lock() == ["m"]).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_tried_again_keeps_its_priority() {
    let server = ApiServer::start();
    let tries: Arc<Mutex<Vec<String>>> = Seen::default();
    let log = tries.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let first = !log.lock().contains(&cx.name().to_string());
        log.lock().push(cx.name().to_string());
        async move {
            match cx.name() {
                "holds" => tokio::time::sleep(Duration::from_secs(10)).await,
                "fails" if first => return Err("not yet".into()),
                "after" if first => return Ok(Next::After(Duration::from_secs(1))),
                _ => {}
            }
            Ok(Next::Done)
        }
    };
    let second = Duration::from_secs(1);
    let controller = Controller::<ConfigMap>::builder("maps")
        .watch(Watch::map(|secret: &Secret| vec![Key::of(secret)]).priority(7))
        .watch(Watch::map(|account: &ServiceAccount| vec![Key::of(account)]).priority(3))
        .limiter(Exponential::new(second, second))
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let maps = handle.controller("maps").expect("runs");
    let client = handle.client();
    client.api().create(&secret("fails")).await.expect("created");
    let account = ServiceAccount { metadata: meta("after"), ..ServiceAccount::default() };
    client.api().create(&account).await.expect("created");
    eventually("two tries", || tries.lock().len() == 2).await;
    maps.enqueue(key("holds"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*tries.lock(), ["fails", "after", "holds"]);
    for priority in [3, 7] {
        let labels = format!(r#"{{name="maps",controller="maps",priority="{priority}"}}"#);
        let waiting = metric(&handle, &format!("workqueue_depth{labels}"));
        assert_eq!(waiting, 1.0, "waits for the worker, as high as before");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(tries.lock()[3..], ["fails", "after"]);
    handle.stop().await.expect("stops");
}

/// Lets no watch of secrets be served while it is set; the first one ends after `events`.
fn gap(server: &ApiServer, events: usize) -> Arc<AtomicBool> {
    let away = Arc::new(AtomicBool::new(false));
    let (gap, first) = (away.clone(), AtomicBool::new(true));
    server.inject(Some(Box::new(move |request| {
        let watch = request.verb == "watch" && request.resource == "secrets";
        let refused = watch && gap.load(Ordering::SeqCst);
        let ends = watch && first.swap(false, Ordering::SeqCst);
        Fault {
            fail: refused.then(|| Status::new(429, "TooManyRequests", "away")),
            watch_events_max: ends.then_some(events),
            ..Fault::default()
        }
    })));
    away
}

#[tokio::test(start_paused = true)]
async fn a_former_owner_is_reconciled_even_if_the_object_is_deleted_immediately() {
    let server = ApiServer::start();
    let other = Client::new(server.client());
    let owner = other.api().create(&config_map("owner", &[])).await.expect("created");
    let mut owned = secret("owned");
    windlass::owner::set_controller(&owner, &mut owned).expect("an owner");
    let mut owned = other.api().create(&owned).await.expect("created");
    // What the first watch brings: the secret and one more.
    let away = gap(&server, 2);
    let seen = Seen::default();
    let log = seen.clone();
    let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(
        move |cx: Context<ConfigMap>| {
            log.lock().push(cx.name().to_string());
            async { Ok(Next::Done) }
        },
    );
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    eventually("the owner", || *seen.lock() == ["owner"]).await;
    seen.lock().clear();
    away.store(true, Ordering::SeqCst);
    other.api().create(&secret("ends-the-watch")).await.expect("created");
    owned.metadata.owner_references = None;
    other.api().update(&owned).await.expect("updated");
    other.api::<Secret>().delete(&key("owned")).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(seen.lock().is_empty());
    away.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(*seen.lock(), ["owner"]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_watch_ends_with_it_and_does_not_keep_it() {
    let server = ApiServer::start();
    let handle = manager(&server).add(noting(&Seen::default())).spawn().expect("starts");
    handle.ready().await;
    let controller = handle.controller("maps").expect("runs");
    let nobody_serves = Kind::new("example.com", "v1", "Nope", "nopes");
    for others_watch in [false, true] {
        let scope = Scope::default().metadata_only();
        let cache = handle.client().cached();
        let open = || cache.informer_of::<DynamicObject>(&nobody_serves, &scope);
        let _other = others_watch.then(open);
        let watch = Watch::changes(nobody_serves.clone(), |_, _| Vec::new());
        let guard = controller.watch(watch).expect("added");
        let waiting = controller.clone();
        let wait = tokio::spawn(async move { waiting.synced().await });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!wait.is_finished());
        assert_eq!(watched(&handle), ["ConfigMap.v1", "Nope.example.com/v1"]);
        drop(guard);
        assert_eq!(watched(&handle).len(), 1 + usize::from(others_watch));
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("ends").expect("well");
    }
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_watched_once_the_manager_has_stopped() {
    let server = ApiServer::start();
    let handle = manager(&server).add(noting(&Seen::default())).spawn().expect("starts");
    handle.ready().await;
    let (controller, client) = (handle.controller("maps").expect("runs"), handle.client().clone());
    handle.stop().await.expect("stops");
    let error = controller.watch(secrets()).expect_err("nobody would end it");
    assert_eq!(error.to_string(), "cannot watch Secret.v1: the manager has stopped");
    assert!(client.cached().list::<Secret>().items().is_err());
    controller.synced().await;
}
