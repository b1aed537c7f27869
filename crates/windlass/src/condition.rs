//! Status conditions as the API conventions describe them.
//!
//! In a reconcile they are set within [`Context::status_as`](crate::Context::status_as), whose
//! example shows how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

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
    /// Returns `true` if anything changed.
    pub fn set(self, conditions: &mut Vec<Condition>) -> bool {
        let found = conditions.iter().position(|c| c.type_ == self.type_);
        let status = self.status;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn transition_time_changes_only_with_the_status() {
        let clock = Clock::fixed(jiff::Timestamp::from_second(100).expect("in range"));
        let mut all = Vec::new();
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
        assert!(is_true(&all, "Ready") && find(&all, "Other").is_none());
    }

    #[test]
    fn a_condition_without_reason_has_its_type_as_reason() {
        let mut all = Vec::new();
        ConditionBuilder::new("Ready".into(), None, None, &Clock::system()).set(&mut all);
        assert_eq!(all[0].reason, "Ready", "an empty reason is invalid");
        assert_eq!(all[0].status, "Unknown");
    }
}
