//! Go programs, built once into the cache.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds a Go program unless it is in the cache.
pub fn go(bin: &Path, name: &str, module: &Path, package: &str) -> Result<PathBuf, String> {
    let made = bin.join(name);
    if made.exists() {
        return Ok(made);
    }
    go_always(bin, name, module, package)
}

/// Builds a Go program.
pub fn go_always(bin: &Path, name: &str, module: &Path, package: &str) -> Result<PathBuf, String> {
    let (made, half) = (bin.join(name), bin.join(format!(".{name}.tmp")));
    let mut command = Command::new("go");
    command.args(["build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o"]);
    command.arg(&half).arg(package).env("CGO_ENABLED", "0").current_dir(module);
    done(command, &format!("building {name}"))?;
    fs::rename(&half, &made).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(made)
}

/// Runs a command that has to succeed; `what` says what it is for.
pub fn done(mut command: Command, what: &str) -> Result<(), String> {
    println!("{what} …");
    let status = command.stdin(Stdio::null()).status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{what}: {} is not installed", command.get_program().display())
        }
        _ => format!("{what}: {error}"),
    });
    match status?.success() {
        true => Ok(()),
        false => Err(format!("{what} failed")),
    }
}

/// Returns where the peers are kept.
pub fn cache() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("WINDLASS_BENCH_CACHE") {
        return Ok(PathBuf::from(folder));
    }
    let home = std::env::var_os("HOME").ok_or("neither WINDLASS_BENCH_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/windlass-bench"))
}
