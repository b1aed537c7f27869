//! How long a job waits after pods failed.

use std::time::Duration;

use crate::controllers::pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

/// The wait after the first failure; doubles.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// The failures of a job since its last success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    failures: u32,
    last: Option<Timestamp>,
}

// === impl Record ===

impl Record {
    /// The record with the pods that ended since.
    pub fn with(&self, succeeded: &[&Pod], failed: &[&Pod], now: Timestamp) -> Self {
        let mut next = self.clone();
        let success = succeeded.iter().map(|p| ended(p, now)).max();
        if success.is_some() {
            next = Self::default();
        }
        for end in failed.iter().map(|p| ended(p, now)) {
            if success.is_none_or(|success| end > success) {
                next.failures = next.failures.saturating_add(1);
                next.last = next.last.max(Some(end));
            }
        }
        next
    }

    /// Returns how long to wait still.
    pub fn remaining(&self, now: Timestamp) -> Duration {
        match self.last {
            Some(last) => remaining(self.failures, last, now),
            None => Duration::ZERO,
        }
    }
}

/// The remaining wait after a number of failures, given the time of the last one.
pub fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let wait = FIRST.saturating_mul(1 << doublings.min(10)).min(LONGEST);
    let passed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    wait.saturating_sub(passed)
}

/// When a pod ended, as far as its status shows.
pub fn ended(ended: &Pod, now: Timestamp) -> Timestamp {
    containers_ended(ended)
        .or_else(|| {
            let ready = pod::condition(ended, "Ready")?;
            Some(ready.last_transition_time.as_ref()?.0)
        })
        .or_else(|| {
            let meta = &ended.metadata;
            let grace = SignedDuration::from_secs(meta.deletion_grace_period_seconds.unwrap_or(0));
            meta.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
        })
        .or_else(|| Some(ended.metadata.creation_timestamp.as_ref()?.0))
        .unwrap_or(now)
}

fn containers_ended(ended: &Pod) -> Option<Timestamp> {
    let all = ended.status.as_ref()?.container_statuses.as_ref()?;
    let mut latest = None;
    for container in all {
        let state = container.state.as_ref()?.terminated.as_ref()?;
        latest = latest.max(Some(state.finished_at.as_ref()?.0));
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_ten_minutes() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wait = |failures| remaining(failures, at(100), at(100)).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, 100].map(wait), [0, 10, 20, 40, 320, 600, 600]);
        assert_eq!(remaining(2, at(100), at(115)).as_secs(), 5);
        assert_eq!(remaining(1, at(100), at(200)).as_secs(), 0);
    }
}
