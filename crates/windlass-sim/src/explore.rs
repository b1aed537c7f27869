//! The exploration of a scenario: reference, plans, oracles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass::Result;

use crate::canonical::Canonical;
use crate::oracle::{self, Check, Oracle, Verdict, Violation};
use crate::plan::{Fault, Plan};
use crate::report::{Failure, Report, Shown};
use crate::run::{self, Settings};
use crate::sim::{AssertKind, Outcome, Sim, intents};
use crate::{controllers, enumerate, kept, shrink};

/// How long `cargo test` explores a scenario.
const BUDGET: Duration = Duration::from_secs(5);
/// The most failures that are kept.
const FAILURES_MAX: usize = 50;
/// The environment variable with a plan to replay.
pub(crate) const REPLAY: &str = "WINDLASS_REPLAY";
/// The environment variable with the budget in seconds, or `all`.
const SECONDS: &str = "WINDLASS_SIM_SECS";
/// The environment variable with the number of threads.
const JOBS: &str = "WINDLASS_SIM_JOBS";

/// Explores a scenario for a few seconds, and panics with a report if an oracle is violated.
///
/// The name is that of the test, so that the replay line in the report works. [`Sim`] has an
/// example, and [`Explore`] the options.
///
/// # Panics
///
/// Panics if a run violates an oracle, if the scenario is not deterministic, or if a property was
/// never looked at.
pub fn explore<F>(name: &str, scenario: F)
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    Explore::of(name, scenario).check();
}

/// Explores a scenario, with options.
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::{Context, Controller, Manager, Next};
/// use windlass_sim::{Explore, Fault, Sim};
///
/// let report = Explore::of("idle", async |sim: &mut Sim| {
///     sim.operator(|client| {
///         let idle = |_: Context<ConfigMap>| async { Ok(Next::Done) };
///         Manager::new(client).add(Controller::<ConfigMap>::builder("idle").build(idle))
///     });
///     sim.create(&ConfigMap { metadata: windlass_sim::named("a"), ..Default::default() }).await?;
///     sim.settle("created").await
/// })
/// .faults(&[Fault::Reset, Fault::HoldLong])
/// .budget(Duration::from_secs(1))
/// .run();
/// assert!(report.is_ok(), "{report}");
/// ```
#[must_use = "nothing is explored before `run` or `check`"]
pub struct Explore<F> {
    name: String,
    scenario: F,
    budget: Option<Duration>,
    seed: u64,
    jobs: usize,
    stale_lists: bool,
    faults: Option<Vec<Fault>>,
    without: Vec<Oracle>,
    until: Option<Oracle>,
    singles_only: bool,
}

/// What all runs of an exploration share.
pub(crate) struct Ground<'a, F> {
    pub scenario: &'a F,
    pub settings: Settings,
    pub reference: Outcome,
    pub reference_end: Canonical,
    pub without: &'a [Oracle],
}

/// What the workers of an exploration collect.
#[derive(Default)]
struct Progress {
    ran: usize,
    unreached: Vec<Plan>,
    failures: Vec<(Plan, Vec<Violation>)>,
    looked: BTreeMap<Oracle, u64>,
    /// Properties stated with `sometimes`, and whether they held.
    sometimes: BTreeMap<String, bool>,
    done: bool,
}

// === impl Explore ===

impl<F> Explore<F>
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    /// Explores a scenario with this name.
    pub fn of(name: &str, scenario: F) -> Self {
        let budget = match std::env::var(SECONDS).ok().as_deref() {
            Some("all") => None,
            Some(text) => Some(text.parse().map_or(BUDGET, Duration::from_secs)),
            None => Some(BUDGET),
        };
        Self {
            name: name.to_owned(),
            scenario,
            budget,
            seed: 7,
            jobs: std::env::var(JOBS).ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1),
            stale_lists: false,
            faults: None,
            without: Vec::new(),
            until: None,
            singles_only: false,
        }
    }

    /// Sets how long plans are begun; 5 s by default, or the environment variable
    /// `WINDLASS_SIM_SECS`.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Runs all plans with a single fault, however long it takes, and no others.
    pub fn all_singles(mut self) -> Self {
        (self.budget, self.singles_only) = (None, true);
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets on how many threads plans run; 1 by default, or the environment variable
    /// `WINDLASS_SIM_JOBS`.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Also restarts replicas with lists from the past, as a server that lags behind serves them.
    ///
    /// The caches of windlass ask for the most recent state; this is for operators that read past
    /// them.
    pub fn stale_lists(mut self) -> Self {
        self.stale_lists = true;
        self
    }

    /// Explores these faults only.
    pub fn faults(mut self, faults: &[Fault]) -> Self {
        self.faults = Some(faults.to_vec());
        self
    }

    /// Leaves an oracle out.
    pub fn without(mut self, oracle: Oracle) -> Self {
        self.without.push(oracle);
        self
    }

    /// Stops as soon as this oracle is violated.
    pub fn until(mut self, oracle: Oracle) -> Self {
        self.until = Some(oracle);
        self
    }

    /// Explores, and panics with the report if something is wrong. A failing plan is kept as a file.
    ///
    /// # Panics
    ///
    /// Panics if a run violates an oracle, if the scenario is not deterministic, or if a property
    /// was never looked at.
    pub fn check(self) {
        let replay = std::env::var(REPLAY).ok();
        let replay = replay.as_deref().and_then(|text| kept::replayed(text, &self.name));
        if let Some((seed, plan)) = replay {
            let plan = plan.unwrap_or_else(|error| panic!("{REPLAY}: {error}"));
            let (text, ok) = self.seed(seed).replay(&plan);
            println!("{text}");
            assert!(ok, "the replayed plan fails, see above");
            return;
        }
        let mut report = self.run();
        if let Some(failure) = report.failures.first_mut() {
            failure.kept = kept::keep(&report.name, &failure.plan);
        }
        assert!(report.is_ok(), "\n{report}");
        println!("{report}");
    }

    /// Explores, and returns what was found.
    pub fn run(self) -> Report {
        let began = Instant::now();
        let mut report = Report::new(&self.name, self.seed);
        let Some(ground) = self.prepare(&mut report) else { return report.took(began) };
        let mut plans = enumerate::singles(&ground.reference, self.stale_lists);
        if let Some(faults) = &self.faults {
            plans.retain(|plan| plan.faults.iter().all(|(fault, _)| faults.contains(fault)));
        }
        report.singles = plans.len();
        let singles = plans.clone();
        let kept = kept::plans(&self.name);
        let first = kept.len();
        let mut all: Vec<Plan> = kept.into_iter().map(|(_, plan)| plan).collect();
        all.extend(plans);
        if !self.singles_only {
            let mut pairs = enumerate::pairs(&ground.reference);
            if let Some(faults) = &self.faults {
                pairs.retain(|plan| plan.faults.iter().all(|(fault, _)| faults.contains(fault)));
            }
            all.extend(pairs);
        }
        let progress = self.work(&ground, &all, &singles, began);
        report.plans = all.len();
        self.summarize(&ground, progress, first, &mut report);
        report.took(began)
    }

    /// Runs one plan and returns its whole trace and verdict.
    fn replay(&self, plan: &Plan) -> (String, bool) {
        let mut report = Report::new(&self.name, self.seed);
        let Some(ground) = self.prepare(&mut report) else { return (report.to_string(), false) };
        let (outcome, violations) = ground.try_plan(plan);
        let mut text = String::new();
        for record in &outcome.trace {
            text.push_str(&format!("{record}\n"));
        }
        let unreached = unreached(&outcome);
        if let Some(site) = &unreached {
            text.push_str(&format!(
                "\nthis plan does not happen any more: {site} does not occur\n"
            ));
        }
        for violation in &violations {
            text.push_str(&format!("\n{violation}"));
        }
        (text, violations.is_empty() && unreached.is_none())
    }

    /// Runs the reference twice and asks the oracles about it; `None` if that is not fine.
    fn prepare(&self, report: &mut Report) -> Option<Ground<'_, F>> {
        let mut settings = Settings { seed: self.seed, ..Settings::default() };
        let probe = run::run(&self.scenario, &Plan::default(), &settings);
        settings.controllers = Some(controllers::needed(&probe));
        settings.base = run::base(&probe, &settings).map(Arc::new);
        let reference = run::reference(&self.scenario, &settings);
        let again = run::reference(&self.scenario, &settings);
        report.requests = reference.requests;
        if let Some(difference) = crate::report::first_difference(&reference, &again) {
            report.nondeterministic = Some(difference);
            return None;
        }
        let reference_end = Canonical::of(&reference);
        let scenario = &self.scenario;
        let without = &self.without[..];
        let ground = Ground { scenario, settings, reference, reference_end, without };
        let mut violations = ground.judge(&ground.reference, true).violations;
        if !violations.iter().any(|violation| violation.oracle == Oracle::Completes) {
            violations.extend(ground.compare_with_zero());
        }
        violations.retain(|violation| !self.without.contains(&violation.oracle));
        if !violations.is_empty() {
            report.plans = 1;
            report.ran = 1;
            let failure = Failure::new(&ground, Plan::default(), violations, &ground.reference);
            report.failures.push(failure);
            return None;
        }
        Some(ground)
    }

    /// Runs plans until all have run or the budget is used.
    fn work(
        &self,
        ground: &Ground<'_, F>,
        plans: &[Plan],
        singles: &[Plan],
        began: Instant,
    ) -> Progress {
        let progress = Mutex::new(Progress::default());
        let next = AtomicUsize::new(0);
        progress.lock().note(&ground.reference, &ground.judge(&ground.reference, true));
        let in_time = || self.budget.is_none_or(|budget| began.elapsed() < budget);
        let shown = Shown::new(&self.name, plans.len());
        std::thread::scope(|scope| {
            let worker = || {
                while in_time() && !progress.lock().done {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let random = self.budget.is_some() && !self.singles_only;
                    let plan = match plans.get(place) {
                        Some(plan) => plan.clone(),
                        // Random ones, until the time is over.
                        None if random => enumerate::random(singles, place as u64 + 1),
                        None => return,
                    };
                    let outcome = run::run(ground.scenario, &plan, &ground.settings);
                    let verdict = ground.judge(&outcome, false);
                    let mut progress = progress.lock();
                    progress.add(plan, &outcome, verdict, self.until);
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

    fn summarize(
        &self,
        ground: &Ground<'_, F>,
        progress: Progress,
        kept: usize,
        report: &mut Report,
    ) {
        report.ran = progress.ran;
        report.looked = progress.looked;
        report.unreached = progress.unreached.iter().map(ToString::to_string).collect();
        let all = kept::plans(&self.name);
        for (file, plan) in all.iter().take(kept) {
            if progress.unreached.contains(plan) {
                report.outdated.push(file.clone());
            }
        }
        let never = progress.sometimes.into_iter().filter(|(_, held)| !held);
        report.never.extend(never.map(|(name, _)| name));
        let mut failures = progress.failures.into_iter();
        if let Some((plan, violations)) = failures.next() {
            let shrunk = shrink::shrink(ground, plan, violations);
            report.failures.push(shrunk);
        }
        for (plan, violations) in failures {
            report.failures.push(Failure::brief(plan, violations));
        }
    }
}

// === impl Ground ===

impl<F> Ground<'_, F>
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    /// Asks the oracles about a run.
    pub(crate) fn judge(&self, run: &Outcome, is_reference: bool) -> Verdict {
        let end = Canonical::of(run);
        let check = Check {
            reference: &self.reference,
            reference_end: &self.reference_end,
            run,
            run_end: &end,
            is_reference,
        };
        let mut verdict = oracle::judge(&check);
        verdict.violations.retain(|violation| !self.without.contains(&violation.oracle));
        verdict
    }

    /// Runs a plan and asks the oracles.
    pub(crate) fn try_plan(&self, plan: &Plan) -> (Outcome, Vec<Violation>) {
        let outcome = run::run(self.scenario, plan, &self.settings);
        let violations = self.judge(&outcome, false).violations;
        (outcome, violations)
    }

    /// The ground of the same scenario with some steps left out; `None` if that fails by itself.
    pub(crate) fn skipping(&self, skipped: &[usize]) -> Option<Self> {
        let plan = Plan { skipped: skipped.to_vec(), ..Plan::default() };
        let reference = run::run(self.scenario, &plan, &self.settings);
        let reference_end = Canonical::of(&reference);
        let settings = self.settings.clone();
        let ground = Self { reference, reference_end, settings, ..*self };
        let clean = ground.judge(&ground.reference, true).violations.is_empty();
        clean.then_some(ground)
    }

    /// `SameFromZero`: what the user wants in the end, from nothing.
    fn compare_with_zero(&self) -> Vec<Violation> {
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
            let oracle = Oracle::SameFromZero;
            return vec![Violation { oracle, text, details: Vec::new() }];
        }
        let end = Canonical::of(&run);
        let check = Check {
            reference: &self.reference,
            reference_end: &end,
            run: &self.reference,
            run_end: &self.reference_end,
            is_reference: false,
        };
        let mut violations = oracle::compare_ends(&check, Oracle::SameFromZero).violations;
        for violation in &mut violations {
            violation.text = violation.text.replace("without the fault", "from nothing");
            for line in &mut violation.details {
                *line = line.replace("without the fault", "from nothing");
            }
        }
        violations
    }
}

// === impl Progress ===

impl Progress {
    fn add(&mut self, plan: Plan, outcome: &Outcome, verdict: Verdict, until: Option<Oracle>) {
        self.ran += 1;
        self.note(outcome, &verdict);
        // A fault of a random plan may well keep another one from happening.
        if plan.seed == 0 && unreached(outcome).is_some() {
            self.unreached.push(plan.clone());
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
        for (oracle, times) in &verdict.looked {
            *self.looked.entry(*oracle).or_default() += u64::from(*times);
        }
        for asserted in outcome.asserts.iter().filter(|a| a.kind == AssertKind::Sometimes) {
            *self.sometimes.entry(asserted.name.clone()).or_default() |= asserted.held;
        }
    }
}

/// A fault of the plan whose site did not occur.
pub(crate) fn unreached(outcome: &Outcome) -> Option<String> {
    let missing = outcome.faults.iter().find(|(_, _, fired)| !fired);
    missing.map(|(fault, site, _)| format!("{} {site}", fault.name()))
}
