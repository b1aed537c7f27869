//! The arithmetic of autoscaling.
//!
//! Pods without a number, and pods that are not ready, are counted so that they dampen a change:
//! when scaling up as idle, when scaling down as fully used.

use std::collections::BTreeMap;

/// Changes of less than this share are left alone.
const TOLERANCE: f64 = 0.1;

/// The number of one pod.
#[derive(Debug, Clone)]
pub struct Sample {
    pub pod: String,
    /// In thousandths; `None` if it is not known.
    pub value: Option<i64>,
    /// The pod has not found its usual load yet.
    pub unready: bool,
}

/// Replicas for a share of what pods request, with the present share and average.
pub fn by_share(
    samples: &[Sample],
    requests: &BTreeMap<String, i64>,
    target: i32,
    current: i32,
) -> Result<(i32, i32, i64), String> {
    let request = |pod: &str| requests.get(pod).copied().unwrap_or(0);
    let ratio = |values: &[(&str, i64)]| {
        let used: i64 = values.iter().map(|(_, value)| *value).sum();
        let wanted: i64 = values.iter().map(|(pod, _)| request(pod)).sum();
        let share = if wanted == 0 { 0 } else { used.saturating_mul(100) / wanted };
        (share as f64 / f64::from(target.max(1)), share)
    };
    let known = known(samples)?;
    let (first, share) = ratio(&known);
    let average = known.iter().map(|(_, value)| *value).sum::<i64>() / known.len().max(1) as i64;
    let full = |pod: &str| request(pod).saturating_mul(i64::from(target.max(100))) / 100;
    let replicas = settle(samples, known, current, first, full, |values| ratio(values).0);
    Ok((replicas, i32::try_from(share).unwrap_or(i32::MAX), average))
}

/// Replicas for an average per pod, with the present average.
pub fn by_average(samples: &[Sample], target: i64, current: i32) -> Result<(i32, i64), String> {
    let target = target.max(1);
    let average = |values: &[(&str, i64)]| {
        values.iter().map(|(_, value)| *value).sum::<i64>() / values.len().max(1) as i64
    };
    let ratio = |values: &[(&str, i64)]| average(values) as f64 / target as f64;
    let known = known(samples)?;
    let (first, now) = (ratio(&known), average(&known));
    Ok((settle(samples, known, current, first, |_| target, ratio), now))
}

/// Replicas for one number that grows with the load.
pub fn by_ratio(usage: i64, target: i64, current: i32, ready: usize) -> i32 {
    let ratio = usage as f64 / target.max(1) as f64;
    if current == 0 {
        return up(ratio);
    }
    if tolerated(ratio) { current } else { up(ratio * ready as f64) }
}

/// The number of replicas for which each has its share of one metric.
pub fn by_share_of_total(usage: i64, average: i64, current: i32) -> i32 {
    let average = average.max(1) as f64;
    let ratio = usage as f64 / (average * f64::from(current.max(1)));
    if current > 0 && tolerated(ratio) { current } else { up(usage as f64 / average) }
}

/// The numbers that count at once.
fn known(samples: &[Sample]) -> Result<Vec<(&str, i64)>, String> {
    let counted = samples.iter().filter(|sample| !sample.unready);
    let known: Vec<(&str, i64)> =
        counted.filter_map(|sample| Some((sample.pod.as_str(), sample.value?))).collect();
    if known.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_string());
    }
    Ok(known)
}

fn settle<'a>(
    samples: &'a [Sample],
    mut known: Vec<(&'a str, i64)>,
    current: i32,
    first: f64,
    full: impl Fn(&str) -> i64,
    ratio: impl Fn(&[(&str, i64)]) -> f64,
) -> i32 {
    let missing = samples.iter().filter(|s| !s.unready && s.value.is_none());
    let missing: Vec<&str> = missing.map(|s| s.pod.as_str()).collect();
    let unready: Vec<&str> = samples.iter().filter(|s| s.unready).map(|s| s.pod.as_str()).collect();
    let dampen = !unready.is_empty() && first > 1.0;
    if missing.is_empty() && !dampen {
        return if tolerated(first) { current } else { up(first * known.len() as f64) };
    }
    for pod in missing {
        known.push((pod, if first < 1.0 { full(pod) } else { 0 }));
    }
    if dampen {
        known.extend(unready.into_iter().map(|pod| (pod, 0)));
    }
    let second = ratio(&known);
    let turned = (first < 1.0 && second > 1.0) || (first > 1.0 && second < 1.0);
    if tolerated(second) || turned {
        return current;
    }
    let wanted = up(second * known.len() as f64);
    let wrong_way = (second < 1.0 && wanted > current) || (second > 1.0 && wanted < current);
    if wrong_way { current } else { wanted }
}

fn tolerated(ratio: f64) -> bool {
    (1.0 - ratio).abs() <= TOLERANCE
}

fn up(number: f64) -> i32 {
    // Saturates at the bounds of the type.
    number.ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pod: &str, value: Option<i64>) -> Sample {
        Sample { pod: pod.into(), value, unready: false }
    }

    fn requests(pods: &[&str]) -> BTreeMap<String, i64> {
        pods.iter().map(|pod| (pod.to_string(), 1000)).collect()
    }

    #[test]
    fn load_above_the_target_asks_for_more() {
        let samples = [sample("a", Some(900)), sample("b", Some(700))];
        let found = by_share(&samples, &requests(&["a", "b"]), 40, 2);
        assert_eq!(found, Ok((4, 80, 800)));
    }

    #[test]
    fn small_differences_change_nothing() {
        let samples = [sample("a", Some(540)), sample("b", Some(540))];
        assert_eq!(by_share(&samples, &requests(&["a", "b"]), 50, 2).map(|f| f.0), Ok(2));
    }

    #[test]
    fn pods_without_numbers_dampen_both_ways() {
        let few = [sample("a", Some(100)), sample("b", None)];
        assert_eq!(by_average(&few, 1000, 2).map(|f| f.0), Ok(2));
        let many = [sample("a", Some(1500)), sample("b", None)];
        assert_eq!(by_average(&many, 1000, 2).map(|f| f.0), Ok(2));
    }

    #[test]
    fn a_number_for_all_is_shared_out() {
        assert_eq!(by_share_of_total(10_000, 2_000, 2), 5);
        assert_eq!(by_ratio(3_000, 1_000, 2, 2), 6);
        assert_eq!(by_ratio(1_050, 1_000, 2, 2), 2);
    }
}
