//! `Bounded`: the number of requests and reconciles is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Check, Oracle, Verdict, Violation};
use crate::kernel::{BACKGROUND_MAX, REQUESTS_MAX, Stopped};
use crate::sim::Outcome;
use crate::trace::What;

/// The most reconciles of one key within some seconds of virtual time: in a burst, and all the time.
const RECONCILES_MAX: [(usize, u64); 2] = [(100, 1), (150, 30)];
/// Requests that one fault may cost.
const PER_FAULT: f64 = 20.0;

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    verdict.looked(Oracle::Bounded, check.run.requests as usize);
    if let Some(violation) = looping(check.run) {
        verdict.violations.push(violation);
        return;
    }
    for (most, seconds) in RECONCILES_MAX {
        if let Some((key, at)) = hot_key(check.run, most, seconds) {
            let at = at.as_secs_f64();
            let text = format!(
                "{key} is reconciled more than {most} times within {seconds} s, until {at:.3} s"
            );
            verdict.add(Oracle::Bounded, text, Vec::new());
            break;
        }
    }
    if check.is_reference {
        return;
    }
    // What runs longer may ask more often, because of polls and leases.
    let longer = ratio(check.run.phases.rest, check.reference.phases.rest).max(1.0);
    let without = requests(check.reference);
    let faults = check.run.faults.len().max(1) as f64;
    let most = 3.0 * f64::from(without) * longer + PER_FAULT * faults;
    let number = requests(check.run);
    if f64::from(number) > most {
        let text =
            format!("the operator sends {number} requests; without the fault it sends {without}");
        verdict.add(Oracle::Bounded, text, busiest(check.run));
    }
}

/// A violation if the run was stopped at the limit of requests: what comes after it proves nothing.
pub(super) fn looping(run: &Outcome) -> Option<Violation> {
    let most = match run.stopped? {
        Stopped::Requests => REQUESTS_MAX,
        Stopped::Background => BACKGROUND_MAX,
    };
    let text = format!("the operator sends more than {most} requests; the run was stopped");
    Some(Violation { oracle: Oracle::Bounded, text, details: busiest(run) })
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1.0)
}

/// The requests of the operator until the rest at the end.
fn requests(run: &Outcome) -> u32 {
    let counted = run.trace.iter().filter(|record| {
        let request = matches!(record.what, What::Request { .. });
        request && record.life > 0 && record.at <= run.phases.rest
    });
    u32::try_from(counted.count()).unwrap_or(u32::MAX)
}

/// The most frequent requests.
fn busiest(run: &Outcome) -> Vec<String> {
    let mut counts = BTreeMap::<String, u32>::new();
    for record in run.trace.iter().filter(|record| record.life > 0) {
        if let What::Request { site, .. } = &record.what {
            *counts.entry(site.words()).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(words, n)| (n, words)).collect();
    counts.sort_by(|a, b| b.cmp(a));
    counts.into_iter().take(3).map(|(n, words)| format!("{n} × {words}")).collect()
}

/// A key that is reconciled more often than allowed within some seconds.
fn hot_key(run: &Outcome, most: usize, seconds: u64) -> Option<(&str, Duration)> {
    let mut recent = BTreeMap::<(&str, &str), VecDeque<Duration>>::new();
    for record in &run.trace {
        let What::Reconcile { key, controller, .. } = &record.what else { continue };
        let times = recent.entry((controller, key)).or_default();
        times.push_back(record.at);
        while times.front().is_some_and(|at| *at + Duration::from_secs(seconds) < record.at) {
            times.pop_front();
        }
        if times.len() > most {
            return Some((key, record.at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Record;

    /// Reconciles of one key at equal distances.
    fn every(distance: Duration, times: u32) -> Outcome {
        let record = |number: u32| Record {
            at: distance * number,
            actor: "operator".into(),
            life: 1,
            what: What::Reconcile {
                number,
                key: "default/a".into(),
                controller: "app".into(),
                causes: String::new(),
            },
        };
        Outcome { trace: (1..=times).map(record).collect(), ..Outcome::default() }
    }

    #[test]
    fn a_key_is_hot_in_a_burst_and_at_a_sustained_rate() {
        let hot = |run: &Outcome| {
            RECONCILES_MAX.iter().any(|(most, seconds)| hot_key(run, *most, *seconds).is_some())
        };
        assert!(hot(&every(Duration::from_millis(5), 150)));
        assert!(hot(&every(Duration::from_millis(150), 400)));
        assert!(!hot(&every(Duration::from_millis(150), 100)), "for a short time");
        assert!(!hot(&every(Duration::from_millis(250), 4_000)), "four times a second");
    }
}
