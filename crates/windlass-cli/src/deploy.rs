//! `windlass deploy` and `windlass undeploy`: this project's operator in a cluster.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::cluster::block_on;
use crate::failure::Failure;
use crate::install::{apply, program};
use crate::objects::Objects;
use crate::program::Installation;
use crate::project::{Project, ProjectArgs};
use crate::removal;
use crate::report::{Line, Report, ReportArgs};
use crate::signals::{REPEAT, uninterrupted};
use crate::target_cluster::TargetArgs;
use crate::waiting::{Wait, duration};

/// Where and how to deploy the operator.
#[derive(Args)]
pub struct DeployArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    report: ReportArgs,

    /// The image of the operator.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// The namespace of the operator.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// How long to wait until the operator is ready.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Where to remove the operator from.
#[derive(Args)]
pub struct UndeployArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    report: ReportArgs,

    /// The namespace of the operator.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Delete the custom resources first; without it, nothing is removed while some exist.
    #[arg(long)]
    delete_resources: bool,

    /// Remove the definitions of the kinds as well.
    #[arg(long)]
    crds: bool,

    /// How long to wait until everything is gone.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Applies all manifests of the operator and waits until it is ready.
pub fn deploy(args: DeployArgs) -> Result<(), Failure> {
    block_on(uninterrupted(install_all(args), REPEAT))
}

async fn install_all(args: DeployArgs) -> Result<(), Failure> {
    let project = Project::find(&args.project).await?;
    let action = format!("deploy {}", project.binary);
    let cluster = args.target.connect_or_dev(&project, &action).await?;
    let mut report = Report::new(args.report, &cluster.shown);
    let settings = Installation { image: args.image, namespace: args.namespace };
    let mut wanted = program(&project).await?.installation(&settings).await?;
    wanted.sort_by_key(rank);
    let mut objects =
        Objects::new(cluster.client.clone()).keep_local_conversion(cluster.development);
    let lines = &mut |line: Line<'_>| report.take(line);
    let applied = apply(&mut objects, &wanted, args.timeout, lines).await;
    if applied.is_ok() {
        report.take(Line::Note(&format!("{} is ready", project.binary)));
    }
    report.finish();
    applied
}

/// Removes the operator.
pub fn undeploy(args: UndeployArgs) -> Result<(), Failure> {
    block_on(uninterrupted(uninstall_all(args), REPEAT))
}

async fn uninstall_all(args: UndeployArgs) -> Result<(), Failure> {
    let project = Project::find(&args.project).await?;
    let more = match (args.delete_resources, args.crds) {
        (false, false) => "",
        (true, false) => " and delete all its custom resources",
        (false, true) => " and its definitions",
        (true, true) => " and its definitions, and delete all its custom resources",
    };
    let action = format!("remove {}{more}", project.binary);
    let cluster = args.target.connect_or_dev(&project, &action).await?;
    let mut report = Report::new(args.report, &cluster.shown);
    let settings = Installation { image: None, namespace: args.namespace };
    let installed = program(&project).await?.installation(&settings).await?;
    let lines = &mut |line: Line<'_>| report.take(line);
    let mut wait = Wait::new(args.timeout, lines);
    let mut objects = Objects::new(cluster.client.clone());
    let (delete, crds) = (args.delete_resources, args.crds);
    let removed = remove_all(&mut objects, installed, delete, crds, &mut wait).await;
    report.finish();
    removed
}

/// Removes an operator: its custom resources while it runs, its webhooks before it, then the
/// operator, what it used, its definitions if asked for, and its namespace.
async fn remove_all(
    objects: &mut Objects,
    mut installed: Vec<Value>,
    delete_resources: bool,
    crds: bool,
    wait: &mut Wait<'_>,
) -> Result<(), Failure> {
    installed.sort_by_key(|object| std::cmp::Reverse(rank(object)));
    let take = |wanted: Rank| -> Vec<Value> {
        installed.iter().filter(|object| rank(object) == wanted).cloned().collect()
    };
    let definitions = take(Rank::Definition);
    removal::custom_resources(objects, &definitions, delete_resources, wait).await?;
    for part in [Rank::Webhook, Rank::Workload, Rank::Other, Rank::Access] {
        removal::remove(objects, &take(part), wait).await?;
    }
    if crds {
        removal::remove(objects, &definitions, wait).await?;
    }
    for namespace in take(Rank::Namespace) {
        removal::namespace(objects, &namespace, wait).await?;
    }
    Ok(())
}

/// The order in which objects are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Namespace,
    Definition,
    Access,
    Other,
    Webhook,
    Workload,
}

fn rank(object: &Value) -> Rank {
    match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => Rank::Namespace,
        "CustomResourceDefinition" => Rank::Definition,
        "ServiceAccount" | "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => {
            Rank::Access
        }
        "ValidatingWebhookConfiguration"
        | "MutatingWebhookConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding" => Rank::Webhook,
        "Deployment" | "StatefulSet" | "DaemonSet" => Rank::Workload,
        _ => Rank::Other,
    }
}

#[cfg(test)]
mod tests;
