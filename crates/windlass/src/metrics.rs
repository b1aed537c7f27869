//! Metrics under the names, labels and buckets that controller-runtime dashboards use.
//!
//! One [`Metrics`] per manager, never a process-wide registry: tests and several managers in one
//! process do not see each other. Every series of a controller is created at zero when the
//! controller is built, so an alert on a rate does not miss the first failure.
//!
//! Beside them stand figures of our own, which begin with `windlass_`. Of a controller there are:
//!
//! | series | counts |
//! |---|---|
//! | `windlass_reconcile_conflicts_total` | reconciles that ended with a conflict |
//! | `windlass_update_loops_total` | objects that it writes [again and again](crate::controller) |
//!
//! `controller_runtime_reconcile_errors_total` stays what it is in controller-runtime: every error
//! that a reconcile ended with, conflicts and those that are not retried included. So what is left
//! when conflicts are taken from it are the errors that somebody has to look at.
//!
//! The `host` of `rest_client_requests_total` and its duration is that of the cluster: what
//! [`Builder::host`](crate::manager::Builder::host) says, or the cluster's name, or `kubernetes`
//! for the home cluster. A `kube::Client` does not tell whom it speaks to.
//!
//! **Invariant:** names and labels here are a contract; only additions are allowed.

mod exposition;
mod process;
mod queues;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::cache::WatchReport;
use crate::kind::Kind;
use crate::queue::QueueStats;

pub use exposition::Format;

pub use watches::HandlerFigures;

use process::Process;
use queues::Queues;
use watches::Watches;

/// Buckets of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];
/// Buckets of the request durations.
const REST_BUCKETS: [f64; 12] =
    [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// `{controller}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ControllerLabels {
    /// The controller's name.
    pub controller: String,
}

/// `{controller, result}`.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ResultLabels {
    /// The controller's name.
    pub controller: String,
    /// `success`, `error`, `requeue` or `requeue_after`.
    pub result: &'static str,
}

/// `{code, method, host}` of requests to the API server.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// The HTTP status, or `<error>` when there was none.
    pub code: String,
    /// The HTTP method.
    pub method: String,
    /// The server.
    pub host: String,
}

/// `{verb, host}` of request durations.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct VerbLabels {
    /// The HTTP method.
    pub verb: String,
    /// The server.
    pub host: String,
}

/// `{name}` of the lease.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct NameLabels {
    /// The lease's name.
    pub name: String,
}

/// `{reason}` of dropped or failed events.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabels {
    /// Why.
    pub reason: &'static str,
}

/// `{direction}` of jumps of the clock.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DirectionLabels {
    /// `ahead` or `back`.
    direction: &'static str,
}

/// `{kind}` of objects.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct KindLabels {
    /// Kind, group and version.
    pub kind: String,
}

/// All metrics of one manager; cheap to clone.
///
/// ```
/// use prometheus_client::metrics::counter::Counter;
/// use windlass::metrics::{Format, Metrics};
///
/// let metrics = Metrics::new();
/// let imports: Counter = Counter::default();
/// metrics.register(|registry| registry.register("imports", "Imports done", imports.clone()));
/// imports.inc();
/// assert!(metrics.encode(Format::Prometheus).contains("imports_total 1"));
/// ```
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
    families: Arc<Families>,
    queues: Arc<Queues>,
    watches: Arc<Watches>,
}

#[derive(Debug)]
struct Families {
    reconcile_total: Family<ResultLabels, Counter>,
    reconcile_errors: Family<ControllerLabels, Counter>,
    terminal_errors: Family<ControllerLabels, Counter>,
    conflicts: Family<ControllerLabels, Counter>,
    update_loops: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    timeouts: Family<ControllerLabels, Counter>,
    reconcile_time: Histograms<ControllerLabels>,
    max_concurrent: Family<ControllerLabels, Gauge>,
    active_workers: Family<ControllerLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    request_time: Histograms<VerbLabels>,
    master: Family<NameLabels, Gauge>,
    events_dropped: Family<ReasonLabels, Counter>,
    undecodable: Family<KindLabels, Counter>,
    clock_jumps: Family<DirectionLabels, Counter>,
    certificates_read: Counter,
    certificate_errors: Counter,
}

/// How one reconcile ended, as the `result` label says it.
///
/// An example is at [`ControllerMetrics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Success,
    /// An error, tried again later.
    Error,
    /// An error, not tried again.
    Terminal,
    /// Done, and again after a while.
    RequeueAfter,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// An empty registry with all families of this crate in it.
    pub fn new() -> Self {
        let families = Families::new();
        let mut registry = Registry::default();
        families.register(&mut registry);
        let queues = Arc::new(Queues::default());
        registry.register_collector(Box::new(queues.clone()));
        let watches = Arc::new(Watches::default());
        registry.register_collector(Box::new(watches.clone()));
        registry.register_collector(Box::new(Process));
        let registry = Arc::new(RwLock::new(registry));
        Self { registry, families: Arc::new(families), queues, watches }
    }

    /// Lets the author add own metrics to the same endpoint.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.write());
    }

    /// Everything as text in `format`.
    pub fn encode(&self, format: Format) -> String {
        let mut text = String::with_capacity(16 * 1024);
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry.read());
        exposition::finish(text, format)
    }

    /// The series of one controller, all created at zero.
    pub fn controller(&self, name: &str, workers: usize) -> ControllerMetrics {
        ControllerMetrics::new(&self.families, name, workers)
    }

    /// Shows a queue under `name`; its figures are read when somebody scrapes.
    pub fn queue(&self, name: &str, stats: impl Fn() -> QueueStats + Send + Sync + 'static) {
        self.queues.add(name, Box::new(stats));
    }

    /// Shows the watches of a cluster; their figures are read when somebody scrapes.
    pub(crate) fn watches(
        &self,
        cluster: &str,
        read: impl Fn() -> Vec<WatchReport> + Send + Sync + 'static,
    ) {
        self.watches.add(cluster, Box::new(read));
    }

    /// Shows the event handlers of a controller, as long as there are any.
    pub fn handlers(
        &self,
        controller: &str,
        read: impl Fn() -> Option<HandlerFigures> + Send + Sync + 'static,
    ) {
        self.watches.add_handlers(controller, Box::new(read));
    }

    /// Counts an object of a live list that did not decode into the type it was read as.
    pub fn undecodable(&self, kind: &Kind) {
        let labels = KindLabels { kind: kind.to_string() };
        self.families.undecodable.get_or_create(&labels).inc();
    }

    /// Counts a jump of the wall clock, `ahead` or `back`.
    pub fn clock_jumped(&self, direction: &'static str) {
        self.families.clock_jumps.get_or_create(&DirectionLabels { direction }).inc();
    }

    /// Counts the reading of a certificate, and whether it failed.
    pub fn certificate_read(&self, good: bool) {
        self.families.certificates_read.inc();
        if !good {
            self.families.certificate_errors.inc();
        }
    }

    /// Counts one exchange with the API server.
    pub fn request(&self, method: &str, host: &str, code: Option<u16>, took: Duration) {
        let code = code.map_or_else(|| "<error>".to_string(), |code| code.to_string());
        let labels = RequestLabels { code, method: method.into(), host: host.into() };
        self.families.requests.get_or_create(&labels).inc();
        let labels = VerbLabels { verb: method.into(), host: host.into() };
        self.families.request_time.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Shows whether this process holds the lease `name`.
    pub fn leader(&self, name: &str, held: bool) {
        let labels = NameLabels { name: name.into() };
        self.families.master.get_or_create(&labels).set(i64::from(held));
    }

    /// Counts an event that could not be published; its text is in the log.
    pub fn event_dropped(&self, reason: &'static str) {
        self.families.events_dropped.get_or_create(&ReasonLabels { reason }).inc();
    }
}

// === impl Families ===

impl Families {
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
        }
    }

    fn register(&self, to: &mut Registry) {
        // The encoder appends `_total` to counters.
        to.register(
            "controller_runtime_reconcile",
            "Reconciliations per controller and result",
            self.reconcile_total.clone(),
        );
        to.register(
            "controller_runtime_reconcile_errors",
            "Reconciliation errors per controller",
            self.reconcile_errors.clone(),
        );
        to.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciliation errors that are not retried, per controller",
            self.terminal_errors.clone(),
        );
        to.register(
            "windlass_reconcile_conflicts",
            "Reconciliations that ended with a conflict, per controller",
            self.conflicts.clone(),
        );
        to.register(
            "windlass_update_loops",
            "Objects found to be written again and again, per controller",
            self.update_loops.clone(),
        );
        to.register(
            "controller_runtime_reconcile_panics",
            "Reconciliation panics per controller",
            self.panics.clone(),
        );
        to.register(
            "controller_runtime_reconcile_timeouts",
            "Reconciliations that ran into their deadline, per controller",
            self.timeouts.clone(),
        );
        to.register(
            "controller_runtime_reconcile_time_seconds",
            "Time per reconciliation, per controller",
            self.reconcile_time.clone(),
        );
        to.register(
            "controller_runtime_max_concurrent_reconciles",
            "Most reconciliations at once, per controller",
            self.max_concurrent.clone(),
        );
        to.register(
            "controller_runtime_active_workers",
            "Reconciliations running now, per controller",
            self.active_workers.clone(),
        );
        to.register(
            "rest_client_requests",
            "Requests by status code, method and host",
            self.requests.clone(),
        );
        to.register(
            "rest_client_request_duration_seconds",
            "Request latency by method and host",
            self.request_time.clone(),
        );
        to.register(
            "leader_election_master_status",
            "1 while this process holds the lease, 0 otherwise",
            self.master.clone(),
        );
        to.register(
            "windlass_events_dropped",
            "Events that did not reach the API server",
            self.events_dropped.clone(),
        );
        to.register(
            "windlass_undecodable_objects",
            "Objects of live lists that did not decode into their type, per kind",
            self.undecodable.clone(),
        );
        to.register(
            "windlass_clock_jumps",
            "Jumps of the wall clock by a second or more, per direction; a suspension is one ahead",
            self.clock_jumps.clone(),
        );
        for direction in ["ahead", "back"] {
            drop(self.clock_jumps.get_or_create(&DirectionLabels { direction }));
        }
        to.register(
            "certwatcher_read_certificate",
            "Certificates read from files",
            self.certificates_read.clone(),
        );
        to.register(
            "certwatcher_read_certificate_errors",
            "Certificates that could not be read from files",
            self.certificate_errors.clone(),
        );
    }
}

/// The series of one controller, looked up once.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::metrics::{ControllerMetrics, Format, Metrics, Outcome};
///
/// let metrics = Metrics::new();
/// let series: ControllerMetrics = metrics.controller("maps", 1);
/// series.started();
/// series.ended(Outcome::Success, Duration::from_millis(3));
/// let line = r#"controller_runtime_reconcile_total{controller="maps",result="success"} 1"#;
/// assert!(metrics.encode(Format::Prometheus).contains(line));
/// ```
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    success: Counter,
    error: Counter,
    requeue_after: Counter,
    errors: Counter,
    terminal: Counter,
    conflicts: Counter,
    update_loops: Counter,
    panics: Counter,
    timeouts: Counter,
    time: Histogram,
    active: Gauge,
}

// === impl ControllerMetrics ===

impl ControllerMetrics {
    fn new(families: &Families, name: &str, workers: usize) -> Self {
        let labels = ControllerLabels { controller: name.into() };
        let result = |result| {
            let labels = ResultLabels { controller: name.into(), result };
            families.reconcile_total.get_or_create_owned(&labels)
        };
        result("requeue");
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        families.max_concurrent.get_or_create(&labels).set(workers);
        Self {
            success: result("success"),
            error: result("error"),
            requeue_after: result("requeue_after"),
            errors: families.reconcile_errors.get_or_create_owned(&labels),
            terminal: families.terminal_errors.get_or_create_owned(&labels),
            conflicts: families.conflicts.get_or_create_owned(&labels),
            update_loops: families.update_loops.get_or_create_owned(&labels),
            panics: families.panics.get_or_create_owned(&labels),
            timeouts: families.timeouts.get_or_create_owned(&labels),
            time: families.reconcile_time.get_or_create_owned(&labels),
            active: families.active_workers.get_or_create_owned(&labels),
        }
    }

    /// A reconcile begins.
    pub fn started(&self) {
        self.active.inc();
    }

    /// A reconcile was dropped before its end, at shutdown.
    pub fn abandoned(&self) {
        self.active.dec();
    }

    /// A reconcile ended.
    pub fn ended(&self, outcome: Outcome, took: Duration) {
        self.active.dec();
        self.time.observe(took.as_secs_f64());
        match outcome {
            Outcome::Success => {
                self.success.inc();
            }
            Outcome::RequeueAfter => {
                self.requeue_after.inc();
            }
            Outcome::Error => {
                self.error.inc();
                self.errors.inc();
            }
            Outcome::Terminal => {
                self.error.inc();
                self.errors.inc();
                self.terminal.inc();
            }
        }
    }

    /// A reconcile ended with a conflict; its end is told beside this.
    pub fn conflicted(&self) {
        self.conflicts.inc();
    }

    /// An object is written again and again.
    pub fn looped(&self) {
        self.update_loops.inc();
    }

    /// A reconcile panicked.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// A reconcile ran into its deadline.
    pub fn timed_out(&self) {
        self.timeouts.inc();
    }

    /// How reconciles ended so far, for the diagnostics page.
    pub(crate) fn outcomes(&self) -> serde_json::Value {
        serde_json::json!({
            "active": self.active.get(),
            "success": self.success.get(),
            "requeueAfter": self.requeue_after.get(),
            "errors": self.errors.get(),
            "terminalErrors": self.terminal.get(),
            "conflicts": self.conflicts.get(),
            "panics": self.panics.get(),
            "timeouts": self.timeouts.get(),
        })
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
        let text = metrics.encode(Format::Prometheus);
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
        let text = metrics.encode(Format::Prometheus);
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
