//! How fast and how far an autoscaler may scale.
//!
//! **Invariant:** what is remembered is dropped when it is older than the longest period that asks
//! for it, an hour.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerSpec};
use tokio::time::Instant;

const KEEP: Duration = Duration::from_secs(3600);
const DOWN_WINDOW: Duration = Duration::from_secs(300);

/// What an autoscaler recommended and did.
#[derive(Debug, Default)]
pub struct History {
    recommended: Vec<(Instant, i32)>,
    changes: Vec<(Instant, i32)>,
}

/// A number of replicas within the bounds, and what the bounds did.
#[derive(Debug, PartialEq)]
pub struct Bounded {
    pub replicas: i32,
    pub conditions: Vec<(&'static str, bool, &'static str, &'static str)>,
}

/// A bound and what to say when it holds something back.
type Limit = (i32, &'static str, &'static str);

const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

// === impl History ===

impl History {
    /// Starts with the present number, so that the first recommendation does not cause a sudden
    /// drop.
    pub fn begin(&mut self, current: i32) {
        if self.recommended.is_empty() {
            self.recommended.push((Instant::now(), current));
        }
    }

    /// Remembers a change that was made.
    pub fn scaled(&mut self, from: i32, to: i32) {
        self.changes.push((Instant::now(), to.saturating_sub(from)));
    }

    /// Brings a recommendation within the bounds.
    pub fn bound(
        &mut self,
        spec: &HorizontalPodAutoscalerSpec,
        current: i32,
        proposed: i32,
    ) -> Bounded {
        self.recommended.retain(|(time, _)| time.elapsed() < KEEP);
        self.changes.retain(|(time, _)| time.elapsed() < KEEP);
        let behavior = spec.behavior.as_ref();
        let up = behavior.and_then(|b| b.scale_up.as_ref());
        let down = behavior.and_then(|b| b.scale_down.as_ref());
        let (stable, reason, text) = self.stabilize(current, proposed, up, down);
        self.recommended.push((Instant::now(), proposed));
        let mut conditions = vec![("AbleToScale", true, reason, text)];
        let least = spec.min_replicas.unwrap_or(1);
        let (low, high) = if behavior.is_some() {
            (self.lowest(down, current, least), self.highest(up, current, spec.max_replicas))
        } else {
            let rate = current.saturating_mul(2).max(4);
            let high = if spec.max_replicas > rate {
                (rate, UP_LIMIT.0, UP_LIMIT.1)
            } else {
                (spec.max_replicas, TOO_MANY.0, TOO_MANY.1)
            };
            ((least, TOO_FEW.0, TOO_FEW.1), high)
        };
        let within = "the desired count is within the acceptable range";
        let (replicas, limited, reason, text) = if stable < low.0 {
            (low.0, true, low.1, low.2)
        } else if stable > high.0 {
            (high.0, true, high.1, high.2)
        } else {
            (stable, false, "DesiredWithinRange", within)
        };
        conditions.push(("ScalingLimited", limited, reason, text));
        Bounded { replicas, conditions }
    }

    /// The most cautious of the recent recommendations.
    fn stabilize(
        &self,
        current: i32,
        proposed: i32,
        up: Option<&HPAScalingRules>,
        down: Option<&HPAScalingRules>,
    ) -> (i32, &'static str, &'static str) {
        let window = |rules: Option<&HPAScalingRules>, default: Duration| {
            let seconds = rules.and_then(|r| r.stabilization_window_seconds);
            seconds.map_or(default, |s| Duration::from_secs(u64::try_from(s).unwrap_or(0)))
        };
        let (up, down) = (window(up, Duration::ZERO), window(down, DOWN_WINDOW));
        let recent = |window: Duration| {
            self.recommended.iter().filter(move |(time, _)| time.elapsed() < window)
        };
        let lowest = recent(up).map(|(_, n)| *n).chain([proposed]).min().unwrap_or(proposed);
        let highest = recent(down).map(|(_, n)| *n).chain([proposed]).max().unwrap_or(proposed);
        let stable = if current < lowest {
            lowest
        } else if current > highest {
            highest
        } else {
            current.clamp(lowest.min(highest), highest.max(lowest))
        };
        match proposed.cmp(&stable) {
            std::cmp::Ordering::Less => (
                stable,
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest \
                 recent recommendation",
            ),
            std::cmp::Ordering::Greater => (
                stable,
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent \
                 recommendation",
            ),
            std::cmp::Ordering::Equal => {
                (stable, "ReadyForNewScale", "recommended size matches current size")
            }
        }
    }

    /// How many replicas there were at the start of a period.
    fn at_start(&self, current: i32, period: i32, sign: i32) -> i32 {
        let period = Duration::from_secs(u64::try_from(period).unwrap_or(0));
        let recent = self.changes.iter().filter(|(time, _)| time.elapsed() < period);
        let change: i32 = recent.map(|(_, n)| *n).filter(|n| n.signum() == sign).sum();
        current.saturating_sub(change)
    }

    fn highest(&self, rules: Option<&HPAScalingRules>, current: i32, most: i32) -> Limit {
        let allowed = |type_: &str, value: i32, start: i32| match type_ {
            "Pods" => start.saturating_add(value),
            _ => (f64::from(start) * (1.0 + f64::from(value) / 100.0)).ceil() as i32,
        };
        let limit = self.limit(rules, current, 1, allowed);
        match limit {
            Some(limit) if limit < most => (limit.max(current), UP_LIMIT.0, UP_LIMIT.1),
            _ => (most, TOO_MANY.0, TOO_MANY.1),
        }
    }

    fn lowest(&self, rules: Option<&HPAScalingRules>, current: i32, least: i32) -> Limit {
        let allowed = |type_: &str, value: i32, start: i32| match type_ {
            "Pods" => start.saturating_sub(value),
            _ => (f64::from(start) * (1.0 - f64::from(value) / 100.0)) as i32,
        };
        let limit = self.limit(rules, current, -1, allowed);
        match limit {
            Some(limit) if limit > least => (limit.min(current), DOWN_LIMIT.0, DOWN_LIMIT.1),
            _ => (least, TOO_FEW.0, TOO_FEW.1),
        }
    }

    /// The bound the policies come to; `None` without any.
    fn limit(
        &self,
        rules: Option<&HPAScalingRules>,
        current: i32,
        sign: i32,
        allowed: impl Fn(&str, i32, i32) -> i32,
    ) -> Option<i32> {
        let rules = rules?;
        let select = rules.select_policy.as_deref().unwrap_or("Max");
        if select == "Disabled" {
            return Some(current);
        }
        let limits = rules.policies.iter().flatten().map(|policy| {
            let start = self.at_start(current, policy.period_seconds, sign);
            allowed(&policy.type_, policy.value, start)
        });
        // The largest change is the highest bound upwards and the lowest downwards.
        if (select == "Max") == (sign > 0) { limits.max() } else { limits.min() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(most: i32) -> HorizontalPodAutoscalerSpec {
        HorizontalPodAutoscalerSpec {
            min_replicas: Some(2),
            max_replicas: most,
            ..HorizontalPodAutoscalerSpec::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn going_down_waits_for_five_minutes() {
        let mut history = History::default();
        history.begin(6);
        let bounded = history.bound(&spec(10), 6, 2);
        assert_eq!((bounded.replicas, bounded.conditions[0].2), (6, "ScaleDownStabilized"));
        tokio::time::advance(Duration::from_secs(301)).await;
        assert_eq!(history.bound(&spec(10), 6, 1).replicas, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn going_up_at_most_doubles() {
        let mut history = History::default();
        history.begin(3);
        let bounded = history.bound(&spec(100), 3, 50);
        assert_eq!((bounded.replicas, bounded.conditions[1].2), (6, "ScaleUpLimit"));
        let bounded = history.bound(&spec(5), 3, 50);
        assert_eq!((bounded.replicas, bounded.conditions[1].2), (5, "TooManyReplicas"));
    }
}
