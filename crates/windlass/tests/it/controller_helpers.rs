//! What a context does for its author: status, finalizers, events, owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::{DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use serde_json::json;
use windlass::controller::{Context, Controller, Next, Reconciler, Watch};
use windlass::finalizer::Finalizing;
use windlass::{Error, Kind, Result};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager, meta, metric, secret};

fn deployment(name: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment")
}

#[derive(Default)]
struct Counter {
    runs: AtomicUsize,
    writes: AtomicUsize,
}

struct Status(Arc<Counter>);

impl Reconciler<Deployment> for Status {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Deployment>) -> Result<Next> {
        let Some(object) = cx.object() else { return Ok(Next::Done) };
        let generation = object.metadata.generation;
        let wrote = cx
            .status_as(|status: &mut DeploymentStatus| {
                status.observed_generation = generation;
                status.replicas = Some(3);
            })
            .await?;
        self.0.writes.fetch_add(usize::from(wrote), Ordering::SeqCst);
        self.0.runs.fetch_add(1, Ordering::SeqCst);
        Ok(Next::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn status_is_written_only_when_it_differs() {
    let server = ApiServer::start();
    let counter = Arc::new(Counter::default());
    let controller =
        Controller::<Deployment>::builder("status").build_with(Status(counter.clone()));
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    client.api().create(&deployment("web")).await.expect("created");
    eventually("two runs", || counter.runs.load(Ordering::SeqCst) >= 2).await;
    handle.controller("status").expect("is there").enqueue(key("web"));
    eventually("three runs", || counter.runs.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(counter.writes.load(Ordering::SeqCst), 1);
    let stored = client.api::<Deployment>().get(&key("web")).await.expect("read");
    let status = stored.expect("is there").status.clone().expect("has a status");
    assert_eq!((status.observed_generation, status.replicas), (Some(1), Some(3)));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_runs_its_cleanup_before_the_object_goes() {
    let server = ApiServer::start();
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        let count = count.clone();
        async move {
            let done = cx.finalize("example.com/cleanup", || async {
                // The first try fails: the object must wait.
                match count.fetch_add(1, Ordering::SeqCst) {
                    0 => Err(Error::from("the cloud is down")),
                    _ => Ok(()),
                }
            });
            let done = done.await?;
            assert!(matches!(done, Finalizing::Active | Finalizing::Finalized));
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("clean").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    client.api().create(&config_map("a", &[])).await.expect("created");
    let has = |client: windlass::Client| async move {
        let map = client.api::<ConfigMap>().get(&key("a")).await.expect("read").expect("is there");
        map.metadata.finalizers.iter().flatten().any(|known| known == "example.com/cleanup")
    };
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(has(client.clone()).await);
    let deleted = client.api::<ConfigMap>().delete(&key("a")).await.expect("marked");
    assert_eq!(deleted, windlass::client::Deleted::Pending);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    assert!(client.api::<ConfigMap>().get(&key("a")).await.expect("read").is_none());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn events_of_a_context_name_object_and_controller() {
    let server = ApiServer::start();
    let reconcile = |cx: Context<ConfigMap>| async move {
        if let Some(object) = cx.object() {
            cx.event("Seen", format!("{} keys", object.data.iter().flatten().count()));
        }
        Ok(Next::Done)
    };
    let controller = Controller::<ConfigMap>::builder("talks").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let map = handle.client().api().create(&config_map("a", &[("k", "v")])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let events = handle.client().api::<Event>().list().namespace("default");
    let events = events.items().await.expect("listed");
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(event.note.as_deref(), Some("1 keys"));
    assert_eq!(event.reporting_controller.as_deref(), Some("talks"));
    let regarding = event.regarding.as_ref().expect("about something");
    assert_eq!(regarding.uid, map.metadata.uid);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn metadata_only_and_dynamic_kinds_are_reconciled_too() {
    let server = ApiServer::start();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (meta_log, dynamic_log) = (seen.clone(), seen.clone());
    let metadata = Controller::<PartialObjectMeta<Secret>>::builder("metadata").build(
        move |cx: Context<PartialObjectMeta<Secret>>| {
            let labels = cx.object().and_then(|o| o.metadata.labels.clone()).unwrap_or_default();
            meta_log.lock().push(format!("metadata {} {}", cx.name(), labels.len()));
            async { Ok(Next::Done) }
        },
    );
    let kind = Kind::of::<ConfigMap>();
    let dynamic = Controller::<DynamicObject>::of_kind("dynamic", &kind)
        .watch(Watch::owned(Kind::of::<Secret>()).any_owner().metadata_only())
        .build(move |cx: Context<DynamicObject>| {
            let data = cx.object().map(|o| o.data["data"].to_string()).unwrap_or_default();
            dynamic_log.lock().push(format!("dynamic {} {data}", cx.name()));
            async { Ok(Next::Done) }
        });
    let handle = manager(&server).add(metadata).add(dynamic).spawn().expect("starts");
    let client = handle.client().clone();
    let map = client.api().create(&config_map("a", &[("k", "v")])).await.expect("created");
    eventually("dynamic", || seen.lock().contains(&r#"dynamic a {"k":"v"}"#.into())).await;
    let before = seen.lock().iter().filter(|s| s.starts_with("dynamic")).count();
    let mut owned = secret("s");
    owned.metadata.labels = Some([("a".to_string(), "b".to_string())].into());
    let owner =
        OwnerReference { controller: None, ..map.controller_owner_ref(&()).expect("stored") };
    owned.metadata.owner_references = Some(vec![owner]);
    client.api().create(&owned).await.expect("created");
    eventually("metadata", || seen.lock().contains(&"metadata s 1".into())).await;
    eventually("owner", || {
        seen.lock().iter().filter(|s| s.starts_with("dynamic")).count() > before
    })
    .await;
    let watches = handle.diagnostics()["clusters"][0]["watches"].clone();
    assert_eq!(watches.as_array().map(Vec::len), Some(2), "{watches}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_a_watch_gap_leads_to_a_reconcile() {
    let server = ApiServer::start();
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let log = seen.clone();
    let reconcile = move |cx: Context<ConfigMap>| {
        log.lock().push((cx.name().to_string(), cx.object().is_some()));
        async { Ok(Next::Done) }
    };
    let cut = Arc::new(AtomicBool::new(false));
    let (switch, once) = (cut.clone(), AtomicBool::new(true));
    server.inject(Some(Box::new(move |request| Fault {
        fail: (switch.load(Ordering::SeqCst) && ["list", "watch"].contains(&&*request.verb))
            .then(|| windlass_apiserver::Status::internal("cut")),
        // The first watch ends with the second object.
        watch_events_max: once.swap(false, Ordering::SeqCst).then_some(2),
        ..Fault::default()
    })));
    let controller = Controller::<ConfigMap>::builder("gap").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    // Another client: the cache of the manager must not learn of it by itself.
    let other = windlass::Client::new(server.client());
    other.api().create(&config_map("a", &[])).await.expect("created");
    eventually("seen", || seen.lock().contains(&("a".into(), true))).await;
    cut.store(true, Ordering::SeqCst);
    other.api().create(&config_map("ends-the-watch", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.api::<ConfigMap>().delete(&key("a")).await.expect("deleted");
    server.compact();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cut.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(seen.lock().contains(&("a".into(), false)), "{:?}", seen.lock());
    assert!(seen.lock().contains(&("ends-the-watch".into(), true)));
    handle.stop().await.expect("stops");
}

async fn trace(seed: u64) -> Vec<String> {
    let options = windlass_apiserver::Options { seed: Some(seed), ..Default::default() };
    let server = ApiServer::with_options(options).expect("starts");
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = log.clone();
    let began = tokio::time::Instant::now();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sink = sink.clone();
        async move {
            let line = format!("{:?} {} {}", began.elapsed(), cx.name(), cx.failures());
            sink.lock().push(line);
            if cx.failures() < 3 {
                return Err(Error::from("again"));
            }
            let secret = Secret { metadata: meta(cx.name()), ..Secret::default() };
            cx.apply(&secret).await?;
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("trace").owns::<Secret>().workers(3);
    let handle = manager(&server).seed(seed).add(controller.build(reconcile)).spawn();
    let handle = handle.expect("starts");
    for at in 0..10 {
        let map = config_map(&format!("m{at}"), &[]);
        handle.client().api().create(&map).await.expect("created");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    handle.stop().await.expect("stops");
    std::mem::take(&mut *log.lock())
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_traces() {
    let first = trace(7).await;
    assert!(first.len() >= 50, "{}", first.len());
    assert_eq!(first, trace(7).await);
}

#[tokio::test(start_paused = true)]
async fn a_kind_cached_as_metadata_is_cached_as_a_whole_when_a_controller_wants_it() {
    let server = ApiServer::start();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = seen.clone();
    let metadata = Controller::<PartialObjectMeta<ConfigMap>>::builder("metadata")
        .build(|_: Context<PartialObjectMeta<ConfigMap>>| async { Ok(Next::Done) });
    let handle = manager(&server).add(metadata).spawn().expect("starts");
    handle.ready().await;
    let other = windlass::Client::new(server.client());
    other.api().create(&config_map("a", &[("k", "v")])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = handle.client().cached().get::<ConfigMap>(&key("a")).expect_err("metadata only");
    assert!(refused.to_string().contains("metadata only"), "{refused}");
    let whole = Controller::<ConfigMap>::builder("whole").build(move |cx: Context<ConfigMap>| {
        let data = cx.object().and_then(|map| map.data.clone()).unwrap_or_default();
        log.lock().push(format!("{} {data:?}", cx.name()));
        async { Ok(Next::Done) }
    });
    drop(handle.add(whole).expect("added"));
    eventually("the whole object", || !seen.lock().is_empty()).await;
    assert_eq!(*seen.lock(), [r#"a {"k": "v"}"#]);
    let watches = handle.diagnostics()["clusters"][0]["watches"].clone();
    assert_eq!(watches.as_array().map(Vec::len), Some(1), "{watches}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_is_not_done_again_while_the_watch_still_shows_the_object() {
    let server = Arc::new(ApiServer::start());
    let cleanups = Arc::new(AtomicUsize::new(0));
    let after: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (count, log, slow) = (cleanups.clone(), after.clone(), server.clone());
    let reconcile = move |cx: Context<ConfigMap>| {
        let (count, log, slow) = (count.clone(), log.clone(), slow.clone());
        async move {
            if count.load(Ordering::SeqCst) > 0 {
                log.lock().push(cx.object().is_some());
            }
            let cleanup = || async {
                count.fetch_add(1, Ordering::SeqCst);
                // From here on the watch is an hour behind.
                slow.inject(Some(Box::new(|_| Fault {
                    watch_lag: Duration::from_secs(3600),
                    ..Default::default()
                })));
                Ok(())
            };
            cx.finalize("example.com/cleanup", cleanup).await?;
            Ok(Next::After(Duration::from_secs(1)))
        }
    };
    let controller = Controller::<ConfigMap>::builder("final").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client();
    client.api().create(&config_map("a", &[])).await.expect("created");
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.api::<ConfigMap>().delete(&key("a")).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cleanups.load(Ordering::SeqCst), 1);
    let after = after.lock().clone();
    assert!(after.len() >= 5 && !after.contains(&true), "still read: {after:?}");
    server.inject(None);
    handle.stop().await.expect("stops");
}

/// An error type of the author's own.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the number is wrong")]
    Number(#[from] std::num::ParseIntError),
    #[error("the cluster refused")]
    Cluster(#[from] Error),
}

async fn parse(cx: Context<ConfigMap>) -> Result<Next, Failed> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let number =
        map.data.iter().flatten().map(|(_, value)| value.parse::<i32>()).sum::<Result<i32, _>>()?;
    if number < 0 {
        return Err(Error::terminal("negative").into());
    }
    Ok(Next::Done)
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_may_fail_with_an_error_type_of_its_own() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("parse").build_with(parse);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client();
    client.api().create(&config_map("negative", &[("a", "-1")])).await.expect("created");
    let terminal = "controller_runtime_terminal_reconcile_errors_total";
    eventually("a terminal error", || metric(&handle, terminal) == 1.0).await;
    client.api().create(&config_map("word", &[("a", "one")])).await.expect("created");
    let errors = "controller_runtime_reconcile_errors_total";
    eventually("retries", || metric(&handle, errors) > 3.0).await;
    assert_eq!(metric(&handle, terminal), 1.0);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_created_object_is_owned_and_an_existing_one_is_reported_as_such() {
    let server = ApiServer::start();
    let results: Arc<Mutex<Vec<bool>>> = Arc::default();
    let log = results.clone();
    let controller = Controller::<ConfigMap>::builder("once").build(move |cx| {
        let log = log.clone();
        async move {
            let mut wanted = secret("a");
            wanted.metadata.namespace = None;
            let created = cx.create(&wanted).await;
            log.lock().push(created.as_ref().is_err_and(Error::is_already_exists));
            Ok(Next::Done)
        }
    });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    let map = client.api().create(&config_map("a", &[])).await.expect("created");
    eventually("a run", || !results.lock().is_empty()).await;
    handle.controller("once").expect("is there").enqueue(key("a"));
    eventually("two runs", || results.lock().len() == 2).await;
    assert_eq!(*results.lock(), [false, true]);
    let stored = client.api::<Secret>().get(&key("a")).await.expect("read").expect("was created");
    assert!(windlass::owner::is_controlled_by(&*stored, &map));
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_created_again_by_somebody_else_is_applied_again() {
    let server = ApiServer::start();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let controller =
        Controller::<ConfigMap>::builder("copies").reads::<Secret>().build(move |cx| {
            let count = count.clone();
            async move {
                let mut wanted = secret("child");
                wanted.string_data = None;
                wanted.type_ = Some("Opaque".into());
                wanted.metadata.labels = Some([("color".into(), "blue".into())].into());
                cx.apply(&wanted).await?;
                count.fetch_add(1, Ordering::SeqCst);
                Ok(Next::Done)
            }
        });
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let client = handle.client().clone();
    let map = client.api().create(&config_map("a", &[])).await.expect("created");
    eventually("the first apply", || runs.load(Ordering::SeqCst) == 1).await;
    let somebody = windlass::Client::new(server.client()).field_owner("somebody");
    somebody.api::<Secret>().delete(&key("child")).await.expect("deleted");
    let mut same = secret("child");
    same.type_ = Some("Opaque".into());
    same.metadata.labels = Some([("color".into(), "blue".into())].into());
    windlass::owner::set_controller(&map, &mut same).expect("may own it");
    somebody.api().create(&same).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.controller("copies").expect("is there").enqueue(key("a"));
    eventually("the second apply", || runs.load(Ordering::SeqCst) == 2).await;
    let stored =
        somebody.api::<Secret>().get(&key("child")).await.expect("read").expect("is there");
    let fields = stored.metadata.managed_fields.clone().unwrap_or_default();
    let managers: Vec<_> = fields.iter().filter_map(|field| field.manager.as_deref()).collect();
    assert!(managers.contains(&"copies"), "{managers:?}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_a_name_is_refused() {
    let server = ApiServer::start();
    let controller = Controller::<ConfigMap>::builder("").build(async |_| Ok(Next::Done));
    let error = match manager(&server).add(controller).spawn() {
        Ok(handle) => handle.wait().await.expect_err("refused"),
        Err(error) => error,
    };
    assert_eq!(error.to_string(), "the name of a controller has 1 to 128 characters, unlike \"\"");
}
