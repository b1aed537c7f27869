//! States, conditions and times, as a kubelet writes them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass::clock::Clock;
use windlass::condition::ConditionBuilder;

/// Returns how long a container waits before its next start.
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
    let condition = ConditionBuilder::new(type_, value, &Clock::fixed(now));
    let condition = match why {
        Some((reason, message)) => condition.reason(reason).message(message),
        None => condition,
    };
    condition.set(status.conditions.get_or_insert_default());
}
