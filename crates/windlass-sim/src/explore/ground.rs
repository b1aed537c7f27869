//! What all runs of an exploration share, and the verdict on one of them.

use std::sync::{Arc, OnceLock};

use windlass::Result;

use crate::canonical::Canonical;
use crate::oracle::{self, Check, Oracle, Verdict, Violation};
use crate::plan::Plan;
use crate::run::{self, Settings};
use crate::sim::{Outcome, Sim, intents};
use crate::{controllers, report};

/// What all runs of an exploration share.
pub(crate) struct Ground<'a, F> {
    pub scenario: &'a F,
    pub settings: Settings,
    pub reference: Outcome,
    pub reference_end: Canonical,
    pub without: &'a [Oracle],
    /// How often oracles have looked that look at the reference only.
    pub looked: Vec<(Oracle, u32)>,
    /// The settings with a garbage collector, for runs that need one although the reference does not.
    collecting: Arc<OnceLock<Settings>>,
}

/// Why there is nothing to explore.
pub(super) enum Unfit<'a, F> {
    /// Two runs differ; the text says where.
    NotDeterministic(u32, String),
    /// The reference violates oracles.
    Fails(Box<Ground<'a, F>>, Vec<Violation>),
}

// === impl Ground ===

impl<'a, F> Ground<'a, F>
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    /// Runs the reference twice and asks the oracles about it.
    pub(super) fn prepare(
        scenario: &'a F,
        seed: u64,
        without: &'a [Oracle],
        stateless: bool,
    ) -> Result<Self, Unfit<'a, F>> {
        let mut settings = Settings { seed, collects: stateless, ..Settings::default() };
        let probe = run::run(scenario, &Plan::default(), &settings);
        settings.controllers = Some(controllers::needed(&probe));
        settings.role.clone_from(&probe.role);
        settings.base = run::base(&probe, &settings).map(Arc::new);
        let mut reference = run::reference(scenario, &settings);
        let again = run::reference(scenario, &settings);
        if let Some(difference) = report::first_difference(&reference, &again) {
            return Err(Unfit::NotDeterministic(reference.requests, difference));
        }
        let reference_end = Canonical::of(&reference);
        let checkpoints = std::mem::take(&mut reference.checkpoints);
        let looked = Vec::new();
        let collecting = Arc::default();
        let mut ground =
            Self { scenario, settings, reference, reference_end, without, looked, collecting };
        let mut violations = ground.judge(&ground.reference, true).violations;
        let complete = !violations.iter().any(|violation| violation.oracle == Oracle::Completes);
        if complete && !without.contains(&Oracle::SameFromZero) {
            let verdict = ground.compare_with_zero();
            ground.looked = verdict.looked;
            violations.extend(verdict.violations);
        }
        ground.settings.checkpoints = Arc::new(ground.fit(checkpoints));
        violations.retain(|violation| !without.contains(&violation.oracle));
        match violations.is_empty() {
            true => Ok(ground),
            false => Err(Unfit::Fails(Box::new(ground), violations)),
        }
    }

    /// What the oracles object to in a reference.
    pub(super) fn objections(&self, run: &Outcome, end: &Canonical) -> Vec<Violation> {
        let check =
            Check { reference: run, reference_end: end, run, run_end: end, is_reference: true };
        let mut violations = oracle::judge(&check).violations;
        violations.retain(|violation| !self.without.contains(&violation.oracle));
        violations
    }

    /// Asks the oracles about a run.
    pub(crate) fn judge(&self, run: &Outcome, is_reference: bool) -> Verdict {
        let end = Canonical::of(run);
        let (reference, reference_end) = match self.settings.checkpoint(run.rejoined) {
            Some(checkpoint) => (&checkpoint.run, &checkpoint.end),
            None => (&self.reference, &self.reference_end),
        };
        let check = Check { reference, reference_end, run, run_end: &end, is_reference };
        let mut verdict = oracle::judge(&check);
        verdict.violations.retain(|violation| !self.without.contains(&violation.oracle));
        verdict
    }

    /// Runs a plan and asks the oracles.
    ///
    /// A plan that leaves out steps of the scenario is compared with a reference that leaves them
    /// out as well. If that fails by itself, the plan fails with what it violates.
    pub(crate) fn try_plan(&self, plan: &Plan) -> (Outcome, Verdict) {
        if plan.skipped.is_empty() {
            return self.run_plan(plan);
        }
        match self.skipping(&plan.skipped) {
            Ok(skipping) => skipping.run_plan(plan),
            Err((outcome, mut verdict)) => {
                for violation in &mut verdict.violations {
                    violation
                        .text
                        .push_str(" (without a fault, if the steps of the plan are left out)");
                }
                (outcome, verdict)
            }
        }
    }

    /// Runs a plan whose steps are those of this reference, and asks the oracles.
    pub(crate) fn run_plan(&self, plan: &Plan) -> (Outcome, Verdict) {
        let outcome = self.run(plan);
        let verdict = self.judge(&outcome, false);
        (outcome, verdict)
    }

    /// Runs a plan, with a garbage collector if the fault gives it something to do.
    fn run(&self, plan: &Plan) -> Outcome {
        let start = self.start_of(plan);
        let settings = Settings { start, ..self.settings.clone() };
        let outcome = run::run(self.scenario, plan, &settings);
        let known = self.settings.controllers.as_ref();
        let has = known.is_none_or(|names| names.contains(controllers::COLLECTOR));
        if has || !controllers::collects(&outcome) {
            return outcome;
        }
        let settings = self.collecting.get_or_init(|| {
            let mut settings = self.settings.clone();
            if let Some(names) = &mut settings.controllers {
                names.insert(controllers::COLLECTOR);
            }
            settings.base = run::base(&self.reference, &settings).map(Arc::new);
            settings
        });
        run::run(self.scenario, plan, &Settings { start, ..settings.clone() })
    }

    /// The ground of the same scenario with some steps left out; a run and its verdict if that fails
    /// by itself.
    pub(crate) fn skipping(&self, skipped: &[usize]) -> Result<Self, (Outcome, Verdict)> {
        let plan = Plan { skipped: skipped.to_vec(), ..Plan::default() };
        let reference = self.run(&plan);
        let reference_end = Canonical::of(&reference);
        let settings = Settings { checkpoints: Arc::default(), ..self.settings.clone() };
        let (looked, collecting) = (Vec::new(), self.collecting.clone());
        let ground = Self { reference, reference_end, settings, looked, collecting, ..*self };
        let verdict = ground.judge(&ground.reference, true);
        match verdict.violations.is_empty() {
            true => Ok(ground),
            false => Err((ground.reference, verdict)),
        }
    }

    /// `SameFromZero`: what the user wants in the end, from nothing.
    fn compare_with_zero(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let reference = &self.reference;
        let kinds = reference.kinds();
        let by_user = |change: &crate::world::Change| {
            let place = reference.history.iter().position(|c| c.revision == change.revision);
            let author = place.and_then(|place| reference.authors[place]);
            author.is_some_and(|author| reference.writes[author].actor == "user")
        };
        let kind = |resource: &str| kinds.get(resource).cloned();
        let intents = intents(&reference.history, &reference.end, &kind, by_user);
        let run = run::from_zero(self.scenario, intents, &self.settings);
        if let Some(error) = &run.error {
            let text =
                format!("what the user wants in the end cannot be had from nothing: {error}");
            verdict.add(Oracle::SameFromZero, text, Vec::new());
            return verdict;
        }
        if let Some(violation) = oracle::looping(&run) {
            verdict.violations.push(violation);
            return verdict;
        }
        let end = Canonical::of(&run);
        let check = Check {
            reference: &run,
            reference_end: &end,
            run: &self.reference,
            run_end: &self.reference_end,
            is_reference: false,
        };
        oracle::compare_with_zero(&check)
    }
}

/// A fault of the plan whose site did not occur.
pub(crate) fn unreached(outcome: &Outcome) -> Option<String> {
    let missing = outcome.faults.iter().find(|(_, _, fired)| !fired);
    missing.map(|(fault, site, _)| format!("{} {site}", fault.name()))
}
