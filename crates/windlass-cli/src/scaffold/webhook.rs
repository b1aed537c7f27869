//! `windlass create webhook`: not available yet.

use clap::Args;

use super::Names;
use crate::failure::Failure;

#[derive(Args)]
pub struct CreateWebhookArgs {
    #[command(flatten)]
    names: Names,

    /// Fill in defaults.
    #[arg(long)]
    defaulting: bool,

    /// Check objects with code.
    #[arg(long)]
    programmatic_validation: bool,

    /// Convert between versions.
    #[arg(long)]
    conversion: bool,
}

/// Creates a webhook.
pub fn run(args: CreateWebhookArgs) -> Result<(), Failure> {
    let named = args.names.complete()?;
    if !args.defaulting && !args.programmatic_validation && !args.conversion {
        return Err(Failure::usage(
            "give --defaulting, --programmatic-validation or --conversion: what the webhook does",
        ));
    }
    Err(Failure::usage(format!(
        "webhooks cannot be created yet; rules for {} that need no webhook are attributes of its \
         types: #[k8s(default = ..)] and #[k8s(cel(..))]",
        named.kind
    )))
}
