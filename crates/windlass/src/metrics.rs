//! Metrics under the names, labels and buckets that controller-runtime dashboards use.
//!
//! Every manager has its own metrics, which [`Handle::metrics`](crate::manager::Handle::metrics)
//! returns and `/metrics` serves; there is no process-wide registry, so tests and several
//! managers in one process do not affect each other. All series of a controller exist with the
//! value zero once the controller is built, so that an alert on a rate does not miss the first
//! failure.
//!
//! Metrics that controller-runtime does not have begin with `windlass_`. Those of a controller are:
//!
//! | series | counts |
//! |---|---|
//! | `windlass_reconcile_conflicts_total` | reconciles that ended with a conflict |
//! | `windlass_update_loops_total` | objects that it writes [again and again](crate::controller) |
//!
//! `controller_runtime_reconcile_errors_total` counts every error that a reconcile ended with, as in
//! controller-runtime, including errors that are not retried. Unlike there, a conflict is no error
//! until the same key has had more than ten in a row.
//!
//! The label `host` of `rest_client_requests_total` and of the request durations is the name of the
//! cluster. For the home cluster it is the address of the server if an `Operator` connects, and
//! `kubernetes` otherwise, because a `kube::Client` does not reveal its server.
//!
//! An operator adds its own metrics with
//! [`Manager::register_metrics`](crate::Manager::register_metrics).
//!
//! **Invariant:** names and labels are a contract; only additions are allowed.

mod controller;
mod exposition;
mod families;
mod process;
mod queues;
mod watches;
#[cfg(feature = "webhook")]
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::cache::WatchReport;
use crate::kind::Kind;
use crate::queue::QueueStats;

pub(crate) use controller::{ControllerMetrics, Outcome};
pub(crate) use exposition::Format;
pub(crate) use watches::HandlerFigures;
#[cfg(feature = "webhook")]
pub(crate) use webhooks::WebhookMetrics;

use families::{
    DirectionLabels, Families, KindLabels, NameLabels, ReasonLabels, RequestLabels, VerbLabels,
};
use process::Process;
use queues::Queues;
use watches::Watches;

/// All metrics of one manager; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Arc<RwLock<Registry>>,
    families: Arc<Families>,
    queues: Arc<Queues>,
    watches: Arc<Watches>,
}

// === impl Metrics ===

impl Metrics {
    /// Creates a registry with all families of this crate.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        let queues = Arc::new(Queues::default());
        registry.register_collector(Box::new(queues.clone()));
        let watches = Arc::new(Watches::default());
        registry.register_collector(Box::new(watches.clone()));
        registry.register_collector(Box::new(Process));
        let registry = Arc::new(RwLock::new(registry));
        Self { registry, families: Arc::new(families), queues, watches }
    }

    /// Returns all metrics in the text format of Prometheus.
    pub(crate) fn encode(&self) -> String {
        self.encode_as(Format::Prometheus)
    }

    /// Returns all metrics in `format`.
    pub(crate) fn encode_as(&self, format: Format) -> String {
        let mut text = String::with_capacity(16 * 1024);
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry.read());
        exposition::finish(text, format)
    }

    /// Lets the author add metrics.
    pub(crate) fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.write());
    }

    /// The series of one controller, all created with the value zero.
    pub(crate) fn controller(&self, name: &str, workers: usize) -> ControllerMetrics {
        ControllerMetrics::new(&self.families, name, workers)
    }

    /// Exposes a queue under `name`; its figures are read at scrape time.
    pub(crate) fn queue(&self, name: &str, stats: impl Fn() -> QueueStats + Send + Sync + 'static) {
        self.queues.add(name, Box::new(stats));
    }

    /// Exposes the watches of a cluster; their figures are read at scrape time.
    pub(crate) fn watches(
        &self,
        cluster: &str,
        read: impl Fn() -> Vec<WatchReport> + Send + Sync + 'static,
    ) {
        self.watches.add(cluster, Box::new(read));
    }

    /// Exposes the event handlers of a controller, as long as it has any.
    pub(crate) fn handlers(
        &self,
        controller: &str,
        read: impl Fn() -> Option<HandlerFigures> + Send + Sync + 'static,
    ) {
        self.watches.add_handlers(controller, Box::new(read));
    }

    /// Counts an object of a live list that could not be decoded into its Rust type.
    pub(crate) fn undecodable(&self, kind: &Kind) {
        let labels = KindLabels { kind: kind.to_string() };
        self.families.undecodable.get_or_create(&labels).inc();
    }

    /// Counts a jump of the wall clock, `ahead` or `back`.
    pub(crate) fn clock_jumped(&self, direction: &'static str) {
        self.families.clock_jumps.get_or_create(&DirectionLabels { direction }).inc();
    }

    /// Counts a read of a certificate, and whether it failed.
    #[cfg(feature = "tls")]
    pub(crate) fn certificate_read(&self, good: bool) {
        self.families.certificates_read.inc();
        if !good {
            self.families.certificate_errors.inc();
        }
    }

    /// The series of one webhook, all created with the value zero.
    #[cfg(feature = "webhook")]
    pub(crate) fn webhook(&self, path: &str) -> WebhookMetrics {
        WebhookMetrics::new(&self.families, path)
    }

    /// Counts a panic of an admission webhook.
    #[cfg(feature = "webhook")]
    pub(crate) fn webhook_panicked(&self) {
        self.families.webhook_panics.inc();
    }

    /// Counts a panic of a conversion.
    #[cfg(feature = "webhook")]
    pub(crate) fn conversion_panicked(&self) {
        self.families.conversion_panics.inc();
    }

    /// Counts a request to the API server.
    pub(crate) fn request(&self, method: &str, host: &str, code: Option<u16>, took: Duration) {
        let code = code.map_or_else(|| "<error>".to_string(), |code| code.to_string());
        let labels = RequestLabels { code, method: method.into(), host: host.into() };
        self.families.requests.get_or_create(&labels).inc();
        let labels = VerbLabels { verb: method.into(), host: host.into() };
        self.families.request_time.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Records whether this process holds the lease `name`.
    pub(crate) fn leader(&self, name: &str, held: bool) {
        let labels = NameLabels { name: name.into() };
        self.families.master.get_or_create(&labels).set(i64::from(held));
    }

    /// Counts an event that could not be published; its text is in the log.
    pub(crate) fn event_dropped(&self, reason: &'static str) {
        self.families.events_dropped.get_or_create(&ReasonLabels { reason }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_of_a_controller_starts_at_zero() {
        let metrics = Metrics::new();
        metrics.controller("web", 3);
        metrics.queue("web", QueueStats::default);
        let text = metrics.encode();
        for line in [
            r#"controller_runtime_reconcile_total{controller="web",result="success"} 0"#,
            r#"controller_runtime_reconcile_total{controller="web",result="error"} 0"#,
            r#"controller_runtime_reconcile_total{controller="web",result="requeue"} 0"#,
            r#"controller_runtime_reconcile_total{controller="web",result="requeue_after"} 0"#,
            r#"controller_runtime_reconcile_errors_total{controller="web"} 0"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="web"} 0"#,
            r#"controller_runtime_reconcile_panics_total{controller="web"} 0"#,
            r#"windlass_reconcile_conflicts_total{controller="web"} 0"#,
            r#"windlass_update_loops_total{controller="web"} 0"#,
            r#"controller_runtime_reconcile_timeouts_total{controller="web"} 0"#,
            r#"controller_runtime_max_concurrent_reconciles{controller="web"} 3"#,
            r#"controller_runtime_active_workers{controller="web"} 0"#,
            r#"workqueue_adds_total{name="web",controller="web"} 0"#,
            r#"workqueue_retries_total{name="web",controller="web"} 0"#,
        ] {
            assert!(text.contains(line), "missing {line} in\n{text}");
        }
    }

    #[test]
    fn terminal_errors_count_as_errors_too() {
        let metrics = Metrics::new();
        let series = metrics.controller("web", 1);
        series.started();
        series.ended(Outcome::Terminal, Duration::from_millis(7));
        let text = metrics.encode();
        for line in [
            r#"controller_runtime_reconcile_total{controller="web",result="error"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="web"} 1"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="web"} 1"#,
            r#"controller_runtime_reconcile_time_seconds_bucket{le="0.005",controller="web"} 0"#,
            r#"controller_runtime_reconcile_time_seconds_bucket{le="0.01",controller="web"} 1"#,
        ] {
            assert!(text.contains(line), "missing {line} in\n{text}");
        }
    }
}
