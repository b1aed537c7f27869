//! The exploration of a scenario: reference, plans, oracles.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use windlass::Result;

use crate::kept::{self, Kept};
use crate::oracle::Oracle;
use crate::plan::{Fault, Plan};
use crate::report::{Failure, Report};
use crate::sim::{AssertKind, Sim};
use crate::{enumerate, shrink};

mod checkpoints;
mod environment;
mod ground;
mod progress;

use environment::{Budget, Environment, Mine};
use ground::Unfit;
pub(crate) use ground::{Ground, unreached};
use progress::{Progress, Work};

/// How long `cargo test` explores a scenario.
const BUDGET: Duration = Duration::from_secs(5);

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
    stateless: bool,
    plans: Option<PathBuf>,
    environment: Environment,
}

// === impl Explore ===

impl<F> Explore<F>
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    /// Explores a scenario with this name.
    ///
    /// # Panics
    ///
    /// Panics if an environment variable of the exploration has no valid value.
    pub fn of(name: &str, scenario: F) -> Self {
        let environment = Environment::read().unwrap_or_else(|error| panic!("{error}"));
        let budget = match environment.budget {
            None => Some(BUDGET),
            Some(Budget::All) => None,
            Some(Budget::For(time)) => Some(time),
        };
        Self {
            name: name.to_owned(),
            scenario,
            budget,
            seed: 7,
            jobs: environment.jobs.unwrap_or(1),
            stale_lists: false,
            faults: None,
            without: Vec::new(),
            until: None,
            singles_only: false,
            stateless: false,
            plans: kept::directory(),
            environment,
        }
    }

    /// Sets how long plans are begun; 5 s by default. The environment variable `WINDLASS_SIM_SECS`
    /// overrides it.
    pub fn budget(mut self, budget: Duration) -> Self {
        if self.environment.budget.is_none() {
            self.budget = Some(budget);
        }
        self
    }

    /// Runs all plans with a single fault, however long it takes, and no others, unless the
    /// environment variable `WINDLASS_SIM_SECS` asks for all plans.
    pub fn all_singles(mut self) -> Self {
        self.budget = None;
        self.singles_only = self.environment.budget != Some(Budget::All);
        self
    }

    /// Sets the directory of kept plans; `tests/plans` of the tested crate by default.
    pub fn plans(mut self, directory: impl Into<PathBuf>) -> Self {
        self.plans = Some(directory.into());
        self
    }

    /// Runs one plan and prints its trace, instead of exploring. The text is that of the environment
    /// variable `WINDLASS_REPLAY`, as a report shows it.
    ///
    /// # Panics
    ///
    /// Panics if the text is not that of a replay.
    pub fn replay(mut self, text: &str) -> Self {
        let replay = text.parse().unwrap_or_else(|error: String| panic!("{error}"));
        self.environment.replay = Some(replay);
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

    /// Restarts replicas also with lists from the past, as a server that lags behind serves them.
    ///
    /// The caches of windlass ask for the most recent state; this is for operators that read past
    /// them.
    pub fn stale_lists(mut self) -> Self {
        self.stale_lists = true;
        self
    }

    /// Declares that the operator keeps nothing in memory that decides what it does, and that neither it
    /// nor the scenario depends on how late it is.
    ///
    /// A run then begins at the last rest before its first fault, with an operator that has just started,
    /// and ends at the first rest after its last fault at which the cluster and the operator are in the
    /// state of the run without faults: caches, queues and leases included. What comes before and after
    /// is that of the run without faults, so several times as many plans run in the same time. The report
    /// says how many runs ended early. A scenario that calls [`Sim::world`] always runs from its beginning
    /// to its end.
    pub fn stateless(mut self) -> Self {
        self.stateless = true;
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
        let (plans, replays) = (self.plans.clone(), self.environment.replay.is_some());
        let mut report = self.run();
        if let (Some(failure), Some(directory), false) =
            (report.failures.first_mut(), plans, replays)
            && failure.plan != Plan::default()
        {
            failure.kept = Some(kept::keep(&directory, &report.name, &failure.plan));
        }
        assert!(report.is_ok(), "\n{report}");
        println!("{report}");
    }

    /// Explores, and returns what was found.
    ///
    /// # Panics
    ///
    /// Panics if the environment asks for the replay of another scenario.
    pub fn run(self) -> Report {
        let began = Instant::now();
        let mut report = Report::new(&self.name, self.seed);
        let mine = self.environment.replay_of(&self.name).unwrap_or_else(|error| panic!("{error}"));
        let seed = match &mine {
            Some(Mine::Replay(replay)) => replay.seed,
            _ => self.seed,
        };
        if mine == Some(Mine::Skip) {
            report.skipped = true;
            return report;
        }
        report.seed = seed;
        match Ground::prepare(&self.scenario, seed, &self.without, self.stateless) {
            Err(Unfit::NotDeterministic(requests, difference)) => {
                report.requests = requests;
                report.nondeterministic = Some(difference);
            }
            Err(Unfit::Fails(ground, violations)) => {
                (report.plans, report.ran, report.requests) = (1, 1, ground.reference.requests);
                let failure = Failure::new(Plan::default(), violations, &ground.reference);
                report.failures.push(failure);
            }
            Ok(ground) => {
                report.requests = ground.reference.requests;
                match mine {
                    Some(Mine::Replay(replay)) => replayed(&ground, &replay.plan, &mut report),
                    _ => self.explore(&ground, &mut report),
                }
            }
        }
        report.took(began)
    }

    /// Runs the plans of a scenario that is fine without faults.
    fn explore(&self, ground: &Ground<'_, F>, report: &mut Report) {
        let allowed = |plan: &Plan| {
            let faults = self.faults.as_ref();
            faults.is_none_or(|all| plan.faults.iter().all(|(fault, _)| all.contains(fault)))
        };
        let mut plans = enumerate::singles(&ground.reference, self.stale_lists);
        plans.retain(allowed);
        let singles = plans.clone();
        if !self.singles_only {
            plans.extend(enumerate::pairs(&ground.reference).into_iter().filter(allowed));
        }
        let kept = Kept::read(self.plans.as_deref(), &self.name);
        let random = self.budget.is_some() && !self.singles_only;
        let work = Work {
            name: &self.name,
            kept: &kept.plans,
            plans: &plans,
            singles: random.then_some(&singles),
            budget: self.budget,
            jobs: self.jobs,
            until: self.until,
        };
        let progress = work.run(ground);
        (report.plans, report.singles) = (kept.plans.len() + plans.len(), singles.len());
        report.unreadable = kept.unreadable;
        summarize(ground, progress, report);
    }
}

/// Runs one plan and prints its whole trace.
fn replayed<F>(ground: &Ground<'_, F>, plan: &Plan, report: &mut Report)
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    let (outcome, verdict) = ground.try_plan(plan);
    for record in &outcome.trace {
        println!("{record}");
    }
    (report.plans, report.ran) = (1, 1);
    if let Some(site) = unreached(&outcome) {
        let text = format!("The replayed plan does not happen any more: {site} does not occur");
        report.unreadable.push(text);
    }
    if !verdict.violations.is_empty() {
        report.failures.push(Failure::new(plan.clone(), verdict.violations, &outcome));
    }
}

fn summarize<F>(ground: &Ground<'_, F>, progress: Progress, report: &mut Report)
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    (report.ran, report.rejoined) = (progress.ran, progress.rejoined);
    report.looked = progress.looked;
    report.unreached = progress.unreached.iter().map(ToString::to_string).collect();
    report.outdated = progress.outdated;
    let rights = ground.reference.role.iter().flat_map(|role| &role.rights);
    let unused = rights.filter(|right| !progress.used.contains(*right));
    report.unused = unused.map(|(verb, resource)| format!("{verb} {resource}")).collect();
    for (name, stated) in progress.stated {
        match stated.kind {
            AssertKind::Sometimes if !stated.held => report.never.push(name),
            _ if stated.looked == 0 => report.unseen.push(name),
            _ => {}
        }
    }
    let mut failures = progress.failures.into_iter();
    if let Some((plan, violations)) = failures.next() {
        report.failures.push(shrink::shrink(ground, plan, violations));
    }
    for (plan, violations) in failures {
        report.failures.push(Failure::brief(plan, violations));
    }
}
