//! How long tenants with one key wait while another one has very many.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_harness::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{Context, Controller, Key, Manager, Next, Result};
use windlass_apiserver::ApiServer;

/// The tenants with one key.
const SMALL: usize = 50;
/// How long a reconcile takes.
const WORK: Duration = Duration::from_millis(2);
const LARGE: &str = "large";

/// Times fifty tenants with one key alone, and behind one with many, with a fair queue and without.
pub async fn tenants(args: &Args) -> Result<Value> {
    let many = args.number("size", 10_000);
    let alone = finish(0, true).await?;
    let (fair, unfair) = (finish(many, true).await?, finish(many, false).await?);
    Ok(json!({
        "alone_s": alone, "fair_s": fair, "unfair_s": unfair, "fair_over_alone": fair / alone,
    }))
}

/// Returns the time until the last of the small tenants is reconciled.
async fn finish(many: usize, fair: bool) -> Result<f64> {
    let server = ApiServer::start();
    let (sender, mut done) = mpsc::unbounded_channel();
    let builder = Controller::<ConfigMap>::builder("tenants").workers(4);
    let builder = match fair {
        true => builder.fair_by(|key: &Key| key.namespace().map(str::to_string)),
        false => builder,
    };
    let sender = Arc::new(sender);
    let controller = builder.build(move |cx: Context<ConfigMap>| {
        let sender = sender.clone();
        async move {
            tokio::time::sleep(WORK).await;
            let _ = sender.send(cx.key().clone());
            Ok(Next::Done)
        }
    });
    let running = Manager::new(server.client()).add(controller).spawn()?;
    running.ready().await;
    let tenants = running.controller("tenants");
    let tenants = tenants.ok_or_else(|| windlass::Error::from("the controller does not run"))?;
    // What is there from the start has been reconciled when nothing more comes.
    while tokio::time::timeout(Duration::from_millis(200), done.recv()).await.is_ok() {}
    for n in 0..many {
        tenants.enqueue(Key::namespaced(LARGE, &format!("key-{n:05}")));
    }
    let mut small: BTreeSet<Key> =
        (0..SMALL).map(|n| Key::namespaced(&format!("small-{n:02}"), "key")).collect();
    let began = Instant::now();
    for key in &small {
        tenants.enqueue(key.clone());
    }
    while !small.is_empty() {
        let key = done.recv().await.ok_or_else(|| windlass::Error::from("the controller ended"))?;
        small.remove(&key);
    }
    let took = began.elapsed().as_secs_f64();
    running.shutdown();
    Ok(took)
}
