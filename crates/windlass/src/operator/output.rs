//! What the subcommands print and write.

use std::io::{Read as _, Write as _};

use clap_complete::Shell;
use serde_json::{Value, json};
use windlass_manifests::files::{Change, Difference};
use windlass_manifests::yaml;

use super::cli::{self, ManifestsArgs, ReportFormat};
use super::{Operator, versions};
use crate::error::{Error, Result};

/// The largest review that is read.
const REVIEW_BYTES_MAX: u64 = 256 << 20;

/// Writes the manifests, or shows what differs from them.
pub(super) fn manifests(operator: &Operator, args: ManifestsArgs) -> Result<()> {
    let mut model = operator.model()?;
    if let Some(image) = args.image {
        model.image = image;
    }
    if let Some(namespace) = args.namespace {
        model.namespace = namespace;
    }
    if let Err(found) = model.check() {
        return Err(Error::Invalid(found.join("; ")));
    }
    let files = model.files();
    let differences = match args.check {
        true => files.compare(&args.directory)?,
        false => files.write(&args.directory)?,
    };
    say(&match args.output {
        ReportFormat::Json => json(&differences, args.check),
        ReportFormat::Text if args.check => diffs(&differences),
        ReportFormat::Text => differences.iter().map(report).collect(),
    })?;
    match differences.iter().filter(|difference| difference.change != Change::Keep).count() {
        count if args.check && count > 0 => Err(Error::Invalid(format!(
            "{count} {} not what this operator generates; run `{} manifests`",
            if count == 1 { "file is" } else { "files are" },
            model.name
        ))),
        _ => Ok(()),
    }
}

/// What differs, and then which files are not compared.
fn diffs(differences: &[Difference]) -> String {
    let kept = differences.iter().filter(|difference| difference.change == Change::Keep);
    let drifted = differences.iter().filter_map(|difference| diff(&difference.change));
    drifted.map(str::to_owned).chain(kept.map(report)).collect()
}

/// Formats the changes as one line of JSON.
fn json(differences: &[Difference], check: bool) -> String {
    let changes = differences.iter().map(|difference| {
        let mut change = json!({"action": action(&difference.change), "path": difference.path});
        if let Some(diff) = diff(&difference.change) {
            change["diff"] = diff.into();
        }
        change
    });
    let changes: Vec<Value> = changes.collect();
    format!("{}\n", json!({"check": check, "changes": changes}))
}

/// One line about a file that was written.
fn report(difference: &Difference) -> String {
    let (action, path) = (action(&difference.change), &difference.path);
    match difference.change {
        Change::Keep => {
            format!("{action} {path}: its first line does not say that it is generated\n")
        }
        _ => format!("{action} {path}\n"),
    }
}

fn action(change: &Change) -> &'static str {
    match change {
        Change::Create(_) => "created",
        Change::Update(_) => "updated",
        Change::Remove(_) => "removed",
        Change::Keep => "kept",
    }
}

fn diff(change: &Change) -> Option<&str> {
    match change {
        Change::Create(diff) | Change::Update(diff) | Change::Remove(diff) => Some(diff),
        Change::Keep => None,
    }
}

/// Prints the definitions.
pub(super) fn definitions(operator: &Operator) -> Result<()> {
    say(&yaml::documents(&operator.model()?.definitions()))
}

/// Prints the service account, the roles and their bindings.
pub(super) fn access(operator: &Operator) -> Result<()> {
    say(&yaml::documents(&operator.model()?.access_objects()))
}

/// Reads a ConversionReview from standard input and prints the answer.
pub(super) fn convert(operator: &Operator) -> Result<()> {
    operator.model()?;
    let mut review = String::new();
    std::io::stdin().take(REVIEW_BYTES_MAX).read_to_string(&mut review)?;
    say(&versions::answer(&operator.conversions, &review)?)
}

/// Prints the name and the version.
pub(super) fn version(operator: &Operator) -> Result<()> {
    say(&format!("{} {}\n", operator.model.name, operator.model.version))
}

/// Prints a completion script.
pub(super) fn completion(operator: &Operator, shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    let name = operator.model.name.clone();
    clap_complete::generate(shell, &mut cli::command(operator), name, &mut script);
    say(&String::from_utf8_lossy(&script))
}

/// Writes to standard output. A reader that has gone away is not an error.
fn say(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
