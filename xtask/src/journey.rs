//! `cargo xtask journey`: from an empty directory to an operator that is tested and installed.
//!
//! The tests of the workspace check what the commands write and that it compiles. This goes all the
//! way, with builds of its own, as a newcomer does; so it takes minutes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Goes the way, in a directory that is removed at the end.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("journey takes no arguments".into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is in the workspace")?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    step(root, &cargo, &["build", "-p", "windlass-cli"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let windlass = root.join(target).join("debug/windlass").display().to_string();

    let name = format!("windlass-journey-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let project = directory.join("shop");
    std::fs::create_dir_all(&project).map_err(|error| format!("{}: {error}", project.display()))?;
    let outcome = way(&project, &cargo, &windlass);
    let removed = std::fs::remove_dir_all(&directory);
    outcome.and(removed.map_err(|error| format!("{}: {error}", directory.display())))
}

fn way(project: &Path, cargo: &str, windlass: &str) -> Result<(), String> {
    step(project, windlass, &["init", "--domain", "example.com"])?;
    let api = ["create", "api", "--group"];
    step(
        project,
        windlass,
        &[&api[..], &["cache", "--version", "v1", "--kind", "Memcached"]].concat(),
    )?;
    step(project, windlass, &[&api[..], &["web", "--version", "v1", "--kind", "Route"]].concat())?;
    step(project, cargo, &["test"])?;
    step(project, windlass, &["manifests"])?;
    step(project, windlass, &["manifests", "--check"])?;
    step(
        project,
        windlass,
        &["rename", "api", "--group", "web", "--kind", "Route", "--to", "Way"],
    )?;
    step(
        project,
        windlass,
        &["delete", "api", "--group", "cache", "--version", "v1", "--kind", "Memcached"],
    )?;
    step(project, cargo, &["test"])
}

/// Runs a command that has to succeed.
fn step(directory: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let line = format!("{name} {}", arguments.join(" "));
    println!("\n$ {line}");
    let start = Instant::now();
    let mut command = Command::new(program);
    // The project is built as a newcomer builds it: without what cargo says about this program.
    for (key, _) in std::env::vars_os() {
        let kept = key == "CARGO_HOME" || key == "CARGO_TARGET_DIR";
        if key.to_string_lossy().starts_with("CARGO_") && !kept {
            command.env_remove(key);
        }
    }
    let status = command.args(arguments).current_dir(directory).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => {
            println!("({} s)", start.elapsed().as_secs());
            Ok(())
        }
        Ok(status) => Err(format!("`{line}` failed: {status}")),
        Err(error) => Err(format!("cannot run `{line}`: {error}")),
    }
}
