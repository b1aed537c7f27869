//! Structured logs: readable on a terminal, one JSON object per line otherwise.
//!
//! The keys are those of controller-runtime: `level`, `ts`, `logger`, `msg`, `error`, and within a
//! reconcile `controller`, `controllerGroup`, `controllerKind`, `namespace`, `name`, `reconcileID`.
//! All of them are at the top level of the JSON object, so that existing queries work. The content
//! of objects is never logged.
//!
//! The annotation `windlass.dev/log-level` on an object changes the level of its reconciles alone,
//! in the log of [`init`] and of an [`Operator`](crate::Operator).

mod filter;
mod json;

use std::io::IsTerminal;

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

pub(crate) use filter::raise;
#[cfg(feature = "operator")]
pub(crate) use filter::{parse, replace};

use filter::Filter;
use json::JsonLines;

use crate::clock::Clock;

/// The filter if `RUST_LOG` is not set. `kube_client` logs as an error what this crate retries and
/// reports itself.
const FILTER: &str = "info,kube_client=off";

/// Sends the log of the process to stderr: as text if that is a terminal, as JSON otherwise.
///
/// `RUST_LOG` sets the filter; by default everything from level `info` on is logged, except for the
/// lines of `kube_client`. Returns `false` and does nothing if the process has a subscriber
/// already. Use [`json`] to build another one.
///
/// # Examples
///
/// ```
/// assert!(windlass::log::init());
/// tracing::info!(size = 3, "starting the operator");
/// assert!(!windlass::log::init(), "there is one already");
/// ```
pub fn init() -> bool {
    start(None, None, &Clock::default())
}

/// Starts the log with a filter and a format, if they are given, and the times of this clock.
pub(crate) fn start(filter: Option<EnvFilter>, json: Option<bool>, clock: &Clock) -> bool {
    let default = || EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let filter = filter.unwrap_or_else(default);
    let terminal = std::io::stderr().is_terminal();
    let layer = match json.unwrap_or(!terminal) {
        true => JsonLines::new(std::io::stderr, clock.clone()).boxed(),
        false => {
            let colors = terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
            fmt::layer().with_writer(std::io::stderr).with_ansi(colors).boxed()
        }
    };
    Registry::default().with(Filter::new(filter)).with(layer).try_init().is_ok()
}

/// Returns a `tracing` layer that writes every log event to `writer` as a line of JSON.
///
/// For a subscriber of your own, next to other layers; [`init`] uses it otherwise.
///
/// # Examples
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let layer = windlass::log::json(std::io::stderr);
/// let subscriber = tracing_subscriber::Registry::default().with(layer);
/// tracing::subscriber::with_default(subscriber, || {
///     tracing::info!(controller = "maps", "Starting workers");
/// });
/// ```
pub fn json<S, W>(writer: W) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    JsonLines::new(writer, Clock::default())
}

/// Sends the log to stderr if the process has no subscriber, so that no operator runs without a log.
pub(crate) fn ensure(clock: &Clock) {
    if !tracing::dispatcher::has_been_set() {
        start(None, None, clock);
    }
}
