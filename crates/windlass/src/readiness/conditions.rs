//! What conditions say about readiness.

use serde_json::Value;

use super::{Readiness, Subject};

/// One condition of an object.
pub(super) struct Condition<'a>(&'a Value);

/// Returns the condition of a type.
pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> Option<Condition<'a>> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    all.iter().find(|condition| condition["type"] == type_).map(Condition)
}

// === impl Condition ===

impl Condition<'_> {
    pub(super) fn is(&self, status: &str) -> bool {
        self.0["status"] == status
    }

    pub(super) fn reason(&self) -> &str {
        self.0["reason"].as_str().unwrap_or_default()
    }

    pub(super) fn message(&self) -> &str {
        self.0["message"].as_str().unwrap_or_default()
    }

    pub(super) fn time(&self) -> Option<jiff::Timestamp> {
        self.0["lastTransitionTime"].as_str()?.parse().ok()
    }

    /// Returns the reason, or `otherwise` if the condition has none.
    fn reason_or(&self, otherwise: &str) -> String {
        Some(self.reason()).filter(|reason| !reason.is_empty()).unwrap_or(otherwise).to_string()
    }

    /// Returns `true` if the condition was computed from an older generation of the object.
    fn is_stale(&self, generation: Option<i64>) -> bool {
        let observed = self.0["observedGeneration"].as_i64().filter(|observed| *observed > 0);
        matches!((observed, generation), (Some(observed), Some(now)) if observed < now)
    }
}

// === impl Subject ===

impl Subject<'_> {
    /// Decides by the conditions that are there only while something is wrong or unfinished.
    pub(super) fn of_abnormal_conditions(&self) -> Option<Readiness> {
        let holds = |type_| {
            let found = self.condition(type_)?;
            (found.is("True") && !found.is_stale(self.generation)).then_some(found)
        };
        if let Some(stalled) = holds("Stalled") {
            return Some(Readiness::failed(stalled.reason_or("Stalled"), stalled.message()));
        }
        let reconciling = holds("Reconciling")?;
        let reason = reconciling.reason_or("Reconciling");
        Some(Readiness::in_progress(reason, reconciling.message()))
    }

    /// Decides by the condition `Ready`.
    pub(super) fn of_ready_condition(&self) -> Option<Readiness> {
        self.of_positive_condition("Ready")
    }

    /// Decides by a condition that is `True` when all is well.
    pub(super) fn of_positive_condition(&self, type_: &str) -> Option<Readiness> {
        let found = self.condition(type_)?;
        if found.is_stale(self.generation) {
            let message = format!("condition {type_} is older than the current generation");
            return Some(self.unobserved(&message));
        }
        if found.is("True") {
            return Some(Readiness::Ready);
        }
        Some(Readiness::in_progress(found.reason_or(&format!("Not{type_}")), found.message()))
    }
}
