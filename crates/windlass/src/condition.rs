//! Status conditions as the API conventions describe them.
//!
//! In a reconcile they are set within [`Context::status_as`](crate::Context::status_as), whose
//! example shows how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::clock::Clock;

/// The status of a condition.
///
/// ```
/// use windlass::condition::{ConditionBuilder, ConditionStatus};
/// let mut conditions = Vec::new();
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
/// use windlass::condition::{self, ConditionBuilder};
/// let mut conditions = Vec::new();
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
    /// Returns `true` if anything changed.
    pub fn set(self, conditions: &mut Vec<Condition>) -> bool {
        let found = conditions.iter().position(|c| c.type_ == self.type_);
        let status = self.status.as_str();
        let since = found.map(|at| &conditions[at]).filter(|known| known.status == status);
        let wanted = Condition {
            status: status.into(),
            reason: self.reason.unwrap_or_else(|| self.type_.clone()),
            type_: self.type_,
            message: self.message,
            observed_generation: self.observed_generation,
            last_transition_time: match since {
                Some(known) => known.last_transition_time.clone(),
                None => self.clock.time(),
            },
        };
        match found.map(|at| &mut conditions[at]) {
            Some(known) if *known == wanted => return false,
            Some(known) => *known = wanted,
            None => conditions.push(wanted),
        }
        true
    }
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
/// use windlass::condition::{self, ConditionBuilder};
/// let mut conditions = Vec::new();
/// ConditionBuilder::new("Degraded", true).reason("DiskFull").set(&mut conditions);
/// assert_eq!(condition::find(&conditions, "Degraded").expect("was set").reason, "DiskFull");
/// assert!(condition::remove(&mut conditions, "Degraded"));
/// assert!(!condition::remove(&mut conditions, "Degraded"), "removed already");
/// ```
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    before != conditions.len()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn transition_time_changes_only_with_the_status() {
        let clock = Clock::fixed(jiff::Timestamp::from_second(100).expect("in range"));
        let mut all = Vec::new();
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
        let mut all = Vec::new();
        ConditionBuilder::new("Ready", true).set(&mut all);
        assert_eq!(all[0].reason, "Ready", "an empty reason is invalid");
    }
}
