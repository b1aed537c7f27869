//! Runs an operator against the cluster that the command line names.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tracing_subscriber::EnvFilter;
use windlass_manifests::Model;

use super::cli::{LogFormat, RunArgs};
use super::{Operator, kubebuilder, stepped};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::lease::LeaseOptions;
use crate::manager::Manager;
use crate::serve::{Paths, Tls};
use crate::webhook::{Certificates, local_policies};

/// Runs until a signal. Everything that can be wrong with the settings is checked before anything
/// starts.
pub(super) fn run(operator: Operator, mut args: RunArgs) -> Result<()> {
    let model = operator.model()?;
    kubebuilder::apply(&mut args);
    let filter = args.log_level.as_deref().and_then(|level| EnvFilter::try_new(level).ok());
    let json = args.log_format.map(|format| format == LogFormat::Json);
    crate::log::start(filter, json, &Clock::default());
    for line in kubebuilder::without_effect(&args.kubebuilder) {
        tracing::info!("{line}");
    }
    let start = stepped::start()?;
    let work = async {
        let config = config(args.kubeconfig.as_deref()).await?;
        let host = config.cluster_url.to_string();
        let place = Place::of(&config, args.kubeconfig.as_deref());
        let client = kube::Client::try_from(config)
            .map_err(|error| Error::Invalid(format!("the configuration of the client: {error}")))?;
        let lease = operator.model.lease.clone();
        let manager = operator.manager(client).host(&host);
        let manager = match start {
            Some(start) => manager.clock(Clock::fixed(start)),
            None => manager,
        };
        let manager = webhooks(manager, &args, &model, place)?;
        settings(manager, args, lease)?.run_until_signal().await
    };
    #[cfg(feature = "plan")]
    if start.is_some() {
        return stepped::block_on(work);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // A conversion that hangs on its thread must not keep the process.
    runtime.shutdown_background();
    outcome
}

pub(super) async fn config(path: Option<&Path>) -> Result<kube::Config> {
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

/// Where the operator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a pod.
    Pod,
    /// On the machine of a `windlass cluster`, which can call it.
    SameMachine,
    /// Elsewhere.
    Outside,
}

// === impl Place ===

impl Place {
    pub(super) fn of(config: &kube::Config, path: Option<&Path>) -> Self {
        if path.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Self::Pod;
        }
        let file = match path {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let context = file.ok().and_then(|file| file.current_context);
        let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        match context.as_deref() {
            Some("windlass") if loopback || host == "localhost" => Self::SameMachine,
            _ => Self::Outside,
        }
    }
}

/// Serves webhooks, if the operator has any and the cluster can call them, and installs policies in a
/// cluster that this process is the operator of.
pub(super) fn webhooks(
    manager: Manager,
    args: &RunArgs,
    model: &Model,
    place: Place,
) -> Result<Manager> {
    if args.webhook_port == Some(0) || !args.enable_webhooks || !model.serves_webhooks() {
        let local = place == Place::SameMachine || args.webhook_url.is_some();
        if !local || model.policy_objects().is_empty() {
            return Ok(manager);
        }
        let model = model.clone();
        return Ok(manager.runnable("local policies", |cx| local_policies(cx, model)));
    }
    let everywhere = format!(":{}", args.webhook_port.unwrap_or(model.run.webhook_port));
    if let Some(directory) = &args.webhook_cert_path {
        let paths = Paths {
            chain: directory.join(&args.webhook_cert_name),
            key: directory.join(&args.webhook_cert_key),
        };
        return Ok(manager.webhook_server(&everywhere, Certificates::from_files(paths)?));
    }
    if let Some(url) = &args.webhook_url {
        return Ok(manager.webhook_server(&everywhere, Certificates::local(model).url(url)));
    }
    Ok(match place {
        Place::Pod => manager.webhook_server(&everywhere, Certificates::managed(model)),
        Place::SameMachine => {
            let address = format!("127.0.0.1:{}", args.webhook_port.unwrap_or(0));
            manager.webhook_server(&address, Certificates::local(model))
        }
        Place::Outside => {
            tracing::warn!(
                "webhooks are not served, because the cluster cannot call this process; \
                 set --webhook-url if it can"
            );
            manager
        }
    })
}

/// Applies the flags to a manager.
fn settings(manager: Manager, args: RunArgs, lease: Option<String>) -> Result<Manager> {
    let mut manager =
        manager.probes(&args.health_probe_bind_address).metrics(&args.metrics_bind_address);
    if !args.namespaces.is_empty() {
        manager = manager.namespaces(args.namespaces.iter().map(String::as_str));
    }
    if let Some(file) = args.config {
        manager = manager.settings_file(file);
    }
    if args.metrics_secure {
        let tls = match &args.metrics_cert_path {
            Some(directory) => Tls::from_files(Paths {
                chain: directory.join(&args.metrics_cert_name),
                key: directory.join(&args.metrics_cert_key),
            })?,
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
