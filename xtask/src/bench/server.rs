//! The servers: ours, and a real kube-apiserver with etcd.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::build::Tools;
use crate::peers::process::{Process, usage};
use crate::peers::real::{Real, RealServer};
use crate::peers::scratch::Scratch;

/// A server that runs; ended when dropped.
pub struct Server {
    pub kubeconfig: PathBuf,
    /// From the start of the first process to the first good answer, in seconds.
    pub start_s: f64,
    processes: Vec<Process>,
    /// Removed after the processes have ended.
    _folder: Scratch,
}

// === impl Server ===

impl Server {
    /// Starts ours; `controllers` makes it a whole cluster.
    pub fn ours(tools: &Tools, controllers: bool) -> Result<Self, String> {
        let arguments: &[&OsStr] =
            if controllers { &[] } else { &[OsStr::new("--no-controllers")] };
        Self::windlass(tools, arguments)
    }

    /// Starts ours on a data directory, without controllers.
    pub fn durable(tools: &Tools, data: &Path) -> Result<Self, String> {
        let words = ["--no-controllers", "--data-dir"].map(OsStr::new);
        Self::windlass(tools, &[words[0], words[1], data.as_os_str()])
    }

    fn windlass(tools: &Tools, arguments: &[&OsStr]) -> Result<Self, String> {
        let folder = Scratch::new()?;
        let kubeconfig = folder.join("kubeconfig");
        let mut command = Command::new(&tools.windlass_cli);
        command.args(["cluster", "--kubeconfig"]).arg(&kubeconfig).args(arguments);
        let process = Process::spawn(command)?;
        let (line, at) = process.line(Duration::from_secs(30))?;
        if !line.starts_with("ready ") {
            return Err(format!("windlass says {line:?} instead of being ready"));
        }
        let start_s = at.duration_since(process.began).as_secs_f64();
        Ok(Self { kubeconfig, start_s, processes: vec![process], _folder: folder })
    }

    /// Starts a real one, with the settings it has by default but for etcd's quota.
    pub fn real(tools: &Tools, real: &Real, controllers: bool) -> Result<Self, String> {
        let mut server = RealServer::start(real)?;
        let path = server.kubeconfig.display().to_string();
        let waiting =
            Process::start(&tools.load, &[("scenario", "ready".to_owned()), ("kubeconfig", path)])?;
        let (_, at) = waiting.line(Duration::from_secs(180))?;
        let start_s = at.duration_since(server.began).as_secs_f64();
        if controllers {
            server.start_controllers(real, &[])?;
        }
        let RealServer { kubeconfig, processes, folder, .. } = server;
        Ok(Self { kubeconfig, start_s, processes, _folder: folder })
    }

    /// The process id of the first process.
    pub fn id(&self) -> u32 {
        self.processes.first().map_or(0, Process::id)
    }

    /// Resident memory of all processes in KiB, and their CPU seconds.
    pub fn usage(&self) -> (u64, f64) {
        let each = self.processes.iter().map(|process| usage(process.id()));
        each.fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            process.end();
        }
    }
}
