//! Reconciles of windlass controllers as OpenTelemetry spans.
//!
//! windlass describes what it does with `tracing`, and knows nothing of OpenTelemetry. [`layer`] is a
//! layer of a `tracing` subscriber that exports the part of it that makes a trace:
//!
//! - a span `reconcile` for each reconcile, with the attributes `controller`, `controllerKind`,
//!   `namespace`, `name`, `reconcileID` and `causes`, the changes and errors that led to it;
//! - the spans that the author's code opens within it;
//! - an event `Sending request` for each request to the API server, with the verb and the object in
//!   the attribute `request`, and an event for each line that is logged;
//! - an error as the status of a reconcile that failed.
//!
//! Nothing is exported unless the program of the operator asks for it, by such a layer and an
//! exporter of its choice, for example that of the crate `opentelemetry-otlp`.
//!
//! A program with a subscriber of its own filters its log itself: the levels of a settings file and
//! of the annotation `windlass.dev/log-level` apply to the log of `windlass::log::init`.
//!
//! # Examples
//!
//! ```
//! use opentelemetry::trace::TracerProvider;
//! use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! // In the main function of an operator, with the exporter of your collector.
//! let exporter = InMemorySpanExporter::default();
//! let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
//! let subscriber = tracing_subscriber::Registry::default()
//!     .with(windlass::log::json(std::io::stderr))
//!     .with(windlass_otel::layer(provider.tracer("shop-operator")));
//! // `subscriber.init()` makes it that of the process, before the operator runs.
//! # drop(subscriber);
//! // Spans that wait are sent before the process ends.
//! provider.shutdown()?;
//! # Ok::<(), opentelemetry_sdk::error::OTelSdkError>(())
//! ```

use opentelemetry::trace::Tracer;
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::registry::LookupSpan;

/// Returns a layer that exports reconciles, and what happens within them, to a tracer.
///
/// Levels down to `debug` are exported, whatever the log shows. Other layers of the subscriber keep
/// their own filters; one that is set for the whole subscriber applies to this layer as well.
pub fn layer<S, T>(tracer: T) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    T: Tracer<Span: Send + Sync> + Send + Sync + 'static,
{
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(FilterFn::new(is_exported).with_max_level_hint(LevelFilter::DEBUG))
}

/// Returns `true` for everything but the inner life of the HTTP stack.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    const QUIET: [&str; 5] = ["h2", "hyper", "hyper_util", "rustls", "tower"];
    let root = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= LevelFilter::DEBUG && !QUIET.contains(&root)
}
