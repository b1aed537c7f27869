//! The filter of the log: directives that can be replaced, and levels of single objects.
//!
//! A reconcile of an object with a log level of its own has that level in the field `logLevel` of its
//! span. Everything within such a span is logged from that level on, whatever the directives say.
//!
//! **Invariant:** as long as no object has a level of its own, the filter costs what its directives
//! cost.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

#[cfg(any(test, feature = "operator"))]
use crate::error::{Error, Result};

/// What `kube_client` logs is retried and reported by this crate itself.
const NEVER: &str = "kube_client";

/// The highest level that an object of this process has had, as a number; 0 if none has had any.
static RAISED: AtomicU8 = AtomicU8::new(0);
/// The directives of all filters of this process.
static FILTERS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// A filter of this process, and its directives at the start.
struct Known {
    directives: Weak<ArcSwap<EnvFilter>>,
    #[cfg_attr(not(feature = "operator"), expect(dead_code, reason = "for settings from a file"))]
    first: String,
}

/// Decides what is logged.
pub(crate) struct Filter(Arc<ArcSwap<EnvFilter>>);

/// The level of the object whose reconcile a span is.
struct ObjectLevel(u8);

/// Allows single objects to be logged from a level on.
pub(crate) fn raise(level: Level) {
    if RAISED.fetch_max(number(level), Ordering::Relaxed) < number(level) {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Replaces the directives of all filters of this process, or returns to those of the start.
///
/// # Errors
///
/// Fails if they are not valid; then nothing changes.
#[cfg(feature = "operator")]
pub(crate) fn replace(directives: Option<&str>) -> Result<()> {
    directives.map(parse).transpose()?;
    let mut filters = FILTERS.lock();
    filters.retain(|known| known.directives.strong_count() > 0);
    for known in filters.iter() {
        let Some(filter) = known.directives.upgrade() else { continue };
        let wanted = parse(directives.unwrap_or(&known.first))?;
        if filter.load().to_string() != wanted.to_string() {
            filter.store(Arc::new(wanted));
        }
    }
    drop(filters);
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

/// Reads directives such as `info,windlass=debug`.
#[cfg(any(test, feature = "operator"))]
pub(crate) fn parse(directives: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(directives).map_err(|error| {
        Error::Invalid(format!("the log filter {directives:?} is not valid: {error}"))
    })
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Returns `true` if an object of this process may have such a level of its own.
fn may_be_raised(meta: &Metadata<'_>) -> bool {
    number(*meta.level()) <= RAISED.load(Ordering::Relaxed) && !meta.target().starts_with(NEVER)
}

// === impl Filter ===

impl Filter {
    pub(crate) fn new(directives: EnvFilter) -> Self {
        let first = directives.to_string();
        let filter = Arc::new(ArcSwap::from_pointee(directives));
        let mut filters = FILTERS.lock();
        filters.retain(|known| known.directives.strong_count() > 0);
        filters.push(Known { directives: Arc::downgrade(&filter), first });
        Self(filter)
    }
}

impl<S> Layer<S> for Filter
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, meta: &'static Metadata<'static>) -> Interest {
        let interest = Layer::<S>::register_callsite(&**self.0.load(), meta);
        match interest.is_never() && may_be_raised(meta) {
            true => Interest::sometimes(),
            false => interest,
        }
    }

    fn enabled(&self, meta: &Metadata<'_>, cx: Context<'_, S>) -> bool {
        Layer::<S>::enabled(&**self.0.load(), meta, cx.clone())
            || may_be_raised(meta) && (is_reconcile(meta) || is_raised(meta, &cx))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let hint = Layer::<S>::max_level_hint(&**self.0.load())?;
        let raised = match RAISED.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        Some(hint.max(raised))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        if is_reconcile(attributes.metadata()) {
            let mut found = Found(None);
            attributes.record(&mut found);
            if let (Some(level), Some(span)) = (found.0, cx.span(id)) {
                span.extensions_mut().insert(ObjectLevel(level));
            }
        }
        Layer::<S>::on_new_span(&**self.0.load(), attributes, id, cx);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        Layer::<S>::on_record(&**self.0.load(), id, values, cx);
    }

    fn on_enter(&self, id: &Id, cx: Context<'_, S>) {
        Layer::<S>::on_enter(&**self.0.load(), id, cx);
    }

    fn on_exit(&self, id: &Id, cx: Context<'_, S>) {
        Layer::<S>::on_exit(&**self.0.load(), id, cx);
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        Layer::<S>::on_close(&**self.0.load(), id, cx);
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.0.load().to_string()).finish()
    }
}

/// Returns `true` for the span of a reconcile.
fn is_reconcile(meta: &Metadata<'_>) -> bool {
    meta.is_span() && meta.name() == "reconcile" && meta.fields().field("logLevel").is_some()
}

/// Returns `true` within a reconcile of an object that is logged from this level on.
fn is_raised<S>(meta: &Metadata<'_>, cx: &Context<'_, S>) -> bool
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    cx.lookup_current().is_some_and(|span| {
        span.scope().any(|span| {
            let level = span.extensions().get::<ObjectLevel>().map(|level| level.0);
            level.is_some_and(|level| number(*meta.level()) <= level)
        })
    })
}

/// Finds the field `logLevel`.
struct Found(Option<u8>);

impl Visit for Found {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "logLevel" {
            self.0 = value.parse().ok().map(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Counts what passes.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            struct Text(String);
            impl Visit for Text {
                fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                    if field.name() == "message" {
                        self.0 = format!("{value:?}");
                    }
                }
            }
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.lock().push(text.0);
        }
    }

    #[test]
    fn an_object_is_logged_from_its_level_on_and_the_directives_can_be_replaced() {
        let (lines, filter) = (Lines::default(), Filter::new(EnvFilter::new("warn")));
        let subscriber = Registry::default().with(filter).with(lines.clone());
        tracing::subscriber::with_default(subscriber, || {
            let reconcile = |level: Option<&'static str>, what: &str| {
                tracing::info_span!("reconcile", logLevel = level).in_scope(|| {
                    tracing::info_span!("step").in_scope(|| {
                        tracing::warn!("warn {what}");
                        tracing::debug!("debug {what}");
                        tracing::trace!("trace {what}");
                        tracing::error!(target: "kube_client::client", "error {what}");
                    });
                });
            };
            reconcile(None, "a");
            raise(Level::DEBUG);
            reconcile(Some("DEBUG"), "b");
            reconcile(None, "c");
            tracing::debug!("debug outside");
            replace(Some("debug,kube_client=off")).expect("valid");
            reconcile(None, "d");
            replace(Some("debug,=")).expect_err("not valid");
            replace(None).expect("as at the start");
            reconcile(None, "e");
        });
        assert_eq!(
            *lines.0.lock(),
            [
                "warn a", "error a", "warn b", "debug b", "error b", "warn c", "error c", "warn d",
                "debug d", "warn e", "error e",
            ]
        );
    }

    #[test]
    fn directives_that_are_not_valid_are_named() {
        let error = parse("info,windlass=loud").expect_err("not valid").to_string();
        assert!(
            error.starts_with("the log filter \"info,windlass=loud\" is not valid: "),
            "{error}"
        );
    }
}
