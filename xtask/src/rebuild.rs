//! `cargo xtask rebuild`: how long it takes from saving a change of the reconcile function until the
//! new build has reconciled.
//!
//! One project is what `windlass init` and `create api` write, under `windlass dev`. The other is what
//! `kubebuilder init` and `create api` write, under `make run`, which is ended and started again after
//! each change, as its users do. Both work on an embedded cluster.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::journey::newcomer;
use crate::peers::cluster::Cluster;
use crate::peers::go::{cache, done, go};
use crate::peers::kubectl::Kubectl;
use crate::peers::process::Process;
use crate::peers::scratch::Scratch;
use crate::peers::{real, root, target, versions};

/// How often a change is saved, unless it is said otherwise.
const ROUNDS: usize = 5;
/// How long a build may take.
const PATIENCE: Duration = Duration::from_secs(900);
/// What `windlass dev` may take on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Measures, and prints a table.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let (mut rounds, mut peer) = (ROUNDS, true);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match (*argument, rest.as_slice().first()) {
            ("--only-windlass", _) => peer = false,
            ("--rounds", Some(number)) => {
                rounds = number.parse().map_err(|_| format!("{number} is not a number"))?;
                rest.next();
            }
            _ => return Err("rebuild takes --rounds N and --only-windlass".into()),
        }
    }
    let idle = is_idle();
    let root = root();
    let mut build = Command::new("cargo");
    build.args(["build", "-p", "windlass-cli", "--bins"]).current_dir(&root);
    done(build, "building windlass")?;
    let debug = target(&root).join("debug");
    let ours = windlass(&debug.join("windlass"), rounds)?;
    report("windlass dev", &ours);
    if peer {
        report("kubebuilder, make run", &kubebuilder(&root, &debug, rounds)?);
    }
    match median(&ours) {
        slow if slow > LIMIT && idle => {
            Err(format!("`windlass dev` took {:.1} s, more than {LIMIT:?}", slow.as_secs_f64()))
        }
        _ => Ok(()),
    }
}

/// Returns `true` if the machine has a core that does nothing else.
pub fn is_idle() -> bool {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let idle = load + 1.0 <= cores as f64;
    if !idle {
        println!("note: the load is {load}, so that times are printed and not judged");
    }
    idle
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn report(name: &str, times: &[Duration]) {
    let seconds = |time: &Duration| format!("{:.2}", time.as_secs_f64());
    let all: Vec<String> = times.iter().map(seconds).collect();
    println!("{name}: {} s after the change ({})", seconds(&median(times)), all.join(", "));
}

/// Measures the project of windlass.
fn windlass(program: &Path, rounds: usize) -> Result<Vec<Duration>, String> {
    let scratch = Scratch::new()?;
    let project = scratch.join("shop");
    create(&project)?;
    let command = || {
        let mut command = newcomer(&program.display().to_string());
        command.current_dir(&project);
        command
    };
    for line in [
        "init --domain example.com",
        "create api --group cache --version v1alpha1 --kind Memcached",
    ] {
        let mut command = command();
        command.args(line.split(' '));
        done(command, &format!("windlass {line}"))?;
    }
    let mut dev = command();
    dev.arg("dev").stderr(Stdio::null());
    let dev = Process::spawn(dev)?;
    line_with(&dev, "reconcile memcached default/memcached-sample ok")?;
    let source = project.join("src/memcached.rs");
    let mut times = Vec::new();
    for round in 0..rounds {
        let from = if round == 0 { FIRST.to_owned() } else { line(round - 1) };
        let saved = change(&source, &from, &line(round))?;
        times.push(line_with(&dev, &format!("(the first of build {},", round + 2))? - saved);
    }
    dev.end();
    Ok(times)
}

/// The line of the function that `create api` wrote, and the one of each round.
const FIRST: &str = "let text = &object.spec.message;";

fn line(round: usize) -> String {
    format!("let text = &format!(\"{{}} {round}\", object.spec.message);")
}

/// Measures the project of kubebuilder.
fn kubebuilder(root: &Path, debug: &Path, rounds: usize) -> Result<Vec<Duration>, String> {
    let bin = cache()?.join("bin");
    let tool = installed(root, &bin)?;
    let scratch = Scratch::new()?;
    let project = scratch.join("shop");
    create(&project)?;
    for line in [
        "init --domain example.com --repo example.com/shop --owner us",
        "create api --group cache --version v1alpha1 --kind Memcached --resource --controller",
    ] {
        let mut command = Command::new(&tool);
        command.args(line.split(' ')).current_dir(&project);
        done(command, &format!("kubebuilder {line}"))?;
    }
    let source = project.join("internal/controller/memcached_controller.go");
    change(&source, "_ = logf.FromContext(ctx)", "logf.FromContext(ctx).Info(\"round 0\")")?;
    let mut manifests = Command::new("make");
    manifests.arg("manifests").current_dir(&project);
    done(manifests, "make manifests")?;

    let cluster = Cluster::embedded(debug)?;
    let kubectl = Kubectl::new(real::kubectl(root)?, cluster.kubeconfig.clone());
    let bases = project.join("config/crd/bases").display().to_string();
    kubectl.run(&["apply", "-f", &bases])?;
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"])?;
    let sample = project.join("config/samples/cache_v1alpha1_memcached.yaml");
    change(&sample, "# TODO(user): Add fields here", "foo: bar")?;
    kubectl.run(&["apply", "-f", &sample.display().to_string()])?;

    let start = || -> Result<Process, String> {
        let mut make = Command::new("sh");
        make.args(["-c", "exec make run 2>&1"]).current_dir(&project);
        make.env("KUBECONFIG", &cluster.kubeconfig).process_group(0);
        Process::spawn(make)
    };
    let mut run = start()?;
    line_with(&run, "round 0")?;
    let mut times = Vec::new();
    for round in 1..=rounds {
        let saved =
            change(&source, &format!("\"round {}\"", round - 1), &format!("\"round {round}\""))?;
        stop(run);
        run = start()?;
        times.push(line_with(&run, &format!("round {round}"))? - saved);
    }
    stop(run);
    Ok(times)
}

/// Ends a process with everything that it started.
fn stop(process: Process) {
    let group = format!("-{}", process.id());
    let _ = Command::new("kill").args(["-TERM", "--", &group]).stderr(Stdio::null()).status();
    process.end();
}

/// kubebuilder, unless it is in the cache.
fn installed(root: &Path, bin: &Path) -> Result<PathBuf, String> {
    create(bin)?;
    let version =
        versions::kubebuilder(root).ok_or("no go.mod names the version of kubebuilder")?;
    let module = root.join("bench/peers/kubebuilder");
    go(bin, &format!("kubebuilder-{version}"), &module, "sigs.k8s.io/kubebuilder/v4")
}

fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

/// Replaces a text in a file; returns when it was saved.
fn change(path: &Path, from: &str, to: &str) -> Result<Instant, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(failed)?;
    let new = text.replacen(from, to, 1);
    if new == text {
        return Err(format!("{} has no {from:?} to change", path.display()));
    }
    let saved = Instant::now();
    fs::write(path, new).map_err(failed)?;
    Ok(saved)
}

/// Waits for a line that contains a text; returns when it came.
fn line_with(process: &Process, text: &str) -> Result<Instant, String> {
    loop {
        let (line, at) =
            process.line(PATIENCE).map_err(|why| format!("no line with {text:?}: {why}"))?;
        if line.contains(text) {
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let times: Vec<Duration> = [3, 1, 2].map(Duration::from_secs).to_vec();
        assert_eq!(median(&times), Duration::from_secs(2));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
