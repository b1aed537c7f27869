//! An operator with two replicas on a cluster with all controllers: three pods, one is deleted, the
//! leader crashes, five pods, a quiet minute.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::clock::Clock;
use windlass::lease::LeaseOptions;
use windlass::manager::Running;
use windlass::{Client, Context, Controller, Key, Kind, Manager, Next, Result};
use windlass_apiserver::{ApiServer, Options};
use windlass_cluster::Cluster;

use super::tape::Tape;
use crate::common::{available, deployment, key, object, pods_of};

/// What varies between two runs.
pub struct Run {
    pub seed: u64,
    /// Sends one more request than usual.
    pub more: bool,
}

/// What a run leaves behind.
pub struct Outcome {
    /// Everything that passed between clients and server, and the objects at the end.
    pub trace: Vec<String>,
    /// The UID of every object at the end, by resource and name.
    pub uids: Vec<(String, String)>,
}

impl Default for Run {
    fn default() -> Self {
        Self { seed: 7, more: false }
    }
}

/// Runs the scenario in a runtime of its own, whose time is virtual.
pub fn run(run: &Run) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can be built");
    runtime.block_on(play(run))
}

async fn play(run: &Run) -> Outcome {
    let start_time = "2026-01-01T00:00:00Z".parse().ok();
    let options = Options { seed: Some(run.seed), start_time, ..Options::default() };
    let server = ApiServer::with_options(options).expect("starts in memory");
    let tape = Tape::new();
    let client = Some(tape.client(&server, "controllers"));
    let options = windlass_cluster::Options { client, ..windlass_cluster::Options::default() };
    let cluster = Cluster::with_options(server.clone(), options).await;
    let person = Client::new(tape.client(&server, "person")).field_owner("person");
    person.api().create(&definition()).await.expect("the definition is valid");
    let leader = replica(&server, &tape, run.seed, "operator-0");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let follower = replica(&server, &tape, run.seed, "operator-1");
    if run.more {
        let map = json!({"metadata": {"generateName": "more-", "namespace": "default"}});
        person.api().create(&object::<ConfigMap>(map)).await.expect("created");
    }
    let api = person.api_of::<DynamicObject>(&memcacheds());
    let sample = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": "sample", "namespace": "default"}, "spec": {"size": 3},
    });
    api.create(&object::<DynamicObject>(sample)).await.expect("created");
    available(&person, "sample", 3).await;
    let first = Key::of(&pods_of(&person, "sample").await[0]);
    person.api::<Pod>().delete(&first).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(1)).await;
    available(&person, "sample", 3).await;
    leader.abort();
    drop(leader.wait().await);
    let grow = Patch::Merge(json!({"spec": {"size": 5}}));
    api.patch(&key("sample"), &grow).await.expect("patched");
    // The lease of the crashed leader has to expire.
    tokio::time::sleep(Duration::from_secs(30)).await;
    available(&person, "sample", 5).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    follower.stop().await.expect("the second replica ends well");
    cluster.stop().await;
    outcome(&server, &tape)
}

fn memcacheds() -> Kind {
    Kind::new("cache.example.com", "v1", "Memcached", "memcacheds")
}

fn definition() -> CustomResourceDefinition {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    object(json!({
        "metadata": {"name": "memcacheds.cache.example.com"},
        "spec": {
            "group": "cache.example.com",
            "names": {"kind": "Memcached", "plural": "memcacheds"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    }))
}

/// Starts a replica of the operator.
fn replica(server: &ApiServer, tape: &Tape, seed: u64, name: &str) -> Running {
    let controller = Controller::<DynamicObject>::of_kind("memcached", &memcacheds())
        .owns::<Deployment>()
        .build(reconcile);
    Manager::new(tape.client(server, name))
        .add(controller)
        .lease(LeaseOptions::new("memcached").namespace("default"))
        .name("memcached")
        .replica(name)
        .clock(Clock::fixed(server.clock().now()))
        .seed(seed)
        .spawn()
        .expect("a replica can be built")
}

async fn reconcile(cx: Context<DynamicObject>) -> Result<Next> {
    let Some(memcached) = cx.object() else { return Ok(Next::Done) };
    let size = memcached.data["spec"]["size"].as_i64().and_then(|size| i32::try_from(size).ok());
    let applied = cx.apply(&deployment(cx.name(), size.unwrap_or(1))).await?;
    let ready = applied.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let before = memcached.data["status"]["ready"].as_i64();
    if before != Some(i64::from(ready)) {
        let patch = Patch::Merge(json!({"status": {"ready": ready}}));
        let api = cx.client().api_of::<DynamicObject>(cx.kind()).subresource("status");
        api.patch(cx.key(), &patch).await?;
        cx.event("Scaled", format!("{ready} pods are available"));
    }
    Ok(Next::Done)
}

fn outcome(server: &ApiServer, tape: &Tape) -> Outcome {
    let (mut trace, mut uids) = (tape.lines(), Vec::new());
    for (resource, table) in server.world().resources() {
        for entry in table.items.values() {
            let name = format!("{} {}/{}", resource.plural, entry.key.namespace, entry.key.name);
            let body = String::from_utf8_lossy(&entry.body);
            trace.push(format!("= {name} {}", body.replace('\n', "\\n")));
            let uid: Value = entry.object()["metadata"]["uid"].take();
            uids.push((name, uid.as_str().unwrap_or_default().to_owned()));
        }
    }
    Outcome { trace, uids }
}
