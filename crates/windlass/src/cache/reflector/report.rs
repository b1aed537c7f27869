//! How a reflector reports its failures: in its state, its counters and the log.
//!
//! **Invariant:** a failure that lasts is one log line, and so is its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{BLOCKED_WAIT, Delta, Failure, Reflector, WatchStream};
use crate::cache::Key;

/// The least time between two log lines about broken connections.
const BREAKS_APART: Duration = Duration::from_secs(60);

impl Reflector {
    /// Reports a failure and waits before the next try.
    pub(super) async fn wait_out(&mut self, failure: &Failure) {
        let kind = &self.target.kind.kind;
        self.stats.failures.fetch_add(1, Ordering::Relaxed);
        self.failing = true;
        // In order with the changes, so that a sync under way does not override the failure.
        self.batch.push(Delta::Broken(failure.state(self.synced)));
        let mut wait = self.backoff.wait(&mut self.jitter);
        if failure.blocked() {
            wait = wait.min(BLOCKED_WAIT.mul_f64(1.0 + self.jitter.fraction()));
        }
        let wait = wait.max(failure.retry_after.unwrap_or_default().min(Duration::from_secs(60)));
        let (code, reason) = (failure.code, &failure.message);
        if failure.expired() {
            tracing::debug!(%kind, code, %reason, ?wait, "watch expired");
        } else if self.logged == *reason {
            tracing::debug!(%kind, code, %reason, ?wait, "watch still fails");
        } else {
            self.logged.clone_from(reason);
            let (api_version, hint) = (&self.target.kind.api_version, failure.hint());
            let namespace = self.target.namespace.as_deref().unwrap_or_default();
            tracing::warn!(
                %kind, apiVersion = %api_version, namespace, code, %reason, hint, ?wait,
                "watch failed, trying again"
            );
        }
        sleep(wait).await;
    }

    /// Logs the end of a failure. A list is not enough, as the watch may still fail.
    pub(super) fn healed(&mut self) {
        if !std::mem::take(&mut self.logged).is_empty() {
            let (kind, api_version) = (&self.target.kind.kind, &self.target.kind.api_version);
            tracing::info!(%kind, apiVersion = %api_version, "watch works again");
        }
    }

    /// Logs a broken connection; the watch continues from the last version at once.
    pub(super) fn broke(&mut self, stream: &WatchStream) {
        let Some(reason) = stream.broke() else { return };
        self.stats.breaks.fetch_add(1, Ordering::Relaxed);
        let kind = &self.target.kind.kind;
        if self.break_logged.is_some_and(|at| at.elapsed() < BREAKS_APART) {
            tracing::debug!(%kind, reason, "watch connection broke again");
            return;
        }
        self.break_logged = Some(Instant::now());
        tracing::info!(%kind, reason, "watch connection broke, continuing from the last version");
    }

    /// Logs an object of a list that is too large; the known state of it is kept.
    pub(super) fn oversized(&mut self, key: Option<Key>) {
        self.stats.skipped.fetch_add(1, Ordering::Relaxed);
        let (kind, size_max) = (&self.target.kind.kind, self.rules.object_max);
        let object = key.as_ref().map_or_else(|| "unknown".to_owned(), Key::to_string);
        tracing::warn!(%kind, object, size_max, "object skipped: larger than allowed");
        if let Some(delta) = key.and_then(|key| self.kept(key)) {
            self.batch.push(delta);
        }
    }

    /// Calls the observer of requests. A panic there does not end the watch.
    pub(super) fn observe(&self, status: Option<u16>, took: Duration) {
        let Some(observe) = &self.rules.observe else { return };
        if catch_unwind(AssertUnwindSafe(|| observe(status, took))).is_err() {
            self.stats.observer_panics.fetch_add(1, Ordering::Relaxed);
            let kind = &self.target.kind.kind;
            tracing::error!(%kind, "request observer panicked; the watch continues");
        }
    }
}
