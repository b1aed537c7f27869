//! `cargo xtask real`: the operators of `examples/` on a real kube-apiserver.
//!
//! kube-apiserver, kube-controller-manager, etcd and kubectl are built from their Go modules once.
//! The scheduler and the nodes are the simulated ones of windlass-cluster. Each operator is
//! installed from the manifests that it generates, and runs with the rights of its service account
//! and no others. The definitions that the golden tests make of their types, and those that they are
//! compared with, are judged too. What is done, and what kubectl has to print then, is in [`steps`]. With
//! `--embedded` everything is the same on `windlass cluster`.

mod steps;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::peers::cluster::Cluster;
use crate::peers::go::done;
use crate::peers::kubectl::Kubectl;
use crate::peers::process::Process;
use crate::peers::scratch::{self, Scratch};
use crate::peers::{real, root, target, until};
use steps::{EXAMPLES, Example};

/// The folders with definitions that the types of our tests are compared with.
const DEFINITIONS: [&str; 2] =
    ["crates/windlass-cli/tests/it/types", "crates/windlass-manifests/tests/golden/data"];

/// The variable with the folder into which the golden tests write the definitions that they make.
const WRITTEN: &str = "WINDLASS_DEFINITIONS";

/// Runs all examples, or those that are named.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    if let Some(flag) = flags.iter().find(|flag| !["--embedded", "--no-build"].contains(flag)) {
        return Err(format!("real has no flag {flag}; there are --embedded and --no-build"));
    }
    let examples = select(&names)?;
    let root = root();
    let program = real::kubectl(&root)?;
    if !flags.contains(&"--no-build") {
        let mut build = Command::new("cargo");
        build.args(["build", "--workspace", "--bins", "--example", "nodes"]).current_dir(&root);
        done(build, "building windlass and the operators")?;
    }
    scratch::wipe()?;
    let debug = target(&root).join("debug");
    let cluster = match flags.contains(&"--embedded") {
        true => Cluster::embedded(&debug)?,
        false => Cluster::real(&root, &debug, &program)?,
    };
    let kubectl = Kubectl::new(program, cluster.kubeconfig.clone());
    let version = kubectl.run(&["get", "--raw", "/version"])?;
    let version: serde_json::Value = serde_json::from_str(&version).unwrap_or_default();
    println!("the server is {}", version["gitVersion"]);

    let mut failed = Vec::new();
    if names.is_empty() {
        let made = made(&root)?;
        let folders = DEFINITIONS.map(|folder| root.join(folder));
        definitions(&folders, &kubectl)?;
        definitions(&[made.path().to_owned()], &kubectl)?;
    }
    for example in examples {
        let began = Instant::now();
        match attempt(example, &debug, &kubectl) {
            Ok(()) => println!("ok      {} ({} s)", example.program, began.elapsed().as_secs()),
            Err(why) => {
                println!("failed  {}: {why}", example.program);
                failed.push(example.program);
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

fn select(names: &[&str]) -> Result<Vec<&'static Example>, String> {
    let known = || EXAMPLES.iter().map(|example| example.program).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        return Ok(EXAMPLES.iter().collect());
    }
    names
        .iter()
        .map(|name| {
            let found = EXAMPLES.iter().find(|example| example.program == *name);
            found.ok_or_else(|| format!("there is no example {name}; there are {}", known()))
        })
        .collect()
}

/// Lets the golden tests write what is made of their types.
fn made(root: &Path) -> Result<Scratch, String> {
    let folder = Scratch::new()?;
    let mut tests = Command::new("cargo");
    tests.args(["test", "--quiet", "-p", "windlass-manifests", "--test", "golden"]);
    tests.env(WRITTEN, folder.path()).current_dir(root).stdout(std::process::Stdio::null());
    done(tests, "the golden tests of windlass-manifests")?;
    Ok(folder)
}

/// Lets the server judge all definitions in some folders.
fn definitions(folders: &[PathBuf], kubectl: &Kubectl) -> Result<(), String> {
    let mut count = 0;
    for folder in folders {
        let files =
            std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for file in files.filter_map(Result::ok).map(|entry| entry.path()) {
            let is_definition = std::fs::read_to_string(&file)
                .is_ok_and(|text| text.contains("kind: CustomResourceDefinition"));
            if is_definition {
                let path = file.display().to_string();
                let create = ["create", "--dry-run=server", "-f", &path];
                let trap = file
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("rejected-"));
                match trap {
                    true => kubectl.refused(&create, "").map(drop)?,
                    false => kubectl.run(&create).map(drop)?,
                }
                count += 1;
            }
        }
    }
    let names: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let names = names.join(" and ");
    match count {
        0 => Err(format!("there are no definitions in {names}")),
        _ => {
            println!(
                "ok      {count} files of {names} are accepted, or refused where they have to be"
            );
            Ok(())
        }
    }
}

/// Installs an operator, runs it, does its steps, and removes what they have left.
fn attempt(example: &Example, debug: &Path, kubectl: &Kubectl) -> Result<(), String> {
    let program = debug.join(example.program);
    let folder = Scratch::new()?;
    let config = install(example, &program, &folder, kubectl)?;
    let identity = match example.administrator {
        true => kubectl.kubeconfig().to_owned(),
        false => service_account(example, &folder, kubectl)?,
    };
    let log = folder.join("log");
    let file = std::fs::File::create(&log).map_err(|error| format!("no log: {error}"))?;
    let mut command = Command::new(&program);
    command.arg("--kubeconfig").arg(&identity).args(["--health-probe-bind-address", "0"]);
    command.args(["--log-format", "text"]).args(example.arguments).stderr(file);
    let operator = Process::spawn(command)?;
    let outcome = example.steps.iter().try_for_each(|step| step.take(kubectl, &config));
    operator.end();
    outcome.map_err(|why| format!("{why}\nthe end of the operator's log:\n{}", tail(&log)))
}

/// Installs the definitions and the roles, and lets the server check everything else.
fn install(
    example: &Example,
    program: &Path,
    folder: &Scratch,
    kubectl: &Kubectl,
) -> Result<PathBuf, String> {
    let mut manifests = Command::new(program);
    manifests.args(["manifests", "--directory"]).arg(folder.path());
    manifests.stdout(std::process::Stdio::null());
    done(manifests, &format!("manifests of {}", example.program))?;
    let config = folder.join("config");
    let namespace = format!("{}-system", example.program);
    let part = |name: &str| config.join(name).display().to_string();
    kubectl.run(&["create", "namespace", &namespace])?;
    kubectl.run(&["apply", "--server-side", "-k", &part("crd")])?;
    // It fails for a definition that has no conditions yet.
    let established = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    until(|| kubectl.run(&established).map(drop))?;
    kubectl.run(&["apply", "-k", &part("rbac"), "-n", &namespace])?;
    kubectl.run(&["apply", "--server-side", "--dry-run=server", "-k", &part("default")])?;
    if config.join("policy").exists() {
        kubectl.run(&["apply", "--server-side", "-k", &part("policy")])?;
    }
    Ok(config)
}

/// Writes a kubeconfig with a token of the operator's service account.
fn service_account(
    example: &Example,
    folder: &Scratch,
    kubectl: &Kubectl,
) -> Result<PathBuf, String> {
    let namespace = format!("{}-system", example.program);
    let account = format!("{}-controller-manager", example.program);
    let token = kubectl.run(&["create", "token", &account, "-n", &namespace])?;
    let flat = kubectl.run(&["config", "view", "--raw", "--flatten", "-o", "json"])?;
    let mut value: serde_json::Value =
        serde_json::from_str(&flat).map_err(|error| format!("the kubeconfig: {error}"))?;
    value["users"][0]["user"] = serde_json::json!({"token": token.trim()});
    value["contexts"][0]["context"]["namespace"] = "default".into();
    let file = folder.join("kubeconfig");
    std::fs::write(&file, value.to_string())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
