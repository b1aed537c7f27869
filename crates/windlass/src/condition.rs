//! Status conditions as the API conventions describe them.
//!
//! In a reconcile they are set within [`Context::status_as`](crate::Context::status_as), whose
//! example shows how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::clock::Clock;

/// A condition to be set in a status, made by [`Context::condition`](crate::Context::condition).
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use windlass::Context;
/// use windlass::condition::{self, ConditionBuilder};
///
/// /// Sets the condition `Ready`; returns `true` if it has become true.
/// fn set_ready(cx: &Context<ConfigMap>, pods: usize, all: &mut Vec<Condition>) -> bool {
///     let before = condition::is_true(all, "Ready");
///     let ready: ConditionBuilder = match pods {
///         0 => cx.condition("Ready", None).reason("NoPods"), // unknown
///         _ => cx.condition("Ready", pods == 3).reason("Counted"),
///     };
///     ready.message(format!("{pods} of 3 pods are ready")).set(all);
///     !before && condition::is_true(all, "Ready")
/// }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a condition does nothing until it is set"]
pub struct ConditionBuilder {
    type_: String,
    status: &'static str,
    reason: Option<String>,
    message: String,
    observed_generation: Option<i64>,
    clock: Clock,
}

// === impl ConditionBuilder ===

impl ConditionBuilder {
    pub(crate) fn new(
        type_: String,
        holds: Option<bool>,
        observed_generation: Option<i64>,
        clock: &Clock,
    ) -> Self {
        let status = match holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let (reason, message, clock) = (None, String::new(), clock.clone());
        Self { type_, status, reason, message, observed_generation, clock }
    }

    /// Sets the reason, one word for programs; the type of the condition by default.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the message, a sentence for people; empty by default.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the condition among the others; the transition time changes only with the status.
    ///
    /// Works with every type of condition that has `type` and `status`: that of custom kinds, those
    /// of built-in kinds, and JSON. Fields that a type does not have are left out, and fields that
    /// this function does not know are kept.
    ///
    /// Returns `true` if anything changed. A type that cannot hold a condition is left as it is.
    pub fn set<C: Serialize + DeserializeOwned>(self, conditions: &mut Vec<C>) -> bool {
        let found = position(conditions, &self.type_);
        let known = found.and_then(|at| serde_json::to_value(&conditions[at]).ok());
        let mut wanted = known.clone().unwrap_or_else(|| json!({"type": self.type_}));
        let now = || serde_json::to_value(self.clock.time()).unwrap_or_default();
        if wanted["status"] != self.status || wanted["lastTransitionTime"].is_null() {
            wanted["lastTransitionTime"] = now();
        }
        wanted["status"] = json!(self.status);
        wanted["reason"] = json!(self.reason.as_ref().unwrap_or(&self.type_));
        wanted["message"] = json!(self.message);
        if let Some(generation) = self.observed_generation {
            wanted["observedGeneration"] = json!(generation);
        }
        // Through the type, so that a field it does not have is no difference.
        let Ok(condition) = serde_json::from_value::<C>(wanted) else { return false };
        if known.is_some() && known == serde_json::to_value(&condition).ok() {
            return false;
        }
        match found {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
        true
    }
}

/// Returns the place of the condition of a type.
fn position<C: Serialize>(conditions: &[C], type_: &str) -> Option<usize> {
    conditions.iter().position(|condition| {
        serde_json::to_value(condition).is_ok_and(|condition| condition["type"] == type_)
    })
}

/// Removes the condition of a type.
pub(crate) fn remove<C: Serialize>(conditions: &mut Vec<C>, type_: &str) {
    if let Some(at) = position(conditions, type_) {
        conditions.remove(at);
    }
}

/// Returns `true` if there is a condition of a type and its status is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|c| c.type_ == type_ && c.status == "True")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{ComponentCondition, PodCondition};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn transition_time_changes_only_with_the_status() {
        let clock = Clock::fixed(jiff::Timestamp::from_second(100).expect("in range"));
        let mut all: Vec<Condition> = Vec::new();
        let ready = |status, reason, generation| {
            ConditionBuilder::new("Ready".into(), status, Some(generation), &clock)
                .reason(reason)
                .message("x")
        };
        assert!(ready(Some(false), "A", 1).set(&mut all));
        assert!(!ready(Some(false), "A", 1).set(&mut all), "nothing changed");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(ready(Some(false), "B", 2).set(&mut all));
        assert_eq!(all[0].last_transition_time.0.as_second(), 100);
        assert!(!is_true(&all, "Ready"));
        assert!(ready(Some(true), "B", 2).set(&mut all));
        assert_eq!(all[0].last_transition_time.0.as_second(), 110);
        assert_eq!(all[0].observed_generation, Some(2));
        assert!(is_true(&all, "Ready") && !all.iter().any(|c: &Condition| c.type_ == "Other"));
    }

    #[test]
    fn a_condition_without_reason_has_its_type_as_reason() {
        let mut all: Vec<Condition> = Vec::new();
        ConditionBuilder::new("Ready".into(), None, None, &Clock::default()).set(&mut all);
        assert_eq!(all[0].reason, "Ready", "an empty reason is invalid");
        assert_eq!(all[0].status, "Unknown");
    }

    #[test]
    fn conditions_of_built_in_kinds_keep_their_own_fields() {
        let mut all: Vec<PodCondition> = serde_json::from_value(json!([
            {"type": "Ready", "status": "False", "lastProbeTime": "2026-01-01T00:00:00Z"},
        ]))
        .expect("conditions");
        let clock = Clock::default();
        let ready =
            || ConditionBuilder::new("Ready".into(), Some(true), Some(3), &clock).reason("Up");
        assert!(ready().set(&mut all));
        assert!(all[0].last_probe_time.is_some() && all[0].last_transition_time.is_some());
        assert!(!ready().set(&mut all), "nothing changed");
        let mut plain: Vec<ComponentCondition> = Vec::new();
        assert!(ready().set(&mut plain), "a type without times");
        assert!(!ready().set(&mut plain));
        let mut numbers: Vec<u32> = vec![1];
        assert!(!ready().set(&mut numbers) && numbers == [1], "no place for a condition");
        remove(&mut all, "Ready");
        assert!(all.is_empty());
    }
}
