//! The metric families and their labels.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// Buckets of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];
/// Buckets of the request durations.
const REST_BUCKETS: [f64; 12] =
    [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Buckets of `controller_runtime_webhook_latency_seconds`.
const WEBHOOK_BUCKETS: [f64; 12] =
    [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// `{controller}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ControllerLabels {
    pub(super) controller: String,
}

/// `{controller, result}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) controller: String,
    pub(super) result: &'static str,
}

/// `{code, method, host}`; the code is `<error>` if there was no response.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) code: String,
    pub(super) method: String,
    pub(super) host: String,
}

/// `{verb, host}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct VerbLabels {
    pub(super) verb: String,
    pub(super) host: String,
}

/// `{name}` of a lease.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct NameLabels {
    pub(super) name: String,
}

/// `{reason}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    pub(super) reason: &'static str,
}

/// `{direction}`, which is `ahead` or `back`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct DirectionLabels {
    pub(super) direction: &'static str,
}

/// `{kind}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct KindLabels {
    pub(super) kind: String,
}

/// `{webhook}`, which is a path.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    pub(super) webhook: String,
}

/// `{webhook, code}`; the code is that of HTTP, so a denied request counts as 200.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct CodeLabels {
    pub(super) webhook: String,
    pub(super) code: String,
}

#[derive(Debug)]
#[cfg_attr(not(feature = "webhook"), allow(dead_code, reason = "no webhooks are counted"))]
pub(super) struct Families {
    pub(super) reconcile_total: Family<ResultLabels, Counter>,
    pub(super) reconcile_errors: Family<ControllerLabels, Counter>,
    pub(super) terminal_errors: Family<ControllerLabels, Counter>,
    pub(super) conflicts: Family<ControllerLabels, Counter>,
    pub(super) update_loops: Family<ControllerLabels, Counter>,
    pub(super) panics: Family<ControllerLabels, Counter>,
    pub(super) timeouts: Family<ControllerLabels, Counter>,
    pub(super) reconcile_time: Histograms<ControllerLabels>,
    pub(super) max_concurrent: Family<ControllerLabels, Gauge>,
    pub(super) active_workers: Family<ControllerLabels, Gauge>,
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) request_time: Histograms<VerbLabels>,
    pub(super) master: Family<NameLabels, Gauge>,
    pub(super) events_dropped: Family<ReasonLabels, Counter>,
    pub(super) undecodable: Family<KindLabels, Counter>,
    pub(super) clock_jumps: Family<DirectionLabels, Counter>,
    pub(super) certificates_read: Counter,
    pub(super) certificate_errors: Counter,
    pub(super) webhook_requests: Family<CodeLabels, Counter>,
    pub(super) webhook_time: Histograms<WebhookLabels>,
    pub(super) webhook_running: Family<WebhookLabels, Gauge>,
    pub(super) webhook_panics: Counter,
    pub(super) conversion_panics: Counter,
}

// === impl Families ===

impl Families {
    /// Creates all families in `to`.
    pub(super) fn register(to: &mut Registry) -> Self {
        let families = Self::new();
        families.register_controllers(to);
        families.register_others(to);
        families.register_webhooks(to);
        for direction in ["ahead", "back"] {
            drop(families.clock_jumps.get_or_create(&DirectionLabels { direction }));
        }
        families
    }

    fn new() -> Self {
        Self {
            reconcile_total: Family::default(),
            reconcile_errors: Family::default(),
            terminal_errors: Family::default(),
            conflicts: Family::default(),
            update_loops: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            reconcile_time: Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            max_concurrent: Family::default(),
            active_workers: Family::default(),
            requests: Family::default(),
            request_time: Family::new_with_constructor(|| Histogram::new(REST_BUCKETS)),
            master: Family::default(),
            events_dropped: Family::default(),
            undecodable: Family::default(),
            clock_jumps: Family::default(),
            certificates_read: Counter::default(),
            certificate_errors: Counter::default(),
            webhook_requests: Family::default(),
            webhook_time: Family::new_with_constructor(|| Histogram::new(WEBHOOK_BUCKETS)),
            webhook_running: Family::default(),
            webhook_panics: Counter::default(),
            conversion_panics: Counter::default(),
        }
    }

    fn register_controllers(&self, to: &mut Registry) {
        // The encoder appends `_total` to the names of counters.
        add(
            to,
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller and result",
            &self.reconcile_total,
        );
        add(
            to,
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller",
            &self.reconcile_errors,
        );
        add(
            to,
            "controller_runtime_terminal_reconcile_errors",
            "Total number of reconciliation errors that are not retried, per controller",
            &self.terminal_errors,
        );
        add(
            to,
            "windlass_reconcile_conflicts",
            "Total number of reconciliations that ended with a conflict, per controller",
            &self.conflicts,
        );
        add(
            to,
            "windlass_update_loops",
            "Total number of objects found to be written again and again, per controller",
            &self.update_loops,
        );
        add(
            to,
            "controller_runtime_reconcile_panics",
            "Total number of reconciliation panics per controller",
            &self.panics,
        );
        add(
            to,
            "controller_runtime_reconcile_timeouts",
            "Total number of reconciliation timeouts per controller",
            &self.timeouts,
        );
        add(
            to,
            "controller_runtime_reconcile_time_seconds",
            "Duration of reconciliations per controller",
            &self.reconcile_time,
        );
        add(
            to,
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciliations per controller",
            &self.max_concurrent,
        );
        add(
            to,
            "controller_runtime_active_workers",
            "Number of running reconciliations per controller",
            &self.active_workers,
        );
    }

    fn register_others(&self, to: &mut Registry) {
        add(
            to,
            "rest_client_requests",
            "Number of HTTP requests by status code, method and host",
            &self.requests,
        );
        add(
            to,
            "rest_client_request_duration_seconds",
            "Request latency in seconds by method and host",
            &self.request_time,
        );
        add(
            to,
            "leader_election_master_status",
            "Whether this process holds the lease: 1 if it does, 0 otherwise",
            &self.master,
        );
        add(
            to,
            "windlass_events_dropped",
            "Total number of events that did not reach the API server, by reason",
            &self.events_dropped,
        );
        add(
            to,
            "windlass_undecodable_objects",
            "Total number of objects in live lists that could not be decoded, per kind",
            &self.undecodable,
        );
        add(
            to,
            "windlass_clock_jumps",
            "Total number of jumps of the wall clock, by direction",
            &self.clock_jumps,
        );
        add(
            to,
            "certwatcher_read_certificate",
            "Total number of certificate reads",
            &self.certificates_read,
        );
        add(
            to,
            "certwatcher_read_certificate_errors",
            "Total number of failed certificate reads",
            &self.certificate_errors,
        );
    }

    fn register_webhooks(&self, to: &mut Registry) {
        add(
            to,
            "controller_runtime_webhook_requests",
            "Total number of admission requests by HTTP status code",
            &self.webhook_requests,
        );
        add(
            to,
            "controller_runtime_webhook_latency_seconds",
            "Latency of processing admission requests",
            &self.webhook_time,
        );
        add(
            to,
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served",
            &self.webhook_running,
        );
        add(
            to,
            "controller_runtime_webhook_panics",
            "Total number of webhook panics",
            &self.webhook_panics,
        );
        add(
            to,
            "controller_runtime_conversion_webhook_panics",
            "Total number of conversion webhook panics",
            &self.conversion_panics,
        );
    }
}

fn add(to: &mut Registry, name: &str, help: &str, metric: &(impl Metric + Clone)) {
    to.register(name, help, metric.clone());
}
