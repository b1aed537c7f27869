//! `cargo xtask journey`: from an empty directory to an operator that is tested and installed.
//!
//! The tests of the workspace check what the commands write and that it compiles. This goes all the
//! way, with builds of its own, as a newcomer does; so it takes minutes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Goes the way, in a directory that is removed at the end. `--no-build` takes the command that is
/// built already.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is in the workspace")?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    match arguments {
        [] => step(root, &cargo, &["build", "-p", "windlass-cli"])?,
        ["--no-build"] => {}
        _ => return Err("journey takes --no-build and nothing else".into()),
    }
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let windlass = root.join(target).join("debug/windlass").display().to_string();

    let name = format!("windlass-journey-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let project = directory.join("shop");
    std::fs::create_dir_all(&project).map_err(|error| format!("{}: {error}", project.display()))?;
    let readme = std::fs::read_to_string(root.join("README.md"));
    let readme = readme.map_err(|error| format!("README.md: {error}"))?;
    let outcome = way(&project, &cargo, &windlass, &readme);
    let removed = std::fs::remove_dir_all(&directory);
    outcome.and(removed.map_err(|error| format!("{}: {error}", directory.display())))
}

fn way(project: &Path, cargo: &str, windlass: &str, readme: &str) -> Result<(), String> {
    let line = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        step(project, windlass, &words)
    };
    line("init --domain example.com")?;
    line("create api --group cache --version v1alpha1 --kind Memcached")?;
    step(project, cargo, &["test"])?;
    edit(project, readme)?;
    let memcached = "--group cache --version v1alpha1 --kind Memcached";
    line("create api --group cache --version v1 --kind Memcached")?;
    line(&format!("create webhook {memcached} --defaulting --validation --conversion"))?;
    line("create webhook --group core --version v1 --kind Pod --validation")?;
    line("create api --group web --version v1 --kind Route")?;
    step(project, cargo, &["test"])?;
    step(project, windlass, &["manifests"])?;
    step(project, windlass, &["manifests", "--check"])?;
    line("rename api --group web --kind Route --to Way")?;
    line("delete api --group cache --version v1 --kind Memcached")?;
    // The author has edited it.
    line(&format!("delete api {memcached} --force"))?;
    step(project, cargo, &["test"])
}

/// Makes the change of two lines that the README shows.
fn edit(project: &Path, readme: &str) -> Result<(), String> {
    let change = readme.split("```diff\n").nth(1).and_then(|rest| rest.split("```").next());
    let change = change.ok_or("the README shows no change")?;
    let lines = |sign: char| {
        let lines = change.lines().filter_map(|line| line.strip_prefix(sign));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let path = project.join("src/memcached.rs");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let edited = text.replace(&lines('-'), &lines('+'));
    if edited == text {
        return Err("src/memcached.rs does not have the lines that the README changes".into());
    }
    std::fs::write(&path, edited).map_err(failed)
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
