//! Referring to a few objects of a kind that has very many.

use std::time::Duration;

use bench_harness::{Args, NAMESPACE, memory, name};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{Context, Controller, Key, Manager, Next};

use crate::Outcome;

/// How many secrets are referred to.
const REFERENCES: usize = 10;

/// Refers to ten of very many secrets, and looks at the memory once that is settled.
pub async fn secrets(client: Client, args: &Args) -> Outcome {
    let meter = args.meter();
    let (sender, mut done) = mpsc::channel(64);
    let controller = Controller::<Namespace>::builder("references").references::<Secret>().build(
        move |cx: Context<Namespace>| {
            let sender = sender.clone();
            async move {
                if cx.name() != NAMESPACE {
                    return Ok(Next::Done);
                }
                let mut found = 0;
                for n in 0..REFERENCES {
                    let key = Key::namespaced(NAMESPACE, &name(n * 7));
                    found += usize::from(cx.reference::<Secret>(&key).await?.is_some());
                }
                // The receiver is there as long as something is measured.
                let _ = sender.send(found).await;
                Ok(Next::Done)
            }
        },
    );
    let running = Manager::new(client).add(controller).spawn()?;
    let found = done.recv().await.unwrap_or_default();
    let (time, cpu) = meter.read();
    tokio::time::sleep(Duration::from_millis(args.number("settle-ms", 1000) as u64)).await;
    let (rss, peak) = memory();
    let watches = running.diagnostics()["clusters"][0]["watches"].clone();
    let of_secrets = watches.as_array().into_iter().flatten();
    let objects: u64 = of_secrets.filter_map(|watch| watch["objects"].as_u64()).max().unwrap_or(0);
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "rss_kb": rss, "peak_kb": peak, "found": found,
        "objects": objects,
    }))
}
