//! A real kube-apiserver with etcd, and kube-controller-manager if wanted.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::go::{cache, go};
use super::process::Process;
use super::scratch::Scratch;
use super::versions;

/// The programs of a real server.
pub struct Real {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    pub controller_manager: Option<PathBuf>,
    pub keys: PathBuf,
}

/// A real server that runs; its processes end when it is dropped.
pub struct RealServer {
    /// Grants all rights.
    pub kubeconfig: PathBuf,
    /// When the first process was started.
    pub began: Instant,
    pub processes: Vec<Process>,
    /// Removed after the processes have ended.
    pub folder: Scratch,
}

// === impl Real ===

impl Real {
    /// Builds kube-apiserver and etcd, unless they are in the cache.
    pub fn build(root: &Path) -> Result<Self, String> {
        let (peers, bin) = (root.join("bench/peers"), bin()?);
        let etcd = versioned("etcd", versions::etcd(root))?;
        Ok(Self {
            keys: go(&bin, "bench-keys", &peers.join("keys"), ".")?,
            etcd: go(&bin, &etcd, &peers.join("etcd"), "go.etcd.io/etcd/server/v3")?,
            apiserver: kubernetes(root, &bin, "kube-apiserver")?,
            controller_manager: None,
        })
    }

    /// Builds kube-controller-manager, unless it is in the cache.
    pub fn build_controller_manager(&mut self, root: &Path) -> Result<(), String> {
        let built = kubernetes(root, &bin()?, "kube-controller-manager")?;
        self.controller_manager = Some(built);
        Ok(())
    }
}

/// Builds kubectl, unless it is in the cache.
pub fn kubectl(root: &Path) -> Result<PathBuf, String> {
    let file = versioned("kubectl", versions::kubectl(root))?;
    go(&bin()?, &file, &root.join("bench/peers/kubectl"), ".")
}

fn bin() -> Result<PathBuf, String> {
    let bin = cache()?.join("bin");
    fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    Ok(bin)
}

fn kubernetes(root: &Path, bin: &Path, name: &str) -> Result<PathBuf, String> {
    let package = format!("k8s.io/kubernetes/cmd/{name}");
    let file = versioned(name, versions::kubernetes(root))?;
    go(bin, &file, &root.join("bench/peers/kubernetes"), &package)
}

/// The name in the cache; with another version in `go.mod` another file is built.
fn versioned(name: &str, version: Option<String>) -> Result<String, String> {
    let version = version.ok_or_else(|| format!("no go.mod names the version of {name}"))?;
    Ok(format!("{name}-{version}"))
}

// === impl RealServer ===

impl RealServer {
    /// Starts kube-apiserver and etcd with the settings they have by default but for etcd's quota.
    ///
    /// Does not wait until the server answers.
    pub fn start(real: &Real) -> Result<Self, String> {
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
        Ok(Self { kubeconfig, began, processes: vec![etcd, apiserver], folder })
    }

    /// Starts kube-controller-manager, if it is built, with further arguments.
    pub fn start_controllers(&mut self, real: &Real, arguments: &[&str]) -> Result<(), String> {
        let Some(manager) = &real.controller_manager else { return Ok(()) };
        let mut command = quiet(manager);
        command.args(["--leader-elect=false", "--secure-port=0"]);
        command.arg(format!("--kubeconfig={}", self.kubeconfig.display())).args(arguments);
        self.processes.push(Process::spawn(command)?);
        Ok(())
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
