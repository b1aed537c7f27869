//! kubectl, for one cluster.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A kubectl that has all rights on a cluster.
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

// === impl Kubectl ===

impl Kubectl {
    pub fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    /// The kubeconfig of a user with all rights.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs a command that has to succeed, and returns what it prints.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.with_input(arguments, "")
    }

    /// Runs a command that has to succeed with a standard input, and returns what it prints.
    pub fn with_input(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        printed(arguments, &self.output(arguments, input, "")?)
    }

    /// Runs a command that opens an editor, which has to succeed, and returns what it prints.
    pub fn with_editor(&self, arguments: &[&str], editor: &str) -> Result<String, String> {
        printed(arguments, &self.output(arguments, "", editor)?)
    }

    /// Runs a command that has to fail, and returns its error.
    pub fn refused(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let output = self.output(arguments, input, "")?;
        match output.status.success() {
            true => Err(format!("kubectl {} was not refused", arguments.join(" "))),
            false => Ok(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn output(&self, arguments: &[&str], input: &str, editor: &str) -> Result<Output, String> {
        let failed = |error: std::io::Error| format!("kubectl: {error}");
        let mut command = Command::new(&self.program);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig);
        command.env("KUBE_EDITOR", editor);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that reads no input may end before it is written.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output().map_err(failed)
    }
}

/// Returns what a command printed that had to succeed.
fn printed(arguments: &[&str], output: &Output) -> Result<String, String> {
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("kubectl {}: {}", arguments.join(" "), error.trim_end())),
    }
}
