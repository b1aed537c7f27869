//! The series of one webhook.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

use super::families::{CodeLabels, Families, WebhookLabels};

/// The series of one webhook; the label is its path.
#[derive(Debug, Clone)]
pub(crate) struct WebhookMetrics {
    families: Arc<Families>,
    path: String,
}

/// A call that runs; it has ended when this is dropped.
pub(crate) struct RunningCall(Gauge);

// === impl WebhookMetrics ===

impl WebhookMetrics {
    pub(super) fn new(families: &Arc<Families>, path: &str) -> Self {
        let new = Self { families: families.clone(), path: path.into() };
        for code in [200, 500] {
            drop(families.webhook_requests.get_or_create(&new.code(code)));
        }
        drop(families.webhook_time.get_or_create(&new.labels()));
        drop(families.webhook_running.get_or_create(&new.labels()));
        new
    }

    /// Counts a call as running.
    pub(crate) fn begin(&self) -> RunningCall {
        let running = self.families.webhook_running.get_or_create_owned(&self.labels());
        running.inc();
        RunningCall(running)
    }

    /// Counts a call that was answered with an HTTP status.
    pub(crate) fn end(&self, code: u16, took: Duration) {
        self.families.webhook_requests.get_or_create(&self.code(code)).inc();
        self.families.webhook_time.get_or_create(&self.labels()).observe(took.as_secs_f64());
    }

    fn labels(&self) -> WebhookLabels {
        WebhookLabels { webhook: self.path.clone() }
    }

    fn code(&self, code: u16) -> CodeLabels {
        CodeLabels { webhook: self.path.clone(), code: code.to_string() }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}
