//! `cargo xtask fuzz`: the property tests with cases nobody has seen yet.
//!
//! Tests are found by looking for `proptest!` in the sources, so that a new one is run without
//! being named anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type Found = BTreeMap<(String, &'static str), BTreeSet<String>>;

/// How many cases one pass of a crate draws; small enough that time is looked at now and then.
const CASES: u32 = 2_000;

/// Runs the property tests of every crate for a time.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let seconds = match arguments {
        [] => 60,
        [seconds] => seconds.parse().map_err(|_| format!("{seconds:?} is no time in seconds"))?,
        _ => return Err("fuzz takes one number of seconds".into()),
    };
    let root = crate::peers::root();
    let found = property_tests(&root)?;
    if found.is_empty() {
        return Err("there are no property tests".into());
    }
    for ((package, target), tests) in found {
        println!("{package} {target}: {} property tests, {seconds} s", tests.len());
        fuzz(&root, &package, target, &tests, Duration::from_secs(seconds))?;
    }
    Ok(())
}

fn fuzz(
    root: &Path,
    package: &str,
    target: &str,
    tests: &BTreeSet<String>,
    time: Duration,
) -> Result<(), String> {
    let end = Instant::now() + time;
    loop {
        let seed = fresh_seed();
        println!("{package}: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={CASES}");
        // All crates are selected, so that features and with them builds stay the same.
        let command = format!("test --quiet --workspace {target} --");
        let status = Command::new("cargo")
            .args(command.split(' '))
            .args(tests)
            .env("PROPTEST_RNG_SEED", seed.to_string())
            .env("PROPTEST_CASES", CASES.to_string())
            .current_dir(root)
            .status()
            .map_err(|error| format!("cargo does not start: {error}"))?;
        if !status.success() {
            let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
            return Err(format!(
                "a property of {package} does not hold; repeat it with \
                 PROPTEST_RNG_SEED={seed} PROPTEST_CASES={CASES} cargo {command} {}",
                tests.join(" ")
            ));
        }
        if Instant::now() >= end {
            return Ok(());
        }
    }
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() % u128::from(u64::MAX)).unwrap_or_default()
}

/// The names of property tests, by crate and by the flag that selects their target.
fn property_tests(root: &Path) -> Result<Found, String> {
    let mut found = Found::new();
    for entry in list(&root.join("crates"))? {
        let Some(package) = entry.file_name().and_then(|name| name.to_str()) else { continue };
        for (folder, target) in [("src", "--lib"), ("tests", "--test it")] {
            let mut tests = BTreeSet::new();
            for file in sources(&entry.join(folder))? {
                let text = fs::read_to_string(&file);
                tests.extend(properties(&text.map_err(|e| format!("{}: {e}", file.display()))?));
            }
            if !tests.is_empty() {
                found.insert((package.to_owned(), target), tests);
            }
        }
    }
    Ok(found)
}

/// The functions inside `proptest! { … }` of a file.
fn properties(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut closing: Option<String> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        if bare.starts_with("proptest!") || bare.starts_with("proptest::proptest!") {
            // Formatted code closes a block where it was opened.
            closing = Some(format!("{}}}", &line[..line.len() - bare.len()]));
        } else if closing.as_deref() == Some(line) {
            closing = None;
        }
        if let Some(rest) = bare.strip_prefix("fn ").filter(|_| closing.is_some()) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            found.extend(name.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    found
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        for entry in list(&folder)? {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.push(entry);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_inside_the_macro_are_found_and_others_not() {
        let text =
            "fn a() {}\nproptest! {\n    #[test]\n    fn b_c(x in 0..3u8) {}\n}\nfn d() {}\n";
        assert_eq!(properties(text), ["b_c"]);
        let inner = "mod tests {\n    proptest::proptest! {\n        fn e() {\n        }\n    }\n    fn f() {}";
        assert_eq!(properties(inner), ["e"]);
    }
}
