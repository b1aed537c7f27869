//! The command `windlass`: an embedded Kubernetes cluster.

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

mod cluster;
mod completion;
mod demo;
mod envtest;
mod failure;
mod keys;
mod log;
mod private_file;
mod scaffold;
mod signals;

/// With the system's allocator a quarter of the time of a write is spent on memory, and writes are
/// up to a third slower.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Kubernetes operator toolkit for Rust.
#[derive(Parser)]
#[command(name = "windlass", version, about, arg_required_else_help = true)]
struct Cli {
    /// Log to standard error: a level (error, warn, info, debug, trace) or directives such as
    /// `info,windlass_apiserver=debug`. The default is the variable `RUST_LOG`, then `warn` (of the
    /// demo: `error`).
    #[arg(long, value_name = "FILTER", global = true)]
    log: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an embedded Kubernetes cluster and write its kubeconfig.
    Cluster(cluster::ClusterArgs),
    /// Watch the Memcached operator at work on an embedded cluster, from nothing.
    Demo(demo::DemoArgs),
    /// Use the embedded API server in the place of envtest's binaries.
    Envtest(envtest::EnvtestArgs),
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
    /// Print the version of this command and of the Kubernetes API.
    Version(completion::VersionArgs),
    /// Print a completion script for a shell.
    Completion(completion::CompletionArgs),
}

fn main() -> ExitCode {
    if let Some(binary) = envtest::Binary::of_process() {
        return ExitCode::from(binary.run());
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is a wrong flag: clap knows which.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            match wrong_usage(&error) {
                Some(line) => eprintln!("windlass: {line}"),
                None => drop(error.print()),
            }
            return ExitCode::from(code);
        }
    };
    // The tour stops servers and controllers on purpose: what they say to it is not for its guests.
    let default = match cli.command {
        Command::Demo(_) => "error",
        _ => "warn",
    };
    let outcome = log::init(cli.log.as_deref(), default).and_then(|()| match cli.command {
        Command::Cluster(args) => cluster::run(args).map(|()| 0),
        Command::Demo(args) => demo::run(args).map(|()| 0),
        Command::Envtest(args) => envtest::run(args),
        Command::Init(args) => scaffold::init(args).map(|()| 0),
        Command::Create(command) => scaffold::create(command).map(|()| 0),
        Command::Delete(command) => scaffold::delete(command).map(|()| 0),
        Command::Rename(command) => scaffold::rename(command).map(|()| 0),
        Command::Version(args) => completion::version(args).map(|()| 0),
        Command::Completion(args) => completion::run(args, Cli::command()).map(|()| 0),
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("windlass: {failure}");
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
    let line = parts.collect::<Vec<_>>().join("; ");
    Some(format!("{}; see --help", line.strip_prefix("error: ").unwrap_or(&line)))
}
