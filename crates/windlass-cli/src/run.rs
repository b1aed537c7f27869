//! `windlass run`: this project's operator, on an embedded cluster or on one that the user names.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use tokio::process::Command;

use crate::child::exit_code;
use crate::cluster::{ClusterArgs, Running, block_on};
use crate::failure::Failure;
use crate::install::program;
use crate::objects::{Objects, reference};
use crate::private_file::{private_temp_dir, write_private};
use crate::process::Process;
use crate::program::Program;
use crate::project::{Project, ProjectArgs};
use crate::signals::Signals;
use crate::target_cluster::TargetArgs;
use crate::tether;

/// How long the operator may take to end: the grace period of its manager and a little more.
const GRACE: Duration = Duration::from_secs(40);

/// How to run the operator.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    target: TargetArgs,

    /// Flags of the operator.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// Runs the operator until it ends or a signal does; returns its exit status.
pub fn run(args: RunArgs) -> Result<u8, Failure> {
    let mut code = 0;
    block_on(async {
        code = run_operator(&args).await?;
        Ok(())
    })?;
    Ok(code)
}

async fn run_operator(args: &RunArgs) -> Result<u8, Failure> {
    let project = Project::find(&args.project).await?;
    let directory = private_temp_dir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    if args.target.is_named() {
        let action = format!("run {}", project.binary);
        let cluster = args.target.connect(&action).await?;
        let text = serde_json::to_string(&cluster.kubeconfig).map_err(|e| Failure::of(&e))?;
        write_private(&kubeconfig, &text)?;
        note!("cluster: {}", cluster.shown);
        let mut signals = Signals::listen()?;
        return tokio::select! {
            biased;
            () = signals.wait() => Ok(0),
            program = program(&project) => {
                supervise(program?.path(), args, &kubeconfig, &mut signals).await
            }
        };
    }
    let mut signals = Signals::listen()?;
    let running = Running::start(&ClusterArgs::embedded(None, 1)).await?;
    let prepared = tokio::select! {
        biased;
        () = signals.wait() => None,
        prepared = prepare(&project, &running, &kubeconfig) => Some(prepared?),
    };
    let code = match prepared {
        Some(program) => supervise(program.path(), args, &kubeconfig, &mut signals).await,
        None => Ok(0),
    };
    running.stop().await?;
    code
}

/// Builds the operator and installs its definitions on the embedded cluster.
async fn prepare(
    project: &Project,
    running: &Running,
    kubeconfig: &Path,
) -> Result<Program, Failure> {
    let program = program(project).await?;
    write_private(kubeconfig, &running.kubeconfig)?;
    note!("cluster: embedded, server {}", running.url);
    let mut objects = Objects::new(running.server.client());
    for definition in program.definitions().await? {
        let outcome = objects.apply(&definition).await?;
        say!("{} {}", reference(&definition), outcome.word());
    }
    say!("export KUBECONFIG={}", kubeconfig.display());
    Ok(program)
}

/// Runs the program until it ends; a signal asks it to.
async fn supervise(
    program: &Path,
    args: &RunArgs,
    kubeconfig: &Path,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let mut command = tether::command(program.as_os_str());
    command.arg("run").args(&args.args).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    free_probe_port(&mut command);
    let failed = |error| Failure::other(format!("cannot run {}: {error}", program.display()));
    let mut operator = Process::spawn(&mut command).map_err(failed)?;
    tokio::select! {
        biased;
        () = signals.wait() => {
            operator.stop(GRACE).await;
            Ok(0)
        }
        ended = operator.wait() => Ok(exit_code(ended.map_err(failed)?)),
    }
}

/// Lets the operator serve its probes on a free port of this machine, unless the user chose one.
pub fn free_probe_port(command: &mut Command) {
    let variable = "HEALTH_PROBE_BIND_ADDRESS";
    if std::env::var_os(variable).is_none() {
        command.env(variable, "127.0.0.1:0");
    }
}
