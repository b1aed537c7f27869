//! Status conditions as the API conventions describe them.
//!
//! In a reconcile they are set within [`Context::status_as`](crate::Context::status_as), whose
//! example shows how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::clock::Clock;

/// The status of a condition.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use windlass::condition::{ConditionBuilder, ConditionStatus};
/// let mut conditions: Vec<Condition> = Vec::new();
/// ConditionBuilder::new("Ready", ConditionStatus::Unknown).reason("NotSeen").set(&mut conditions);
/// assert_eq!(conditions[0].status, "Unknown");
/// assert_eq!(ConditionStatus::from(true), ConditionStatus::True);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Nobody knows whether the condition holds.
    Unknown,
}

/// A condition to be set in a status.
///
/// In a reconcile, [`Context::condition`](crate::Context::condition) makes one that knows the clock
/// and the generation of the object.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use windlass::condition::{self, ConditionBuilder};
/// let mut conditions: Vec<Condition> = Vec::new();
/// let starting =
///     || ConditionBuilder::new("Ready", false).reason("Starting").message("0 of 3 pods run");
/// assert!(starting().set(&mut conditions));
/// assert!(!starting().set(&mut conditions), "nothing changed");
/// assert!(!condition::is_true(&conditions, "Ready"));
/// ```
#[derive(Debug, Clone)]
#[must_use = "a condition does nothing until it is set"]
pub struct ConditionBuilder {
    type_: String,
    status: ConditionStatus,
    reason: Option<String>,
    message: String,
    observed_generation: Option<i64>,
    clock: Clock,
}

// === impl ConditionStatus ===

impl ConditionStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

// === impl ConditionBuilder ===

impl ConditionBuilder {
    /// Starts a condition of a type, such as `Ready`.
    pub fn new(type_: impl Into<String>, status: impl Into<ConditionStatus>) -> Self {
        Self {
            type_: type_.into(),
            status: status.into(),
            reason: None,
            message: String::new(),
            observed_generation: None,
            clock: Clock::system(),
        }
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

    /// Sets the generation of the object that the condition was computed from.
    pub fn observed_generation(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }

    /// Sets the clock the transition time is taken from; the system's by default.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// Sets the condition among the others; the transition time changes only with the status.
    ///
    /// Works with every type of condition that has `type` and `status`: that of custom kinds, those
    /// of built-in kinds, and JSON. Fields that a type does not have are left out, and fields that
    /// this function does not know are kept.
    ///
    /// Returns `true` if anything changed. A type that cannot hold a condition is left as it is.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::DeploymentCondition;
    /// use windlass::condition::ConditionBuilder;
    /// let mut conditions: Vec<DeploymentCondition> = Vec::new();
    /// let available = || ConditionBuilder::new("Available", true).reason("MinimumReplicasAvailable");
    /// assert!(available().set(&mut conditions));
    /// assert!(conditions[0].last_transition_time.is_some());
    /// assert!(!available().set(&mut conditions), "nothing changed");
    /// ```
    pub fn set<C: Serialize + DeserializeOwned>(self, conditions: &mut Vec<C>) -> bool {
        let found = position(conditions, &self.type_);
        let known = found.and_then(|at| serde_json::to_value(&conditions[at]).ok());
        let mut wanted = known.clone().unwrap_or_else(|| json!({"type": self.type_}));
        let now = || serde_json::to_value(self.clock.time()).unwrap_or_default();
        if wanted["status"] != self.status.as_str() || wanted["lastTransitionTime"].is_null() {
            wanted["lastTransitionTime"] = now();
        }
        wanted["status"] = json!(self.status.as_str());
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

/// Returns the condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Returns `true` if there is a condition of a type and its status is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

/// Removes the condition of a type; returns `true` if there was one.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use windlass::condition::{self, ConditionBuilder};
/// let mut conditions: Vec<Condition> = Vec::new();
/// ConditionBuilder::new("Degraded", true).reason("DiskFull").set(&mut conditions);
/// assert_eq!(condition::find(&conditions, "Degraded").expect("was set").reason, "DiskFull");
/// assert!(condition::remove(&mut conditions, "Degraded"));
/// assert!(!condition::remove(&mut conditions, "Degraded"), "removed already");
/// ```
pub fn remove<C: Serialize>(conditions: &mut Vec<C>, type_: &str) -> bool {
    let Some(at) = position(conditions, type_) else { return false };
    conditions.remove(at);
    true
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
        let ready = |status, reason| {
            ConditionBuilder::new("Ready", status).reason(reason).message("x").clock(&clock)
        };
        ready(false, "A").observed_generation(1).set(&mut all);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(ready(false, "B").observed_generation(2).set(&mut all));
        assert_eq!(all[0].last_transition_time.0.as_second(), 100);
        assert!(ready(true, "B").observed_generation(2).set(&mut all));
        assert_eq!(all[0].last_transition_time.0.as_second(), 110);
        assert_eq!(all[0].observed_generation, Some(2));
        assert!(remove(&mut all, "Ready"));
    }

    #[test]
    fn a_condition_without_reason_has_its_type_as_reason() {
        let mut all: Vec<Condition> = Vec::new();
        ConditionBuilder::new("Ready", true).set(&mut all);
        assert_eq!(all[0].reason, "Ready", "an empty reason is invalid");
    }

    #[test]
    fn conditions_of_built_in_kinds_keep_their_own_fields() {
        let mut all: Vec<PodCondition> = serde_json::from_value(json!([
            {"type": "Ready", "status": "False", "lastProbeTime": "2026-01-01T00:00:00Z"},
        ]))
        .expect("conditions");
        let ready = || ConditionBuilder::new("Ready", true).reason("Up").observed_generation(3);
        assert!(ready().set(&mut all));
        assert!(all[0].last_probe_time.is_some() && all[0].last_transition_time.is_some());
        assert!(!ready().set(&mut all), "nothing changed");
        let mut plain: Vec<ComponentCondition> = Vec::new();
        assert!(ready().set(&mut plain), "a type without times");
        assert!(!ready().set(&mut plain));
        let mut numbers: Vec<u32> = vec![1];
        assert!(!ready().set(&mut numbers) && numbers == [1], "no place for a condition");
    }
}
