//! The program as people call it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn run(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memcached-operator"))
        .args(args)
        .current_dir(directory)
        .env_clear()
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn manifests_are_written_checked_and_repaired() {
    let project = tempfile::tempdir().expect("a directory");
    let root = project.path();
    let missing = run(root, &["manifests", "--check"]);
    assert_eq!(missing.status.code(), Some(1));
    let shown = text(&missing.stdout);
    assert!(shown.contains("\n+kind: ClusterRole\n") && !shown.contains("created"), "{shown}");
    assert!(text(&missing.stderr).ends_with("run `memcached-operator manifests`\n"));

    let written = run(root, &["manifests"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert!(text(&written.stdout).contains("created config/rbac/role.yaml\n"));
    assert!(run(root, &["manifests", "--check"]).status.success());
    assert_eq!(text(&run(root, &["manifests"]).stdout), "", "nothing is left to do");

    let role = root.join("config/rbac/role.yaml");
    let content = std::fs::read_to_string(&role).expect("was written");
    std::fs::write(&role, content.replace("- deployments\n", "- pods\n")).expect("can be changed");
    let drift = run(root, &["manifests", "--check"]);
    assert_eq!(drift.status.code(), Some(1));
    let diff = text(&drift.stdout);
    assert!(diff.contains("\n-  - pods\n+  - deployments\n"), "{diff}");
    let sentence = "memcached-operator: 1 file is not what this operator generates; run \
                    `memcached-operator manifests`\n";
    assert_eq!(text(&drift.stderr), sentence);
    assert_eq!(text(&run(root, &["manifests"]).stdout), "updated config/rbac/role.yaml\n");
}

#[test]
fn manifests_are_reported_as_json_to_scripts() {
    let project = tempfile::tempdir().expect("a directory");
    let root = project.path();
    let report = |args: &[&str], status: i32| -> Vec<(String, String, bool)> {
        let output = run(root, &[&["manifests", "--output", "json"], args].concat());
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 1);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert_eq!(report["check"], !args.is_empty());
        let changes = report["changes"].as_array().expect("a list").iter();
        let word = |change: &serde_json::Value, key| change[key].as_str().expect(key).to_owned();
        changes
            .map(|change| {
                (word(change, "action"), word(change, "path"), change["diff"].is_string())
            })
            .collect()
    };
    let role = "config/rbac/role.yaml".to_owned();
    assert!(report(&["--check"], 1).contains(&("created".into(), role.clone(), true)));
    assert!(!root.join(&role).exists(), "nothing is written");
    assert!(report(&[], 0).contains(&("created".into(), role.clone(), true)));
    assert_eq!(report(&["--check"], 0), []);

    std::fs::write(root.join(&role), "mine: true\n").expect("can be changed");
    assert_eq!(report(&["--check"], 0), [("kept".into(), role, false)]);
}

/// The time that this thread has run, without that of others; `None` if the system does not say.
fn running() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().map(Duration::from_nanos).ok()
}

#[test]
fn manifests_of_an_unchanged_operator_take_less_than_a_second() {
    let project = tempfile::tempdir().expect("a directory");
    let write = || {
        let files = memcached_operator::operator().model().expect("valid").files();
        files.write(project.path()).expect("can be written")
    };
    assert!(!write().is_empty());
    let Some(before) = running() else { return };
    assert!(write().is_empty(), "nothing is left to do");
    let took = running().expect("as before") - before;
    eprintln!("manifests took {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn definitions_roles_version_and_completion_are_printed() {
    let here = Path::new(".");
    let crd = text(&run(here, &["crd"]).stdout);
    assert!(crd.contains("kind: CustomResourceDefinition") && crd.contains("memcacheds"), "{crd}");
    let rbac = text(&run(here, &["rbac"]).stdout);
    assert!(rbac.contains("kind: ClusterRole\n") && rbac.contains("memcacheds/status"), "{rbac}");
    let version = format!("memcached-operator {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&run(here, &["version"]).stdout), version);
    let script = text(&run(here, &["completion", "bash"]).stdout);
    assert!(script.contains("--leader-elect"), "{script}");
}

#[test]
fn mistakes_are_one_sentence_and_a_status() {
    let here = Path::new(".");
    let usage = run(here, &["--metrics-bind-address=high"]);
    assert_eq!(usage.status.code(), Some(2));
    let said = text(&usage.stderr);
    assert!(said.starts_with("memcached-operator: invalid value 'high'"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let cluster = run(here, &["--kubeconfig", "/no/such/file"]);
    assert_eq!(cluster.status.code(), Some(1));
    let said = text(&cluster.stderr);
    assert!(said.contains("found no cluster to connect to in /no/such/file"), "{said}");
}

#[test]
fn a_log_of_text_has_no_colors_in_a_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = directory.path().join("kubeconfig");
    let config = "apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: nobody, user: {}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
current-context: nowhere
";
    std::fs::write(&kubeconfig, config).expect("can be written");
    let mut operator = Command::new(env!("CARGO_BIN_EXE_memcached-operator"))
        .args(["--log-format", "text", "--health-probe-bind-address", "0", "--kubeconfig"])
        .arg(&kubeconfig)
        .env_clear()
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(operator.stderr.take().expect("is piped")).read_line(&mut line).expect("a line");
    operator.kill().and_then(|()| operator.wait()).expect("the program ends");
    assert!(line.contains(" WARN windlass::operator::connect: "), "{line:?}");
}
