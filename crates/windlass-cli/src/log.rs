//! The log of the command: lines of text on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// What is logged if neither `--log` nor `RUST_LOG` says something else.
const DEFAULT: &str = "warn";

/// Starts to log what `--log` asks for; without it `RUST_LOG`, and warnings without either.
pub fn init(asked: Option<&str>) -> Result<(), Failure> {
    let environment = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let (source, filter) = match (asked, &environment) {
        (Some(asked), _) => ("--log", asked),
        (None, Some(filter)) => ("RUST_LOG", filter.as_str()),
        (None, None) => ("", DEFAULT),
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::usage(format!(
            "{source} takes a level (error, warn, info, debug, trace) or directives such as \
             windlass_apiserver=debug: {error}"
        ))
    })?;
    let colored = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colored)
        .finish();
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| Failure::other(format!("cannot start to log: {error}")))
}
