//! An operator with the API server in its process: how long each takes to be there, what a settled
//! reconcile costs, how fair the queue is, and how fast an operator is explored under faults.

mod children;
mod explore;
mod fair;

use std::sync::Arc;
use std::time::Instant;

use bench_harness::{Args, cpu_seconds};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::{Controller, Manager, Next};
use windlass_apiserver::ApiServer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    // Every run of an exploration has a runtime of its own.
    let found = match args.text("scenario") {
        "explore" => explore::memcached(&args),
        _ => tokio::runtime::Runtime::new()?.block_on(measure(&args))?,
    };
    bench_harness::say(&found);
    std::process::exit(0)
}

async fn measure(args: &Args) -> windlass::Result<Value> {
    match args.text("scenario") {
        "children" => children::settled(args).await,
        "fair" => fair::tenants(args).await,
        _ => start().await,
    }
}

async fn start() -> windlass::Result<Value> {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let server = ApiServer::start();
    let client = server.client();
    let (started, started_cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let done = Arc::new(Notify::new());
    let first = done.clone();
    let controller = Controller::<ConfigMap>::builder("first").build(move |_| {
        first.notify_one();
        async { Ok(Next::Done) }
    });
    let object = serde_json::from_value(json!({
        "metadata": { "name": "first", "namespace": "default" },
    }));
    let object: ConfigMap = object.expect("a name is all a config map needs");
    let running = Manager::new(client).add(controller).spawn()?;
    running.client().api().create(&object).await?;
    done.notified().await;
    let reconciled = began.elapsed().as_secs_f64();
    Ok(json!({
        "server_s": started, "server_cpu_s": started_cpu, "in_process_s": reconciled,
        "cpu_s": cpu_seconds(),
    }))
}
