//! The cluster that a command works on: one that the user names, and never another.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cluster::{ClusterArgs, Running};
use crate::failure::Failure;
use crate::private_file::create_private_dir;
use crate::project::Project;
use crate::text::{explain, plain};

/// How long a cluster may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster that the user names.
#[derive(Args, Clone, Debug, Default)]
pub struct NamedArgs {
    /// The context of the kubeconfig that names the cluster.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,

    /// The kubeconfig that names the cluster; with --context alone, KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Which cluster is changed.
#[derive(Args, Clone, Debug, Default)]
pub struct TargetArgs {
    #[command(flatten)]
    named: NamedArgs,

    /// Do not ask whether it is the right cluster.
    #[arg(long, short)]
    yes: bool,
}

/// A cluster that the user named, or the development cluster of the project.
pub struct TargetCluster {
    /// A client with the user's rights.
    pub client: kube::Client,
    /// Where it is, for people.
    pub shown: String,
    /// A kubeconfig whose current context is this cluster.
    pub kubeconfig: Kubeconfig,
    /// Whether it is the development cluster, on which the operator of the project runs.
    pub development: bool,
    /// The cluster itself, if it runs for this command only.
    running: Option<Running>,
}

// === impl TargetCluster ===

impl TargetCluster {
    /// Ends a cluster that runs for this command only; its state is on disk then.
    pub async fn close(self) -> Result<(), Failure> {
        match self.running {
            Some(running) => running.stop().await,
            None => Ok(()),
        }
    }
}

// === impl NamedArgs ===

impl NamedArgs {
    /// Returns `true` if a cluster is named.
    pub fn is_named(&self) -> bool {
        self.context.is_some() || self.kubeconfig.is_some()
    }

    /// The named cluster. Nobody is asked, so it may be read and not changed.
    pub async fn open(&self) -> Result<TargetCluster, Failure> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let mut kubeconfig = read.map_err(|error| Failure::of(&error))?;
        if let Some(context) = &self.context {
            if !kubeconfig.contexts.iter().any(|one| one.name == *context) {
                let known: Vec<String> =
                    kubeconfig.contexts.iter().map(|one| plain(&one.name)).collect();
                return Err(Failure::usage(format!(
                    "the kubeconfig has no context {}; it has {}",
                    plain(context),
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )));
            }
            kubeconfig.current_context = Some(context.clone());
        }
        open(kubeconfig).await
    }
}

// === impl TargetArgs ===

impl TargetArgs {
    /// Returns `true` if a cluster is named.
    pub fn is_named(&self) -> bool {
        self.named.is_named()
    }

    /// The named cluster once the user has confirmed it, or else the running development cluster of
    /// the project.
    ///
    /// # Errors
    ///
    /// If no cluster is named and none runs, if it cannot be reached by its kubeconfig, or if the
    /// user does not confirm.
    pub async fn connect_or_dev(
        &self,
        project: &Project,
        action: &str,
    ) -> Result<TargetCluster, Failure> {
        if self.is_named() {
            return self.connect(action).await;
        }
        let file = project.state().join("kubeconfig");
        match running(&file).await {
            Some(cluster) => Ok(TargetCluster { development: true, ..cluster }),
            None => Err(Failure::usage(
                "no cluster is named: use --context or --kubeconfig, or start a cluster for this \
                 project with `windlass dev`",
            )),
        }
    }

    /// Does the same as [`connect_or_dev`](Self::connect_or_dev), but a development cluster that
    /// does not run is started for this command: its state stays for the next `windlass dev`.
    pub async fn connect_or_open(
        &self,
        project: &Project,
        action: &str,
    ) -> Result<TargetCluster, Failure> {
        let file = project.state().join("kubeconfig");
        if self.is_named() || running(&file).await.is_some() {
            return self.connect_or_dev(project, action).await;
        }
        create_private_dir(&project.state())?;
        let data = project.state().join("data");
        let running = Running::start(&ClusterArgs::embedded(Some(data), 1)).await?;
        let kubeconfig = Kubeconfig::from_yaml(&running.kubeconfig);
        let cluster = open(kubeconfig.map_err(|error| Failure::of(&error))?).await?;
        let shown = format!("the development cluster of {}, which did not run", project.package);
        Ok(TargetCluster { shown, development: true, running: Some(running), ..cluster })
    }

    /// The named cluster, once the user has confirmed it.
    pub async fn connect(&self, action: &str) -> Result<TargetCluster, Failure> {
        let cluster = self.named.open().await?;
        if !self.yes {
            confirm(&cluster.shown, action)?;
        }
        Ok(cluster)
    }
}

async fn open(kubeconfig: Kubeconfig) -> Result<TargetCluster, Failure> {
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &options)
        .await
        .map_err(|error| Failure::of(&error).context("the kubeconfig names no cluster"))?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let context = kubeconfig.current_context.as_deref().unwrap_or("without a name");
    let shown = format!("context {}, server {}", plain(context), config.cluster_url);
    let client = kube::Client::try_from(config)
        .map_err(|error| Failure::other(format!("the kubeconfig cannot be used: {error}")))?;
    Ok(TargetCluster { client, shown, kubeconfig, development: false, running: None })
}

/// The development cluster of a kubeconfig, if it answers.
async fn running(file: &Path) -> Option<TargetCluster> {
    let cluster = open(Kubeconfig::read_from(file).ok()?).await.ok()?;
    match cluster.client.apiserver_version().await {
        Ok(_) => Some(cluster),
        Err(error) => {
            tracing::info!(error = explain(&error), "no development cluster answers");
            None
        }
    }
}

/// Asks whether it is the right cluster.
fn confirm(shown: &str, action: &str) -> Result<(), Failure> {
    let mut terminal = std::io::stderr();
    if !std::io::stdin().is_terminal() || !terminal.is_terminal() {
        return Err(Failure::usage(format!(
            "not confirmed: this would {action} on {shown}; add --yes to do it without a question"
        )));
    }
    let mut answer = String::new();
    let asked = write!(terminal, "This will {action} on {shown}.\nContinue? [y/N] ")
        .and_then(|()| terminal.flush())
        .and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match asked {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(Failure::other("not confirmed; nothing was changed")),
    }
}
