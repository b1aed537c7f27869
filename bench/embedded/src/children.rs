//! What a reconcile costs when all children are as they should be.

use std::time::Duration;

use bench_harness::{Args, Meter};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::manager::Handle;
use windlass::{Context, Controller, Key, Manager, Next, Result};
use windlass_apiserver::ApiServer;

/// The finalizer of the owner, and the name of the annotation that lists its children.
const SET: &str = "bench.example.com/children";

/// Applies so many children again and again, none of which has changed.
pub async fn settled(args: &Args) -> Result<Value> {
    let (children, runs) = (args.number("size", 20), args.number("runs", 5000));
    let server = ApiServer::start();
    let (sender, mut done) = mpsc::channel(16);
    let controller = Controller::<Secret>::builder("owners")
        .owns::<ConfigMap>()
        .deletes::<ConfigMap>()
        .finalizes()
        .build(move |cx: Context<Secret>| {
            let sender = sender.clone();
            async move {
                let next = apply(&cx, children).await?;
                // The receiver is there as long as something is measured.
                let _ = sender.send(()).await;
                Ok(next)
            }
        });
    let manager = Manager::new(server.client()).namespaces(["default"]);
    let running = manager.add(controller).spawn()?;
    let owner: Secret = serde_json::from_value(json!({
        "metadata": {"name": "owner", "namespace": "default"},
    }))?;
    running.client().api().create(&owner).await?;
    // The first runs are caused by the children that appear.
    while tokio::time::timeout(Duration::from_secs(1), done.recv()).await.is_ok() {}
    let (owners, key) = (running.controller("owners"), Key::of(&owner));
    let owners = owners.ok_or_else(|| windlass::Error::from("the controller does not run"))?;
    let before = requests(&running);
    let meter = Meter::start();
    for _ in 0..runs {
        owners.enqueue(key.clone());
        done.recv().await;
    }
    let (time, cpu) = meter.read();
    let each = |seconds: f64| seconds * 1e6 / runs as f64;
    Ok(json!({
        "time_us": each(time), "cpu_us": each(cpu), "requests": requests(&running) - before,
        "runs": runs,
    }))
}

async fn apply(cx: &Context<Secret>, count: usize) -> Result<Next> {
    if cx.object().is_none() {
        return Ok(Next::Done);
    }
    let mut children = cx.children(SET);
    for n in 0..count {
        let line = "key = value that is as long as lines of configuration tend to be\n";
        let mut child = ConfigMap::default();
        child.metadata.name = Some(format!("{}-{n:02}", cx.name()));
        child.metadata.namespace = cx.namespace().map(str::to_string);
        child.data = Some([("settings".to_string(), line.repeat(8))].into());
        children.add(&child)?;
    }
    children.apply().await?;
    Ok(Next::Done)
}

/// How many requests the operator has sent.
fn requests(handle: &Handle) -> u64 {
    let text = handle.metrics();
    let lines = text.lines().filter(|line| line.starts_with("rest_client_requests_total"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}
