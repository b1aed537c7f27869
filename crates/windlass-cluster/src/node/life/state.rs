//! States, conditions and times, as a kubelet writes them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How long a container waits before its next start.
pub fn pause(restarts: i32) -> Duration {
    match restarts {
        ..=0 => Duration::ZERO,
        1..=5 => Duration::from_secs(10 << (restarts - 1)),
        _ => Duration::from_secs(300),
    }
}

pub fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

pub fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

pub fn running(now: Timestamp) -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(time(now)) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

pub fn waits(reason: &str, message: String) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.into()),
        message: Some(message).filter(|m| !m.is_empty()),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

pub fn ended(code: i32, reason: &str, started: Option<Time>, now: Timestamp) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: code,
        reason: Some(reason.into()),
        started_at: started,
        finished_at: Some(time(now)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// Sets a condition; its time moves only with its status.
pub fn put(
    status: &mut PodStatus,
    type_: &str,
    value: bool,
    why: Option<(&str, String)>,
    now: Timestamp,
) {
    let conditions = status.conditions.get_or_insert_default();
    let value = if value { "True" } else { "False" };
    let (reason, message) = why.map_or((None, None), |(reason, message)| {
        (Some(reason.to_string()), Some(message).filter(|m| !m.is_empty()))
    });
    let found = conditions.iter_mut().find(|c| c.type_ == type_);
    let since = found.as_ref().filter(|c| c.status == value);
    let since = since.and_then(|c| c.last_transition_time.clone());
    let generation = found.as_ref().and_then(|c| c.observed_generation);
    let condition = PodCondition {
        type_: type_.into(),
        status: value.into(),
        reason,
        message,
        observed_generation: generation,
        last_transition_time: Some(since.unwrap_or_else(|| time(now))),
        ..PodCondition::default()
    };
    match found {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}
