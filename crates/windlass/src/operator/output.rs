//! What the subcommands print and write.

use std::io::{Read as _, Write as _};

use clap_complete::Shell;
use windlass_manifests::files::{Change, Difference};
use windlass_manifests::yaml;

use super::cli::{self, ManifestsArgs};
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
    if !args.check {
        let done = files.write(&args.directory)?;
        return say(&done.iter().map(report).collect::<String>());
    }
    let differences = files.compare(&args.directory)?;
    let (kept, drifted): (Vec<_>, Vec<_>) =
        differences.iter().partition(|difference| difference.change == Change::Keep);
    for difference in drifted.iter().chain(&kept) {
        match &difference.change {
            Change::Create(diff) | Change::Update(diff) | Change::Remove(diff) => say(diff)?,
            Change::Keep => say(&report(difference))?,
        }
    }
    match drifted.len() {
        0 => Ok(()),
        count => Err(Error::Invalid(format!(
            "{count} {} not what this operator generates; run `{} manifests`",
            if count == 1 { "file is" } else { "files are" },
            model.name
        ))),
    }
}

/// One line about a file that was written.
fn report(difference: &Difference) -> String {
    let path = &difference.path;
    match difference.change {
        Change::Create(_) => format!("created {path}\n"),
        Change::Update(_) => format!("updated {path}\n"),
        Change::Remove(_) => format!("removed {path}\n"),
        Change::Keep => format!("kept {path}: its first line does not say that it is generated\n"),
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
