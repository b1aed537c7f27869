//! The conditions of the reconciled object, rolled up from what a reconcile did.
//!
//! A controller with [`Builder::conditions`](super::Builder::conditions) writes after each reconcile:
//!
//! - `Ready`: whether all parts are ready, or the error of the reconcile;
//! - `Reconciling` and `Stalled`, which exist only while they are `True`;
//! - one condition for each part that the reconcile reported by name;
//! - `status.observedGeneration`.
//!
//! A write conflict is no outcome of a reconcile: nothing is written, and the retry decides.
//!
//! **Invariant:** equal outcomes send nothing: a transition time changes only with its status.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Context, Next};
use crate::condition::{self, ConditionBuilder};
use crate::error::{Error, Result};
use crate::kind::Object;
use crate::readiness::{Readiness, is_built_in};

/// Most characters of a message. The API allows 32768 bytes.
const MESSAGE_MAX: usize = 2000;
/// Most named parts of an object.
const PARTS_MAX: usize = 64;

/// What a reconcile has to say besides its result.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When to reconcile again at the latest, if something waits.
    pub(super) wake: Option<Duration>,
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
}

/// The outcome of a reconcile, as conditions show it.
struct Outcome {
    ready: Readiness,
    /// Whether the controller tries again by itself after an error.
    retries: bool,
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
    /// type counts. [`Children::apply`](super::Children::apply) reports its set by itself, as a part
    /// of `Ready` only.
    pub fn report(&self, type_: &str, readiness: &Readiness) {
        self.notes().report(Some(type_), readiness.clone());
    }

    /// Writes the conditions after a reconcile.
    ///
    /// # Errors
    ///
    /// Fails if the status cannot be written, or if the kind has no conditions in its schema.
    pub(super) async fn write_conditions(&self, result: &Result<Next>) -> Result<()> {
        let Some(outcome) = Outcome::of(result, &self.notes().summary()) else { return Ok(()) };
        let Some(found) = self.found() else { return Ok(()) };
        // The last finalizer may be gone, and nobody looks at these conditions any more.
        if found.deleting() && result.is_ok() {
            return Ok(());
        }
        // Built-in kinds have no room for it in most conditions, and some not even in the status.
        let generation = Some(found.generation())
            .filter(|generation| *generation > 0 && !is_built_in(self.kind().group()));
        let parts: Vec<(String, Readiness)> = {
            let notes = self.notes();
            let named =
                notes.parts.iter().filter_map(|(type_, part)| Some((type_.clone()?, part.clone())));
            named.collect()
        };
        let start = |type_: &str, holds: Option<bool>| {
            ConditionBuilder::new(type_.into(), holds, generation, self.clock())
        };
        let wrote = self
            .status_as(|status: &mut Status| {
                if generation.is_some() {
                    status.observed_generation = generation;
                }
                for (type_, part) in &parts {
                    let condition = start(type_, holds(part));
                    filled(condition, part, part.reason()).set(&mut status.conditions);
                }
                outcome.set(&mut status.conditions, start);
            })
            .await?;
        if wrote { self.check_schema() } else { Ok(()) }
    }

    /// Fails if the server dropped the conditions.
    fn check_schema(&self) -> Result<()> {
        let kept = self.client().cached().json(self.kind(), self.key())?;
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
            Err(error) if error.is_conflict() || error.is_fenced() => return None,
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
                ConditionBuilder::new(type_.into(), holds, None, &crate::clock::Clock::default())
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
