//! The promises of the documentation name tests that exist.

use std::path::Path;

fn read_all(dir: &Path, text: &mut String) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(&path, text);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            text.push_str(&std::fs::read_to_string(path).expect("text"));
        }
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    read_all(&root.join("src"), &mut code);
    read_all(&root.join("tests"), &mut code);
    let docs = std::fs::read_to_string(root.join("src/lib.rs")).expect("text");
    let (_, promises) = docs.split_once("//! # Promises").expect("has promises");
    let (promises, refusals) = promises.split_once("//! # What is not promised").expect("and not");
    assert!(refusals.contains("exactly once"));
    for number in 1..=9 {
        let (_, promise) = promises.split_once(&format!("**P{number}**")).expect("each is there");
        let promise = promise.split("**P").next().unwrap_or_default();
        let named: Vec<&str> =
            promise.split('`').filter(|part| part.matches('_').count() > 2).collect();
        assert!(!named.is_empty(), "P{number} names no test");
        for test in named {
            let defined = code.contains(&format!("fn {test}("));
            assert!(defined, "P{number} names {test}, which does not exist");
        }
    }
}
