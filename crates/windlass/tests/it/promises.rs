//! What the documentation promises, it shows: tests that exist, examples that run.

use std::path::Path;

fn read_all(dir: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(std::fs::read_to_string(path).expect("text"));
        }
    }
}

fn files(dirs: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    dirs.iter().for_each(|dir| read_all(&root.join(dir), &mut files));
    files
}

/// Returns `true` if there is a test function of this name.
fn is_test(files: &[String], name: &str) -> bool {
    files.iter().any(|file| {
        file.match_indices(&format!("fn {name}(")).any(|(at, _)| {
            let before: Vec<&str> = file[..at].lines().rev().take(4).collect();
            before.iter().any(|line| line.contains("#[test]") || line.contains("#[tokio::test"))
        })
    })
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = files(&["src", "tests", "../windlass-cluster/tests"]);
    let crate_docs = std::fs::read_to_string(root.join("src/lib.rs")).expect("text");
    let (_, promised) = crate_docs.split_once("//! # Promises").expect("has promises");
    let (promised, refused) = promised.split_once("//! # What is not promised").expect("and not");
    assert!(refused.contains("exactly once"));
    let page = std::fs::read_to_string(root.join("../../docs/promises.md")).expect("text");
    let sections: Vec<&str> = page.split("\n## P").skip(1).collect();
    assert_eq!(sections.len(), promised.matches("**P").count());
    for (at, section) in sections.iter().enumerate() {
        let number = at + 1;
        assert!(section.starts_with(&format!("{number}\n")), "P{number} is missing");
        assert!(promised.contains(&format!("**P{number}**")), "lib.rs does not promise P{number}");
        let named: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("- `")).collect();
        assert!(!named.is_empty(), "P{number} names no test");
        for test in named {
            let test = test.trim_end_matches('`');
            assert!(is_test(&code, test), "P{number} names {test}, which is not a test");
        }
    }
    assert!(!is_test(&code, "files"), "a function that is not a test is not taken for one");
}

#[test]
fn every_fault_in_the_table_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = files(&["src", "tests"]);
    let table = std::fs::read_to_string(root.join("../../docs/faults.md")).expect("text");
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|l| l.starts_with('|')).map(|l| l.split(" | ").collect()).collect();
    let rows: Vec<_> =
        rows.iter().filter(|row| row.len() == 6 && !row[0].contains("fault")).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let named: Vec<&str> = row[5].split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test in {row:?}");
        for test in named {
            assert!(is_test(&code, test), "{test} is no test");
        }
    }
}

/// The code of the examples in documentation, and what stands behind their opening fences.
fn examples(file: &str) -> (String, Vec<String>) {
    let (mut code, mut fences, mut inside) = (String::new(), Vec::new(), false);
    for line in file.lines() {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            continue;
        };
        if let Some(fence) = doc.trim_start().strip_prefix("```") {
            if !inside {
                fences.push(fence.to_string());
            }
            inside = !inside;
        } else if inside {
            code.push_str(doc);
            code.push('\n');
        }
    }
    (code, fences)
}

#[test]
fn every_public_type_is_shown_by_an_example_that_runs() {
    let files = files(&["src"]);
    let (code, fences): (Vec<String>, Vec<Vec<String>>) =
        files.iter().map(|file| examples(file)).unzip();
    let skipped: Vec<&String> =
        fences.iter().flatten().filter(|f| f.contains("ignore") || f.contains("no_run")).collect();
    assert!(skipped.is_empty(), "examples that do not run: {skipped:?}");
    let code = code.concat();
    let words: std::collections::BTreeSet<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let public = files.iter().flat_map(|file| file.lines()).filter_map(|line| {
        let rest = ["pub struct ", "pub enum ", "pub trait ", "pub type "]
            .iter()
            .find_map(|prefix| line.strip_prefix(prefix))?;
        rest.split(|c: char| !c.is_alphanumeric()).next()
    });
    // These are in modules that are not public.
    let inner = ["WatchStats", "Discovery", "HasMeta", "QueueKey", "ToKey", "MapOutput"];
    let silent: Vec<&str> =
        public.filter(|name| !words.contains(name) && !inner.contains(name)).collect();
    assert!(silent.is_empty(), "no example shows {silent:?}");
}
