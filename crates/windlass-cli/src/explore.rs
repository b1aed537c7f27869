//! `windlass explore`: the explorations of this project, over all plans and on all cores.

use std::time::Duration;

use clap::Args;

use crate::child;
use crate::failure::Failure;

/// Run this project's explorations over every plan, on all cores.
///
/// Runs `cargo test` with the variables that make explorations complete: those in
/// `tests/explore.rs` if there is such a file, all tests otherwise. The exit status is that of
/// `cargo test`.
#[derive(Args)]
pub struct ExploreArgs {
    /// Run only tests whose name contains this.
    name: Option<String>,

    /// Stop after so many seconds per scenario instead of running every plan once.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    secs: Option<u32>,

    /// How many plans run at the same time; the number of cores by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// Run one plan and print its trace: the text after WINDLASS_REPLAY in a report.
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["secs", "jobs"])]
    replay: Option<String>,

    /// The package whose tests run, in a workspace.
    #[arg(long, short, value_name = "PACKAGE")]
    package: Option<String>,

    /// Build with optimizations: worth it for more than a few minutes of exploration.
    #[arg(long)]
    release: bool,
}

/// Runs the command.
pub fn run(args: ExploreArgs) -> Result<u8, Failure> {
    if let Some(replay) = &args.replay
        && !replay.contains('@')
    {
        return Err(Failure::usage(format!(
            "`{replay}` is not a plan to replay: expected `SCENARIO@SEED: FAULTS` as reports print it"
        )));
    }
    let here = std::env::current_dir()
        .map_err(|error| Failure::other(format!("cannot find the current directory: {error}")))?;
    let root = here.ancestors().find(|directory| directory.join("Cargo.toml").is_file());
    let root = root.ok_or_else(|| {
        Failure::usage(
            "there is no Cargo.toml here or above; run `windlass explore` in an operator project",
        )
    })?;
    let mut command = child::cargo();
    command.current_dir(root);
    command.args(arguments(&args, root.join("tests/explore.rs").exists()));
    let jobs = args.jobs.or_else(|| {
        std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok())
    });
    let grace = Duration::from_secs(20);
    let Some(plan) = &args.replay else {
        command
            .env("WINDLASS_SIM_SECS", args.secs.map_or("all".to_owned(), |n| n.to_string()))
            .env("WINDLASS_SIM_JOBS", jobs.unwrap_or(1).to_string())
            .env("WINDLASS_SIM_PROGRESS", "1");
        return child::run(command, "cargo", grace);
    };
    // The exploration that replays the plan creates the file; those of other scenarios do nothing.
    let directory = tempfile::tempdir()
        .map_err(|error| Failure::other(format!("cannot create a temporary directory: {error}")))?;
    let replayed = directory.path().join("replayed");
    command.env("WINDLASS_REPLAY", plan).env("WINDLASS_REPLAYED", &replayed);
    let code = child::run(command, "cargo", grace)?;
    check_replayed(code, plan, replayed.exists())
}

/// Fails if all tests pass because none of them explores the scenario of a plan.
fn check_replayed(code: u8, plan: &str, found: bool) -> Result<u8, Failure> {
    let scenario = plan.split('@').next().unwrap_or_default().trim();
    match code == 0 && !found {
        false => Ok(code),
        true => Err(Failure::other(format!(
            "no test explores the scenario {scenario:?}; check the name, and the package with --package"
        ))),
    }
}

/// The arguments of cargo.
fn arguments(args: &ExploreArgs, file_of_explorations: bool) -> Vec<String> {
    let mut all = vec!["test".to_owned()];
    if let Some(package) = &args.package {
        all.extend(["--package".to_owned(), package.clone()]);
    }
    if args.release {
        all.push("--release".to_owned());
    }
    if file_of_explorations && args.package.is_none() {
        all.extend(["--test".to_owned(), "explore".to_owned()]);
    }
    all.extend(args.name.clone());
    // One exploration after the other: each of them uses all cores.
    all.extend(["--", "--nocapture", "--test-threads=1"].map(str::to_owned));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> ExploreArgs {
        ExploreArgs {
            name: None,
            secs: None,
            jobs: None,
            replay: None,
            package: None,
            release: false,
        }
    }

    #[test]
    fn a_replay_that_no_test_has_seen_fails() {
        let plan = "web@7: error operator get pods default/a #1";
        assert!(matches!(check_replayed(0, plan, true), Ok(0)));
        assert!(matches!(check_replayed(101, plan, false), Ok(101)), "cargo has said why");
        let error = check_replayed(0, plan, false).unwrap_err().to_string();
        assert!(error.contains("no test explores the scenario \"web\""), "{error}");
    }

    #[test]
    fn the_file_of_explorations_is_preferred_to_all_tests() {
        let all = arguments(&args(), false).join(" ");
        assert_eq!(all, "test -- --nocapture --test-threads=1");
        let named = ExploreArgs { name: Some("memcached".into()), ..args() };
        let one = arguments(&named, true).join(" ");
        assert_eq!(one, "test --test explore memcached -- --nocapture --test-threads=1");
        let member = ExploreArgs { package: Some("shop".into()), release: true, ..args() };
        let one = arguments(&member, true).join(" ");
        assert_eq!(one, "test --package shop --release -- --nocapture --test-threads=1");
    }
}
