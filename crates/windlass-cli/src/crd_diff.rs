//! `windlass crd diff`: is a change of definitions safe for stored objects and existing clients?
//!
//! `source` reads definitions from files, a git revision or a cluster, `objects` checks stored
//! objects against the new definitions, with `converter` for those that a webhook converts, and the
//! rules are those of `windlass_manifests::diff`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass_manifests::diff::{self, Change, Effect};

use crate::failure::Failure;
use crate::target_cluster::NamedArgs;

mod converter;
mod objects;
mod source;

use objects::Finding;

/// Work with CustomResourceDefinitions.
#[derive(Args)]
pub struct CrdArgs {
    #[command(subcommand)]
    command: CrdCommand,
}

#[derive(Subcommand)]
enum CrdCommand {
    /// Compare definitions: is the change safe for stored objects and existing clients?
    ///
    /// The exit status is 0 if every change is safe, 1 if one is breaking, and 2 if something cannot
    /// be read.
    Diff(DiffArgs),
}

#[derive(Args)]
struct DiffArgs {
    /// The definitions before the change: a file, a directory, `REVISION:PATH` of git, `REVISION` for
    /// the path of the other side, or `cluster`.
    old: String,
    /// The definitions after the change, given in the same way.
    new: String,
    /// Check these stored objects against the new definitions: a file or a directory, such as the
    /// output of `kubectl get things -A -o yaml`.
    #[arg(long, value_name = "PATH")]
    objects: Option<PathBuf>,
    /// The program of the new operator, which converts objects between versions.
    #[arg(long, value_name = "PROGRAM", requires = "objects")]
    convert: Option<PathBuf>,
    /// Which cluster `cluster` is.
    #[command(flatten)]
    cluster: NamedArgs,
    /// How to print the changes.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One line for each change.
    Text,
    /// One JSON object.
    Json,
}

/// Runs the command. Returns 0 if every change is safe, and 1 if one is breaking.
///
/// # Errors
/// Fails with status 2 if something cannot be read.
pub fn run(args: CrdArgs) -> Result<u8, Failure> {
    let CrdCommand::Diff(args) = args.command;
    let (old, new) = source::read_both(&args.old, &args.new, &args.cluster)?;
    let changes = diff::definitions(&old, &new);
    let findings = match &args.objects {
        None => Vec::new(),
        Some(path) => objects::check(path, &new, args.convert.as_deref())?,
    };
    let breaking = changes.iter().filter(|change| change.effect == Effect::Breaking).count();
    let failed = breaking > 0 || !findings.is_empty();
    match args.output {
        Output::Text => print_text(&changes, &findings, breaking),
        Output::Json => {
            let report = json!({
                "breaking": failed, "changes": changes,
                "objects": findings.iter().map(Finding::to_json).collect::<Vec<Value>>(),
            });
            say!("{report:#}");
        }
    }
    Ok(u8::from(failed))
}

fn print_text(changes: &[Change], findings: &[Finding], breaking: usize) {
    let mut definition = "";
    for change in changes {
        if change.definition != definition {
            definition = &change.definition;
            say!("{definition}");
        }
        let effect = match change.effect {
            Effect::Breaking => "BREAKING",
            Effect::Safe => "safe    ",
        };
        say!("  {effect}  {change}");
    }
    if !findings.is_empty() {
        say!("objects");
    }
    for finding in findings {
        say!("  BREAKING  {finding}");
    }
    let safe = changes.len() - breaking;
    let mut summary = format!("{breaking} breaking, {safe} safe");
    if !findings.is_empty() {
        let count = findings.len();
        summary += &format!(
            ", {count} {} of stored objects",
            if count == 1 { "problem" } else { "problems" }
        );
    }
    say!("{summary}");
}
