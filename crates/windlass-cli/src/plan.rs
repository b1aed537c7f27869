//! `windlass plan`: what the operator would do, on a copy of a cluster in this process.
//!
//! The state is loaded into an embedded cluster, the operator runs there until nothing changes any
//! more, and what it changed is printed. The cluster that the state came from is only read.

mod difference;
mod load;
mod settle;
mod virtual_time;
mod worker;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use self::difference::{Differences, State};
use self::settle::Settle;
use self::worker::Worker;
use crate::cluster::{ClusterArgs, Running, block_on};
use crate::failure::Failure;
use crate::install::program;
use crate::objects::Objects;
use crate::private_file::{private_temp_dir, write_private};
use crate::program::Program;
use crate::project::{Project, ProjectArgs};
use crate::signals::uninterrupted;
use crate::target_cluster::NamedArgs;

/// The exit status if something would be lost.
const DESTRUCTIVE: u8 = 2;
/// What a signal leaves behind.
const UNCHANGED: &str = "nothing was changed";

/// Show what the operator would do, without doing it.
///
/// The state comes from a file or directory of manifests (`kubectl get -o yaml`), or from a cluster
/// that you name, which is only read. Without either, the samples of the project are the state. The
/// exit status is 2 if objects would be deleted or replaced.
#[derive(Args)]
pub struct PlanArgs {
    #[command(flatten)]
    project: ProjectArgs,

    #[command(flatten)]
    cluster: NamedArgs,

    /// Take the state from this file or directory.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["context", "kubeconfig"])]
    from: Option<PathBuf>,

    /// Compare two builds of the operator: show what NEW changes after OLD has done its work.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"])]
    upgrade: Option<Vec<PathBuf>>,

    /// How the differences are printed.
    #[arg(long, short, value_enum, default_value_t = Output::Diff)]
    output: Output,

    /// Wait this many seconds at most for the operator to come to rest. Its own time is virtual: hours
    /// of it pass in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Objects with their changed lines.
    Diff,
    /// One JSON object.
    Json,
}

/// Runs the command.
pub fn run(args: PlanArgs) -> Result<u8, Failure> {
    // The status 2 says that something would be lost, and nothing else.
    plan(&args).map_err(Failure::without_code)
}

fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    // What is read from the world takes its time; what happens on the copy is in virtual time.
    let mut task = None;
    block_on(async {
        task = Some(uninterrupted(Task::read(args), UNCHANGED).await?);
        Ok(())
    })?;
    let Some(task) = task else { return Err(Failure::other(UNCHANGED)) };
    let differences = virtual_time::block_on(uninterrupted(task.carry_out(), UNCHANGED))?;
    match args.output {
        Output::Diff => say!("{}", differences.text().trim_end()),
        Output::Json => say!("{}", differences.json()),
    }
    Ok(if differences.is_destructive() { DESTRUCTIVE } else { 0 })
}

/// Everything that a plan is made of.
struct Task {
    builds: Builds,
    /// The definitions that the state was written with.
    definitions: Vec<Value>,
    /// The definitions of the new build.
    new_definitions: Vec<Value>,
    state: Vec<Value>,
    timeout: Duration,
}

// === impl Task ===

impl Task {
    async fn read(args: &PlanArgs) -> Result<Self, Failure> {
        // Files that cannot be read are reported before anything is built.
        let files = args.from.as_deref().map(load::read_files).transpose()?;
        let builds = Builds::of(args).await?;
        let samples = builds.samples.as_deref();
        let source = load::Source::of(files, &args.cluster, samples);
        let definitions = builds.first().definitions().await?;
        let state = source.read(&builds, &definitions).await?;
        let new_definitions = builds.new.definitions().await?;
        let timeout = Duration::from_secs(args.timeout);
        Ok(Self { builds, definitions, new_definitions, state, timeout })
    }

    async fn carry_out(self) -> Result<Differences, Failure> {
        let cluster = ClusterArgs::embedded(None, 1);
        let running = Running::start_without(&cluster, &load::NOT_IN_A_COPY).await?;
        let outcome = self.compare(&running).await;
        let stopped = running.stop().await;
        let differences = outcome?;
        stopped?;
        Ok(differences)
    }

    /// Loads the state, lets the operator work on it, and compares.
    async fn compare(self, running: &Running) -> Result<Differences, Failure> {
        let mut objects = Objects::new(running.server.client()).keep_local_conversion(true);
        for definition in &self.definitions {
            objects.apply(definition).await?;
        }
        load::load(&running.server, self.state).await?;
        let directory = private_temp_dir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        write_private(&kubeconfig, &running.kubeconfig)?;
        let settle = Settle::new(&running.server, self.timeout);
        settle.rest(None, "the copy of the cluster").await?;
        if let Some(old) = &self.builds.old {
            work(old, &kubeconfig, running, &settle).await?;
        }
        let before = State::of(&running.server);
        for definition in &self.new_definitions {
            objects.apply(definition).await?;
        }
        work(&self.builds.new, &kubeconfig, running, &settle).await?;
        Ok(Differences::between(&before, &State::of(&running.server)))
    }
}

/// Runs an operator until nothing changes any more.
async fn work(
    program: &Program,
    kubeconfig: &Path,
    running: &Running,
    settle: &Settle<'_>,
) -> Result<(), Failure> {
    let shown = program.path().display().to_string();
    let mut worker = Worker::start(program, kubeconfig, &running.server.clock().now())?;
    let rested = settle.rest(Some(&mut worker), &shown).await;
    worker.stop(&shown).await;
    // What the last requests have caused is part of the plan.
    rested?;
    settle.rest(None, "the copy of the cluster").await
}

/// The builds of the operator that take part.
pub(crate) struct Builds {
    /// The build that runs first, if two are compared.
    old: Option<Program>,
    new: Program,
    /// The samples of the project.
    samples: Option<PathBuf>,
}

// === impl Builds ===

impl Builds {
    async fn of(args: &PlanArgs) -> Result<Self, Failure> {
        if let Some([old, new]) = args.upgrade.as_deref() {
            for path in [old, new] {
                if !path.is_file() {
                    let shown = path.display();
                    return Err(Failure::usage(format!("{shown} is no program of an operator")));
                }
            }
            let project = Project::find(&args.project).await.ok();
            return Ok(Self {
                old: Some(Program::new(absolute(old)?)),
                new: Program::new(absolute(new)?),
                samples: project.map(|project| project.samples()),
            });
        }
        let project = Project::find(&args.project).await?;
        let new = program(&project).await?;
        Ok(Self { old: None, new, samples: Some(project.samples()) })
    }

    /// The build whose definitions the state was written with.
    fn first(&self) -> &Program {
        self.old.as_ref().unwrap_or(&self.new)
    }

    /// The roles of all builds.
    async fn access(&self) -> Result<Vec<Value>, Failure> {
        let mut access = self.new.access().await?;
        if let Some(old) = &self.old {
            access.extend(old.access().await?);
        }
        Ok(access)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))
}
