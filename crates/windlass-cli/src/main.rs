//! The command `windlass`: an embedded Kubernetes cluster, and the tools around an operator project.

#![allow(
    clippy::disallowed_methods,
    reason = "the command runs in real time, with real keys and files"
)]

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Writes a line to standard output; a reader that went away is no reason to stop.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

/// Writes a line to standard error; a reader that went away is no reason to stop.
macro_rules! note {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

mod builder;
mod child;
mod cluster;
mod completion;
mod crd_diff;
mod demo;
mod deploy;
mod dev;
mod doctor;
mod envtest;
mod explore;
mod failure;
mod generate;
mod install;
mod keys;
mod log;
mod manifest_files;
mod manifests;
mod objects;
mod plan;
mod private_file;
mod process;
mod program;
mod project;
#[cfg(test)]
mod reference;
mod removal;
mod report;
mod run;
mod scaffold;
mod signals;
mod target_cluster;
mod tether;
mod text;
mod waiting;

/// With the system's allocator a quarter of the time of a write is spent on memory, and writes are
/// up to a third slower.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Kubernetes operator toolkit for Rust.
#[derive(Parser)]
#[command(name = "windlass", version, about, arg_required_else_help = true)]
struct Cli {
    /// Log to standard error: a level (error, warn, info, debug, trace) or directives such as
    /// `info,windlass_apiserver=debug`. The default is the variable `RUST_LOG`, then `warn` (of
    /// `demo`, `dev`, `install`, `run` and `uninstall`: `error`).
    #[arg(long, value_name = "FILTER", global = true)]
    log: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start an operator: a new project, or a member of a workspace.
    Init(scaffold::InitArgs),
    /// Create a kind or a webhook.
    #[command(subcommand)]
    Create(scaffold::CreateCommand),
    /// Delete a kind with everything that was created for it.
    #[command(subcommand)]
    Delete(scaffold::DeleteCommand),
    /// Rename a kind.
    #[command(subcommand)]
    Rename(scaffold::RenameCommand),
    /// Generate Rust code.
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    /// Write the manifests of this project: config/, docs/api.md, dist/install.yaml and Dockerfile.
    Manifests(manifests::ManifestsArgs),
    /// Run an embedded Kubernetes cluster and write its kubeconfig.
    Cluster(cluster::ClusterArgs),
    /// Work with CustomResourceDefinitions.
    Crd(crd_diff::CrdArgs),
    /// Watch the Memcached operator at work on an embedded cluster, from nothing.
    Demo(demo::DemoArgs),
    /// Use the embedded API server in the place of envtest's binaries.
    Envtest(envtest::EnvtestArgs),
    /// Run this project's explorations over every plan, on all cores.
    Explore(explore::ExploreArgs),
    /// Show what the operator would do, without doing it.
    Plan(plan::PlanArgs),
    /// Build this project's operator and run it: on an embedded cluster, or on one that you name.
    Run(run::RunArgs),
    /// Develop: an embedded cluster whose state stays, and this project's operator, rebuilt on change.
    Dev(dev::DevArgs),
    /// Install the definitions of this project's kinds.
    Install(install::InstallArgs),
    /// Remove the definitions of this project's kinds.
    Uninstall(install::UninstallArgs),
    /// Install this project's operator and wait until it is ready.
    Deploy(deploy::DeployArgs),
    /// Remove this project's operator.
    Undeploy(deploy::UndeployArgs),
    /// Check that everything is there that this project and its commands need.
    Doctor(doctor::DoctorArgs),
    /// Print the version of this command and of the Kubernetes API.
    Version(completion::VersionArgs),
    /// Print a completion script for a shell.
    Completion(completion::CompletionArgs),
}

fn main() -> ExitCode {
    if let Some(code) = tether::of_process() {
        return ExitCode::from(code);
    }
    if let Some(binary) = envtest::Binary::of_process() {
        return ExitCode::from(binary.run());
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is a wrong flag: clap knows which.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            match wrong_usage(&error) {
                Some(line) => note!("windlass: {line}"),
                None => drop(error.print()),
            }
            return ExitCode::from(code);
        }
    };
    // These stop servers and controllers on purpose: what those say to it is not for people.
    let default = match cli.command {
        Command::Demo(_)
        | Command::Dev(_)
        | Command::Install(_)
        | Command::Run(_)
        | Command::Uninstall(_) => "error",
        _ => "warn",
    };
    let outcome = log::init(cli.log.as_deref(), default).and_then(|()| match cli.command {
        Command::Cluster(args) => cluster::run(args).map(|()| 0),
        Command::Crd(args) => crd_diff::run(args),
        Command::Demo(args) => demo::run(args).map(|()| 0),
        Command::Envtest(args) => envtest::run(args),
        Command::Init(args) => scaffold::init(args).map(|()| 0),
        Command::Create(command) => scaffold::create(command).map(|()| 0),
        Command::Delete(command) => scaffold::delete(command).map(|()| 0),
        Command::Rename(command) => scaffold::rename(command).map(|()| 0),
        Command::Generate(command) => generate::run(command).map(|()| 0),
        Command::Manifests(args) => manifests::run(args),
        Command::Version(args) => completion::version(args).map(|()| 0),
        Command::Completion(args) => completion::run(args, Cli::command()).map(|()| 0),
        Command::Explore(args) => explore::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Dev(args) => dev::run(args).map(|()| 0),
        Command::Install(args) => install::install(args).map(|()| 0),
        Command::Uninstall(args) => install::uninstall(args).map(|()| 0),
        Command::Deploy(args) => deploy::deploy(args).map(|()| 0),
        Command::Undeploy(args) => deploy::undeploy(args).map(|()| 0),
        Command::Doctor(args) => doctor::run(args),
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            note!("windlass: {failure}");
            ExitCode::from(failure.code)
        }
    }
}

/// What is wrong with the command line, in one line; `None` if help was asked for or is all there
/// is to say.
fn wrong_usage(error: &clap::Error) -> Option<String> {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let text = error.render().to_string();
    let parts = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let parts = parts.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    // What is listed after a colon belongs to it.
    let line = parts.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    Some(format!("{}; see --help", line.strip_prefix("error: ").unwrap_or(&line)))
}
