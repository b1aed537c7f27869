//! Shrinking: the fewest faults and the fewest steps with which a run still fails.

use std::time::Instant;

use windlass::Result;

use crate::explore::Ground;
use crate::oracle::{Oracle, Violation};
use crate::plan::Plan;
use crate::report::{Failure, Shrunk};
use crate::sim::Sim;

/// The most runs that are spent on one failure.
const TRIES_MAX: u32 = 60;

/// Shrinks a failing plan.
pub(crate) fn shrink<F>(ground: &Ground<'_, F>, plan: Plan, violations: Vec<Violation>) -> Failure
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    let began = Instant::now();
    let oracle = violations[0].oracle;
    let mut shrunk = Shrunk { faults: (plan.faults.len(), 0), ..Shrunk::default() };
    let plan = fewer_faults(ground, plan, oracle, &mut shrunk.tries);
    let steps = ground.reference.steps;
    let (skipping, plan) = fewer_steps(ground, plan, oracle, &mut shrunk.tries);
    shrunk.faults.1 = plan.faults.len();
    shrunk.steps = (steps, steps - plan.skipped.len());
    let ground = skipping.as_ref().unwrap_or(ground);
    let (outcome, found) = match plan.skipped.is_empty() || skipping.is_some() {
        true => ground.run_plan(&plan),
        false => ground.try_plan(&plan),
    };
    shrunk.took = began.elapsed();
    let found = if found.violations.is_empty() { violations } else { found.violations };
    let mut failure = Failure::new(plan, found, &outcome);
    failure.shrunk = Some(shrunk);
    failure
}

fn fails<F>(ground: &Ground<'_, F>, plan: &Plan, oracle: Oracle, tries: &mut u32) -> bool
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    *tries += 1;
    let (outcome, verdict) = ground.run_plan(plan);
    let reached = crate::explore::unreached(&outcome).is_none();
    reached && verdict.violations.iter().any(|violation| violation.oracle == oracle)
}

/// Drops faults as long as the run still fails.
fn fewer_faults<F>(ground: &Ground<'_, F>, mut plan: Plan, oracle: Oracle, tries: &mut u32) -> Plan
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    let mut place = 0;
    while plan.faults.len() > 1 && place < plan.faults.len() && *tries < TRIES_MAX {
        let mut smaller = plan.clone();
        smaller.faults.remove(place);
        match fails(ground, &smaller, oracle, tries) {
            true => plan = smaller,
            false => place += 1,
        }
    }
    plan
}

/// Leaves out steps of the scenario, the last ones first, as long as the run still fails and the
/// scenario without faults does not.
fn fewer_steps<'a, F>(
    ground: &Ground<'a, F>,
    mut plan: Plan,
    oracle: Oracle,
    tries: &mut u32,
) -> (Option<Ground<'a, F>>, Plan)
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    let mut smallest = None;
    for step in (1..=ground.reference.steps).rev() {
        if *tries >= TRIES_MAX {
            break;
        }
        let mut smaller = plan.clone();
        smaller.skipped.insert(0, step);
        *tries += 1;
        let Ok(skipping) = ground.skipping(&smaller.skipped) else { continue };
        if fails(&skipping, &smaller, oracle, tries) {
            plan = smaller;
            smallest = Some(skipping);
        }
    }
    (smallest, plan)
}
