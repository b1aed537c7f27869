//! The commands that start an operator and change what it consists of: `init`, `create`, `delete`
//! and `rename`.
//!
//! Each computes all changes first and then makes them together ([`changes`]). Rust files are edited
//! by syntax ([`source`], [`chain`], [`modules`]); the state of a project is read from its source
//! ([`package`]).

mod chain;
mod changes;
mod create;
mod delete;
mod dependencies;
mod hooks;
mod index;
mod init;
mod modules;
mod names;
mod package;
mod prompt;
mod rename;
mod samples;
mod scope;
mod source;
mod subject;
mod targets;
mod template;
#[cfg(test)]
mod tests;
mod webhook;
mod workspace;

use clap::{Args, Subcommand};

pub use init::InitArgs;

use crate::failure::Failure;

#[derive(Subcommand)]
pub enum CreateCommand {
    /// Create a kind with its types, controller, test and sample.
    Api(create::CreateApiArgs),
    /// Create a webhook of a kind.
    Webhook(webhook::CreateWebhookArgs),
}

#[derive(Subcommand)]
pub enum DeleteCommand {
    /// Delete a kind with everything that `create api` and `create webhook` created.
    Api(delete::DeleteApiArgs),
    /// Delete the webhooks of a kind.
    Webhook(delete::DeleteWebhookArgs),
}

#[derive(Subcommand)]
pub enum RenameCommand {
    /// Rename a kind, or move it to another group.
    Api(rename::RenameApiArgs),
}

/// Which kind is meant.
#[derive(Args)]
struct Names {
    /// The group, such as cache; the domain of the project is added.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// The version, such as v1alpha1.
    #[arg(long = "version", value_name = "VERSION")]
    api_version: Option<String>,

    /// The kind, such as Memcached.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

/// A kind that is named completely.
struct Named {
    group: String,
    version: String,
    kind: String,
}

impl Names {
    /// Checks what was given, and asks for what was not.
    fn complete(self) -> Result<Named, Failure> {
        let group = "which group does the kind belong to, such as cache";
        let version = "which version does it have, such as v1alpha1";
        let kind = "what is the kind called, such as Memcached";
        Ok(Named {
            group: prompt::required(self.group, "group", group, names::group)?,
            version: prompt::required(self.api_version, "version", version, names::version)?,
            kind: prompt::required(self.kind, "kind", kind, names::kind)?,
        })
    }
}

/// Runs `windlass init`.
pub fn init(args: InitArgs) -> Result<(), Failure> {
    init::run(args)
}

/// Runs `windlass create`.
pub fn create(command: CreateCommand) -> Result<(), Failure> {
    match command {
        CreateCommand::Api(args) => create::run(args),
        CreateCommand::Webhook(args) => webhook::run(args),
    }
}

/// Runs `windlass delete`.
pub fn delete(command: DeleteCommand) -> Result<(), Failure> {
    match command {
        DeleteCommand::Api(args) => delete::run(args),
        DeleteCommand::Webhook(args) => delete::run_webhook(args),
    }
}

/// Runs `windlass rename`.
pub fn rename(command: RenameCommand) -> Result<(), Failure> {
    match command {
        RenameCommand::Api(args) => rename::run(args),
    }
}
