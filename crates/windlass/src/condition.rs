//! Status conditions as the API conventions ask for them.
//!
//! In a reconcile they are set within [`Context::status`](crate::Context::status), whose example
//! shows how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::clock::Clock;

/// Sets the condition of a type; the transition time moves only when the status does.
///
/// Tells whether anything changed.
///
/// ```
/// use windlass::{clock::Clock, condition};
/// let mut conditions = Vec::new();
/// let clock = Clock::system();
/// assert!(condition::set(&mut conditions, &clock, "Ready", false, "Starting", "0 of 3", 1));
/// assert!(!condition::set(&mut conditions, &clock, "Ready", false, "Starting", "0 of 3", 1));
/// assert!(!condition::is_true(&conditions, "Ready"));
/// ```
pub fn set(
    conditions: &mut Vec<Condition>,
    clock: &Clock,
    type_: &str,
    status: bool,
    reason: &str,
    message: &str,
    generation: i64,
) -> bool {
    let status = if status { "True" } else { "False" };
    put(conditions, clock, type_, status, reason, message, generation)
}

/// Sets the condition of a type to `Unknown`; tells whether anything changed.
///
/// # Examples
///
/// ```
/// use windlass::{clock::Clock, condition};
/// let mut conditions = Vec::new();
/// condition::set_unknown(&mut conditions, &Clock::system(), "Ready", "NotSeen", "no word yet", 1);
/// let ready = condition::find(&conditions, "Ready").expect("was set");
/// assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "NotSeen"));
/// ```
pub fn set_unknown(
    conditions: &mut Vec<Condition>,
    clock: &Clock,
    type_: &str,
    reason: &str,
    message: &str,
    generation: i64,
) -> bool {
    put(conditions, clock, type_, "Unknown", reason, message, generation)
}

fn put(
    conditions: &mut Vec<Condition>,
    clock: &Clock,
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    generation: i64,
) -> bool {
    let wanted = Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: Some(generation),
        last_transition_time: clock.time(),
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        None => {
            conditions.push(wanted);
            true
        }
        Some(found) => {
            let moved = found.status != wanted.status;
            let time = if moved {
                wanted.last_transition_time.clone()
            } else {
                found.last_transition_time.clone()
            };
            let wanted = Condition { last_transition_time: time, ..wanted };
            let changed = *found != wanted;
            *found = wanted;
            changed
        }
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Tells whether the condition of a type is there and true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

/// Takes the condition of a type away; tells whether there was one.
///
/// ```
/// use windlass::{clock::Clock, condition};
/// let (mut conditions, clock) = (Vec::new(), Clock::system());
/// condition::set(&mut conditions, &clock, "Degraded", true, "DiskFull", "node-1 is full", 4);
/// assert_eq!(condition::find(&conditions, "Degraded").expect("was set").reason, "DiskFull");
/// assert!(condition::remove(&mut conditions, "Degraded"));
/// assert!(!condition::remove(&mut conditions, "Degraded"), "it is gone already");
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
    async fn transition_time_moves_only_with_the_status() {
        let clock = Clock::fixed(jiff::Timestamp::from_second(100).expect("in range"));
        let mut conditions = Vec::new();
        set(&mut conditions, &clock, "Ready", false, "A", "a", 1);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(set(&mut conditions, &clock, "Ready", false, "B", "b", 2));
        assert_eq!(conditions[0].last_transition_time.0.as_second(), 100);
        assert!(set(&mut conditions, &clock, "Ready", true, "B", "b", 2));
        assert_eq!(conditions[0].last_transition_time.0.as_second(), 110);
        assert!(remove(&mut conditions, "Ready"));
    }
}
