//! `windlass completion` and `windlass version`.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use crate::failure::Failure;

#[derive(Args)]
pub struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

#[derive(Args)]
pub struct VersionArgs {
    /// How to print it.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A line for people.
    Text,
    /// One JSON object.
    Json,
}

/// Prints a completion script.
pub fn run(args: CompletionArgs, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "windlass", &mut script);
    say!("{}", String::from_utf8_lossy(&script).trim_end());
    Ok(())
}

/// Prints the version.
pub fn version(args: VersionArgs) -> Result<(), Failure> {
    let (version, kubernetes) = (env!("CARGO_PKG_VERSION"), windlass_apiserver::openapi::VERSION);
    match args.output {
        Format::Text => say!("windlass {version} (Kubernetes API {kubernetes})"),
        Format::Json => say!("{}", json!({"windlass": version, "kubernetes": kubernetes})),
    }
    Ok(())
}
