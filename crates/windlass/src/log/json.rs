//! One JSON object per log event, with the fields of its spans.

use std::fmt;
use std::io::Write;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::clock::Clock;

/// A `tracing` layer that writes every log event as a line of JSON with flat keys.
#[derive(Debug, Clone)]
pub(super) struct JsonLines<W> {
    writer: W,
    clock: Clock,
}

/// The fields of a span.
struct Fields(Map<String, Value>);

// === impl JsonLines ===

impl<W> JsonLines<W> {
    /// Creates a layer that writes lines to `writer`, with the times of `clock`.
    pub(super) fn new(writer: W, clock: Clock) -> Self {
        Self { writer, clock }
    }
}

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = cx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        if let Some(span) = cx.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let meta = event.metadata();
        let level = match *meta.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let mut line = Fields(Map::new());
        for span in cx.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.0.extend(fields.0.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        event.record(&mut line);
        if let Some(message) = line.0.remove("message") {
            line.0.insert("msg".into(), message);
        }
        if let Some((kind, object)) = reconciled(&line.0) {
            line.0.entry(kind).or_insert(object);
        }
        line.0.insert("level".into(), level.into());
        line.0.insert("logger".into(), meta.target().into());
        line.0.insert("ts".into(), self.clock.now().to_string().into());
        let mut text = Value::Object(line.0).to_string();
        text.push('\n');
        // There is nowhere else to report an error.
        let _ = self.writer.make_writer_for(meta).write_all(text.as_bytes());
    }
}

/// Returns the reconciled object under the name of its kind, as controller-runtime logs it.
fn reconciled(line: &Map<String, Value>) -> Option<(String, Value)> {
    let kind = line.get("controllerKind")?.as_str().filter(|kind| !kind.is_empty())?;
    let name = line.get("name")?.clone();
    let mut object = Map::from_iter([("name".to_string(), name)]);
    if let Some(namespace) = line.get("namespace").filter(|ns| ns.as_str() != Some("")) {
        object.insert("namespace".into(), namespace.clone());
    }
    Some((kind.to_string(), Value::Object(object)))
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }
}
