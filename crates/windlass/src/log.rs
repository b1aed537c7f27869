//! Structured logs: readable on a terminal, one JSON object per line otherwise.
//!
//! Keys are those of controller-runtime: `level`, `ts`, `logger`, `msg`, `error`, and within a
//! reconcile `controller`, `controllerGroup`, `controllerKind`, `namespace`, `name`, `reconcileID`;
//! all at the top level of the JSON object, so that existing queries find them. Bodies of objects
//! and Secrets are never logged.

mod json;

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt};

pub use json::JsonLines;

/// How lines look.
///
/// # Examples
///
/// ```
/// use windlass::log::{Format, init_with};
/// // As a command line flag may ask for it; `init` looks at where stderr goes.
/// let json = std::env::args().any(|arg| arg == "--json");
/// let format = if json { Format::Json } else { Format::Text };
/// assert!(init_with(format, "info"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Sends the log of the process to stderr, in the format that fits; `RUST_LOG` filters.
///
/// Tells whether this call did it: a subscriber that is already there stays.
///
/// # Examples
///
/// ```
/// assert!(windlass::log::init());
/// tracing::info!(size = 3, "the operator starts");
/// assert!(!windlass::log::init(), "there is one already");
/// ```
pub fn init() -> bool {
    let format = if std::io::stderr().is_terminal() { Format::Text } else { Format::Json };
    init_with(format, "info")
}

/// Does the same where nobody did, so that no operator is silent.
pub(crate) fn ensure() {
    if !tracing::dispatcher::has_been_set() {
        init();
    }
}

/// The same with a given format and a filter for when `RUST_LOG` is not set.
///
/// # Examples
///
/// ```
/// use windlass::log::{Format, init_with};
/// assert!(init_with(Format::Json, "info,windlass=debug"));
/// ```
pub fn init_with(format: Format, filter: &str) -> bool {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let registry = Registry::default().with(filter);
    match format {
        Format::Text => registry.with(fmt::layer().with_writer(std::io::stderr)).try_init().is_ok(),
        Format::Json => registry.with(JsonLines::new(std::io::stderr)).try_init().is_ok(),
    }
}
