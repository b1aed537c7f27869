//! The series of one controller.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::families::{ControllerLabels, Families, ResultLabels};

/// The series of one controller, looked up once.
#[derive(Debug, Clone)]
pub(crate) struct ControllerMetrics {
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
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "nothing changes it"))]
    limit: Gauge,
}

/// How a reconcile ended, as in the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done.
    Success,
    /// It failed and is retried.
    Error,
    /// It failed and is not retried.
    Terminal,
    /// It is done and runs again after a while.
    RequeueAfter,
}

// === impl ControllerMetrics ===

impl ControllerMetrics {
    pub(super) fn new(families: &Families, name: &str, workers: usize) -> Self {
        let labels = ControllerLabels { controller: name.into() };
        let result = |result| {
            let labels = ResultLabels { controller: name.into(), result };
            families.reconcile_total.get_or_create_owned(&labels)
        };
        result("requeue");
        let limit = families.max_concurrent.get_or_create_owned(&labels);
        limit.set(i64::try_from(workers).unwrap_or(i64::MAX));
        Self {
            limit,
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

    /// Records how many reconciles run at once at most.
    #[cfg(feature = "operator")]
    pub(crate) fn set_workers(&self, workers: usize) {
        self.limit.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// Records the begin of a reconcile.
    pub(crate) fn started(&self) {
        self.active.inc();
    }

    /// Records that a reconcile was dropped before its end, at shutdown.
    pub(crate) fn abandoned(&self) {
        self.active.dec();
    }

    /// Records the end of a reconcile.
    pub(crate) fn ended(&self, outcome: Outcome, took: Duration) {
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

    /// Records that a reconcile ended with a conflict; its end is recorded separately.
    pub(crate) fn conflicted(&self) {
        self.conflicts.inc();
    }

    /// Records that an object is written again and again.
    pub(crate) fn looped(&self) {
        self.update_loops.inc();
    }

    /// Records a panic of a reconcile.
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    /// Records a timeout of a reconcile.
    pub(crate) fn timed_out(&self) {
        self.timeouts.inc();
    }

    /// The results of all reconciles so far, for the diagnostics page.
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
