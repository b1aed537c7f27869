//! The kube-rs contestant of the benchmark.

mod reconcile;
mod sync;
mod work;

use std::error::Error;
use std::path::Path;

use bench_harness::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

type Outcome = Result<serde_json::Value, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args = Args::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    // In a task, for the reason that the other contestant gives.
    let result = tokio::spawn(measure(args)).await?;
    bench_harness::say(&result?);
    std::process::exit(0)
}

async fn measure(args: Args) -> Outcome {
    match args.text("scenario") {
        "sync" => sync::sync(connect(&args).await?, &args).await,
        "sync-meta" => sync::sync_metadata(connect(&args).await?, &args).await,
        "stream" | "stream-typed" => sync::stream(connect(&args).await?, &args).await,
        "relist" => sync::relist(connect(&args).await?).await,
        "get" => sync::get(connect(&args).await?, &args).await,
        "index" => sync::index(connect(&args).await?, &args).await,
        "reconcile" | "reconcile-key" => reconcile::throughput(connect(&args).await?, &args).await,
        "status" => reconcile::status(connect(&args).await?, &args).await,
        "latency" => reconcile::latency(connect(&args).await?, &args).await,
        "inflight" => reconcile::inflight(connect(&args).await?, &args).await,
        "start" => reconcile::first(connect(&args).await?, &args).await,
        "queue" => work::queue(&args).await,
        other => Err(format!("no scenario {other:?}").into()),
    }
}

async fn connect(args: &Args) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(Path::new(args.text("kubeconfig")))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
