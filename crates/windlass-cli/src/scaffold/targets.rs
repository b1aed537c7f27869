//! All Rust files of a package: those of its library, and of its programs, tests, examples and
//! benches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use super::modules::{self, Module};
use super::source::Source;
use crate::failure::Failure;

/// How deep a directory of code is searched.
const DEPTH_MAX: usize = 16;
/// How many files are looked at.
const FILES_MAX: usize = 2000;
/// The directories that have a crate in each file, and in each directory with a `main.rs`.
const DIRECTORIES: [&str; 4] = ["benches", "examples", "src/bin", "tests"];
/// The arrays of Cargo.toml that name crates.
const ARRAYS: [&str; 4] = ["bench", "bin", "example", "test"];

/// Reads the crates of a package other than its main one, each with its modules, in order.
///
/// A file that no crate declares is a crate of its own, if it can be parsed.
pub fn read(
    root: &Path,
    manifest: &DocumentMut,
    main: &[Module],
) -> Result<Vec<Vec<Module>>, Failure> {
    let mut seen: BTreeSet<String> = main.iter().map(|one| one.source.path.clone()).collect();
    let mut all = Vec::new();
    let mut roots = vec!["src/main.rs".to_owned(), "build.rs".to_owned()];
    for name in ARRAYS {
        let tables = manifest.get(name).and_then(|item| item.as_array_of_tables());
        let paths = tables.into_iter().flatten().filter_map(|table| table.get("path")?.as_str());
        roots.extend(paths.map(str::to_owned));
    }
    let mut files = Vec::new();
    for directory in DIRECTORIES.into_iter().chain(["src"]) {
        rust_files(root, Path::new(directory), 0, &mut files)?;
    }
    roots.extend(files.iter().filter(|file| is_root(file)).cloned());
    for path in roots {
        if root.join(&path).is_file() && !seen.contains(&path) {
            let found = modules::read(root, &path)?;
            let new = found.into_iter().filter(|one| seen.insert(one.source.path.clone()));
            all.push(new.collect());
        }
    }
    for path in files {
        if seen.insert(path.clone())
            && let Ok(text) = modules::read_text(&root.join(&path), Path::new(&path))
            && let Ok(source) = Source::parse(&path, text)
        {
            all.push(vec![Module { path: Vec::new(), source }]);
        }
    }
    Ok(all)
}

/// Returns `true` if cargo takes a file for the root of a crate.
fn is_root(path: &str) -> bool {
    DIRECTORIES.iter().any(|directory| {
        let rest = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| match rest.split_once('/') {
            None => true,
            Some((_, rest)) => rest == "main.rs",
        })
    })
}

/// The Rust files below a directory, in order. Links are not followed.
fn rust_files(
    root: &Path,
    directory: &Path,
    depth: usize,
    files: &mut Vec<String>,
) -> Result<(), Failure> {
    let Ok(entries) = std::fs::read_dir(root.join(directory)) else { return Ok(()) };
    let mut entries: Vec<(PathBuf, bool)> = entries
        .flatten()
        .filter_map(|entry| Some((directory.join(entry.file_name()), entry.file_type().ok()?)))
        .filter(|(_, kind)| !kind.is_symlink())
        .map(|(path, kind)| (path, kind.is_dir()))
        .collect();
    entries.sort();
    for (path, is_directory) in entries {
        if is_directory {
            if depth < DEPTH_MAX {
                rust_files(root, &path, depth + 1, files)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(modules::shown(&path));
        }
        if files.len() > FILES_MAX {
            return Err(Failure::other(format!("the package has more than {FILES_MAX} files")));
        }
    }
    Ok(())
}
