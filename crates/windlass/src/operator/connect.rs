//! Runs an operator against the cluster that the command line names.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tracing_subscriber::EnvFilter;

use super::Operator;
use super::cli::{LogFormat, RunArgs};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::lease::LeaseOptions;
use crate::manager::Manager;
use crate::serve::Tls;

/// Runs until a signal. Everything that can be wrong with the settings is checked before anything
/// starts.
pub(super) fn run(operator: Operator, args: RunArgs) -> Result<()> {
    operator.model()?;
    let filter = args.log_level.as_deref().and_then(|level| EnvFilter::try_new(level).ok());
    let json = args.log_format.map(|format| format == LogFormat::Json);
    crate::log::start(filter, json, &Clock::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = config(args.kubeconfig.as_deref()).await?;
        let host = config.cluster_url.to_string();
        let client = kube::Client::try_from(config)
            .map_err(|error| Error::Invalid(format!("the configuration of the client: {error}")))?;
        let lease = operator.model.lease.clone();
        let manager = operator.manager(client).host(&host);
        settings(manager, args, lease)?.run_until_signal().await
    })
}

async fn config(path: Option<&Path>) -> Result<kube::Config> {
    let found = match path {
        None => kube::Config::infer().await.map_err(|error| error.to_string()),
        Some(path) => match Kubeconfig::read_from(path) {
            Err(error) => Err(error.to_string()),
            Ok(file) => kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| error.to_string()),
        },
    };
    found.map_err(|why| {
        let file = path.map(|path| format!(" in {}", path.display())).unwrap_or_default();
        Error::Invalid(format!("found no cluster to connect to{file}: {why}"))
    })
}

/// Applies the flags to a manager.
fn settings(manager: Manager, args: RunArgs, lease: Option<String>) -> Result<Manager> {
    let mut manager =
        manager.probes(&args.health_probe_bind_address).metrics(&args.metrics_bind_address);
    if !args.namespaces.is_empty() {
        manager = manager.namespaces(args.namespaces.iter().map(String::as_str));
    }
    if args.metrics_secure {
        let tls = match &args.metrics_cert_path {
            Some(directory) => Tls::from_dir(directory)?,
            None => Tls::self_signed(&["localhost"])?,
        };
        manager = manager.secure_metrics(tls);
    }
    if args.leader_elect {
        let name = lease.ok_or_else(|| {
            Error::Invalid("--leader-elect needs a lease, and this operator has none".into())
        })?;
        let mut options = LeaseOptions::new(&name);
        if let Some(namespace) = &args.leader_election_namespace {
            options = options.namespace(namespace);
        }
        manager = manager.lease(options);
    }
    Ok(manager)
}
