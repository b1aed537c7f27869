//! `cargo xtask api`: compares the public API of crate `windlass` with the list in the repository.
//!
//! The list is `crates/windlass/api.txt`: one line for each public type, function and constant,
//! and one for each type of another crate that appears in a public signature. A change of the API
//! therefore shows up in the diff of a commit, where it can be questioned.
//!
//! The source is parsed, not compiled: items behind any `#[cfg(feature = …)]` count, items of
//! tests and `#[doc(hidden)]` items do not, and items that a macro generates are not seen.

mod resolve;
mod source;
mod surface;

use std::collections::BTreeSet;
use std::fs;

use source::Source;
use surface::{Surface, surface};

/// The most public types that the crate may have. The goal is 60.
const TYPES_MAX: usize = 65;

/// The most public functions that the crate may have. The goal is 250.
const FUNCTIONS_MAX: usize = 340;

const SOURCE: &str = "crates/windlass/src";
const LIST: &str = "crates/windlass/api.txt";

const HEADER: &str = "\
# The public API of crate windlass, checked by `cargo xtask api`.
# `cargo xtask api --write` rewrites this file after a change that is meant.
# `foreign` lines are items of other crates that appear in public signatures.
";

/// Compares the API with the list, or rewrites the list.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let write = match arguments {
        [] => false,
        ["--write"] => true,
        other => return Err(format!("unknown arguments {other:?}, expected --write or nothing")),
    };
    let root = crate::bench::root();
    let source = Source::read("windlass", &root.join(SOURCE))?;
    let surface = surface(&source);
    println!("{}", summary(&surface));
    let file = root.join(LIST);
    if write {
        fs::write(&file, list(&surface)).map_err(|error| format!("{LIST}: {error}"))?;
    } else {
        let stored = fs::read_to_string(&file).map_err(|error| format!("{LIST}: {error}"))?;
        compare(&stored, &surface)?;
    }
    check_limits(&surface)
}

fn summary(surface: &Surface) -> String {
    format!(
        "{} public types (limit {TYPES_MAX}), {} public functions (limit {FUNCTIONS_MAX}), {} \
         items of other crates in public signatures",
        surface.types().count(),
        surface.functions().count(),
        surface.foreign().count(),
    )
}

/// Returns the content of the list.
fn list(surface: &Surface) -> String {
    let mut text = HEADER.to_owned();
    for line in &surface.lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Fails if the stored list differs from the API.
fn compare(stored: &str, surface: &Surface) -> Result<(), String> {
    let stored: BTreeSet<&str> =
        stored.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let found: BTreeSet<&str> = surface.lines.iter().map(String::as_str).collect();
    let mut message = String::new();
    for (what, lines) in [
        ("added", found.difference(&stored).collect::<Vec<_>>()),
        ("removed", stored.difference(&found).collect()),
    ] {
        for line in lines {
            message.push_str(&format!("\n  {what}: {line}"));
        }
    }
    if message.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public API of windlass differs from {LIST}:{message}\n\
         make additions that users do not need pub(crate); accept the rest with \
         `cargo xtask api --write` and commit {LIST}"
    ))
}

/// Fails if there are more public items than the limits allow.
fn check_limits(surface: &Surface) -> Result<(), String> {
    for (what, count, limit) in [
        ("types", surface.types().count(), TYPES_MAX),
        ("functions", surface.functions().count(), FUNCTIONS_MAX),
    ] {
        if count > limit {
            return Err(format!(
                "windlass has {count} public {what}, the limit is {limit}: make some pub(crate)"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface_of(files: &[(&str, &str)]) -> Surface {
        surface(&Source::of("demo", files).expect("parses"))
    }

    #[test]
    fn what_is_added_and_removed_is_named() {
        let surface = surface_of(&[("lib.rs", "pub fn new() {}")]);
        assert_eq!(compare(&list(&surface), &surface), Ok(()));
        let error = compare("fn demo::old\n", &surface).expect_err("differs");
        assert!(error.contains("added: fn demo::new"), "{error}");
        assert!(error.contains("removed: fn demo::old"), "{error}");
        assert!(error.contains("cargo xtask api --write"), "{error}");
    }

    #[test]
    fn more_types_than_the_limit_are_an_error() {
        let text: String = (0..=TYPES_MAX).map(|n| format!("pub struct S{n};")).collect();
        let error = check_limits(&surface_of(&[("lib.rs", &text)])).expect_err("too many");
        assert!(error.contains(&format!("{} public types", TYPES_MAX + 1)), "{error}");
        assert_eq!(check_limits(&surface_of(&[("lib.rs", "pub struct S;")])), Ok(()));
    }
}
