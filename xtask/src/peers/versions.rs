//! The versions of the peers, from the files that fix them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// All of them, and of the tools; the runs say which of them were measured.
pub fn all(root: &Path) -> Value {
    let runtime = "bench/controller-runtime/go.mod";
    json!({
        "windlass": said("git", &["-C", &root.display().to_string(), "rev-parse", "--short", "HEAD"]),
        "rustc": said("rustc", &["--version"]),
        "go": said("go", &["version"]),
        "kube-runtime": locked(root, "bench/kube-rs/Cargo.lock", "kube-runtime"),
        "controller-runtime": module(root, runtime, "sigs.k8s.io/controller-runtime"),
        "client-go": module(root, runtime, "k8s.io/client-go"),
        "kube-apiserver": kubernetes(root),
        "etcd": etcd(root),
    })
}

/// The version of kube-apiserver and kube-controller-manager.
pub fn kubernetes(root: &Path) -> Option<String> {
    module(root, "bench/peers/kubernetes/go.mod", "k8s.io/kubernetes")
}

/// The version of etcd.
pub fn etcd(root: &Path) -> Option<String> {
    module(root, "bench/peers/etcd/go.mod", "go.etcd.io/etcd/server/v3")
}

/// The version of kubectl.
pub fn kubectl(root: &Path) -> Option<String> {
    module(root, "bench/peers/kubectl/go.mod", "k8s.io/kubectl")
}

/// The version of kubebuilder.
pub fn kubebuilder(root: &Path) -> Option<String> {
    module(root, "bench/peers/kubebuilder/go.mod", "sigs.k8s.io/kubebuilder/v4")
}

fn module(root: &Path, file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    let (_, rest) = text.lines().find_map(|line| line.split_once(&format!("{name} v")))?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn locked(root: &Path, file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    let mut lines = text.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version = lines.nth(1)?.strip_prefix("version = ")?;
    Some(version.trim_matches('"').to_owned())
}

/// Returns what a program prints.
pub fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_repository_name_versions() {
        let found = all(&crate::peers::root());
        for name in ["kube-runtime", "controller-runtime", "client-go", "kube-apiserver", "etcd"] {
            let version = found[name].as_str().unwrap_or_default();
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{name} {version}");
        }
    }
}
