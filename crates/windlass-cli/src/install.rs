//! `windlass install` and `windlass uninstall`: the definitions of this project's kinds.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::builder::build;
use crate::cluster::block_on;
use crate::failure::Failure;
use crate::objects::{Objects, reference};
use crate::program::Program;
use crate::project::{Project, ProjectArgs};
use crate::removal;
use crate::target_cluster::TargetArgs;
use crate::waiting::{Lines, Wait, duration};

/// Where to install the definitions.
#[derive(Args)]
pub struct InstallArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    target: TargetArgs,

    /// How long to wait until the definitions are served.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    timeout: Duration,
}

/// Where to remove the definitions from.
#[derive(Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    target: TargetArgs,

    /// Delete the custom resources as well; without it, nothing is removed while some exist.
    #[arg(long)]
    delete_resources: bool,

    /// How long to wait until everything is gone.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Applies the definitions.
pub fn install(args: InstallArgs) -> Result<(), Failure> {
    block_on(async {
        let project = Project::find(&args.project).await?;
        let action = format!("install the definitions of {}", project.binary);
        let cluster = args.target.connect_or_dev(&project, &action).await?;
        note!("cluster: {}", cluster.shown);
        let definitions = program(&project).await?.definitions().await?;
        let mut objects = Objects::new(cluster.client).keep_local_conversion(cluster.development);
        apply(&mut objects, &definitions, args.timeout, &mut |line| say!("{line}")).await
    })
}

/// Removes the definitions.
pub fn uninstall(args: UninstallArgs) -> Result<(), Failure> {
    block_on(async {
        let project = Project::find(&args.project).await?;
        let more = if args.delete_resources { " and all their objects" } else { "" };
        let action = format!("remove the definitions of {}{more}", project.binary);
        let cluster = args.target.connect_or_dev(&project, &action).await?;
        note!("cluster: {}", cluster.shown);
        let definitions = program(&project).await?.definitions().await?;
        let mut objects = Objects::new(cluster.client);
        let mut lines = |line: &str| say!("{line}");
        let mut wait = Wait::new(args.timeout, &mut lines);
        removal::custom_resources(&mut objects, &definitions, args.delete_resources, &mut wait)
            .await?;
        removal::remove(&mut objects, &definitions, &mut wait).await
    })
}

/// Builds the operator of a project.
pub async fn program(project: &Project) -> Result<Program, Failure> {
    Ok(Program::new(build(project).await?.executable))
}

/// Applies objects in order, prints what happened to each, and waits until all are ready.
pub async fn apply(
    objects: &mut Objects,
    wanted: &[Value],
    timeout: Duration,
    lines: Lines<'_>,
) -> Result<(), Failure> {
    for object in wanted {
        let outcome = objects.apply(object).await?;
        lines(&format!("{} {}", reference(object), outcome.word()));
    }
    Wait::new(timeout, lines).ready(objects, wanted).await
}
