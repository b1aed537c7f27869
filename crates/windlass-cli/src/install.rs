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
use crate::report::{Line, Report, ReportArgs};
use crate::signals::{REPEAT, uninterrupted};
use crate::target_cluster::TargetArgs;
use crate::waiting::{Lines, Wait, duration};

/// Where to install the definitions.
#[derive(Args)]
pub struct InstallArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    report: ReportArgs,

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

    #[command(flatten)]
    report: ReportArgs,

    /// Delete the custom resources as well; without it, nothing is removed while some exist.
    #[arg(long)]
    delete_resources: bool,

    /// How long to wait until everything is gone.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Applies the definitions.
pub fn install(args: InstallArgs) -> Result<(), Failure> {
    block_on(uninterrupted(install_definitions(args), REPEAT))
}

async fn install_definitions(args: InstallArgs) -> Result<(), Failure> {
    let project = Project::find(&args.project).await?;
    let action = format!("install the definitions of {}", project.binary);
    let cluster = args.target.connect_or_open(&project, &action).await?;
    let mut report = Report::new(args.report, &cluster.shown);
    let definitions = program(&project).await?.definitions().await?;
    let mut objects =
        Objects::new(cluster.client.clone()).keep_local_conversion(cluster.development);
    let lines = &mut |line: Line<'_>| report.take(line);
    let applied = apply(&mut objects, &definitions, args.timeout, lines).await;
    report.finish();
    cluster.close().await?;
    applied
}

/// Removes the definitions.
pub fn uninstall(args: UninstallArgs) -> Result<(), Failure> {
    block_on(uninterrupted(remove_definitions(args), REPEAT))
}

async fn remove_definitions(args: UninstallArgs) -> Result<(), Failure> {
    let project = Project::find(&args.project).await?;
    let more = if args.delete_resources { " and all their objects" } else { "" };
    let action = format!("remove the definitions of {}{more}", project.binary);
    let cluster = args.target.connect_or_open(&project, &action).await?;
    let mut report = Report::new(args.report, &cluster.shown);
    let definitions = program(&project).await?.definitions().await?;
    let mut objects = Objects::new(cluster.client.clone());
    let lines = &mut |line: Line<'_>| report.take(line);
    let mut wait = Wait::new(args.timeout, lines);
    let mut removed =
        removal::custom_resources(&mut objects, &definitions, args.delete_resources, &mut wait)
            .await;
    if removed.is_ok() {
        removed = removal::remove(&mut objects, &definitions, &mut wait).await;
    }
    report.finish();
    cluster.close().await?;
    removed
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
        lines(Line::Done { object: &reference(object), action: outcome.word() });
    }
    Wait::new(timeout, lines).ready(objects, wanted).await
}
