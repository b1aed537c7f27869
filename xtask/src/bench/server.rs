//! The servers: ours, and a real kube-apiserver with etcd.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::build::{Real, Tools};
use super::process::{Process, usage};
use super::scratch::Scratch;

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
        let folder = Scratch::new()?;
        let kubeconfig = folder.join("kubeconfig");
        let mut command = Command::new(&tools.windlass_cli);
        command.args(["cluster", "--kubeconfig"]).arg(&kubeconfig);
        if !controllers {
            command.arg("--no-controllers");
        }
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
        let folder = Scratch::new()?;
        let made = Command::new(&real.keys).arg(folder.path()).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("the keys of the real server could not be made".into());
        }
        let kubeconfig = folder.join("kubeconfig");
        let token = fs::read_to_string(folder.join("token"))
            .map_err(|error| format!("no token: {error}"))?;
        let [client, peer, secure] = ports()?;
        let text = kubeconfig_text(secure, &folder.join("ca.crt"), token.trim());
        fs::write(&kubeconfig, text).map_err(|error| format!("no kubeconfig: {error}"))?;
        let began = Instant::now();
        let etcd = Process::spawn(etcd(&real.etcd, folder.path(), client, peer))?;
        let apiserver = Process::spawn(apiserver(&real.apiserver, folder.path(), client, secure))?;
        let processes = vec![etcd, apiserver];
        let mut server = Self { kubeconfig, start_s: 0.0, processes, _folder: folder };
        let path = server.kubeconfig.display().to_string();
        let waiting = Process::start(
            &tools.load,
            &[("scenario", "ready".to_owned()), ("kubeconfig", path.clone())],
        )?;
        let (_, at) = waiting.line(Duration::from_secs(180))?;
        server.start_s = at.duration_since(began).as_secs_f64();
        if let Some(manager) = real.controller_manager.as_ref().filter(|_| controllers) {
            let mut command = quiet(manager);
            command.args(["--leader-elect=false", "--secure-port=0"]);
            command.arg(format!("--kubeconfig={path}"));
            server.processes.push(Process::spawn(command)?);
        }
        Ok(server)
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

fn etcd(program: &Path, folder: &Path, client: u16, peer: u16) -> Command {
    let mut command = quiet(program);
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"]);
    // The default of 2 GB does not hold the largest scenario with its history.
    command.args(["--quota-backend-bytes", "8589934592"]);
    command
}

fn apiserver(program: &Path, folder: &Path, client: u16, secure: u16) -> Command {
    let mut command = quiet(program);
    let file = |name: &str| folder.join(name).display().to_string();
    command.args([
        format!("--etcd-servers=http://127.0.0.1:{client}"),
        format!("--secure-port={secure}"),
        "--bind-address=127.0.0.1".into(),
        format!("--cert-dir={}", file("certs")),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("account.key")),
        format!("--service-account-signing-key-file={}", file("account.key")),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
    ]);
    command
}

fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stderr(Stdio::null());
    command
}

fn kubeconfig_text(port: u16, authority: &Path, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: real\n  cluster:\n    \
         certificate-authority: {}\n    server: https://127.0.0.1:{port}\n\
         contexts:\n- name: real\n  context:\n    cluster: real\n    user: admin\n\
         current-context: real\nusers:\n- name: admin\n  user:\n    token: {token}\n",
        authority.display()
    )
}

/// Three ports that are free now.
fn ports() -> Result<[u16; 3], String> {
    let free = || -> std::io::Result<[u16; 3]> {
        let held: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let mut found = [0; 3];
        for (port, listener) in found.iter_mut().zip(&held) {
            *port = listener.local_addr()?.port();
        }
        Ok(found)
    };
    free().map_err(|error| format!("no free ports: {error}"))
}
