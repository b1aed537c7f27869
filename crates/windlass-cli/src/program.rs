//! The program of an operator, and what it prints about itself.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use windlass_manifests::yaml;

use crate::failure::Failure;

/// Printing takes milliseconds; a program that takes longer does something else.
const PATIENCE: Duration = Duration::from_secs(30);

/// A built operator whose `main` is `Operator::main`.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    name: String,
}

/// Settings of the manifests.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    /// The image of the container, if not the default.
    pub image: Option<String>,
    /// The namespace of the operator, if not the default.
    pub namespace: Option<String>,
}

// === impl Program ===

impl Program {
    /// The program in a file.
    pub fn new(path: PathBuf) -> Self {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { path, name }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The definitions of its kinds.
    pub async fn definitions(&self) -> Result<Vec<Value>, Failure> {
        self.documents("crd").await
    }

    /// Returns its service account, its roles and their bindings.
    pub async fn access(&self) -> Result<Vec<Value>, Failure> {
        self.documents("rbac").await
    }

    /// Returns its name and version.
    pub async fn version(&self) -> Result<String, Failure> {
        Ok(self.output(&["version"]).await?.trim_end().to_owned())
    }

    /// Everything that is installed, in the order in which it can be created.
    pub async fn installation(&self, settings: &Installation) -> Result<Vec<Value>, Failure> {
        let directory = crate::private_file::private_temp_dir()?;
        let place = directory.path().display().to_string();
        let mut words = vec!["manifests", "--directory", &place];
        for (flag, value) in [("--image", &settings.image), ("--namespace", &settings.namespace)] {
            if let Some(value) = value {
                words.extend([flag, value.as_str()]);
            }
        }
        self.output(&words).await?;
        let file = directory.path().join("dist/install.yaml");
        let text = tokio::fs::read_to_string(&file).await.map_err(|error| {
            Failure::other(format!("{} wrote no dist/install.yaml: {error}", self.name))
        })?;
        yaml::read(&text).map_err(|error| Failure::other(format!("{}: {error}", self.name)))
    }

    /// Runs `manifests --check` on a project; returns why it fails.
    pub async fn check_manifests(&self, root: &Path) -> Result<(), Failure> {
        let root = root.display().to_string();
        self.output(&["manifests", "--check", "--directory", &root]).await.map(drop)
    }

    async fn documents(&self, word: &str) -> Result<Vec<Value>, Failure> {
        let text = self.output(&[word]).await?;
        yaml::read(&text).map_err(|error| Failure::other(format!("{} {word}: {error}", self.name)))
    }

    async fn output(&self, words: &[&str]) -> Result<String, Failure> {
        let shown = format!("{} {}", self.name, words.first().unwrap_or(&""));
        let mut command = Command::new(&self.path);
        command.args(words).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await.map_err(|_| {
            Failure::other(format!(
                "`{shown}` did not end within {} s; `main` has to return `Operator::main`",
                PATIENCE.as_secs()
            ))
        })?;
        let output =
            output.map_err(|error| Failure::other(format!("cannot run {shown}: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let why = text.lines().rfind(|line| !line.is_empty()).unwrap_or("it failed without a word");
        let why = why.strip_prefix(&format!("{}: ", self.name)).unwrap_or(why);
        Err(Failure::other(format!("`{shown}` failed: {why}")))
    }
}
