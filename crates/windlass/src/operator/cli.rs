//! The command line of an operator.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use super::{Operator, connect, kubebuilder, output};
use crate::error::Error;

/// The flags and subcommands; name, version and description come from the operator.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Run the operator; this is the default.
    Run(Box<RunArgs>),
    /// Write the manifests: config/, docs/api.md, dist/install.yaml and Dockerfile.
    Manifests(ManifestsArgs),
    /// Print the CustomResourceDefinitions.
    Crd,
    /// Print the service account, the roles and their bindings.
    Rbac,
    /// Read a ConversionReview from standard input and print the answer.
    Convert,
    /// Print the version.
    Version,
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// How to run the operator: the flags of kubebuilder's manager, each also as a variable.
#[derive(Args, Clone, Debug)]
pub(super) struct RunArgs {
    /// The address that serves metrics, such as :8443, or 0 to serve none.
    #[arg(long, env = "METRICS_BIND_ADDRESS", default_value = "0", value_parser = address)]
    pub(super) metrics_bind_address: String,
    /// Serve metrics over TLS, to clients that may get the path /metrics.
    #[arg(long, env = "METRICS_SECURE", default_value = "true", num_args = 0..=1,
        default_missing_value = "true", value_parser = kubebuilder::boolean,
        action = ArgAction::Set, value_name = "BOOL")]
    pub(super) metrics_secure: bool,
    /// The directory with the certificate for metrics; by default one is generated.
    #[arg(long, env = "METRICS_CERT_PATH", value_name = "DIRECTORY")]
    pub(super) metrics_cert_path: Option<PathBuf>,
    /// The name of the file with the certificate for metrics.
    #[arg(long, env = "METRICS_CERT_NAME", value_name = "FILE", default_value = "tls.crt")]
    pub(super) metrics_cert_name: PathBuf,
    /// The name of the file with the key for metrics.
    #[arg(long, env = "METRICS_CERT_KEY", value_name = "FILE", default_value = "tls.key")]
    pub(super) metrics_cert_key: PathBuf,
    /// The address that serves /healthz and /readyz, such as :8081, or 0 to serve none.
    #[arg(long, env = "HEALTH_PROBE_BIND_ADDRESS", default_value = ":8081", value_parser = address)]
    pub(super) health_probe_bind_address: String,
    /// The port that serves webhooks, or 0 to serve none; 9443 in a pod.
    #[arg(long, env = "WEBHOOK_PORT", value_name = "PORT")]
    pub(super) webhook_port: Option<u16>,
    /// Serve webhooks; with `false`, as with port 0, none.
    #[arg(long, env = "ENABLE_WEBHOOKS", default_value = "true", num_args = 0..=1,
        default_missing_value = "true", value_parser = kubebuilder::unless_false,
        action = ArgAction::Set, value_name = "BOOL")]
    pub(super) enable_webhooks: bool,
    /// The directory with the certificate for webhooks; by default the operator keeps one in a
    /// Secret.
    #[arg(long, env = "WEBHOOK_CERT_PATH", value_name = "DIRECTORY")]
    pub(super) webhook_cert_path: Option<PathBuf>,
    /// The name of the file with the certificate for webhooks.
    #[arg(long, env = "WEBHOOK_CERT_NAME", value_name = "FILE", default_value = "tls.crt")]
    pub(super) webhook_cert_name: PathBuf,
    /// The name of the file with the key for webhooks.
    #[arg(long, env = "WEBHOOK_CERT_KEY", value_name = "FILE", default_value = "tls.key")]
    pub(super) webhook_cert_key: PathBuf,
    /// Let the cluster call the webhooks of this process at this URL, such as
    /// https://host.docker.internal:9443, while it runs.
    #[arg(long, env = "WEBHOOK_URL", value_name = "URL", conflicts_with = "webhook_cert_path")]
    pub(super) webhook_url: Option<String>,
    /// Work only while this process holds the lease of the operator.
    #[arg(long, env = "LEADER_ELECT", default_value = "false", num_args = 0..=1,
        default_missing_value = "true", value_parser = kubebuilder::boolean,
        action = ArgAction::Set, value_name = "BOOL")]
    pub(super) leader_elect: bool,
    /// The namespace of the lease; by default that of the pod or of the kubeconfig.
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE",
        value_parser = namespace)]
    pub(super) leader_election_namespace: Option<String>,
    /// Watch these namespaces only, separated by commas.
    #[arg(long, env = "WATCH_NAMESPACE", value_delimiter = ',', value_name = "NAMESPACES",
        value_parser = namespace)]
    pub(super) namespaces: Vec<String>,
    /// The file with settings that can change while the operator runs: log, workers, controllers,
    /// namespaces or namespaceSelector. What it mentions replaces the flags.
    #[arg(long, env = "OPERATOR_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The kubeconfig to use; by default KUBECONFIG, ~/.kube/config, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The least important level that is logged (error, warn, info, debug, trace), or directives
    /// such as `info,windlass=debug`; by default RUST_LOG, then info.
    #[arg(long, visible_alias = "zap-log-level", env = "LOG_LEVEL", value_name = "LEVEL",
        value_parser = level)]
    pub(super) log_level: Option<String>,
    /// The format of the log; by default text on a terminal and JSON otherwise.
    #[arg(long, visible_alias = "zap-encoder", env = "LOG_FORMAT", value_name = "FORMAT")]
    pub(super) log_format: Option<LogFormat>,
    #[command(flatten)]
    pub(super) kubebuilder: kubebuilder::Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Lines for people.
    #[value(alias = "console")]
    Text,
}

#[derive(Args, Clone, Debug)]
pub(super) struct ManifestsArgs {
    /// Write nothing; show what differs, and fail if anything does.
    #[arg(long)]
    pub(super) check: bool,
    /// The root of the project.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// The image of the container.
    #[arg(long, value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// The namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(super) namespace: Option<String>,
    /// How to report what was done, or what differs.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(super) output: ReportFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ReportFormat {
    /// Lines and diffs for people.
    Text,
    /// One JSON object.
    Json,
}

/// Does what the command line of the process says.
pub(super) fn main(operator: Operator) -> ExitCode {
    let name = operator.model.name.clone();
    match parse(&operator, std::env::args_os()) {
        Ok(cli) => match dispatch(operator, cli) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{name}: {}", error.chain());
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            match wrong_usage(&error) {
                Some(line) => eprintln!("{name}: {line}"),
                None => drop(error.print()),
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// Reads a command line, whose first word is the program.
pub(super) fn parse(
    operator: &Operator,
    words: impl IntoIterator<Item = OsString>,
) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command(operator).try_get_matches_from(words)?)
}

/// The command with the name and the version of the operator.
pub(super) fn command(operator: &Operator) -> clap::Command {
    let model = &operator.model;
    Cli::command()
        .name(model.name.clone())
        .bin_name(model.name.clone())
        .version(model.version.clone())
        .about(format!("Runs {}, and prints what is needed to install it.", model.name))
}

fn dispatch(operator: Operator, cli: Cli) -> Result<(), Error> {
    match cli.command.unwrap_or(Command::Run(Box::new(cli.run))) {
        Command::Run(args) => connect::run(operator, *args),
        Command::Manifests(args) => output::manifests(&operator, args),
        Command::Crd => output::definitions(&operator),
        Command::Rbac => output::access(&operator),
        Command::Convert => output::convert(&operator),
        Command::Version => output::version(&operator),
        Command::Completion { shell } => output::completion(&operator, shell),
    }
}

/// Returns what is wrong with the command line in one line; `None` if help was asked for.
fn wrong_usage(error: &clap::Error) -> Option<String> {
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || help {
        return None;
    }
    let text = error.render().to_string();
    let parts = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let parts = parts.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    // What is listed after a colon belongs to it.
    let line = parts.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    Some(format!("{}; see --help", line.strip_prefix("error: ").unwrap_or(&line)))
}

/// Checks an address to listen on: `host:port`, `:port`, or `0` for none.
fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').map(|(_, port)| port);
    match port.map(str::parse::<u16>) {
        _ if text.is_empty() || text == "0" => Ok(text.to_owned()),
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("expected an address such as :8081 or 127.0.0.1:8081, or 0 for none".into()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    match windlass_text::name::dns1123_label(text) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of a namespace".into()),
    }
}

/// Checks a level or directives. Numbers are the levels of zap: 0 for info, more for debug; its
/// levels above `error` are `error` here.
fn level(text: &str) -> Result<String, String> {
    if matches!(text, "dpanic" | "panic" | "fatal") {
        return Ok("error".to_owned());
    }
    if let Ok(number) = text.parse::<u8>() {
        return Ok(["info", "debug", "trace"][usize::from(number.min(2))].to_owned());
    }
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("expected error, warn, info, debug or trace".into()),
    }
}
