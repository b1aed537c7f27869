//! One run of a scenario under a plan, on a runtime of its own with virtual time.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windlass::Result;

use crate::plan::Plan;
use crate::role::Role;
use crate::sim::{Base, Checkpoint, Intent, Mode, Outcome, Sim};

/// What a run needs besides the scenario and the plan.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub seed: u64,
    /// The embedded controllers that run; `None` runs all.
    pub controllers: Option<BTreeSet<&'static str>>,
    /// A cluster that has started, which every run continues; `None` starts one per run.
    pub base: Option<Arc<Base>>,
    /// The role of the operator, if a run has found it out.
    pub role: Option<Role>,
    /// The reference keeps its checkpoints.
    pub collects: bool,
    /// The checkpoints of the reference, at which runs end if they can.
    pub checkpoints: Arc<Vec<Checkpoint>>,
    /// The place of the checkpoint at which a run begins.
    pub start: Option<usize>,
}

// === impl Settings ===

impl Settings {
    /// The checkpoint after so many waits for rest.
    pub(crate) fn checkpoint(&self, settles: Option<usize>) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|checkpoint| Some(checkpoint.settles) == settles)
    }
}

/// Runs the scenario under a plan.
pub(crate) fn run<F>(scenario: &F, plan: &Plan, settings: &Settings) -> Outcome
where
    F: AsyncFn(&mut Sim) -> Result<()>,
{
    run_as(scenario, plan, settings, Mode::Scenario)
}

/// Runs the scenario without faults, with the additional checks of a reference.
pub(crate) fn reference<F>(scenario: &F, settings: &Settings) -> Outcome
where
    F: AsyncFn(&mut Sim) -> Result<()>,
{
    run_as(scenario, &Plan::default(), settings, Mode::Reference)
}

/// Brings about at once what the user wanted in the end.
pub(crate) fn from_zero<F>(scenario: &F, intents: Vec<Intent>, settings: &Settings) -> Outcome
where
    F: AsyncFn(&mut Sim) -> Result<()>,
{
    run_as(scenario, &Plan::default(), settings, Mode::FromZero(Arc::new(intents)))
}

/// Starts a cluster for a scenario like the one of this run, for other runs to continue.
pub(crate) fn base(probe: &Outcome, settings: &Settings) -> Option<Base> {
    let runtime = runtime().ok()?;
    let setup = (probe.definitions.clone(), probe.role.clone());
    let base = runtime.block_on(Base::start(
        setup,
        settings.seed,
        settings.controllers.clone(),
        probe.embedded.clone(),
    ));
    base.ok()
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()
}

fn run_as<F>(scenario: &F, plan: &Plan, settings: &Settings, mode: Mode) -> Outcome
where
    F: AsyncFn(&mut Sim) -> Result<()>,
{
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(error.to_string()),
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut sim = Sim::new(plan, settings.seed, mode);
            sim.controllers.clone_from(&settings.controllers);
            sim.base.clone_from(&settings.base);
            sim.known_role.clone_from(&settings.role);
            match sim.mode {
                Mode::Scenario => {
                    sim.checkpoints.clone_from(&settings.checkpoints);
                    sim.start = settings.start;
                }
                Mode::Reference => sim.collected = settings.collects.then(Vec::new),
                Mode::FromZero(_) => {}
            }
            let result = scenario(&mut sim).await;
            sim.finish(result).await
        })
    }));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        failed(format!("the scenario panicked: {}", text.unwrap_or_default()))
    })
}

fn failed(error: String) -> Outcome {
    Outcome { error: Some(error), ..Outcome::default() }
}
