//! The hand that loads, drives and measures servers for the benchmark.
//!
//! It speaks plain HTTP/1.1 over TLS on connections of its own and looks at answers as little
//! as it can, so that what it measures is the server.

mod admission;
mod cluster;
mod connection;
mod crds;
mod hostile;
mod objects;
mod proxy;
mod read;
mod write;

use bench_harness::Args;
use connection::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<serde_json::Value, Failure>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args = Args::parse();
    if args.text("scenario") == "certificate" {
        bench_harness::say(&admission::certificate(&args)?);
        return Ok(());
    }
    let server = Server::read(args.text("kubeconfig"))?;
    let result = match args.text("scenario") {
        "ready" => read::wait_ready(&server).await,
        "load" => write::load(&server, &args).await,
        "touch" => write::touch(&server, &args).await,
        "count" => read::count(&server, &args).await,
        "updates" => write::updates(&server, &args).await,
        "writes" => write::writes(&server, &args).await,
        "floor" => read::floor(&server, &args).await,
        "latency" => read::latency(&server, &args).await,
        "fanout" => read::fanout(&server, &args).await,
        "admission" => admission::calls(&server, &args).await,
        "bodies" => hostile::bodies(&server, &args).await,
        "strangers" => hostile::strangers(&server, &args).await,
        "cel" => crds::cel(&server, &args).await,
        "crds" => crds::many(&server, &args).await,
        "deployments" => cluster::deployments(&server, &args).await,
        "namespace" => cluster::namespace(&server, &args).await,
        "proxy" => proxy::run(server, &args).await,
        other => Err(format!("no scenario {other:?}").into()),
    };
    bench_harness::say(&result?);
    std::process::exit(0)
}
