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
        "webhooks cannot be created by this command yet; write one with windlass::webhook::Webhook \
         for {}, and add it to the operator expression with .webhook(..)",
        named.kind
    )))
}
