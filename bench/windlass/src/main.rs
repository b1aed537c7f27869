//! The windlass contestant of the benchmark.

mod admission;
mod cached;
mod reconcile;
mod references;
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
    // Two providers of TLS may be compiled in; the choice is ours.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // In a task, as what sends keys in an operator: the main future is on none of the threads that
    // tasks share, and whatever passes between it and them would wake one.
    let result = tokio::spawn(measure(args)).await?;
    bench_harness::say(&result?);
    // What still runs is not waited for: the measuring is over.
    std::process::exit(0)
}

async fn measure(args: Args) -> Outcome {
    match args.text("scenario") {
        "sync" => sync::sync(connect(&args).await?, &args, false).await,
        "sync-meta" => sync::sync(connect(&args).await?, &args, true).await,
        "stream" => sync::stream(connect(&args).await?, &args, false).await,
        "stream-typed" => sync::stream(connect(&args).await?, &args, true).await,
        "relist" => sync::relist(connect(&args).await?).await,
        "get" => cached::get(connect(&args).await?, &args).await,
        "index" => cached::index(connect(&args).await?, &args).await,
        "reconcile" => reconcile::throughput(connect(&args).await?, &args, true).await,
        "reconcile-key" => reconcile::throughput(connect(&args).await?, &args, false).await,
        "status" => reconcile::status(connect(&args).await?, &args).await,
        "latency" => reconcile::latency(connect(&args).await?, &args).await,
        "inflight" => reconcile::inflight(connect(&args).await?, &args).await,
        "secrets" => references::secrets(connect(&args).await?, &args).await,
        "start" => reconcile::first(connect(&args).await?, &args).await,
        "admission" => admission::serve(&args).await,
        "queue" => work::queue(&args).await,
        other => Err(format!("no scenario {other:?}").into()),
    }
}

async fn connect(args: &Args) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(Path::new(args.text("kubeconfig")))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
