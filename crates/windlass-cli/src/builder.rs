//! Builds the operator of a project with cargo.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Instant, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::child::cargo;
use crate::failure::Failure;
use crate::process::Process;
use crate::project::Project;

/// The binary that a build left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub executable: PathBuf,
    /// What changes if it is written anew: time and size.
    stamp: Option<(SystemTime, u64)>,
}

/// Why there is no new binary.
#[derive(Debug)]
pub enum BuildError {
    /// The code does not compile; cargo has printed why.
    Code,
    /// Cargo did not do its work.
    Cargo(Failure),
}

/// Builds the operator. Cargo prints its messages to standard error as usual.
///
/// Dropping the future ends the build.
pub async fn build(project: &Project) -> Result<Built, BuildError> {
    let start = Instant::now();
    let mut command = cargo();
    command.arg("build").arg("--manifest-path").arg(&project.manifest);
    command.args(["--bin", &project.binary, "--message-format=json-render-diagnostics"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let other = |text: String| BuildError::Cargo(Failure::other(text));
    let mut cargo = Process::spawn(&mut command)
        .map_err(|error| other(format!("cannot run cargo: {error}")))?;
    let mut executable = None;
    if let Some(output) = cargo.stdout() {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            executable = executable_in(&line, &project.binary).or(executable);
        }
    }
    let status = cargo.wait().await.map_err(|error| other(format!("cargo build: {error}")))?;
    if !status.success() {
        return Err(BuildError::Code);
    }
    let executable = executable
        .ok_or_else(|| other(format!("cargo build did not name the binary {}", project.binary)))?;
    tracing::info!(took = ?start.elapsed(), "built");
    let stamp = std::fs::metadata(&executable).ok();
    let stamp = stamp.and_then(|file| Some((file.modified().ok()?, file.len())));
    Ok(Built { executable, stamp })
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Code => Self::other("the operator does not compile; see the errors above"),
            BuildError::Cargo(failure) => failure,
        }
    }
}

/// The path of the binary, if this message of cargo is about it.
fn executable_in(message: &str, binary: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let wanted = message["reason"] == "compiler-artifact" && message["target"]["name"] == binary;
    wanted.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}
