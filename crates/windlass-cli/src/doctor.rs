//! `windlass doctor`: is everything there that this project and its commands need?

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use clap::{Args, ValueEnum};
use kube::config::Kubeconfig;
use serde::Serialize;
use serde_json::Value;
use tokio::process::Command;

use crate::builder::build;
use crate::child::cargo;
use crate::cluster::block_on;
use crate::dev::sources::Sources;
use crate::failure::Failure;
use crate::program::Program;
use crate::project::{Project, ProjectArgs};
use crate::signals::uninterrupted;
use crate::text::plain;

/// The oldest Rust that builds an operator.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// The port on which an operator serves its probes unless it is started with another one.
const PROBE_PORT: u16 = 8081;

/// Free disk space below which builds fail soon, and below which they do now, in MiB.
const SPACE_LOW: u64 = 5 << 10;
const SPACE_MIN: u64 = 512;

/// How to report.
#[derive(Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    project: ProjectArgs,

    /// The format of the report.
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line per check.
    Text,
    /// A list of objects with the fields check, status, text and hint.
    Json,
}

/// The outcome of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    /// What was found.
    text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// Checks everything; returns 1 if a check failed.
pub fn run(args: DoctorArgs) -> Result<u8, Failure> {
    let mut findings = Vec::new();
    block_on(async {
        let examined = async { Ok(examine(&args.project).await) };
        findings = uninterrupted(examined, "nothing was changed").await?;
        Ok(())
    })?;
    match args.output {
        Format::Json => {
            let text = serde_json::to_string_pretty(&findings).map_err(|e| Failure::of(&e))?;
            say!("{text}");
        }
        Format::Text => {
            use std::io::IsTerminal;
            let terminal = std::io::stdout().is_terminal();
            let colored = terminal && std::env::var_os("NO_COLOR").is_none();
            findings.iter().for_each(|finding| say!("{}", finding.line(colored)));
        }
    }
    Ok(u8::from(findings.iter().any(|finding| finding.status == Status::Fail)))
}

async fn examine(args: &ProjectArgs) -> Vec<Finding> {
    let mut findings = vec![rust().await, cargo_version().await, kubeconfig(), port()];
    match Project::find(args).await {
        Err(failure) => {
            let text = failure.to_string();
            findings.push(Finding { check: "project", status: Status::Fail, text, hint: None });
        }
        Ok(project) => {
            let text = format!("operator {} in {}", project.binary, project.root.display());
            findings.push(Finding::ok("project", text));
            findings.push(space(&project.target));
            findings.push(files(&project));
            findings.extend(program(&project).await);
        }
    }
    findings
}

async fn rust() -> Finding {
    let Some(version) = version_of(Command::new("rustc")).await else {
        return Finding::fail("rust", "rustc cannot be run".into(), "install Rust from rustup.rs");
    };
    match is_older(&version, RUST) {
        false => Finding::ok("rust", version),
        true => {
            let text = format!("{version} is older than {RUST}");
            Finding::fail("rust", text, "update it with `rustup update`")
        }
    }
}

async fn cargo_version() -> Finding {
    match version_of(cargo()).await {
        Some(version) => Finding::ok("cargo", version),
        None => Finding::fail("cargo", "cargo cannot be run".into(), "install Rust from rustup.rs"),
    }
}

/// What a program prints with `--version`.
async fn version_of(mut command: Command) -> Option<String> {
    let output = command.arg("--version").stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(plain(text.lines().next().unwrap_or_default()))
}

/// Returns `true` if a version such as `rustc 1.89.0 (…)` is older than `1.90`.
fn is_older(version: &str, oldest: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_numeric()));
        let word = word.unwrap_or_default();
        word.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
    };
    let (found, oldest) = (numbers(version), numbers(oldest));
    // A version that cannot be read is not called old.
    !found.is_empty() && found < oldest
}

fn kubeconfig() -> Finding {
    match Kubeconfig::read() {
        Err(_) => Finding::ok("clusters", "no kubeconfig; the embedded cluster needs none".into()),
        Ok(config) => {
            let names: Vec<String> = config.contexts.iter().map(|one| plain(&one.name)).collect();
            let text = match names.is_empty() {
                true => "a kubeconfig without contexts".to_owned(),
                false => format!("contexts {}; none is used without --context", names.join(", ")),
            };
            Finding::ok("clusters", text)
        }
    }
}

fn port() -> Finding {
    if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        let text = format!("cannot listen on 127.0.0.1: {error}");
        return Finding::fail("ports", text, "allow programs to listen on the loopback address");
    }
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, PROBE_PORT)) {
        Ok(_) => Finding::ok("ports", format!("{PROBE_PORT} and others are free")),
        Err(error) => Finding::warn(
            "ports",
            format!("{PROBE_PORT}: {error}"),
            "an operator that runs by itself needs --health-probe-bind-address; `windlass run` and \
             `windlass dev` take a free port",
        ),
    }
}

fn files(project: &Project) -> Finding {
    let sources = Sources::new(project);
    let text = format!("{} source files are watched", sources.count());
    match sources.is_complete() {
        true => Finding::ok("files", text),
        false => Finding::warn(
            "files",
            format!("{text}: more than `windlass dev` watches"),
            "remove generated files from the packages, or mark their directories with CACHEDIR.TAG",
        ),
    }
}

fn space(target: &Path) -> Finding {
    // The nearest directory that exists is on the same disk.
    let Some(free) = target.ancestors().find_map(free_space) else {
        return Finding::ok("disk", "free space is not known".into());
    };
    let text = format!("{:.1} GiB free for builds", free as f64 / 1024.0);
    let hint = "free some space, or build elsewhere with CARGO_TARGET_DIR";
    match free {
        free if free < SPACE_MIN => Finding::fail("disk", text, hint),
        free if free < SPACE_LOW => Finding::warn("disk", text, hint),
        _ => Finding::ok("disk", text),
    }
}

/// Free space in MiB.
#[cfg(unix)]
fn free_space(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize) >> 20)
}

#[cfg(not(unix))]
fn free_space(_: &Path) -> Option<u64> {
    None
}

/// Builds the operator, and asks it about itself.
async fn program(project: &Project) -> Vec<Finding> {
    let program = match build(project).await {
        Ok(built) => Program::new(built.executable),
        Err(error) => {
            let text = Failure::from(error).to_string();
            return vec![Finding::fail("build", text, "correct the errors that cargo prints")];
        }
    };
    let mut findings = Vec::new();
    match program.version().await {
        Ok(version) => findings.push(Finding::ok("operator", plain(&version))),
        Err(failure) => {
            let hint = "`main` has to return `Operator::main`";
            findings.push(Finding::fail("operator", failure.to_string(), hint));
            return findings;
        }
    }
    // The operator checks its definitions as the API server would before it prints them.
    findings.push(match program.definitions().await {
        Ok(all) => Finding::ok("crds", format!("valid: {}", names(&all))),
        Err(failure) => {
            Finding::fail("crds", failure.to_string(), "correct the attributes of the API types")
        }
    });
    let hint = "write them with `windlass manifests`";
    findings.push(match project.root.join("config/crd").is_dir() {
        false => Finding::warn("manifests", "none are written".into(), hint),
        true => match program.check_manifests(&project.root).await {
            Ok(()) => Finding::ok("manifests", "up to date".into()),
            Err(failure) => Finding::fail("manifests", failure.to_string(), hint),
        },
    });
    findings
}

/// The names of some objects.
fn names(objects: &[Value]) -> String {
    let names = objects.iter().filter_map(|object| object["metadata"]["name"].as_str());
    match names.map(plain).collect::<Vec<_>>() {
        names if names.is_empty() => "no definitions".to_owned(),
        names => names.join(", "),
    }
}

// === impl Finding ===

impl Finding {
    fn ok(check: &'static str, text: String) -> Self {
        Self { check, status: Status::Ok, text, hint: None }
    }

    fn warn(check: &'static str, text: String, hint: &'static str) -> Self {
        Self { check, status: Status::Warn, text, hint: Some(hint) }
    }

    fn fail(check: &'static str, text: String, hint: &'static str) -> Self {
        Self { check, status: Status::Fail, text, hint: Some(hint) }
    }

    fn line(&self, colored: bool) -> String {
        let (word, color) = match self.status {
            Status::Ok => ("ok", "32"),
            Status::Warn => ("warn", "33"),
            Status::Fail => ("fail", "1;31"),
        };
        let word = match colored {
            true => format!("\x1b[{color}m{word:<4}\x1b[0m"),
            false => format!("{word:<4}"),
        };
        let hint = self.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{word}  {:<9}  {}{hint}", self.check, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_older("rustc 1.89.0 (abc 2026-01-01)", "1.90"));
        assert!(is_older("rustc 1.9.0", "1.90"));
        assert!(!is_older("rustc 1.90.0 (abc 2026-01-01)", "1.90"));
        assert!(!is_older("rustc 1.100.0-nightly", "1.90"));
        assert!(!is_older("rustc 2.0.0", "1.90"));
        assert!(!is_older("something else", "1.90"));
    }

    #[test]
    fn a_line_says_what_to_do() {
        let finding = Finding::fail("rust", "rustc cannot be run".into(), "install Rust");
        assert_eq!(finding.line(false), "fail  rust       rustc cannot be run; install Rust");
        let finding = Finding::ok("rust", "rustc 1.90.0".into());
        assert_eq!(finding.line(false), "ok    rust       rustc 1.90.0");
    }
}
