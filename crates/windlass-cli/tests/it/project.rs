//! An operator project whose cargo is a script, so that nothing is compiled.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::manifests::yaml;

use crate::support::{TempDir, windlass};

/// Nothing takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// A project with one operator.
pub struct Project {
    dir: TempDir,
}

/// A command that runs in a project.
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Project {
    /// A project whose operator is a script: it prints definitions and roles, and waits.
    pub fn scripted() -> Self {
        let project = Self::with_cargo();
        let model = memcached_operator::operator().model().unwrap();
        project.write("crd.yaml", &yaml::documents(&model.definitions()));
        project.write("rbac.yaml", &yaml::documents(&model.access_objects()));
        let program = r#"#!/bin/sh
            case "$1" in
            crd) cat "@/crd.yaml" ;;
            rbac) cat "@/rbac.yaml" ;;
            manifests) echo "$*" > "@/target/manifests"; mkdir -p "$3/dist" && : > "$3/dist/install.yaml" ;;
            version) echo "operator 0.1.0" ;;
            run)
                trap 'exit 0' TERM
                cp "$KUBECONFIG" "@/target/seen.kubeconfig"
                if [ -e "@/fails" ]; then echo "out of luck" >&2; exit 3; fi
                echo $$ >> "@/target/pids"
                while :; do sleep 0.02; done ;;
            esac
        "#;
        project.script("program", program);
        project
    }

    /// A project whose operator is that of the Memcached example.
    pub fn memcached() -> Self {
        let project = Self::with_cargo();
        let windlass = Path::new(env!("CARGO_BIN_EXE_windlass"));
        let program = windlass.with_file_name("examples").join("memcached");
        assert!(
            program.exists(),
            "build it with `cargo build -p windlass-cli --example memcached`"
        );
        std::os::unix::fs::symlink(program, project.path("program")).unwrap();
        project
    }

    fn with_cargo() -> Self {
        let project = Self { dir: TempDir::new() };
        let root = project.dir.path().display().to_string();
        let metadata = json!({
            "packages": [{
                "name": "shop", "manifest_path": format!("{root}/Cargo.toml"), "default_run": null,
                "targets": [{"name": "operator", "kind": ["bin"]}],
                "dependencies": [{"name": "windlass", "path": null, "kind": null}],
            }],
            "target_directory": format!("{root}/target"), "workspace_root": root,
        });
        project.write("metadata.json", &metadata.to_string());
        project.write("src/main.rs", "fn main() {}");
        // A build replaces the binary, unless the code is broken.
        let cargo = r#"#!/bin/sh
            case "$1" in
            metadata) cat "@/metadata.json" ;;
            build)
                if grep -q broken "@/src/main.rs"; then
                    echo "error: this file contains an unclosed delimiter" >&2
                    exit 101
                fi
                mkdir -p "@/target/debug"
                if grep -q hangs "@/src/main.rs"; then
                    echo $$ > "@/target/builder"
                    while :; do sleep 0.02; done
                fi
                cp -L "@/program" "@/target/debug/operator.new"
                mv "@/target/debug/operator.new" "@/target/debug/operator"
                echo '{"reason": "compiler-artifact", "target": {"name": "operator"}, "executable": "@/target/debug/operator"}' ;;
            esac
        "#;
        project.script("cargo", cargo);
        project
    }

    /// A path in the project.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a program; `@` stands for the directory of the project.
    fn script(&self, name: &str, text: &str) {
        self.write(name, &text.trim_start().replace('@', &self.dir.path().display().to_string()));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The command in this project, ready for arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = windlass();
        command.args(args).current_dir(self.dir.path()).env("CARGO", self.path("cargo"));
        for variable in ["KUBECONFIG", "HEALTH_PROBE_BIND_ADDRESS", "LOG_LEVEL", "LOG_FORMAT"] {
            command.env_remove(variable);
        }
        // No kubeconfig of the person who runs the tests.
        command.env("HOME", self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Starts the command; both its outputs are collected.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// The process ids of all operators that were started.
    pub fn operators(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("target/pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A client as the operator, with the kubeconfig that it was given.
    pub async fn operator_client(&self) -> kube::Client {
        client(&self.path("target/seen.kubeconfig")).await
    }

    /// A client as the person who develops.
    pub async fn client(&self) -> kube::Client {
        client(&self.path("target/windlass/shop/kubeconfig")).await
    }
}

impl Running {
    /// Starts a command; both its outputs are collected.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let outputs: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let lines = lines.clone();
            std::thread::spawn(move || {
                for line in std::io::BufRead::lines(std::io::BufReader::new(output)) {
                    let Ok(line) = line else { return };
                    lines.lock().unwrap().push(line);
                }
            });
        }
        Self { child, lines }
    }

    /// Waits for a line that contains a text; returns it.
    #[track_caller]
    pub fn line(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let lines = self.lines();
            if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let late = begin.elapsed() > PATIENCE;
            assert!(!late, "no line with {text:?} in:\n{}", lines.join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything that was printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "did not end:\n{}", self.lines().join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked first, so that it ends what it has started.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status();
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns `true` if a process runs.
pub fn is_alive(id: &str) -> bool {
    let status = Command::new("kill").args(["-0", id]).stderr(Stdio::null()).status();
    status.unwrap().success()
}

/// Waits until something holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub async fn client(path: &Path) -> kube::Client {
    let file = kube::config::Kubeconfig::read_from(path).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// A Memcached as YAML.
pub fn sample(name: &str, size: i32) -> String {
    let sample: Value = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size},
    });
    yaml::document(&sample)
}
