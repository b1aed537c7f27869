//! `windlass generate types`: Rust types from existing CustomResourceDefinitions.
//!
//! `definition` reads a definition and decides what its kinds consist of, `schema` makes types of
//! schemas, `rules` makes attributes of their keywords, and `item` prints the result. What the
//! attributes cannot say is reported (`Lost`), so that no difference is silent.
//!
//! `kopium` makes types for `kube-derive`, without validation, defaults, list types and rules, so
//! that no equal definition can be made of them. The types made here say everything that the definition says.

use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::failure::Failure;
use crate::manifest_files;
use crate::text::plain;

mod definition;
mod doc;
mod item;
mod known;
mod name;
mod rules;
mod schema;
#[cfg(test)]
mod tests;

/// The most bytes that are read from standard input.
const INPUT_BYTES_MAX: u64 = 64 << 20;
/// How many differences are printed.
const LOST_SHOWN: usize = 100;

/// Generate Rust code.
#[derive(Subcommand)]
pub enum GenerateCommand {
    /// Print Rust types for the kinds of existing CustomResourceDefinitions.
    ///
    /// What the types cannot express is listed on standard error.
    Types(TypesArgs),
}

#[derive(Args)]
pub struct TypesArgs {
    /// A file or a directory with CustomResourceDefinitions in YAML or JSON; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: String,
}

/// What the types say differently from the definition.
#[derive(Default)]
pub struct Lost {
    /// One line each: the version and the path of the field, and what is different.
    pub lines: Vec<String>,
}

/// Rust code, and how a definition made of it differs.
pub struct Generated {
    pub code: String,
    pub lost: Lost,
}

/// Runs the command.
///
/// # Errors
/// Fails with status 2 if the input cannot be read or has no definitions.
pub fn run(command: GenerateCommand) -> Result<(), Failure> {
    let GenerateCommand::Types(args) = command;
    let documents = read(&args.file)?;
    let generated = types(&documents, &args.file)?;
    for line in generated.lost.lines.iter().take(LOST_SHOWN) {
        note!("windlass: not kept: {}", plain(line));
    }
    if let Some(more) = generated.lost.lines.len().checked_sub(LOST_SHOWN).filter(|more| *more > 0)
    {
        note!("windlass: and {more} more differences");
    }
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(generated.code.as_bytes());
    Ok(())
}

fn read(file: &str) -> Result<Vec<Value>, Failure> {
    if file != "-" {
        return manifest_files::read(Path::new(file));
    }
    let mut text = String::new();
    let read = std::io::stdin().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "standard input has more than {INPUT_BYTES_MAX} bytes"
        )));
    }
    let mut found = Vec::new();
    manifest_files::parse(&text, "standard input", &mut found)?;
    Ok(found)
}

/// Generates types for all definitions among the documents.
fn types(documents: &[Value], shown: &str) -> Result<Generated, Failure> {
    let is_definition = |value: &&Value| value["kind"] == "CustomResourceDefinition";
    let mut definitions = Vec::new();
    for document in documents.iter().filter(is_definition) {
        let name =
            plain(document["metadata"]["name"].as_str().unwrap_or("a definition without a name"));
        if document["apiVersion"] != "apiextensions.k8s.io/v1" {
            return Err(Failure::usage(format!(
                "{shown}: {name} is not of version apiextensions.k8s.io/v1"
            )));
        }
        let typed = serde_json::from_value::<CustomResourceDefinition>(document.clone());
        let typed = typed.map_err(|error| {
            Failure::usage(format!("{shown}: {name} is not a CustomResourceDefinition: {error}"))
        })?;
        definitions.push(windlass_manifests::crd::to_value(&typed));
    }
    if definitions.is_empty() {
        return Err(Failure::usage(format!("{shown} has no CustomResourceDefinition")));
    }
    let mut lost = Lost::default();
    let body = definition::all(&definitions, &mut lost)
        .map_err(|why| Failure::usage(format!("{shown}: {why}")))?;
    let code = format!("{HEADER}{body}");
    syn::parse_file(&code).map_err(|error| {
        Failure::other(format!("{shown}: the types are not valid Rust, {error}; please report it"))
    })?;
    Ok(Generated { code, lost })
}

const HEADER: &str = "\
//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]
";

// === impl Lost ===

impl Lost {
    /// Records a difference.
    pub fn add(&mut self, path: &str, what: impl std::fmt::Display) {
        self.lines.push(format!("{path}: {what}"));
    }
}
