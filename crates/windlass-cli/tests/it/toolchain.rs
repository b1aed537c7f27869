//! The Rust that the workspace states to need.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[test]
fn no_dependency_needs_a_newer_rust_than_the_workspace_states() {
    let stated = env!("CARGO_PKG_RUST_VERSION");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "all of Cargo.lock");
    for package in packages {
        let needed = package["rust_version"].as_str().unwrap_or("1.0");
        let (name, version) = (&package["name"], &package["version"]);
        assert!(numbers(needed) <= numbers(stated), "{name} {version} needs Rust {needed}");
    }
    for page in ["README.md", "docs/zh.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let versions = text.split("Rust").skip(1).filter_map(|rest| {
            let at = rest.find("1.").filter(|at| *at < 30)?;
            let end = |c: char| !c.is_ascii_digit() && c != '.';
            rest[at..].split(end).next()
        });
        let versions: Vec<&str> = versions.collect();
        assert!(
            !versions.is_empty() && versions.iter().all(|one| *one == stated),
            "{page}: {versions:?}"
        );
    }
}
