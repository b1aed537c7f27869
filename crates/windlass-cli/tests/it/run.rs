//! `windlass run`, `install` and `uninstall`: which cluster they use, and which they never touch.

use std::fs;
use std::path::Path;

use crate::project::{Project, client, is_alive, until};
use crate::support::{Cluster, TempDir, one_line};
use crate::transcript::assert_shown;

/// A kubeconfig of a cluster that does not answer.
const OTHER: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "production",
    "clusters": [{"name": "c", "cluster": {"server": "https://production.example.com:6443"}}],
    "contexts": [{"name": "production", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}]}"#;

#[test]
fn the_embedded_cluster_is_used_even_if_kubeconfig_is_set() {
    let project = Project::scripted();
    project.write("other", OTHER);
    project.write(".kube/config", OTHER);
    let mut command = project.command(&["run"]);
    command.env("KUBECONFIG", project.path("other"));
    let mut run = crate::project::Running::start(command);
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com created";
    run.line(crd);
    until("the operator", || project.operators().len() == 1);
    let seen = fs::read_to_string(project.path("target/seen.kubeconfig")).unwrap();
    assert!(seen.contains("https://127.0.0.1:") && !seen.contains("production"), "{seen}");
    run.signal("TERM");
    assert!(run.wait().success());
    assert!(!is_alive(&project.operators()[0]));
}

#[tokio::test]
async fn webhooks_are_called_over_https_without_a_flag() {
    let project = Project::memcached();
    let mut run = project.start(&["run"]);
    let export = run.line("export KUBECONFIG=");
    let path = export.split('=').nth(1).expect("a path").to_owned();
    run.line("the cluster calls the webhooks of this process");
    crate::dev::assert_checked(client(Path::new(&path)).await).await;
    run.signal("TERM");
    assert!(run.wait().success());
}

#[test]
fn the_exit_status_is_that_of_the_operator() {
    let project = Project::scripted();
    project.write("fails", "");
    let mut run = project.start(&["run"]);
    assert_eq!(run.wait().code(), Some(3));
}

#[test]
fn code_that_does_not_compile_is_a_failure() {
    let project = Project::scripted();
    project.write("src/main.rs", "broken");
    let mut run = project.start(&["run"]);
    assert_eq!(run.wait().code(), Some(1));
    run.line("error: this file contains an unclosed delimiter");
    run.line("windlass: the operator does not compile; see the errors above");
}

#[test]
fn a_named_cluster_needs_a_confirmation_that_a_pipe_cannot_give() {
    let project = Project::scripted();
    project.write("other", OTHER);
    for command in ["run", "install", "uninstall", "deploy", "undeploy"] {
        let output = project.command(&[command, "--kubeconfig", "other"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}");
        let line = one_line(&output);
        let cluster = "context production, server https://production.example.com:6443/";
        assert!(line.contains("not confirmed") && line.contains(cluster), "{line}");
        assert!(line.contains("--yes") && !line.contains("secret"), "{line}");
        if command == "install" {
            assert_shown("docs/dev.md", "$ windlass install", &[line]);
        }
    }
}

#[test]
fn a_context_that_does_not_exist_is_wrong_usage() {
    let project = Project::scripted();
    project.write("other", OTHER);
    let args = ["install", "--kubeconfig", "other", "--context", "staging", "--yes"];
    let output = project.command(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "windlass: the kubeconfig has no context staging; it has production";
    assert_eq!(one_line(&output), expected);
}

#[test]
fn nothing_is_installed_without_a_named_cluster() {
    let project = Project::scripted();
    project.write(".kube/config", OTHER);
    for command in ["deploy", "undeploy"] {
        let mut command = project.command(&[command]);
        let output = command.env("KUBECONFIG", project.path(".kube/config")).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(one_line(&output).contains("no cluster is named"), "{}", one_line(&output));
    }
}

#[test]
fn definitions_are_installed_into_the_development_cluster_that_does_not_run() {
    let project = Project::scripted();
    project.write(".kube/config", OTHER);
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
    let run = |command: &str, word: &str| {
        let mut command = project.command(&[command]);
        let output = command.env("KUBECONFIG", project.path(".kube/config")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(error, "cluster: the development cluster of shop, which did not run\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{crd} {word}\n"));
    };
    run("install", "created");
    run("install", "unchanged");
    // `windlass dev` continues with the same state.
    let mut dev = project.start(&["dev"]);
    until("the operator", || project.operators().len() == 1);
    dev.signal("TERM");
    assert!(dev.wait().success());
    let lines = dev.lines();
    assert!(!lines.iter().any(|line| line.contains(crd)), "{lines:#?}");
    run("uninstall", "deleted");
}

#[test]
fn manifests_gives_its_flags_to_the_operator() {
    let project = Project::scripted();
    let root = project.path("").canonicalize().unwrap();
    for (flags, expected) in [
        (&["--output", "json"][..], " --output json"),
        (&["--check", "--image", "a/b:1"], " --check --image a/b:1"),
        (&["-o", "text", "--namespace", "here"], " --namespace here"),
    ] {
        let output = project.command(&[&["manifests"], flags].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let given = fs::read_to_string(project.path("target/manifests")).unwrap();
        let expected = format!("manifests --directory {}{expected}", root.display());
        assert_eq!(given.trim_end(), expected);
    }
}

#[test]
fn a_signal_ends_the_build_with_the_command() {
    for command in [
        &["install"][..],
        &["manifests"],
        &["doctor"],
        &["uninstall"],
        &["deploy", "--kubeconfig", "other", "--yes"],
    ] {
        let project = Project::scripted();
        project.write("other", OTHER);
        project.write("src/main.rs", "hangs");
        let mut run = project.start(command);
        let builder = project.path("target/builder");
        until("the build", || fs::read_to_string(&builder).is_ok_and(|id| id.ends_with('\n')));
        let id = fs::read_to_string(&builder).unwrap().trim().to_owned();
        run.signal("TERM");
        assert_eq!(run.wait().code(), Some(1), "{command:?}");
        run.line("windlass: interrupted; ");
        until("the end of cargo", || !is_alive(&id));
    }
}

#[test]
fn definitions_are_installed_and_removed() {
    let project = Project::scripted();
    let dir = TempDir::new();
    let cluster = Cluster::start(dir.path(), &[]);
    let kubeconfig = cluster.kubeconfig.display().to_string();
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
    for (command, word) in
        [("install", "created"), ("install", "unchanged"), ("uninstall", "deleted")]
    {
        let args = [command, "--kubeconfig", &kubeconfig, "--context", "windlass", "--yes"];
        let output = project.command(&args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert!(error.starts_with("cluster: context windlass, server https://127.0.0.1:"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{crd} {word}\n"));
    }
}

#[test]
fn scripts_get_one_object_of_what_was_done() {
    let project = Project::scripted();
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
    for (command, action) in [("install", "created"), ("uninstall", "deleted")] {
        let output = project.command(&[command, "--output", "json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let change = serde_json::json!({"object": crd, "action": action});
        assert_eq!(report["changes"], serde_json::json!([change]));
        assert_eq!(report["cluster"], "the development cluster of shop, which did not run");
    }
}

#[test]
fn a_directory_without_a_project_is_named() {
    let dir = TempDir::new();
    let mut command = crate::support::windlass();
    let output = command.arg("run").current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "windlass: found no Cargo.toml here or above; change to the directory of an \
                    operator, or start one with `windlass init`";
    assert_eq!(one_line(&output), expected);
}

#[test]
fn a_project_that_cargo_cannot_read_is_named_with_the_place() {
    let dir = TempDir::new();
    fs::write(dir.path().join("Cargo.toml"), "[package]\nname = \"shop\"\n[[[\n").unwrap();
    let mut command = crate::support::windlass();
    let output = command.arg("run").current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = one_line(&output);
    assert!(line.starts_with("windlass: Cargo.toml:3:3: "), "{line}");
    assert!(line.ends_with("; correct it first"), "{line}");
}
