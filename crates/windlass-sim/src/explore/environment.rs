//! What the environment says about an exploration: budget, threads, the plan to replay.

use std::path::PathBuf;
use std::time::Duration;

use crate::kept::Replay;

/// The environment variable with a plan to replay.
const REPLAY: &str = "WINDLASS_REPLAY";
/// The environment variable with a file that a replay creates. If it is set, the explorations of
/// other scenarios do nothing, and a missing file means that no scenario was replayed.
const REPLAYED: &str = "WINDLASS_REPLAYED";
/// The environment variable with the budget in seconds, or `all`.
const SECONDS: &str = "WINDLASS_SIM_SECS";
/// The environment variable with the number of threads.
const JOBS: &str = "WINDLASS_SIM_JOBS";

/// The variables that an exploration reads.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Environment {
    pub budget: Option<Budget>,
    pub jobs: Option<usize>,
    pub replay: Option<Replay>,
    pub replayed: Option<PathBuf>,
}

/// How long plans are begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Every plan runs once.
    All,
    For(Duration),
}

// === impl Environment ===

impl Environment {
    /// Reads the variables of this process.
    pub(super) fn read() -> Result<Self, String> {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let replay = variable(REPLAY).map(|text| text.parse());
        Ok(Self {
            budget: variable(SECONDS).map(|text| budget(&text)).transpose()?,
            jobs: variable(JOBS).map(|text| jobs(&text)).transpose()?,
            replay: replay.transpose().map_err(|error| format!("{REPLAY}: {error}"))?,
            replayed: variable(REPLAYED).map(PathBuf::from),
        })
    }

    /// The plan to replay, if it is about this scenario; `None` if nothing is replayed.
    ///
    /// Fails if another scenario is replayed, unless a file is to be created by the right one.
    pub(super) fn replay_of(&self, scenario: &str) -> Result<Option<Mine<'_>>, String> {
        let Some(replay) = &self.replay else { return Ok(None) };
        if replay.scenario == scenario {
            if let Some(file) = &self.replayed {
                std::fs::write(file, scenario).map_err(|error| {
                    format!("{REPLAYED}: cannot write {}: {error}", file.display())
                })?;
            }
            return Ok(Some(Mine::Replay(replay)));
        }
        if self.replayed.is_some() {
            return Ok(Some(Mine::Skip));
        }
        Err(format!(
            "{REPLAY} is about the scenario {:?}, and this is {scenario:?}: run only the test of that \
             scenario, or correct its name",
            replay.scenario
        ))
    }
}

/// What a replay means for one scenario.
#[derive(Debug, PartialEq)]
pub(super) enum Mine<'a> {
    Replay(&'a Replay),
    /// Another scenario is replayed.
    Skip,
}

fn budget(text: &str) -> Result<Budget, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(Budget::All),
        (_, Ok(seconds)) if seconds > 0 => Ok(Budget::For(Duration::from_secs(seconds))),
        _ => Err(format!(
            "{SECONDS} is {text:?}: expected a number of seconds from 1, or `all` for every plan"
        )),
    }
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs) if jobs > 0 => Ok(jobs),
        _ => Err(format!("{JOBS} is {text:?}: expected a number of threads from 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Environment, String> {
        Environment::of(|other| (other == name).then(|| text.to_owned()))
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_an_error() {
        assert_eq!(read(SECONDS, "all").map(|e| e.budget), Ok(Some(Budget::All)));
        let seconds = Some(Budget::For(Duration::from_secs(9)));
        assert_eq!(read(SECONDS, "9").map(|e| e.budget), Ok(seconds));
        assert_eq!(read(JOBS, "2").map(|e| e.jobs), Ok(Some(2)));
        for (name, text) in
            [(SECONDS, "abc"), (SECONDS, "0"), (SECONDS, ""), (JOBS, "0"), (JOBS, "x")]
        {
            let error = read(name, text).unwrap_err();
            assert!(error.contains(name) && error.contains("expected"), "{error}");
        }
        for text in ["web", "web@x: lost a b c d #1", "web@7", "web@7: boom", "@7: error", "web@7:"]
        {
            let error = read(REPLAY, text).unwrap_err();
            assert!(error.contains(REPLAY), "{error}");
        }
    }

    #[test]
    fn a_replay_of_another_scenario_is_an_error_unless_somebody_looks_for_it() {
        let mut found =
            read(REPLAY, "web@7: error operator create pods default/a #1").expect("valid");
        assert!(matches!(found.replay_of("web"), Ok(Some(Mine::Replay(_)))));
        let error = found.replay_of("shop").unwrap_err();
        assert!(error.contains("\"web\"") && error.contains("\"shop\""), "{error}");
        found.replayed = Some("unused".into());
        assert_eq!(found.replay_of("shop"), Ok(Some(Mine::Skip)));
        assert_eq!(Environment::default().replay_of("web"), Ok(None));
    }
}
