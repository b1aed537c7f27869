//! Status conditions as the API conventions describe them.
//!
//! In a reconcile they are set within [`Context::status_as`](crate::Context::status_as), whose
//! example shows how.

use std::any::TypeId;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::clock::Clock;

/// A condition to be set in a status, made by [`Context::condition`](crate::Context::condition) in a
/// reconcile, and by [`new`](Self::new) elsewhere.
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
    /// Starts a condition without a generation: its type, whether it holds, or `None` if that is
    /// unknown, and the clock of its transition time.
    pub fn new(type_: impl Into<String>, status: impl Into<Option<bool>>, clock: &Clock) -> Self {
        let status = match status.into() {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let (type_, reason, message, clock) = (type_.into(), None, String::new(), clock.clone());
        Self { type_, status, reason, message, observed_generation: None, clock }
    }

    pub(crate) fn generation(mut self, observed: Option<i64>) -> Self {
        self.observed_generation = observed;
        self
    }

    /// Sets the reason, one word for programs. By default there is none in a condition that can do
    /// without, as those of pods, and the type of the condition in all others.
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
    /// this function does not know are kept. Where a type has `lastUpdateTime` or
    /// `lastHeartbeatTime`, it is the time of the last change.
    ///
    /// Returns `true` if anything changed. A type that cannot hold a condition is left as it is.
    pub fn set<C>(self, conditions: &mut Vec<C>) -> bool
    where
        C: Serialize + DeserializeOwned + 'static,
    {
        let found = position(conditions, &self.type_);
        let known = found.and_then(|at| serde_json::to_value(&conditions[at]).ok());
        let mut wanted = known.clone().unwrap_or_else(|| json!({"type": self.type_}));
        let now = serde_json::to_value(self.clock.time()).unwrap_or_default();
        if wanted["status"] != self.status || wanted["lastTransitionTime"].is_null() {
            wanted["lastTransitionTime"] = now.clone();
        }
        wanted["status"] = json!(self.status);
        if let Some(generation) = self.observed_generation {
            wanted["observedGeneration"] = json!(generation);
        }
        let Some((wanted, condition)) = self.explained::<C>(wanted) else { return false };
        if known.as_ref() == Some(&wanted) {
            return false;
        }
        let condition = touched(wanted, &now).unwrap_or(condition);
        match found {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
        true
    }

    /// Adds reason and message, as far as the type has or needs them. Returns the condition as JSON,
    /// too, after it went through the type: a field that the type does not have is no difference.
    fn explained<C>(&self, mut wanted: Value) -> Option<(Value, C)>
    where
        C: Serialize + DeserializeOwned + 'static,
    {
        let through = |wanted: Value| {
            let condition = serde_json::from_value::<C>(wanted).ok()?;
            Some((serde_json::to_value(&condition).ok()?, condition))
        };
        let fields = wanted.as_object_mut()?;
        for (name, text) in [("reason", self.reason.as_ref()), ("message", Some(&self.message))] {
            fields.remove(name);
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                fields.insert(name.into(), json!(text));
            }
        }
        // JSON says nothing about what is optional.
        if !is_json::<C>()
            && let Some((json, condition)) = through(wanted.clone())
            && json["reason"] != ""
        {
            return Some((json, condition));
        }
        let fields = wanted.as_object_mut()?;
        fields.entry("reason").or_insert_with(|| json!(self.type_));
        fields.entry("message").or_insert_with(|| json!(""));
        through(wanted)
    }
}

/// Returns a condition whose type has further times with those times.
fn touched<C: DeserializeOwned + 'static>(mut wanted: Value, now: &Value) -> Option<C> {
    if !is_json::<C>() {
        for name in ["lastUpdateTime", "lastHeartbeatTime"] {
            wanted[name] = now.clone();
        }
    }
    serde_json::from_value(wanted).ok()
}

fn is_json<C: 'static>() -> bool {
    TypeId::of::<C>() == TypeId::of::<Value>()
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

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use k8s_openapi::api::apps::v1::DeploymentCondition;
    use k8s_openapi::api::core::v1::{ComponentCondition, PodCondition};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn transition_time_changes_only_with_the_status() {
        let clock = Clock::fixed(jiff::Timestamp::from_second(100).expect("in range"));
        let mut all: Vec<Condition> = Vec::new();
        let ready = |status, reason, generation| {
            ConditionBuilder::new("Ready", status, &clock)
                .generation(Some(generation))
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
        ConditionBuilder::new("Ready", None, &Clock::default()).set(&mut all);
        assert_eq!(all[0].reason, "Ready", "an empty reason is invalid");
        assert_eq!(all[0].status, "Unknown");
        let mut json: Vec<Value> = Vec::new();
        ConditionBuilder::new("Ready", None, &Clock::default()).set(&mut json);
        assert_eq!((&json[0]["reason"], &json[0]["message"]), (&json!("Ready"), &json!("")));
        let mut pods: Vec<PodCondition> = Vec::new();
        ConditionBuilder::new("Ready", true, &Clock::default()).set(&mut pods);
        assert_eq!((&pods[0].reason, &pods[0].message), (&None, &None), "it can do without");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_last_update_changes_with_any_field() {
        let (clock, mut all) = (Clock::fixed("1970-01-01T00:00:00Z".parse().unwrap()), Vec::new());
        let set = |reason: &str, all: &mut Vec<DeploymentCondition>| {
            ConditionBuilder::new("Progressing", true, &clock).reason(reason).set(all)
        };
        let times = |all: &[DeploymentCondition]| {
            let second = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
            (second(&all[0].last_update_time), second(&all[0].last_transition_time))
        };
        assert!(set("A", &mut all));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!set("A", &mut all), "nothing changed");
        assert_eq!(times(&all), (Some(0), Some(0)));
        assert!(set("B", &mut all));
        assert_eq!(times(&all), (Some(10), Some(0)));
    }

    #[test]
    fn conditions_of_built_in_kinds_keep_their_own_fields() {
        let mut all: Vec<PodCondition> = serde_json::from_value(json!([
            {"type": "Ready", "status": "False", "lastProbeTime": "2026-01-01T00:00:00Z"},
        ]))
        .expect("conditions");
        let clock = Clock::default();
        let ready =
            || ConditionBuilder::new("Ready", true, &clock).generation(Some(3)).reason("Up");
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
