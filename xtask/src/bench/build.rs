//! Builds the contestants and the peers.
//!
//! What comes from Go modules is built once into a cache outside the repository. Where Go or the
//! modules are not to be had, that part is left out and the page says so.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::versions;

/// Everything that is run; what is `None` could not be built.
pub struct Tools {
    pub windlass_cli: PathBuf,
    pub load: PathBuf,
    pub windlass: PathBuf,
    pub kube_rs: Option<PathBuf>,
    pub controller_runtime: Option<PathBuf>,
    pub real: Option<Real>,
    /// Why something is missing.
    pub missing: Vec<String>,
}

/// The real server.
pub struct Real {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    pub controller_manager: Option<PathBuf>,
    pub keys: PathBuf,
}

/// Builds all that can be built; without `fresh`, what is there is taken as it is.
pub fn build(root: &Path, fresh: bool) -> Result<Tools, String> {
    let target = target(root);
    let release = target.join("release");
    let mut ours = Command::new("cargo");
    ours.args(["build", "--release", "-p", "windlass-cli", "-p", "bench-load"]);
    ours.args(["-p", "bench-windlass", "-p", "bench-embedded"]).current_dir(root);
    if fresh {
        done(ours, "building windlass")?;
    }
    let mut missing = Vec::new();
    let kube_rs = match release.join("bench-kube-rs") {
        made if !fresh && made.exists() => Ok(made),
        _ => build_kube_rs(root, &target),
    };
    let kube_rs = note(&mut missing, "kube-rs", kube_rs);
    let bin = cache()?.join("bin");
    fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    let runtime = root.join("bench/controller-runtime");
    let contestant = match fresh {
        true => go_always(&bin, "bench-controller-runtime", &runtime, "."),
        false => go(&bin, "bench-controller-runtime", &runtime, "."),
    };
    let controller_runtime = note(&mut missing, "controller-runtime", contestant);
    let mut real = note(&mut missing, "kube-apiserver and etcd", build_real(root, &bin));
    if let Some(real) = &mut real {
        let built = kubernetes(root, &bin, "kube-controller-manager");
        real.controller_manager = note(&mut missing, "kube-controller-manager", built);
    }
    Ok(Tools {
        windlass_cli: release.join("windlass"),
        load: release.join("bench-load"),
        windlass: release.join("bench-windlass"),
        kube_rs,
        controller_runtime,
        real,
        missing,
    })
}

fn build_kube_rs(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--target-dir"]).arg(target);
    command.current_dir(root.join("bench/kube-rs"));
    done(command, "building the kube-rs contestant")?;
    Ok(target.join("release/bench-kube-rs"))
}

fn build_real(root: &Path, bin: &Path) -> Result<Real, String> {
    let (peers, version) = (root.join("bench/peers"), versions::etcd(root));
    let etcd = versioned("etcd", version)?;
    Ok(Real {
        keys: go(bin, "bench-keys", &peers.join("keys"), ".")?,
        etcd: go(bin, &etcd, &peers.join("etcd"), "go.etcd.io/etcd/server/v3")?,
        apiserver: kubernetes(root, bin, "kube-apiserver")?,
        controller_manager: None,
    })
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

/// Builds a Go program unless it is in the cache.
fn go(bin: &Path, name: &str, module: &Path, package: &str) -> Result<PathBuf, String> {
    let made = bin.join(name);
    if made.exists() {
        return Ok(made);
    }
    go_always(bin, name, module, package)
}

fn go_always(bin: &Path, name: &str, module: &Path, package: &str) -> Result<PathBuf, String> {
    let (made, half) = (bin.join(name), bin.join(format!(".{name}.tmp")));
    let mut command = Command::new("go");
    command.args(["build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o"]);
    command.arg(&half).arg(package).env("CGO_ENABLED", "0").current_dir(module);
    done(command, &format!("building {name}"))?;
    fs::rename(&half, &made).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(made)
}

fn done(mut command: Command, what: &str) -> Result<(), String> {
    println!("{what} …");
    let status = command.stdin(Stdio::null()).status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{what}: {} is not installed", command.get_program().display())
        }
        _ => format!("{what}: {error}"),
    });
    match status?.success() {
        true => Ok(()),
        false => Err(format!("{what} failed")),
    }
}

fn note<T>(missing: &mut Vec<String>, what: &str, built: Result<T, String>) -> Option<T> {
    built.map_err(|why| missing.push(format!("{what} is left out: {why}"))).ok()
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Where the peers are kept.
pub fn cache() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("WINDLASS_BENCH_CACHE") {
        return Ok(PathBuf::from(folder));
    }
    let home = std::env::var_os("HOME").ok_or("neither WINDLASS_BENCH_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/windlass-bench"))
}
