//! The conditions of the reconciled object, rolled up from what a reconcile did.
//!
//! A controller with [`Builder::conditions`](super::Builder::conditions) writes after each reconcile:
//!
//! - `Ready`: whether all parts are ready, or the error of the reconcile;
//! - `Reconciling` and `Stalled`, which exist only while they are `True`;
//! - one condition for each part that the reconcile reported by name;
//! - `Paused`, which exists only while the object is paused by annotation;
//! - `status.observedGeneration`, and `status.lastHandledReconcileAt` if the schema has it.
//!
//! A reconcile that ended because the object is paused decides nothing, and neither does one of a
//! paused object that failed and is retried: `Ready` stays as it was.
//!
//! The condition of a part that a successful reconcile no longer reports is removed, also if a
//! process before this one has written it: what it says may not be true any more.
//!
//! A write conflict is no outcome of a reconcile: nothing is written, and the retry decides.
//!
//! **Invariant:** equal outcomes send nothing: a transition time changes only with its status.

mod inherited;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reference::Asked;
use super::switches::Pause;
use super::{Context, Next};
use crate::cache::Key;
use crate::condition::{self, ConditionBuilder};
use crate::error::{Error, Result};
use crate::kind::Object;
use crate::readiness::{Readiness, is_built_in};

/// Most characters of a message. The API allows 32768 bytes.
const MESSAGE_MAX: usize = 2000;
/// Most named parts of an object.
const PARTS_MAX: usize = 64;
/// Most bytes of the value by which somebody asked for a reconcile.
const REQUEST_MAX: usize = 1024;
/// The type of the condition of a pause.
const PAUSED: &str = "Paused";
/// The reasons of that condition.
const PAUSED_REASONS: [&str; 2] = ["PausedByAnnotation", "InvalidAnnotation"];
/// Most objects whose parts are remembered.
const OBJECTS_MAX: usize = 100_000;

/// What a reconcile has to say besides its result.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When to reconcile again at the latest, if something waits.
    pub(super) wake: Option<Duration>,
    /// What the reconcile referred to.
    pub(super) references: Asked,
    /// The parts that were reported, with the type of their condition if they have one.
    parts: Vec<(Option<String>, Readiness)>,
}

/// The part of a status that is written here.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[serde(default)]
    conditions: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_handled_reconcile_at: Option<String>,
}

/// The outcome of a reconcile, as conditions show it.
struct Outcome {
    ready: Readiness,
    /// Whether the controller tries again by itself after an error.
    retries: bool,
}

/// The types of the conditions that were written for named parts, by object.
#[derive(Debug, Default)]
pub(crate) struct ReportedParts {
    parts: Mutex<HashMap<Key, BTreeSet<String>>>,
    /// The objects whose conditions of an earlier process were looked at.
    looked_at: Mutex<HashSet<Key>>,
    /// The schema of the kind has no `lastHandledReconcileAt`.
    drops_requests: AtomicBool,
}

// === impl ReportedParts ===

impl ReportedParts {
    /// Returns the parts that were reported before and are not any more.
    fn missing(&self, key: &Key, parts: &[(String, Readiness)]) -> Vec<String> {
        let known = self.parts.lock();
        let known = known.get(key).into_iter().flatten();
        known.filter(|type_| parts.iter().all(|(now, _)| now != *type_)).cloned().collect()
    }

    /// Remembers what was written; what is `missing` is not there any more.
    fn wrote(&self, key: &Key, parts: &[(String, Readiness)], missing: &[String]) {
        let mut all = self.parts.lock();
        if parts.is_empty() && !all.contains_key(key) {
            return;
        }
        if all.len() >= OBJECTS_MAX {
            all.clear();
        }
        let known = all.entry(key.clone()).or_default();
        known.retain(|type_| !missing.contains(type_));
        known.extend(parts.iter().map(|(type_, _)| type_.clone()));
        if known.is_empty() {
            all.remove(key);
        }
    }

    /// Returns `true` if the conditions of an object were not looked at before.
    fn first(&self, key: &Key) -> bool {
        !self.looked_at.lock().contains(key)
    }

    /// Remembers that the conditions of an object were looked at.
    fn looked_at(&self, key: &Key) {
        let mut all = self.looked_at.lock();
        if all.len() >= OBJECTS_MAX {
            all.clear();
        }
        all.insert(key.clone());
    }

    fn keeps_requests(&self) -> bool {
        !self.drops_requests.load(Ordering::Relaxed)
    }

    fn drops_requests(&self) {
        self.drops_requests.store(true, Ordering::Relaxed);
    }

    fn forget(&self, key: &Key) {
        self.parts.lock().remove(key);
        self.looked_at.lock().remove(key);
    }
}

// === impl Notes ===

impl Notes {
    /// Adds a part, or replaces what was reported for the same condition before.
    pub(super) fn report(&mut self, type_: Option<&str>, readiness: Readiness) {
        let known =
            |part: &(Option<String>, Readiness)| type_.is_some() && part.0.as_deref() == type_;
        match self.parts.iter().position(known) {
            Some(at) => self.parts[at].1 = readiness,
            None if self.parts.len() < PARTS_MAX => {
                self.parts.push((type_.map(str::to_string), readiness));
            }
            None => tracing::warn!("a reconcile reports more than {PARTS_MAX} parts"),
        }
    }

    /// Returns the parts that have conditions of their own.
    fn named(&self) -> Vec<(String, Readiness)> {
        let named =
            |(type_, part): &(Option<String>, Readiness)| Some((type_.clone()?, part.clone()));
        self.parts.iter().filter_map(named).collect()
    }

    /// Returns the readiness of all parts together.
    fn summary(&self) -> Readiness {
        match &self.parts[..] {
            [(None, only)] => only.clone(),
            parts => Readiness::summary(parts.iter().map(|(type_, readiness)| {
                (type_.clone().unwrap_or_else(|| "Children".into()), readiness.clone())
            })),
        }
    }
}

// === impl Context ===

impl<K: Object> Context<K> {
    /// Reports the readiness of a part of the object, as a condition of its own and as a part of
    /// `Ready`.
    ///
    /// For controllers with [`Builder::conditions`](super::Builder::conditions), which has an
    /// example. The type is an adjective or a noun, such as `DatabaseReady`. The last report of a
    /// type counts, and the condition of a part that a later successful reconcile does not report is
    /// removed. [`Children::apply`](super::Children::apply) reports its set by itself, as a part of
    /// `Ready` only, and each of its steps.
    pub fn report(&self, type_: &str, readiness: &Readiness) {
        self.notes().report(Some(type_), readiness.clone());
    }

    /// Writes the conditions after a reconcile.
    ///
    /// # Errors
    ///
    /// Fails if the status cannot be written, or if the kind has no conditions in its schema.
    pub(super) async fn write_conditions(&self, result: &Result<Next>) -> Result<()> {
        // A later reconcile of a paused object may decide nothing: an error that is retried would stay
        // in the conditions although it is over.
        let outcome = Outcome::of(result, &self.notes().summary())
            .filter(|outcome| !outcome.retries || self.pause().is_none());
        if outcome.is_none() && self.pause().is_none() {
            return Ok(());
        }
        let Some(found) = self.found() else {
            self.reported_parts().forget(self.key());
            return Ok(());
        };
        // The last finalizer may be gone, and nobody looks at these conditions any more.
        if found.deleting() && result.is_ok() {
            return Ok(());
        }
        // Built-in kinds have no room for it in most conditions, and some not even in the status.
        let generation = Some(found.generation())
            .filter(|generation| *generation > 0 && !is_built_in(self.kind().group()));
        let parts = self.notes().named();
        let missing = self.stale_parts(result, &parts).await?;
        let start = |type_: &str, holds: Option<bool>| {
            ConditionBuilder::new(type_, holds, self.clock()).generation(generation)
        };
        let handled = outcome.as_ref().and_then(|_| self.handled_request());
        let wrote = self
            .status_by(&self.conditions_client(), |status: &mut Status| {
                if generation.is_some() && outcome.is_some() {
                    status.observed_generation = generation;
                }
                if handled.is_some() {
                    status.last_handled_reconcile_at = handled.map(Into::into);
                }
                for (type_, part) in &parts {
                    let condition = start(type_, holds(part));
                    filled(condition, part, part.reason()).set(&mut status.conditions);
                }
                for type_ in &missing {
                    condition::remove(&mut status.conditions, type_);
                }
                if let Some(outcome) = &outcome {
                    outcome.set(&mut status.conditions, start);
                }
                set_paused(self.pause(), &mut status.conditions, start);
            })
            .await?;
        self.reported_parts().wrote(self.key(), &parts, &missing);
        if result.is_ok() {
            self.reported_parts().looked_at(self.key());
        }
        if wrote && outcome.is_some() { self.check_schema(handled) } else { Ok(()) }
    }

    /// Returns the parts whose conditions are to be removed.
    async fn stale_parts(
        &self,
        result: &Result<Next>,
        parts: &[(String, Readiness)],
    ) -> Result<Vec<String>> {
        // A reconcile that failed may not have come to report all of them.
        if result.is_err() {
            return Ok(Vec::new());
        }
        let mut stale = self.reported_parts().missing(self.key(), parts);
        stale.extend(self.inherited_parts(parts).await?);
        Ok(stale)
    }

    /// Returns the value by which somebody asked for this reconcile, if the status has room for it.
    fn handled_request(&self) -> Option<&str> {
        let request = self.switches()?.request().filter(|value| value.len() <= REQUEST_MAX)?;
        let room = !is_built_in(self.kind().group()) && self.reported_parts().keeps_requests();
        Some(request).filter(|_| room && self.pause().is_none())
    }

    /// Fails if the server dropped the conditions. A request that it dropped is not written again.
    fn check_schema(&self, handled: Option<&str>) -> Result<()> {
        let kept = self.client().cached().json(self.kind(), self.key())?;
        let recorded = |object: &Value| {
            object.pointer("/status/lastHandledReconcileAt").and_then(Value::as_str) == handled
        };
        if handled.is_some() && !kept.as_ref().is_none_or(recorded) {
            self.reported_parts().drops_requests();
        }
        let dropped = kept.is_some_and(|object| {
            let all = object.pointer("/status/conditions").and_then(Value::as_array);
            !all.is_some_and(|all| all.iter().any(|condition| condition["type"] == "Ready"))
        });
        if !dropped {
            return Ok(());
        }
        Err(Error::terminal(Error::Invalid(format!(
            "the server does not keep the conditions of {} {}: the schema of the kind needs \
             status.conditions with all fields of a condition",
            self.kind().kind(),
            self.key()
        ))))
    }
}

// === impl Outcome ===

impl Outcome {
    /// Returns what conditions show of a reconcile; `None` if it does not count.
    fn of(result: &Result<Next>, parts: &Readiness) -> Option<Self> {
        let error = match result {
            Ok(_) => return Some(Self { ready: parts.clone(), retries: false }),
            Err(error) if error.is_conflict() || error.is_fenced() || error.is_paused() => {
                return None;
            }
            Err(error) => error,
        };
        let message = error.chain();
        let retries = !error.is_terminal();
        let ready = match retries {
            true => Readiness::in_progress("ReconcileFailed", message),
            false => Readiness::failed("ReconcileFailed", message),
        };
        Some(Self { ready, retries })
    }

    fn set(&self, all: &mut Vec<Value>, start: impl Fn(&str, Option<bool>) -> ConditionBuilder) {
        let ready = start("Ready", holds(&self.ready));
        filled(ready, &self.ready, "Succeeded").set(all);
        let busy = matches!(self.ready, Readiness::InProgress { .. } | Readiness::Terminating);
        let stuck = matches!(self.ready, Readiness::Failed { .. });
        let reason = if self.retries { "ProgressingWithRetry" } else { "Progressing" };
        match busy {
            true => {
                let reconciling = start("Reconciling", Some(true)).reason(reason);
                reconciling.message(shortened(self.ready.message())).set(all);
            }
            false => condition::remove(all, "Reconciling"),
        }
        match stuck {
            true => {
                let stalled = start("Stalled", Some(true));
                filled(stalled, &self.ready, "Failed").set(all);
            }
            false => condition::remove(all, "Stalled"),
        }
    }
}

/// Sets the condition of a pause, or removes it when the pause is over.
fn set_paused(
    pause: Option<&Pause>,
    all: &mut Vec<Value>,
    start: impl Fn(&str, Option<bool>) -> ConditionBuilder,
) {
    match pause {
        Some(pause) => {
            let reason = PAUSED_REASONS[usize::from(pause.invalid)];
            start(PAUSED, Some(true)).reason(reason).message(&*pause.message).set(all);
        }
        None => all.retain(|condition| {
            let reason = condition["reason"].as_str().unwrap_or_default();
            condition["type"] != PAUSED || !PAUSED_REASONS.contains(&reason)
        }),
    }
}

/// Returns whether a condition about this readiness holds; `None` if that is unknown.
fn holds(readiness: &Readiness) -> Option<bool> {
    match readiness {
        Readiness::Ready => Some(true),
        Readiness::Unknown { .. } => None,
        _ => Some(false),
    }
}

/// Sets the reason and the message of a condition, in the form that the API accepts.
fn filled(condition: ConditionBuilder, readiness: &Readiness, otherwise: &str) -> ConditionBuilder {
    let reason = match readiness {
        Readiness::Ready => otherwise,
        other => other.reason(),
    };
    let reason = if is_reason(reason) { reason } else { "Unspecified" };
    condition.reason(reason).message(shortened(readiness.message()))
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_string(),
    }
}

/// Returns `true` if the API accepts a text as the reason of a condition.
fn is_reason(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    text.len() <= 1024
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(result: &Result<Next>, notes: &Notes) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(outcome) = Outcome::of(result, &notes.summary()) {
            outcome.set(&mut all, |type_, holds| {
                ConditionBuilder::new(type_, holds, &crate::clock::Clock::default())
            });
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        all.iter()
            .map(|c| {
                format!(
                    "{}={} {}: {}",
                    text(&c["type"]),
                    text(&c["status"]),
                    text(&c["reason"]),
                    text(&c["message"])
                )
            })
            .collect()
    }

    #[test]
    fn the_outcome_of_a_reconcile_rolls_up_into_conditions() {
        let mut notes = Notes::default();
        let done = Ok(Next::Done);
        assert_eq!(conditions(&done, &notes), ["Ready=True Succeeded: "]);
        notes.report(None, Readiness::in_progress("LessReady", "ready replicas: 1 of 2"));
        assert_eq!(
            conditions(&done, &notes),
            [
                "Ready=False LessReady: ready replicas: 1 of 2",
                "Reconciling=True Progressing: ready replicas: 1 of 2",
            ]
        );
        notes.report(Some("Database"), Readiness::failed("no reason", "disk full"));
        assert_eq!(
            conditions(&done, &notes),
            [
                "Ready=False Unspecified: Database: disk full",
                "Stalled=True Unspecified: Database: disk full"
            ]
        );
        notes.report(Some("Database"), Readiness::unknown("Suspended", "asleep"));
        notes.report(None, Readiness::Ready);
        notes.parts.remove(0);
        assert_eq!(conditions(&done, &notes), ["Ready=Unknown Suspended: Database: asleep"]);
    }

    #[test]
    fn an_error_is_stalled_only_if_it_is_not_retried() {
        let notes = Notes::default();
        let retried: Result<Next> = Err(Error::from("no connection"));
        assert_eq!(
            conditions(&retried, &notes),
            [
                "Ready=False ReconcileFailed: no connection",
                "Reconciling=True ProgressingWithRetry: no connection",
            ]
        );
        let terminal: Result<Next> = Err(Error::terminal("size 9 is too large"));
        assert_eq!(
            conditions(&terminal, &notes),
            [
                "Ready=False ReconcileFailed: terminal error: size 9 is too large",
                "Stalled=True ReconcileFailed: terminal error: size 9 is too large",
            ]
        );
    }

    #[test]
    fn reasons_and_messages_have_the_form_that_the_api_accepts() {
        for (reason, valid) in [
            ("Ready", true),
            ("A", true),
            ("Less_Ready:x", true),
            ("", false),
            ("not one", false),
            ("1st", false),
            ("x:", false),
        ] {
            assert_eq!(is_reason(reason), valid, "{reason}");
        }
        let long = "ä".repeat(3000);
        assert_eq!(shortened(&long).chars().count(), MESSAGE_MAX + 1);
    }

    #[test]
    fn the_number_of_parts_is_bounded() {
        let mut notes = Notes::default();
        (0..1000).for_each(|n| notes.report(Some(&format!("Part{n}")), Readiness::Ready));
        (0..1000).for_each(|_| notes.report(None, Readiness::Ready));
        assert_eq!(notes.parts.len(), PARTS_MAX);
    }
}
