//! `Bounded`: the number of requests and reconciles is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Check, Oracle, Verdict};
use crate::sim::Outcome;
use crate::trace::What;

/// The most reconciles of one key within a second of virtual time.
const RECONCILES_MAX: usize = 100;
/// Requests that one fault may cost.
const PER_FAULT: f64 = 20.0;

pub(super) fn check(check: &Check<'_>, verdict: &mut Verdict) {
    verdict.looked(Oracle::Bounded, check.run.requests as usize);
    if let Some((key, at)) = hot_key(check.run) {
        let text = format!(
            "{key} is reconciled more than {RECONCILES_MAX} times within a second, at {:.3} s",
            at.as_secs_f64()
        );
        verdict.add(Oracle::Bounded, text, Vec::new());
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

/// A key that is reconciled too often.
fn hot_key(run: &Outcome) -> Option<(&str, Duration)> {
    let mut recent = BTreeMap::<(&str, &str), VecDeque<Duration>>::new();
    for record in &run.trace {
        let What::Reconcile { key, controller, .. } = &record.what else { continue };
        let times = recent.entry((controller, key)).or_default();
        times.push_back(record.at);
        while times.front().is_some_and(|at| *at + Duration::from_secs(1) < record.at) {
            times.pop_front();
        }
        if times.len() > RECONCILES_MAX {
            return Some((key, record.at));
        }
    }
    None
}
