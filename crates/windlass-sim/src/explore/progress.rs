//! The work of an exploration: plans run until all have run or the budget is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass::Result;

use super::ground::{Ground, unreached};
use crate::oracle::{Oracle, Verdict, Violation};
use crate::plan::Plan;
use crate::report::Shown;
use crate::role::Right;
use crate::sim::{AssertKind, Outcome, Sim};
use crate::{enumerate, role};

/// The most failures that are kept.
const FAILURES_MAX: usize = 50;

/// What is to do.
pub(super) struct Work<'a> {
    pub name: &'a str,
    /// Kept plans, which run whatever the budget is.
    pub kept: &'a [(String, Plan)],
    pub plans: &'a [Plan],
    /// The plans that random ones are made of, if there are random ones.
    pub singles: Option<&'a [Plan]>,
    pub budget: Option<Duration>,
    pub jobs: usize,
    pub until: Option<Oracle>,
}

/// What the workers of an exploration collect.
#[derive(Default)]
pub(super) struct Progress {
    pub ran: usize,
    /// How many runs ended early, in the state of the reference.
    pub rejoined: usize,
    pub unreached: Vec<Plan>,
    /// Files of kept plans with a site that did not occur.
    pub outdated: Vec<String>,
    pub failures: Vec<(Plan, Vec<Violation>)>,
    pub looked: BTreeMap<Oracle, u64>,
    /// The rights that the operator has used.
    pub used: BTreeSet<Right>,
    /// What the author stated, by name.
    pub stated: BTreeMap<String, Stated>,
    done: bool,
}

/// What became of a property that the author stated, over all runs.
pub(super) struct Stated {
    pub kind: AssertKind,
    /// How many states were looked at.
    pub looked: u64,
    /// It held at least once.
    pub held: bool,
}

// === impl Work ===

impl Work<'_> {
    /// Runs plans: the kept ones, all others while there is time, then random ones.
    pub(super) fn run<F>(&self, ground: &Ground<'_, F>) -> Progress
    where
        F: AsyncFn(&mut Sim) -> Result<()> + Sync,
    {
        let progress = Mutex::new(Progress::default());
        let mut verdict = ground.judge(&ground.reference, true);
        verdict.looked.extend(&ground.looked);
        progress.lock().note(&ground.reference, &verdict);
        let began = Instant::now();
        let in_time = |place: usize| match self.budget {
            None => true,
            // One plan runs at least, however slow the machine is.
            Some(budget) => {
                began.elapsed() < budget || (place == self.kept.len() && !budget.is_zero())
            }
        };
        let next = AtomicUsize::new(0);
        let shown = Shown::new(self.name, self.kept.len() + self.plans.len());
        std::thread::scope(|scope| {
            let worker = || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let kept = self.kept.get(place);
                    if kept.is_none() && (!in_time(place) || progress.lock().done) {
                        return;
                    }
                    let Some(plan) = self.plan(place) else { return };
                    let (outcome, verdict) = ground.try_plan(&plan);
                    let mut progress = progress.lock();
                    let file = kept.map(|(file, _)| file.as_str());
                    progress.add((plan, file), &outcome, verdict, self.until);
                    shown.update(progress.ran, progress.failures.len());
                }
            };
            for _ in 1..self.jobs {
                scope.spawn(worker);
            }
            worker();
        });
        shown.end();
        progress.into_inner()
    }

    /// The plan at a place: of the kept ones, the others, and the random ones after them.
    fn plan(&self, place: usize) -> Option<Plan> {
        if let Some((_, plan)) = self.kept.get(place) {
            return Some(plan.clone());
        }
        let known = self.plans.get(place - self.kept.len()).cloned();
        known.or_else(|| Some(enumerate::random(self.singles?, place as u64 + 1)))
    }
}

// === impl Progress ===

impl Progress {
    fn add(
        &mut self,
        (plan, file): (Plan, Option<&str>),
        outcome: &Outcome,
        verdict: Verdict,
        until: Option<Oracle>,
    ) {
        self.ran += 1;
        self.rejoined += usize::from(outcome.rejoined.is_some());
        self.note(outcome, &verdict);
        match (unreached(outcome), file) {
            (Some(_), Some(file)) => self.outdated.push(file.to_owned()),
            // A fault of a random plan may well keep another one from happening.
            (Some(_), None) if plan.seed == 0 => self.unreached.push(plan.clone()),
            _ => {}
        }
        let hit = |violation: &Violation| until == Some(violation.oracle);
        self.done |= verdict.violations.iter().any(hit);
        if !verdict.violations.is_empty() && self.failures.len() < FAILURES_MAX {
            self.failures.push((plan, verdict.violations));
        }
        // What stopped the exploration comes first.
        let hits = |(_, violations): &(Plan, Vec<Violation>)| !violations.iter().any(hit);
        self.failures.sort_by_key(hits);
    }

    fn note(&mut self, outcome: &Outcome, verdict: &Verdict) {
        if outcome.role.is_some() {
            self.used.append(&mut role::used(outcome));
        }
        for (oracle, times) in &verdict.looked {
            *self.looked.entry(*oracle).or_default() += u64::from(*times);
        }
        for asserted in &outcome.asserts {
            let new = Stated { kind: asserted.kind, looked: 0, held: false };
            let stated = self.stated.entry(asserted.name.clone()).or_insert(new);
            stated.looked += u64::from(asserted.looked);
            stated.held |= asserted.held;
            if asserted.kind == AssertKind::Sometimes {
                *self.looked.entry(Oracle::Sometimes).or_default() += u64::from(asserted.looked);
            }
        }
    }
}
