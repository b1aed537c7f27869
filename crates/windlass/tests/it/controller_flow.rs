//! From a change to a reconcile and back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next, Predicate, Watch};
use windlass::{Client, Index, Key, Result};
use windlass_apiserver::ApiServer;

use crate::common::{config_map, eventually, key, manager, meta, metric, queue, secret};

/// Every config map gets a secret of the same name.
async fn mirror(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let wanted =
        Secret { metadata: meta(cx.name()), string_data: map.data.clone(), ..Secret::default() };
    cx.apply(&wanted).await?;
    Ok(Next::Done)
}

#[tokio::test(start_paused = true)]
async fn a_change_is_followed_and_an_owned_object_is_restored() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("mirror").owns::<Secret>().build(mirror);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let client = handle.client().clone();
    let map = client.api().create(&config_map("a", &[("k", "v")])).await.expect("created");
    eventually("the secret", || client.cached().list::<Secret>().keys().unwrap().len() == 1).await;
    let made = client.api::<Secret>().get(&key("a")).await.expect("read").expect("is there");
    let owner = windlass::owner::controller_of(&*made).expect("has a controller");
    assert_eq!(Some(&owner.uid), map.metadata.uid.as_ref());
    assert_eq!(owner.block_owner_deletion, Some(true));

    client.api::<Secret>().delete(&key("a")).await.expect("deleted");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again = client.api::<Secret>().get(&key("a")).await.expect("read").expect("is back");
    assert_ne!(again.metadata.uid, made.metadata.uid);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn applying_the_same_again_sends_nothing() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        counted.fetch_add(1, Ordering::SeqCst);
        mirror(cx)
    };
    let controller = Controller::<ConfigMap>::builder("mirror").owns::<Secret>().build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    client.api().create(&config_map("a", &[])).await.expect("created");
    eventually("two runs", || runs.load(Ordering::SeqCst) >= 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = (runs.load(Ordering::SeqCst), server.revision());
    handle.controller("mirror").expect("is there").enqueue(key("a"));
    eventually("one more run", || runs.load(Ordering::SeqCst) > before.0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.revision(), before.1, "nothing was written");
    let applies = metric(&handle, r#"rest_client_requests_total{code="201",method="PATCH""#);
    assert_eq!(applies, 1.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_in_other_words_is_applied_once_and_again_when_another_changes_it() {
    let server = ApiServer::start();
    let reconcile = |cx: Context<ConfigMap>| async move {
        let quota = json!({"metadata": {"name": "child"}, "spec": {"hard": {"cpu": "1000m"}}});
        let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
        let stored = cx.apply(&quota).await?;
        let hard = stored.spec.as_ref().and_then(|spec| spec.hard.as_ref()).expect("is there");
        assert_eq!(hard["cpu"].0, "1");
        Ok(Next::After(Duration::from_secs(1)))
    };
    let controller = Controller::<ConfigMap>::builder("maps").owns::<ResourceQuota>();
    let handle = manager(&server).add(controller.build(reconcile)).spawn().expect("starts");
    let client = handle.client().clone();
    client.api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let sent = |code| {
        metric(&handle, &format!("rest_client_requests_total{{code=\"{code}\",method=\"PATCH\""))
    };
    assert_eq!(sent("201"), 1.0);
    assert!(!handle.metrics().contains(r#"{code="200",method="PATCH""#));

    let other = Patch::Merge(json!({"spec": {"hard": {"cpu": "2"}}}));
    let another = Client::new(server.client());
    another.api::<ResourceQuota>().patch(&key("child"), &other).await.expect("changed");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((sent("201"), sent("200")), (1.0, 1.0));
    let quota =
        another.api::<ResourceQuota>().get(&key("child")).await.expect("read").expect("lives");
    assert_eq!(quota.spec.as_ref().and_then(|spec| spec.hard.as_ref()).unwrap()["cpu"].0, "1");
    handle.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_from_threads_of_any_kind_start_no_more_reconciles_than_may_run() {
    const WORKERS: usize = 3;
    const KEYS: usize = 200;
    let server = ApiServer::start();
    let (active, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(BTreeMap::new())));
    let (counted, noted) = (active.clone(), runs.clone());
    let controller = Controller::<ConfigMap>::builder("maps").workers(WORKERS).build(
        move |cx: Context<ConfigMap>| {
            let (active, runs) = (counted.clone(), noted.clone());
            async move {
                assert!(active.fetch_add(1, Ordering::SeqCst) < WORKERS, "too many at once");
                tokio::task::yield_now().await;
                active.fetch_sub(1, Ordering::SeqCst);
                *runs.lock().entry(cx.key().clone()).or_insert(0_usize) += 1;
                Ok(Next::Done)
            }
        },
    );
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let maps = handle.controller("maps").expect("is there");
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let maps = maps.clone();
            std::thread::spawn(move || {
                for n in 0..KEYS {
                    maps.enqueue(key(&format!("t{thread}-{n}")));
                    maps.enqueue(key("shared"));
                }
            })
        })
        .collect();
    let joined = tokio::task::spawn_blocking(|| threads.into_iter().all(|t| t.join().is_ok()));
    assert!(joined.await.expect("joined"), "no thread panics");
    let busy = |shown: &Value| shown["depth"] != 0 || shown["processing"] != 0;
    while busy(&queue(&handle, "maps")) {
        tokio::task::yield_now().await;
    }
    let runs = runs.lock();
    assert!((0..4).all(|t| (0..KEYS).all(|n| runs.get(&key(&format!("t{t}-{n}"))) == Some(&1))));
    assert!(runs.contains_key(&key("shared")));
    assert_eq!(metric(&handle, "controller_runtime_reconcile_panics_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_never_reconciled_twice_at_once() {
    let server = ApiServer::start();
    let running: Arc<Mutex<Vec<Key>>> = Arc::default();
    let runs = Arc::new(AtomicUsize::new(0));
    let (busy, count) = (running.clone(), runs.clone());
    let reconcile = move |cx: Context<ConfigMap>| {
        let (busy, count) = (busy.clone(), count.clone());
        async move {
            {
                let mut busy = busy.lock();
                assert!(!busy.contains(cx.key()), "{} runs twice", cx.key());
                busy.push(cx.key().clone());
            }
            tokio::time::sleep(Duration::from_millis(7)).await;
            busy.lock().retain(|known| known != cx.key());
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("slow").workers(8).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    for name in ["a", "b", "c"] {
        client.api().create(&config_map(name, &[])).await.expect("created");
    }
    let controller = handle.controller("slow").expect("is there");
    for _ in 0..50 {
        for name in ["a", "b", "c"] {
            controller.enqueue(key(name));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    eventually("rest", || running.lock().is_empty() && queue(&handle, "slow")["depth"] == 0).await;
    assert!(runs.load(Ordering::SeqCst) > 20);
    assert!(metric(&handle, "controller_runtime_reconcile_panics_total") == 0.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn no_reconcile_before_every_first_list_is_handled() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    for at in 0..50 {
        setup.api().create(&config_map(&format!("m{at}"), &[])).await.expect("created");
        setup.api().create(&secret(&format!("s{at}"))).await.expect("created");
    }
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let least = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let maps = cx.list::<ConfigMap>().keys().expect("declared").len();
        let secrets = cx.list::<Secret>().keys().expect("declared").len();
        least.fetch_min(maps.min(secrets), Ordering::SeqCst);
        async { Ok(Next::Done) }
    };
    let controller =
        Controller::<ConfigMap>::builder("count").reads::<Secret>().workers(4).build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    eventually("a reconcile", || seen.load(Ordering::SeqCst) != usize::MAX).await;
    assert_eq!(seen.load(Ordering::SeqCst), 50);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_sees_the_writes_before_it() {
    let server = ApiServer::start();
    let stale = Arc::new(AtomicUsize::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let (wrong, count) = (stale.clone(), runs.clone());
    let reconcile = move |cx: Context<ConfigMap>| {
        let (wrong, count) = (wrong.clone(), count.clone());
        async move {
            let Some(map) = cx.object() else { return Ok(Next::Done) };
            let mut map = (*map).clone();
            let data = map.data.get_or_insert_default();
            let at: usize = data.get("at").and_then(|v| v.parse().ok()).unwrap_or(0);
            if at != count.load(Ordering::SeqCst) {
                wrong.fetch_add(1, Ordering::SeqCst);
            }
            if at == 30 {
                return Ok(Next::Done);
            }
            data.insert("at".into(), (at + 1).to_string());
            let stored = cx.client().api().update(&map).await?;
            let read = cx.get::<ConfigMap>(cx.name())?.expect("just written");
            assert_eq!(read.metadata.resource_version, stored.metadata.resource_version);
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Next::After(Duration::from_millis(1)))
        }
    };
    let controller = Controller::<ConfigMap>::builder("step").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    // The watch lags behind every write: only the client's own memory can show it.
    server.inject(Some(Box::new(|_| windlass_apiserver::fault::Fault {
        watch_lag: Duration::from_millis(200),
        ..Default::default()
    })));
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    eventually("30 steps", || runs.load(Ordering::SeqCst) == 30).await;
    assert_eq!(stale.load(Ordering::SeqCst), 0, "a reconcile saw an older state");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn after_brings_the_key_back_in_time() {
    let server = ApiServer::start();
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let log = times.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        log.lock().push(Instant::now());
        async { Ok(Next::After(Duration::from_secs(60))) }
    };
    let controller = Controller::<ConfigMap>::builder("tick").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(150)).await;
    let times = times.lock().clone();
    assert_eq!(times.len(), 3, "{times:?}");
    let gap = times[2] - times[1];
    assert!(gap >= Duration::from_secs(60) && gap < Duration::from_millis(60_100), "{gap:?}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn after_no_time_at_all_is_a_retry_with_growing_delay() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let controller = Controller::<ConfigMap>::builder("hot").build(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::After(Duration::ZERO)) }
    });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.client().api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let runs = runs.load(Ordering::SeqCst);
    assert!((5..20).contains(&runs), "{runs} runs in 10 s");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn predicates_keep_out_what_does_not_matter() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let reconcile = move |_: Context<ConfigMap>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Next::Done) }
    };
    let wanted = Predicate::object(|map: &ConfigMap| {
        map.data.iter().flatten().any(|(name, _)| name == "wanted")
    });
    let controller = Controller::<ConfigMap>::builder("picky")
        .when(wanted & !!Predicate::labels_changed())
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    client.api().create(&config_map("a", &[])).await.expect("created");
    let mut map = client.api().create(&config_map("b", &[("wanted", "1")])).await.expect("created");
    eventually("one run", || runs.load(Ordering::SeqCst) == 1).await;
    map.data.get_or_insert_default().insert("more".into(), "2".into());
    let mut map = client.api().update(&map).await.expect("updated");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1, "labels did not change");
    map.metadata.labels = Some([("a".to_string(), "b".to_string())].into());
    client.api().update(&map).await.expect("updated");
    eventually("another run", || runs.load(Ordering::SeqCst) == 2).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn maps_channels_and_indexes_find_their_objects() {
    let server = ApiServer::start();
    let seen: Arc<Mutex<Vec<(String, usize)>>> = Arc::default();
    let log = seen.clone();
    let by_target: Index<Secret, String> = Index::new("target", |secret: &Secret| {
        let labels = secret.metadata.labels.iter().flatten();
        labels.filter(|(name, _)| *name == "target").map(|(_, value)| value.clone()).collect()
    });
    let declared = by_target.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let (log, by_target) = (log.clone(), by_target.clone());
        async move {
            let name = cx.name().to_string();
            let found = cx.list::<Secret>().by(&by_target, &name).names()?;
            assert_eq!(found, cx.list::<Secret>().labels([("target", &name)]).names()?);
            log.lock().push((name, found.len()));
            Ok(Next::Done)
        }
    };
    let (keys, mut channel) = mpsc::channel(4);
    let controller = Controller::<ConfigMap>::builder("map")
        .index(&declared)
        .watch(Watch::map(|secret: &Secret| {
            let labels = secret.metadata.labels.iter().flatten();
            labels
                .filter(|(name, _)| *name == "target")
                .map(|(_, value)| key(value))
                .collect::<Vec<_>>()
        }))
        .source(futures::stream::poll_fn(move |cx| channel.poll_recv(cx)))
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    let mut object = secret("s");
    object.metadata.labels = Some([("target".to_string(), "x".to_string())].into());
    let mut object = client.api().create(&object).await.expect("created");
    eventually("x", || seen.lock().contains(&("x".into(), 1))).await;
    object.metadata.labels = Some([("target".to_string(), "y".to_string())].into());
    client.api().update(&object).await.expect("updated");
    // The old and the new target are both concerned.
    eventually("x and y", || {
        let seen = seen.lock();
        seen.contains(&("x".into(), 0)) && seen.contains(&("y".into(), 1))
    })
    .await;
    keys.send(key("z")).await.expect("taken");
    eventually("z", || seen.lock().contains(&("z".into(), 0))).await;
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_key_with_a_namespace_finds_an_object_that_has_none() {
    let server = ApiServer::start();
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let log = seen.clone();
    let reconcile = move |cx: Context<Namespace>| {
        log.lock().push((cx.key().to_string(), cx.object().is_some()));
        async { Ok(Next::Done) }
    };
    let (keys, mut channel) = mpsc::channel(1);
    let controller = Controller::<Namespace>::builder("spaces")
        .watch(Watch::map(|_: &Secret| vec![key("default")]))
        .source(futures::stream::poll_fn(move |cx| channel.poll_recv(cx)))
        .build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    eventually("the first list", || !seen.lock().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    seen.lock().clear();
    handle.controller("spaces").expect("runs").enqueue(key("default"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    keys.send(key("default")).await.expect("taken");
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.client().api().create(&secret("s")).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*seen.lock(), vec![("default".to_string(), true); 3]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn watches_come_and_go_at_run_time() {
    let server = ApiServer::start();
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = runs.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        log.lock().push(cx.name().to_string());
        async { Ok(Next::Done) }
    };
    let controller = Controller::<ConfigMap>::builder("late").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    let client = handle.client().clone();
    let controller = handle.controller("late").expect("is there");
    client.api().create(&secret("before")).await.expect("created");
    let watch = Watch::map(|secret: &Secret| vec![Key::of(secret)]);
    let guard = controller.watch(watch).expect("added");
    client.api().create(&secret("during")).await.expect("created");
    eventually("both", || runs.lock().len() >= 2).await;
    drop(guard);
    client.api().create(&secret("after")).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut names = runs.lock().clone();
    names.sort();
    assert_eq!(names, ["before", "during"]);
    handle.stop().await.expect("stops");
}
