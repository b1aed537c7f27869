//! `windlass manifests`: the manifests that this project's operator writes.

use std::process::Stdio;

use clap::Args;
use tokio::process::Command;

use crate::builder::build;
use crate::cluster::block_on;
use crate::failure::Failure;
use crate::project::{Project, ProjectArgs};
use crate::report::ReportArgs;
use crate::signals::{REPEAT, uninterrupted};

#[derive(Args)]
pub struct ManifestsArgs {
    #[command(flatten)]
    project: ProjectArgs,

    /// Write nothing; show what differs, and fail if anything does.
    #[arg(long)]
    check: bool,

    /// The image of the container.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// The namespace of the operator.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    report: ReportArgs,
}

/// Builds the operator and lets it write config/, docs/api.md, dist/install.yaml and Dockerfile. Returns its exit
/// status.
pub fn run(args: ManifestsArgs) -> Result<u8, Failure> {
    let mut code = 1;
    block_on(uninterrupted(
        async {
            let project = Project::find(&args.project).await?;
            let program = build(&project).await?.executable;
            let mut command = Command::new(&program);
            command.arg("manifests").arg("--directory").arg(&project.root);
            if args.check {
                command.arg("--check");
            }
            for (flag, value) in [("--image", &args.image), ("--namespace", &args.namespace)] {
                command.args(value.iter().flat_map(|value| [flag, value.as_str()]));
            }
            if args.report.json() {
                command.args(["--output", "json"]);
            }
            let status = command.stdin(Stdio::null()).kill_on_drop(true).status().await;
            let status = status.map_err(|error| {
                Failure::other(format!("cannot run {}: {error}", program.display()))
            })?;
            // A program that a signal ended has no status of its own.
            code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            Ok(())
        },
        REPEAT,
    ))?;
    Ok(code)
}
