//! Plans that are kept: files beside the tests, and the text of a replay line.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::Plan;

/// The directory of kept plans, beside the tests of the crate that is tested.
fn directory() -> Option<PathBuf> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR")?;
    Some(Path::new(&root).join("tests").join("plans"))
}

/// The kept plans of a scenario, by file.
///
/// A file that cannot be read as a plan is left out; `cargo test` prints why.
pub(crate) fn plans(scenario: &str) -> Vec<(String, Plan)> {
    let Some(entries) = directory().and_then(|directory| fs::read_dir(directory).ok()) else {
        return Vec::new();
    };
    let mut plans = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".plan") else { continue };
        if !stem.starts_with(&format!("{scenario}-")) {
            continue;
        }
        let read = fs::read_to_string(entry.path()).map_err(|error| error.to_string());
        match read.and_then(|text| text.parse()) {
            Ok(plan) => plans.push((name, plan)),
            Err(error) => println!("{name} is not a plan: {error}"),
        }
    }
    plans.sort();
    plans
}

/// Keeps a plan as a file and returns its path below the crate.
pub(crate) fn keep(scenario: &str, plan: &Plan) -> Option<String> {
    let (fault, site) = plan.faults.first()?;
    let directory = directory()?;
    let resource = site.resource.split('.').next().unwrap_or_default();
    let name = format!("{scenario}-{}-{}-{resource}.plan", fault.name(), site.verb);
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let text = format!(
        "# Found by the exploration of {scenario}. Runs with every `cargo test`.\n{}\n",
        plan.to_string().replace("; ", "\n")
    );
    fs::create_dir_all(&directory).ok()?;
    fs::write(directory.join(&name), text).ok()?;
    Some(format!("tests/plans/{name}"))
}

/// The seed and the plan of a replay line, if it is about this scenario.
pub(crate) fn replayed(text: &str, scenario: &str) -> Option<(u64, Result<Plan, String>)> {
    let (name, rest) = text.split_once('@')?;
    if name.trim() != scenario {
        return None;
    }
    let (seed, plan) = rest.split_once(':')?;
    Some((seed.trim().parse().ok()?, plan.parse()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_line_names_scenario_seed_and_plan() {
        let text = "web@7: lost operator create pods default/a #1";
        let (seed, plan) = replayed(text, "web").expect("is about this scenario");
        assert_eq!((seed, plan.expect("a plan").faults.len()), (7, 1));
        assert!(replayed(text, "other").is_none());
        assert!(replayed("web@7: boom", "web").expect("is about it").1.is_err());
    }
}
