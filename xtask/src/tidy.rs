//! `cargo xtask tidy`: what the house rules say about the source, as far as a machine can see it.
//!
//! - A file has at most 600 lines, and nine of ten files of a crate have at most 400.
//! - A function has at most 70 lines. The source is formatted, so a function ends at the first line
//!   that closes a brace at its own indentation.
//! - Comments, messages and names use the words of the field. [`WORDS`] lists those that were once
//!   used with a meaning that no stranger knows.
//! - The documentation of a public function begins with what it does or returns, and not with a word
//!   of [`OPENINGS`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of a file.
const FILE_MAX: usize = 600;

/// The most lines of nine files of ten in a crate.
const FILE_P90_MAX: usize = 400;

/// The most lines of a function.
const FUNCTION_MAX: usize = 70;

/// Files with functions that are tables or templates, and may be longer: one row after the other,
/// with nothing to split.
const TABLES: [&str; 7] = [
    "crates/windlass-cel/src/cost/calls.rs",
    "crates/windlass-cel/src/library.rs",
    "crates/windlass-cel/src/tests/errors.rs",
    "crates/windlass-cli/src/scaffold/template.rs",
    "crates/windlass-cli/src/scaffold/template/webhook.rs",
    "crates/windlass-manifests/src/diff/tests.rs",
    "crates/windlass-manifests/src/diff/tests/pairs.rs",
];

/// Words that are refused, and what to write.
const WORDS: [(&str, &str); 9] = [
    ("told", "logged, reported, notified"),
    ("tells", "returns, says"),
    ("whoever", "the noun that is meant"),
    ("goes on", "continues"),
    ("goes into", "is added to"),
    ("is none of", "is not one of"),
    ("that is none", "that is not one"),
    ("stands in", "is in"),
    ("the same for a", "a sentence that can be read alone"),
];

/// First words that the documentation of a public function must not have: no sentence follows.
const OPENINGS: [&str; 9] = ["What", "Whether", "How", "Why", "Where", "Its", "Also", "As", "From"];

/// Where the rules hold.
const SOURCES: [&str; 4] = ["crates", "examples", "bench", "xtask/src"];

/// Where words are checked besides: prose.
const PROSE: [&str; 5] =
    ["docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Files that quote the words.
const EXEMPT: [&str; 2] = ["xtask/src/tidy.rs", "crates/windlass-manifests/tests/golden"];

/// Checks all files, and lists everything that is wrong.
pub fn run() -> Result<(), String> {
    let root = crate::peers::root();
    let mut found = Vec::new();
    let mut lengths = Vec::new();
    for (path, text) in files(&root, &SOURCES, "rs")? {
        lengths.push((text.lines().count(), path.clone()));
        found.extend(long_functions(&path, &text));
        found.extend(words(&path, &text));
        found.extend(openings(&path, &text));
    }
    for (path, text) in files(&root, &PROSE, "md")? {
        found.extend(words(&path, &text));
    }
    found.extend(long_files(lengths));
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("the source is not tidy:\n  {}", found.join("\n  "))),
    }
}

/// Reports files that are too long, and crates in which too many are long.
fn long_files(mut lengths: Vec<(usize, String)>) -> Vec<String> {
    lengths.sort();
    let over = lengths.iter().filter(|(lines, _)| *lines > FILE_MAX);
    let mut found: Vec<String> = over
        .map(|(lines, path)| format!("{path}: {lines} lines, the limit is {FILE_MAX}"))
        .collect();
    let mut crates: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (lines, path) in &lengths {
        crates.entry(crate_of(path)).or_default().push(*lines);
    }
    for (name, lengths) in crates {
        let p90 = lengths[lengths.len() * 9 / 10];
        if p90 > FILE_P90_MAX {
            found.push(format!(
                "{name}: one file of ten has {p90} lines or more, the limit is {FILE_P90_MAX}"
            ));
        }
    }
    found
}

/// Returns the directory of the crate that a file belongs to, or of a group of small ones.
fn crate_of(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    match path.match_indices('/').nth(depth - 1) {
        Some((at, _)) => &path[..at],
        None => path,
    }
}

/// Reports functions that are too long.
fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    if TABLES.contains(&path) {
        return found;
    }
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line).filter(|_| !line.ends_with(';')) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        // A function without a body ends with its first line, or with the `;` after its bounds.
        let end = format!("{indent}}}");
        let Some(length) = lines[at..].iter().position(|line| *line == end) else { continue };
        let body = lines[at..=at + length].iter().any(|line| line.ends_with('{'));
        if body && length + 1 > FUNCTION_MAX {
            let (at, length) = (at + 1, length + 1);
            found.push(format!(
                "{path}:{at}: function {name} has {length} lines, the limit is {FUNCTION_MAX}"
            ));
        }
    }
    found
}

/// Returns the name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => after,
        }
        .trim_start();
    }
    for word in ["const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Reports words that are refused.
fn words(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        // Names of tests are sentences.
        let line = line.replace('_', " ").to_lowercase();
        for (word, instead) in WORDS {
            if has_word(&line, word) {
                found.push(format!("{path}:{}: write {instead} instead of `{word}`", at + 1));
            }
        }
    }
    found
}

/// Reports public functions whose documentation begins with a word that is refused.
fn openings(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (mut found, mut first) = (Vec::new(), None);
    for (at, line) in lines.iter().enumerate() {
        if let Some(sentence) = line.strip_prefix("///") {
            first = first.or(Some((at, sentence.trim())));
        } else if !line.starts_with("#[") {
            let documented = first.take().filter(|_| line.starts_with("pub "));
            if let (Some((at, sentence)), Some(name)) = (documented, function(line))
                && let Some(word) = sentence.split(' ').next().filter(|w| OPENINGS.contains(w))
            {
                found.push(format!(
                    "{path}:{}: the documentation of {name} begins with `{word}`; begin with a verb, \
                     such as `Returns`",
                    at + 1
                ));
            }
        }
    }
    found
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Returns the files below some folders, by path from the root.
fn files(root: &Path, below: &[&str], extension: &str) -> Result<Vec<(String, String)>, String> {
    let mut waiting: Vec<PathBuf> = below.iter().map(|path| root.join(path)).collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if EXEMPT.contains(&shown.as_str()) || path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).map_err(|error| format!("{shown}: {error}"))?;
            waiting.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
        } else if path.extension().is_some_and(|found| found == extension) {
            let text = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
            found.push((shown, text));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_first_line_to_their_closing_brace() {
        let long = "        x();\n".repeat(FUNCTION_MAX);
        let text = format!(
            "impl A {{\n    pub(crate) async fn long() {{\n{long}    }}\n\n    fn short(&self) {{\n    \
             }}\n}}\n"
        );
        let found = long_functions("a.rs", &text);
        assert_eq!(found, ["a.rs:2: function long has 72 lines, the limit is 70"]);
        assert_eq!(long_functions(TABLES[0], &text), Vec::<String>::new());
    }

    #[test]
    fn refused_words_are_found_in_comments_and_in_names_of_tests() {
        let found = words("a.rs", "// It is told.\nfn the_watch_goes_on() {}\n// untold, retold\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("a.rs:2: write continues instead of `goes on`"), "{found:?}");
    }

    #[test]
    fn documentation_of_public_functions_begins_with_a_verb() {
        let text = "/// What it is.\n#[must_use]\npub fn one() {}\n\n/// What.\nfn private() {}\n\n\
                    /// Returns what it is.\n///\n/// Whether or not.\npub async fn two() {}\n";
        let found = openings("a.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: the documentation of one begins with `What`"));
    }

    #[test]
    fn a_file_that_is_too_long_is_an_error_and_so_are_too_many_long_ones() {
        let name = |n: usize| format!("crates/a/src/{n}.rs");
        let mut short: Vec<(usize, String)> = (0..20).map(|n| (n, name(n))).collect();
        assert!(long_files(short.clone()).is_empty());
        short.push((FILE_MAX + 1, name(601)));
        assert_eq!(long_files(short.clone()).len(), 1);
        let long: Vec<(usize, String)> = (0..20).map(|n| (450, name(n))).collect();
        assert_eq!(
            long_files(long.clone()),
            ["crates/a: one file of ten has 450 lines or more, the limit is 400"]
        );
        let others = (0..1000).map(|n| (n % 100, format!("crates/b/src/{n}.rs")));
        assert_eq!(long_files(long.into_iter().chain(others).collect()).len(), 1, "per crate");
    }
}
