//! Metrics, which are disabled: the feature `metrics` enables them.

use std::time::Duration;

use crate::cache::WatchReport;
use crate::kind::Kind;
use crate::queue::QueueStats;

/// The metrics of a manager, which are empty without the feature `metrics`.
#[derive(Debug, Clone)]
pub(crate) struct Metrics(());

/// A text format of the metrics endpoint.
#[cfg(feature = "serve")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format(());

/// The series of one controller.
#[derive(Debug, Clone)]
pub(crate) struct ControllerMetrics(());

/// The series of one webhook.
#[cfg(feature = "webhook")]
#[derive(Debug, Clone)]
pub(crate) struct WebhookMetrics(());

/// The figures of the event handlers of one controller.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "read by the metrics only")]
pub(crate) struct HandlerFigures {
    pub(crate) panics: u64,
    pub(crate) lag: u64,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    Success,
    Error,
    Terminal,
    RequeueAfter,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// Returns an empty text.
    pub(crate) fn encode(&self) -> String {
        String::new()
    }

    #[cfg(feature = "serve")]
    pub(crate) fn encode_as(&self, _format: Format) -> String {
        String::new()
    }

    pub(crate) fn controller(&self, _name: &str, _workers: usize) -> ControllerMetrics {
        ControllerMetrics(())
    }

    pub(crate) fn queue(
        &self,
        _name: &str,
        _stats: impl Fn() -> QueueStats + Send + Sync + 'static,
    ) {
    }

    pub(crate) fn watches(
        &self,
        _cluster: &str,
        _read: impl Fn() -> Vec<WatchReport> + Send + Sync + 'static,
    ) {
    }

    pub(crate) fn handlers(
        &self,
        _controller: &str,
        _read: impl Fn() -> Option<HandlerFigures> + Send + Sync + 'static,
    ) {
    }

    pub(crate) fn undecodable(&self, _kind: &Kind) {}

    pub(crate) fn clock_jumped(&self, _direction: &'static str) {}

    #[cfg(feature = "tls")]
    pub(crate) fn certificate_read(&self, _good: bool) {}

    #[cfg(feature = "webhook")]
    pub(crate) fn webhook(&self, _path: &str) -> WebhookMetrics {
        WebhookMetrics(())
    }

    #[cfg(feature = "webhook")]
    pub(crate) fn webhook_panicked(&self) {}

    #[cfg(feature = "webhook")]
    pub(crate) fn conversion_panicked(&self) {}

    pub(crate) fn request(&self, _method: &str, _host: &str, _code: Option<u16>, _took: Duration) {}

    pub(crate) fn leader(&self, _name: &str, _held: bool) {}

    pub(crate) fn event_dropped(&self, _reason: &'static str) {}
}

// === impl Format ===

#[cfg(feature = "serve")]
impl Format {
    pub(crate) fn accepted(_header: Option<&str>) -> Self {
        Self(())
    }

    pub(crate) fn content_type(self) -> &'static str {
        "text/plain; version=0.0.4; charset=utf-8"
    }
}

// === impl WebhookMetrics ===

#[cfg(feature = "webhook")]
impl WebhookMetrics {
    pub(crate) fn begin(&self) {}

    pub(crate) fn end(&self, _code: u16, _took: Duration) {}
}

// === impl ControllerMetrics ===

impl ControllerMetrics {
    #[cfg(feature = "operator")]
    pub(crate) fn set_workers(&self, _workers: usize) {}

    pub(crate) fn started(&self) {}

    pub(crate) fn abandoned(&self) {}

    pub(crate) fn ended(&self, _outcome: Outcome, _took: Duration) {}

    pub(crate) fn conflicted(&self) {}

    pub(crate) fn looped(&self) {}

    pub(crate) fn panicked(&self) {}

    pub(crate) fn timed_out(&self) {}

    pub(crate) fn outcomes(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}
