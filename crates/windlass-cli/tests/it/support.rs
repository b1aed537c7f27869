//! A cluster in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

/// The command, ready for arguments.
pub fn windlass() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.env_remove("RUST_LOG");
    command
}

/// Runs the command to its end.
pub fn output(args: &[&str]) -> Output {
    windlass().args(args).stdin(Stdio::null()).output().unwrap()
}

/// The one line an ended command wrote to its standard error.
#[track_caller]
pub fn one_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// A running cluster; killed with its value.
pub struct Cluster {
    child: Child,
    /// The line that it prints when it is ready.
    pub ready: String,
    pub kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts the API alone and waits for the ready line.
    pub fn start(dir: &Path, more: &[&str]) -> Self {
        Self::start_with(windlass(), dir, more)
    }

    /// Does the same as [`Cluster::start`], by a command with an environment of its own.
    pub fn start_with(mut command: Command, dir: &Path, more: &[&str]) -> Self {
        let kubeconfig = dir.join("kubeconfig");
        let mut child = command
            .args(["cluster", "--no-controllers", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("the cluster did not start: {why}");
        }
        Self { child, ready: ready.trim_end().to_owned(), kubeconfig }
    }

    /// A client configured by the kubeconfig.
    pub async fn client(&self) -> kube::Client {
        self.client_with(|_| {}).await
    }

    /// A client configured by the kubeconfig, with another user.
    pub async fn client_with(&self, change: impl FnOnce(&mut AuthInfo)) -> kube::Client {
        let mut config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        change(config.auth_infos[0].auth_info.as_mut().unwrap());
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        config.connect_timeout = Some(Duration::from_secs(5));
        kube::Client::try_from(config).unwrap()
    }

    /// Config maps of namespace `default`.
    pub async fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client().await, "default")
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "the command did not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the cluster; returns what it logged.
    pub fn end(mut self) -> String {
        self.signal("TERM");
        self.wait();
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Ends the process at once, as `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A config map with one entry.
pub fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": name}, "data": {"key": value},
    }))
    .unwrap()
}

/// A directory that is removed with its value.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("windlass-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path below it, as text.
    pub fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
