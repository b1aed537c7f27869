//! Admission: a webhook that completes pods.

use std::time::Duration;

use bench_harness::{Args, Meter, command, memory, say};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Config};
use serde_json::json;
use windlass::Manager;
use windlass::webhook::{Certificates, Request, Webhook, Webhooks};

use crate::Outcome;

/// Sets a label that pods do not have.
async fn complete(request: Request<Pod>) -> windlass::Result<Pod> {
    let mut pod = request.object;
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.entry("team".into()).or_insert_with(|| "bench".into());
    Ok(pod)
}

/// Serves the webhook with the certificate of a directory until a line comes.
pub async fn serve(args: &Args) -> Outcome {
    // The handler asks no server, so there need not be one.
    let client = Client::try_from(Config::new("http://127.0.0.1:1".parse()?))?;
    let certificates = Certificates::from_dir(args.text("directory"))?;
    let running = Manager::new(client)
        .webhooks(Webhooks::new().add(Webhook::new().default(complete)))
        .webhook_server("127.0.0.1:0", certificates)
        .spawn()?;
    let address = loop {
        match running.webhook_address() {
            Some(address) => break address,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let meter = Meter::start();
    say(&json!({ "ready": true, "port": address.port() }));
    tokio::task::spawn_blocking(command).await?;
    let ((_, cpu), (rss, peak)) = (meter.read(), memory());
    Ok(json!({ "cpu_s": cpu, "rss_kb": rss, "peak_kb": peak }))
}
