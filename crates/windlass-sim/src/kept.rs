//! Plans that are kept: files beside the tests, and the text of a replay line.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::plan::{Fault, Plan};

/// The beginning of the line of a file that names the scenario.
const SCENARIO: &str = "# scenario: ";
/// What to do about a file that cannot be read.
const CORRECT: &str = "; correct it or delete the file";
/// The most bytes of the name of a file.
const NAME_MAX: usize = 150;

/// The kept plans of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The plans by file, in the order of the files.
    pub plans: Vec<(String, Plan)>,
    /// What is wrong with files that cannot be read as plans.
    pub unreadable: Vec<String>,
}

/// A replay line: `SCENARIO@SEED: FAULTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    pub scenario: String,
    pub seed: u64,
    pub plan: Plan,
}

/// The directory of kept plans, beside the tests of the crate that is tested.
pub(crate) fn directory() -> Option<PathBuf> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR")?;
    Some(Path::new(&root).join("tests").join("plans"))
}

// === impl Kept ===

impl Kept {
    /// Reads the kept plans of a scenario from a directory, which need not exist.
    pub(crate) fn read(directory: Option<&Path>, scenario: &str) -> Self {
        let mut kept = Self::default();
        let Some(directory) = directory else { return kept };
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return kept,
            Err(error) => {
                kept.unreadable.push(format!("{}: {error}", directory.display()));
                return kept;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".plan") else { continue };
            let text = fs::read_to_string(entry.path());
            let named = text.as_ref().ok().and_then(|text| scenario_of(text));
            let mine = match named {
                Some(named) => named == scenario,
                None => is_name_for(stem, scenario),
            };
            if !mine {
                continue;
            }
            match text.map_err(|error| error.to_string()).and_then(|text| text.parse::<Plan>()) {
                Ok(plan) if plan == Plan::default() => {
                    kept.unreadable.push(format!("tests/plans/{name} has no fault{CORRECT}"));
                }
                Ok(plan) => kept.plans.push((name, plan)),
                Err(error) => {
                    let text = format!("tests/plans/{name} is not a plan: {error}{CORRECT}");
                    kept.unreadable.push(text);
                }
            }
        }
        kept.plans.sort();
        kept.unreadable.sort();
        kept
    }
}

/// The scenario that the text of a file names.
fn scenario_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(SCENARIO)).map(str::trim)
}

/// Returns `true` if a file that names no scenario is called as one of this scenario: the scenario
/// and a fault. That of the scenario `web-delete` is not one of `web`.
fn is_name_for(stem: &str, scenario: &str) -> bool {
    let rest = stem.strip_prefix(scenario).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        let is = |word: &str| {
            rest.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        is("seed") || Fault::names().any(is)
    })
}

/// Keeps a plan as a file of a directory and returns its path below the crate.
pub(crate) fn keep(directory: &Path, scenario: &str, plan: &Plan) -> Result<String, String> {
    let lines = plan.to_string().replace("; ", "\n");
    let text = format!("{SCENARIO}{scenario}\n# Runs with every `cargo test`.\n{lines}\n");
    let stem = stem(scenario, plan);
    let said = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(said)?;
    // Another plan may have that name: its details were cut off, or are written in other characters.
    for number in 1..=99 {
        let name = match number {
            1 => format!("{stem}.plan"),
            number => format!("{stem}-{number}.plan"),
        };
        let file = directory.join(&name);
        let same = match fs::read_to_string(&file) {
            Ok(known) => known.parse().as_ref() == Ok(plan),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::write(&file, &text).map_err(said)?;
                true
            }
            Err(_) => false,
        };
        if same {
            return Ok(format!("tests/plans/{name}"));
        }
    }
    Err(format!("{} has too many plans with the name {stem}", directory.display()))
}

/// The name of the file of a plan: the scenario, and the first fault with its site.
fn stem(scenario: &str, plan: &Plan) -> String {
    let mut name = match plan.faults.first() {
        None => format!("{scenario}-seed-{}", plan.seed),
        Some((fault, site)) => {
            let resource = site.resource.split('.').next().unwrap_or_default();
            let mut name = format!("{scenario}-{}-{}-{resource}", fault.name(), site.verb);
            for detail in [&site.subresource, &site.object] {
                if !detail.is_empty() {
                    name.push('-');
                    name.push_str(detail);
                }
            }
            if site.occurrence > 1 {
                name.push_str(&format!("-{}", site.occurrence));
            }
            name
        }
    };
    name = name.replace("default/", "");
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let mut plain: String = name.chars().map(plain).collect();
    while plain.contains("--") {
        plain = plain.replace("--", "-");
    }
    plain.truncate(NAME_MAX);
    plain.trim_matches('-').to_owned()
}

// === impl Replay ===

impl FromStr for Replay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not of the form `SCENARIO@SEED: FAULTS`");
        let (scenario, rest) = text.split_once('@').ok_or_else(form)?;
        let (seed, plan) = rest.split_once(':').ok_or_else(form)?;
        let seed = seed.trim();
        let number = seed.parse().map_err(|_| format!("{seed:?} in {text:?} is not a seed"))?;
        let plan: Plan = plan.parse()?;
        if scenario.trim().is_empty() || plan == Plan::default() {
            return Err(form());
        }
        Ok(Self { scenario: scenario.trim().to_owned(), seed: number, plan })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        text.parse().expect("is a plan")
    }

    #[test]
    fn a_replay_line_names_scenario_seed_and_plan() {
        let replay: Replay =
            "web@7: lost operator create pods default/a #1".parse().expect("is a replay line");
        assert_eq!((replay.scenario.as_str(), replay.seed), ("web", 7));
        assert_eq!(replay.plan.faults.len(), 1);
        let error =
            "web@seven: error operator get pods default/a #1".parse::<Replay>().unwrap_err();
        assert!(error.contains("\"seven\"") && error.contains("not a seed"), "{error}");
    }

    #[test]
    fn plans_are_kept_apart_and_read_back_by_their_scenario() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let plans = [
            plan("lost operator create pods default/a #1"),
            plan("lost operator create pods default/b #1"),
            plan("lost operator create pods default/b #2"),
            plan("seed 9"),
            plan("lost operator create pods default/a~ #1"),
        ];
        for plan in &plans {
            let file = keep(directory, "web", plan).expect("is written");
            assert_eq!(keep(directory, "web", plan), Ok(file), "a plan is kept once");
        }
        keep(directory, "web-delete", &plans[0]).expect("is written");
        let kept = Kept::read(Some(directory), "web");
        let files: Vec<&str> = kept.plans.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(
            files,
            [
                "web-lost-create-pods-a-2.plan",
                "web-lost-create-pods-a.plan",
                "web-lost-create-pods-b-2.plan",
                "web-lost-create-pods-b.plan",
                "web-seed-9.plan",
            ]
        );
        assert!(plans.iter().all(|plan| kept.plans.iter().any(|(_, other)| other == plan)));
        assert_eq!(Kept::read(Some(directory), "web-delete").plans.len(), 1);
        assert!(Kept::read(Some(&directory.join("missing")), "web").plans.is_empty());
    }

    #[test]
    fn a_file_without_a_scenario_belongs_to_the_one_in_its_name() {
        assert!(is_name_for("web-lost-create-pods", "web"));
        assert!(is_name_for("web-seed-9", "web"));
        assert!(!is_name_for("web-delete-lost-create-pods", "web"));
        assert!(is_name_for("web-delete-lost-create-pods", "web-delete"));
        assert!(!is_name_for("webs-lost-create-pods", "web"));
    }

    #[test]
    fn a_file_that_is_not_a_plan_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("can be written");
        };
        write("web-lost-create-pods.plan", "lost operator create pods\n");
        write("any.plan", "# scenario: web\n");
        write("other.plan", "# scenario: other\nboom\n");
        let kept = Kept::read(Some(directory.path()), "web");
        assert!(kept.plans.is_empty());
        let [empty, wrong] = &kept.unreadable[..] else { panic!("{:?}", kept.unreadable) };
        assert!(empty.contains("any.plan has no fault"), "{empty}");
        assert!(wrong.contains("web-lost-create-pods.plan is not a plan"), "{wrong}");
    }
}
