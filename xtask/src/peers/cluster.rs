//! A cluster for the operators: a real one, or the embedded one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::kubectl::Kubectl;
use super::process::Process;
use super::real::{Real, RealServer};
use super::scratch::Scratch;
use super::until;

/// A cluster that runs; ended when dropped.
pub struct Cluster {
    /// Grants all rights.
    pub kubeconfig: PathBuf,
    _processes: Vec<Process>,
    _server: Option<RealServer>,
    _folder: Scratch,
}

// === impl Cluster ===

impl Cluster {
    /// Starts `windlass cluster` with two nodes.
    pub fn embedded(debug: &Path) -> Result<Self, String> {
        let folder = Scratch::new()?;
        let kubeconfig = folder.join("kubeconfig");
        let mut command = Command::new(debug.join("windlass"));
        command.args(["cluster", "--nodes", "2", "--kubeconfig"]).arg(&kubeconfig);
        let process = Process::spawn(command)?;
        process.line(Duration::from_secs(30))?;
        Ok(Self { kubeconfig, _processes: vec![process], _server: None, _folder: folder })
    }

    /// Starts a real API server with its controllers, and two simulated nodes.
    pub fn real(root: &Path, debug: &Path, kubectl: &Path) -> Result<Self, String> {
        let mut real = Real::build(root)?;
        real.build_controller_manager(root)?;
        let folder = Scratch::new()?;
        let mut server = RealServer::start(&real)?;
        let kubeconfig = server.kubeconfig.clone();
        let kubectl = Kubectl::new(kubectl.to_owned(), kubeconfig.clone());
        until(|| kubectl.run(&["get", "--raw", "/readyz"]).map(drop))?;
        // Simulated nodes send no heartbeats.
        server.start_controllers(&real, &["--controllers=*,-node-lifecycle-controller"])?;
        let mut nodes = Command::new(debug.join("examples/nodes"));
        nodes.arg("2").env("KUBECONFIG", &kubeconfig).stderr(Stdio::inherit());
        let nodes = Process::spawn(nodes)?;
        nodes.line(Duration::from_secs(60))?;
        until(|| kubectl.run(&["get", "serviceaccount", "default"]).map(drop))?;
        Ok(Self { kubeconfig, _processes: vec![nodes], _server: Some(server), _folder: folder })
    }
}
