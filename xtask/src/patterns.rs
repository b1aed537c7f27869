//! `cargo xtask go-patterns`: what Go says about regular expressions, as fixtures.

use std::process::Command;

const PATTERNS: &str = "crates/windlass-text/src/pattern/go-patterns.jsonl";
const GROUPS: &str = "crates/windlass-text/data/go-unicode-groups.tsv";

/// Writes the fixtures with the Go on this machine.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("go-patterns takes no arguments".into());
    }
    let root = crate::peers::root();
    let status = Command::new("go")
        .args(["run", "xtask/go/patterns/main.go", PATTERNS, GROUPS])
        .current_dir(root)
        .status()
        .map_err(|error| format!("go does not start: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("go run: {status}")),
    }
}
