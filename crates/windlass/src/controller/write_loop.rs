//! Finds objects that a controller writes again and again without getting anywhere.
//!
//! Two writers that undo each other's work, a wanted state that the server changes (`1000m` becomes
//! `1`), a status that contains the time of its writing: each leads to a write on every pass, for
//! ever, and nothing fails. The detector observes the writes of a controller's clients:
//!
//! 1. Writes are counted per object and subresource. The first [`FEW`] in a row, with less than a
//!    minute between them, cost one table lookup each; the following ones are looked at.
//! 2. A write had an *effect* if the resource version of the answer differs from the one before,
//!    which is that in the body of an update or that of the cached object, and if the cached object
//!    did not already show what was written. Of an object that is not cached only the answers to
//!    own writes are known: its version, and its generation if it has one, must have changed
//!    between them.
//! 3. A write is *idle* if
//!    - its body equals the last one, and the answer shows something else;
//!    - or it had an effect, and makes the same change as the one before it, which somebody must
//!      have undone in between;
//!    - or it had an effect, and leads to one of the last states that writes led to.
//!
//!    For all of this, timestamps are equal, and what only the server sets is ignored.
//! 4. More than twenty idle writes within a minute are a loop.
//!
//! Counting starts over when the generation of the reconciled object changes, because its author
//! wants something else then. The reconciled object is the controlling owner of the written object,
//! or the object itself if its status is written. So neither a status that follows the world, nor
//! an object that follows its owner's spec, is a loop.
//!
//! A loop is logged and counted at most once in ten minutes per object. The log names the fields,
//! never their values. Leases are ignored, as they are meant to be written again and again. Writes
//! through [`Client::kube`](crate::Client::kube) are not seen.
//!
//! With tokio's clock paused, a reconcile whose writes always lead to another reconcile would keep
//! time from advancing, and a test with a timeout would hang instead of failing. After
//! [`WRITES_MAX`] writes of one object at the same instant, which a running clock makes impossible,
//! the following ones are delayed so that time advances. Other loops, such as a child that is
//! created and deleted in turn, or created under a new name each time, are found by the reconciles
//! of the key, which are counted and delayed in the same way.
//!
//! **Invariant:** all tables are bounded; forgetting an entry costs a warning, never a write.

mod difference;
mod history;
mod observation;
mod standstill;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cache::{Cache, Key};
use crate::client::{Observed, PendingWrite, WriteObserver};
use crate::kind::Kind;
use crate::metrics::ControllerMetrics;

use history::{AnsweredWrite, Cause, History, WINDOW};
use observation::{BodyForm, Observation};
use standstill::{DELAY_FIRST, Reconciles, Standstill, WRITES_MAX};

/// Writes in a row that are only counted.
const FEW: u32 = 5;
/// Most objects whose writes are counted.
const OBJECTS_MAX: usize = 4096;
/// Most loops that are remembered.
const FINDINGS_MAX: usize = 100;
/// The least time between two log lines about one object.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Observes the writes of one controller.
pub(crate) struct WriteLoopDetector {
    controller: Arc<str>,
    reconciled: Kind,
    metrics: ControllerMetrics,
    cache: Cache,
    tables: Mutex<Tables>,
    reconciles: Mutex<Reconciles>,
}

/// What is written: an object, and a subresource of it; empty for the object itself.
type Slot = (Kind, Key, String);

/// Not [expiring stores](crate::cache::ExpiringStore): each write changes a row in place, and a row
/// lives as long as writes follow each other closely.
#[derive(Default)]
struct Tables {
    rows: HashMap<Slot, Row>,
    findings: BTreeMap<Slot, Finding>,
}

/// The writes of one object without a pause.
struct Row {
    writes: u32,
    /// Those between which no time passed.
    at_once: Standstill,
    history: Option<Box<History>>,
}

/// A loop that was found.
struct Finding {
    since: Instant,
    logged: Instant,
    last_write: Instant,
    cause: Cause,
    fields: String,
}

// === impl WriteLoopDetector ===

impl WriteLoopDetector {
    pub(crate) fn new(
        controller: Arc<str>,
        reconciled: Kind,
        metrics: ControllerMetrics,
        cache: Cache,
    ) -> Self {
        let (tables, reconciles) = (Mutex::default(), Mutex::default());
        Self { controller, reconciled, metrics, cache, tables, reconciles }
    }

    /// Counts a write. Returns whether to look at it, and for how long to delay it.
    fn count(&self, slot: &Slot) -> (bool, Duration) {
        let rows = &mut self.tables.lock().rows;
        // Read under the lock, so that it never goes back from one write to the next.
        let now = Instant::now();
        if let Some(row) = rows.get_mut(slot) {
            let delay = row.count(now);
            return (row.writes > FEW, delay);
        }
        if rows.len() >= OBJECTS_MAX {
            let recent = |row: &Row| now.duration_since(row.at_once.last()) < WINDOW;
            rows.retain(|_, row| row.history.is_some() && recent(row));
        }
        if rows.len() < OBJECTS_MAX {
            let mut row = Row::new(now);
            row.count(now);
            rows.insert(slot.clone(), row);
        }
        (false, Duration::ZERO)
    }

    /// Returns the generation of the object for which another one is written; 0 if it is not known.
    fn owner_generation(&self, slot: &Slot, answer: &Value) -> i64 {
        let (kind, key, part) = slot;
        let metadata = &answer["metadata"];
        if *kind == self.reconciled && part == "status" {
            return metadata["generation"].as_i64().unwrap_or(0);
        }
        let group = |version: &str| {
            version.split_once('/').map_or("", |(group, _)| group) == self.reconciled.group()
        };
        let owner = metadata["ownerReferences"].as_array().into_iter().flatten().find(|owner| {
            owner["controller"] == json!(true)
                && owner["kind"] == json!(self.reconciled.kind())
                && owner["apiVersion"].as_str().is_some_and(group)
        });
        let Some(name) = owner.and_then(|owner| owner["name"].as_str()) else { return 0 };
        let namespace = key.namespace().filter(|_| self.reconciled.namespaced());
        let owner = self.cache.entry(&self.reconciled, &Key::new(namespace, name));
        owner.map_or(0, |owner| owner.generation())
    }

    /// Remembers a write, and reports the loop that it is part of.
    fn record(&self, slot: Slot, write: &AnsweredWrite, delay: Duration) {
        let now = Instant::now();
        let mut tables = self.tables.lock();
        let Tables { rows, findings } = &mut *tables;
        let Some(row) = rows.get_mut(&slot) else { return };
        let history = row.history.get_or_insert_default();
        let mut idle = history.add(write);
        let mut found = idle.is_some() && history.is_loop(now);
        if !delay.is_zero() {
            idle = Some((Cause::Standstill, write.fields(Cause::Standstill)));
            found = true;
        }
        let Some((cause, fields)) = idle else { return };
        let report = note(findings, &slot, (cause, &fields), found, delay == DELAY_FIRST);
        drop(tables);
        if report {
            self.metrics.looped();
            self.log(&slot, cause, &fields);
        }
    }

    /// Counts a reconcile of a key, and returns how long to delay it. `requests` returns what its
    /// last reconcile sent.
    pub(crate) fn reconcile(&self, key: &Key, requests: impl FnOnce() -> String) -> Duration {
        let delay = self.reconciles.lock().count(key, Instant::now());
        if delay.is_zero() {
            return delay;
        }
        let slot = (self.reconciled.clone(), key.clone(), String::new());
        let (cause, first) = (Cause::Reconciled, delay == DELAY_FIRST);
        if note(&mut self.tables.lock().findings, &slot, (cause, ""), true, first) {
            self.metrics.looped();
            let (controller, kind, requests) = (&self.controller, &self.reconciled, requests());
            tracing::error!(
                %controller, %kind, object = %key, requests,
                "update loop: {cause}; its reconciles are delayed from now on"
            );
        }
        delay
    }

    fn log(&self, slot: &Slot, cause: Cause, fields: &str) {
        let ((kind, object, subresource), controller) = (slot, &self.controller);
        if cause == Cause::Standstill {
            tracing::error!(
                %controller, %kind, %object, subresource, fields,
                "update loop: {cause}; its writes are delayed from now on"
            );
        } else {
            tracing::warn!(
                %controller, %kind, %object, subresource, fields,
                "update loop: {cause}"
            );
        }
    }

    /// Returns the loops that last, for the diagnostics page.
    pub(crate) fn report(&self) -> Vec<Value> {
        let now = Instant::now();
        let tables = self.tables.lock();
        let lasting = tables
            .findings
            .iter()
            .filter(|(_, finding)| now.duration_since(finding.last_write) < WINDOW);
        let shown = |((kind, key, part), finding): (&Slot, &Finding)| {
            json!({
                "kind": kind.to_string(),
                "object": key.to_string(),
                "subresource": part,
                "cause": finding.cause.to_string(),
                "fields": finding.fields,
                "seconds": now.duration_since(finding.since).as_secs(),
            })
        };
        lasting.map(shown).collect()
    }
}

/// Remembers an idle write or reconcile. Returns `true` if it is part of a loop that is to be logged:
/// one that is `found`, and is news or the `first` that is delayed.
fn note(
    findings: &mut BTreeMap<Slot, Finding>,
    slot: &Slot,
    (cause, fields): (Cause, &str),
    found: bool,
    first: bool,
) -> bool {
    let now = Instant::now();
    if let Some(finding) = findings.get_mut(slot) {
        (finding.last_write, finding.cause, finding.fields) = (now, cause, fields.into());
    }
    // A standstill fails a test, whatever was found before.
    if !found || !(is_news(findings, slot, now) || first) {
        return false;
    }
    if let Some(finding) = findings.get_mut(slot) {
        finding.logged = now;
    } else if findings.len() < FINDINGS_MAX {
        let fields = fields.into();
        let finding = Finding { since: now, logged: now, last_write: now, cause, fields };
        findings.insert(slot.clone(), finding);
    }
    true
}

/// Returns `true` if a loop has not been logged for a while, and there is room to remember it.
fn is_news(findings: &mut BTreeMap<Slot, Finding>, slot: &Slot, now: Instant) -> bool {
    if let Some(finding) = findings.get(slot) {
        return now.duration_since(finding.logged) >= LOG_INTERVAL;
    }
    if findings.len() >= FINDINGS_MAX {
        findings.retain(|_, finding| now.duration_since(finding.logged) < LOG_INTERVAL);
    }
    findings.len() < FINDINGS_MAX
}

impl WriteObserver for WriteLoopDetector {
    fn begin(self: Arc<Self>, write: &PendingWrite<'_>) -> Observed {
        if write.kind.group() == "coordination.k8s.io" {
            return Observed::default();
        }
        let slot = (write.kind.clone(), write.key.clone(), write.subresource.to_owned());
        let (observe, delay) = self.count(&slot);
        if !observe {
            return Observed { delay, answered: None };
        }
        let before = self.cache.entry(write.kind, write.key);
        let (form, body) = (BodyForm::of(write.content_type), write.body.clone());
        let observation = Observation { detector: self, slot, form, body, before, delay };
        Observed { delay, answered: Some(Box::new(|answer| observation.answered(answer))) }
    }
}

impl fmt::Debug for WriteLoopDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WriteLoopDetector");
        shown.field("controller", &self.controller).finish_non_exhaustive()
    }
}

// === impl Row ===

impl Row {
    fn new(now: Instant) -> Self {
        Self { writes: 0, at_once: Standstill::new(now), history: None }
    }

    /// Counts a write, and returns how long to delay it.
    fn count(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.at_once.last()) >= WINDOW {
            *self = Self::new(now);
        }
        self.writes = self.writes.saturating_add(1);
        self.at_once.count(now, WRITES_MAX)
    }
}
