//! `cargo xtask api`: compares the public API of crate `windlass` with the list in the repository.
//!
//! The list is `crates/windlass/api.txt`: one line for each public type, function and constant,
//! grouped by [`layer`], and one for each type of another crate that appears in a public
//! signature, which needs a [reason](foreign). It also has the totals of each layer and of the whole
//! crate. A change of the API, and its growth, therefore shows up in the diff of a commit, where it
//! can be questioned.
//!
//! The source is parsed, not compiled: items behind any `#[cfg(feature = …)]` count, items of
//! tests and `#[doc(hidden)]` items do not, and items that a macro generates are not seen.

mod foreign;
mod layer;
mod resolve;
mod source;
mod surface;

use std::collections::BTreeSet;
use std::fs;

use layer::Layer;
use source::Source;
use surface::{Surface, surface};

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
    let root = crate::peers::root();
    let source = Source::read("windlass", &root.join(SOURCE))?;
    let surface = surface(&source);
    println!("{}", summary(&surface));
    let file = root.join(LIST);
    if write {
        fs::write(&file, list(&surface)).map_err(|error| format!("{LIST}: {error}"))?;
    } else {
        let stored = fs::read_to_string(&file).map_err(|error| format!("{LIST}: {error}"))?;
        compare(&stored, &surface)?;
        if stored != list(&surface) {
            return Err(format!(
                "the totals of {LIST} are out of date: run `cargo xtask api --write`"
            ));
        }
    }
    foreign::check(surface.foreign())?;
    Layer::all().try_for_each(|layer| layer.check(&surface))
}

fn summary(surface: &Surface) -> String {
    let mut text = String::new();
    for layer in Layer::all() {
        text.push_str(&format!(
            "{}: {} public types (limit {}), {} public functions (limit {})\n",
            layer.name,
            layer.types(surface),
            layer.types_max,
            layer.functions(surface),
            layer.functions_max,
        ));
    }
    text.push_str(&format!("{}\n", total(surface)));
    text.push_str(&format!(
        "{} items of other crates in public signatures",
        surface.foreign().count()
    ));
    text
}

/// Returns the size of the API of all layers together.
fn total(surface: &Surface) -> String {
    let sum = |of: fn(&Layer, &Surface) -> usize| -> usize {
        Layer::all().map(|layer| of(layer, surface)).sum()
    };
    let (types, functions) = (sum(Layer::types), sum(Layer::functions));
    format!("the whole crate: {types} public types, {functions} public functions")
}

/// Returns the content of the list.
fn list(surface: &Surface) -> String {
    let mut text = format!("{HEADER}# In {}.\n", total(surface));
    for layer in Layer::all() {
        let lines: Vec<&str> = layer.lines(surface).collect();
        if !lines.is_empty() {
            let (types, functions) = (layer.types(surface), layer.functions(surface));
            text.push_str(&format!(
                "\n# Layer: {}, {types} types, {functions} functions\n{}\n",
                layer.name,
                lines.join("\n")
            ));
        }
    }
    let others: Vec<&str> = surface.others().collect();
    text.push_str(&format!("\n# Other crates\n{}\n", others.join("\n")));
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
    fn the_list_has_the_totals() {
        let surface = surface_of(&[("lib.rs", "pub fn new() {}\npub struct A;\npub fn old() {}")]);
        let list = list(&surface);
        let together = "# In the whole crate: 1 public types, 2 public functions.\n";
        assert!(list.contains(together), "{list}");
        assert!(list.contains("# Layer: runtime, 1 types, 2 functions\n"), "{list}");
    }
}
