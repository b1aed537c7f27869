//! A write of a status changes what its author changed, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Object, Result};
use windlass_apiserver::ApiServer;
use windlass_apiserver::fault::Fault;

use crate::common::{config_map, eventually, key, manager};

fn service(name: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }))
    .expect("a service")
}

/// A status type that knows only a part of the fields.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Part {
    #[serde(default)]
    conditions: Vec<Condition>,
}

async fn stored(client: &Client, name: &str) -> Service {
    let stored = client.api::<Service>().get(&key(name)).await.expect("read");
    (*stored.expect("is there")).clone()
}

fn conditions(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let all = status.and_then(|status| status.conditions.as_ref());
    all.into_iter().flatten().map(|condition| condition.type_.clone()).collect()
}

fn ready<K: Object>(cx: &Context<K>, type_: &str, all: &mut Vec<Condition>) {
    cx.condition(type_, true).reason("Checked").set(all);
}

/// Puts a condition and an ingress into the status of a service, as another controller would.
async fn other_writer(client: &Client, name: &str) {
    let other = json!({
        "type": "Other", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let ingress = json!([{"ip": "10.0.0.1"}]);
    let status = json!({"conditions": [other], "loadBalancer": {"ingress": ingress}});
    let patch = Patch::Merge(json!({"status": status}));
    client.api::<Service>().subresource("status").patch(&key(name), &patch).await.expect("patched");
}

/// From now on, caches learn of a change only after a while.
fn slow_watches(server: &ApiServer) {
    server.inject(Some(Box::new(|_| Fault {
        watch_lag: Duration::from_millis(200),
        ..Fault::default()
    })));
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_status_type_does_not_know_survive() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    setup.api().create(&service("web")).await.expect("created");
    other_writer(&setup, "web").await;
    let before = stored(&setup, "web").await.metadata.resource_version;
    let (sent, mut results) = mpsc::unbounded_channel();
    let reconcile = move |cx: Context<Service>| {
        let sent = sent.clone();
        async move {
            if cx.name() != "web" {
                return Ok(Next::Done);
            }
            let nothing = cx.status_as(|_: &mut Part| {}).await?;
            let version = stored(cx.client(), "web").await.metadata.resource_version;
            let wrote = cx.status_as(|part: &mut Part| ready(&cx, "Mine", &mut part.conditions));
            let _ = sent.send((nothing, version, wrote.await?));
            Ok(Next::Done)
        }
    };
    let controller = Controller::<Service>::builder("mine").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let (nothing, version, wrote) = results.recv().await.expect("reconciled");
    assert!(!nothing && version == before, "nothing is sent if nothing changes");
    assert!(wrote);
    let service = stored(&setup, "web").await;
    assert_eq!(conditions(&service), ["Other", "Mine"]);
    let balancer = service.status.and_then(|status| status.load_balancer);
    assert!(balancer.is_some_and(|balancer| balancer.ingress.is_some()));
    handle.stop().await.expect("stops");
}

/// A manager with a cache of its own whose controller sets one condition, once per object.
fn writer(server: &ApiServer, name: &'static str) -> Running {
    let done: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let reconcile = move |cx: Context<Service>| {
        let done = done.clone();
        async move {
            if cx.object().is_some() && !done.lock().contains(cx.name()) {
                cx.status_as(|status: &mut ServiceStatus| {
                    ready(&cx, name, status.conditions.get_or_insert_default());
                })
                .await?;
                done.lock().insert(cx.name().to_string());
            }
            Ok(Next::Done)
        }
    };
    let controller = Controller::<Service>::builder(name).workers(4).build(reconcile);
    manager(server).add(controller).spawn().expect("starts")
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_write_one_status_keep_the_conditions_of_both() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    let (one, two) = (writer(&server, "One"), writer(&server, "Two"));
    one.ready().await;
    two.ready().await;
    // Each cache learns only later what the other controller has written.
    slow_watches(&server);
    for i in 0..20 {
        setup.api().create(&service(&format!("web-{i}"))).await.expect("created");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for i in 0..20 {
        let mut all = conditions(&stored(&setup, &format!("web-{i}")).await);
        all.sort();
        assert_eq!(all, ["One", "Two"], "of web-{i}");
    }
    one.stop().await.expect("stops");
    two.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_does_not_lose_the_condition_of_another_writer() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    let (other, done) = (setup.clone(), Arc::new(Mutex::new(None)));
    let result = done.clone();
    let reconcile = move |cx: Context<Service>| {
        let (other, result) = (other.clone(), result.clone());
        async move {
            if cx.name() != "web" || cx.object().is_none() || result.lock().is_some() {
                return Ok(Next::Done);
            }
            other_writer(&other, "web").await;
            let cached = cx.get::<Service>("web")?.expect("is cached");
            assert!(conditions(&cached).is_empty(), "the watch has not brought the change yet");
            let wrote = cx.status_as(|status: &mut ServiceStatus| {
                ready(&cx, "Mine", status.conditions.get_or_insert_default());
            });
            *result.lock() = Some(wrote.await?);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<Service>::builder("mine").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    slow_watches(&server);
    setup.api().create(&service("web")).await.expect("created");
    eventually("the write", || done.lock().is_some()).await;
    assert_eq!(*done.lock(), Some(true));
    assert_eq!(conditions(&stored(&setup, "web").await), ["Other", "Mine"]);
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn an_object_created_again_does_not_get_the_status_of_its_predecessor() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    let results: Arc<Mutex<Vec<Result<bool>>>> = Arc::default();
    let (other, log) = (setup.clone(), results.clone());
    let reconcile = move |cx: Context<Service>| {
        let (other, log) = (other.clone(), log.clone());
        async move {
            let Some(first) = cx.object().filter(|_| cx.name() == "web" && log.lock().is_empty())
            else {
                return Ok(Next::Done);
            };
            other.api::<Service>().delete(cx.key()).await?;
            other.api().create(&service("web")).await?;
            let write = || {
                cx.status_as(|status: &mut ServiceStatus| {
                    ready(&cx, "Mine", status.conditions.get_or_insert_default());
                })
            };
            // Whatever the cache knows by now.
            let early = write().await;
            let second = Duration::from_secs(1);
            windlass::wait::until("the successor", second / 10, 10 * second, || async {
                let cached = cx.get::<Service>("web")?;
                Ok(cached.is_some_and(|cached| cached.metadata.uid != first.metadata.uid))
            })
            .await?;
            let late = write().await;
            log.lock().extend([early, late]);
            Ok(Next::Done)
        }
    };
    let controller = Controller::<Service>::builder("mine").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    setup.api().create(&service("web")).await.expect("created");
    eventually("the writes", || !results.lock().is_empty()).await;
    {
        let results = results.lock();
        let [early, late] = results.as_slice() else { panic!("{results:?}") };
        assert!(!matches!(early, Ok(true)), "{early:?}");
        assert!(late.as_ref().is_err_and(windlass::Error::is_conflict), "{late:?}");
    }
    assert!(conditions(&stored(&setup, "web").await).is_empty());
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_an_object_that_was_deleted_meanwhile_is_not_written() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    let (sent, mut results) = mpsc::unbounded_channel();
    let other = setup.clone();
    let reconcile = move |cx: Context<Service>| {
        let (sent, other) = (sent.clone(), other.clone());
        async move {
            if cx.object().is_none() || cx.name() != "web" {
                return Ok(Next::Done);
            }
            other.api::<Service>().delete(cx.key()).await?;
            assert!(cx.get::<Service>("web")?.is_some(), "the watch has not brought the deletion");
            let wrote = cx.status_as(|part: &mut Part| ready(&cx, "Mine", &mut part.conditions));
            let _ = sent.send(wrote.await);
            Ok::<_, windlass::Error>(Next::Done)
        }
    };
    let controller = Controller::<Service>::builder("mine").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    handle.ready().await;
    slow_watches(&server);
    setup.api().create(&service("web")).await.expect("created");
    let wrote = results.recv().await.expect("reconciled");
    assert!(matches!(wrote, Ok(false)), "{wrote:?}");
    handle.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_status_is_an_error() {
    let server = ApiServer::start();
    let setup = Client::new(server.client());
    let (sent, mut results) = mpsc::unbounded_channel();
    let reconcile = move |cx: Context<ConfigMap>| {
        let sent = sent.clone();
        async move {
            let wrote = cx.status_as(|part: &mut Part| ready(&cx, "Mine", &mut part.conditions));
            let _ = sent.send(wrote.await);
            Ok::<_, windlass::Error>(Next::Done)
        }
    };
    setup.api().create(&config_map("a", &[])).await.expect("created");
    let controller = Controller::<ConfigMap>::builder("mine").build(reconcile);
    let handle = manager(&server).add(controller).spawn().expect("starts");
    let wrote = results.recv().await.expect("reconciled");
    assert!(wrote.as_ref().is_err_and(windlass::Error::is_not_found), "{wrote:?}");
    handle.stop().await.expect("stops");
}
