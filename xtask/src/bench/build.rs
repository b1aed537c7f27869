//! Builds the contestants and the peers.
//!
//! What comes from Go modules is built once into a cache outside the repository. Where Go or the
//! modules are not to be had, that part is left out and the page says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use super::plan::{has_kube_rs, is_ours_alone, scenarios};
use crate::peers::go::{cache, done, go, go_always};
use crate::peers::real::Real;
use crate::peers::target;

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

/// Builds all that can be built and is asked for; with `--no-build`, what is there is taken as it is.
pub fn build(root: &Path, options: &Options) -> Result<Tools, String> {
    let fresh = !options.built;
    let wanted: Vec<&str> = scenarios().into_iter().filter(|one| options.wants(one)).collect();
    let ours_alone = wanted.iter().all(|one| is_ours_alone(one));
    // Webhooks are called without a server, and kube-rs has none.
    let without_real = wanted.iter().all(|one| *one == "admission" || is_ours_alone(one));
    let target = target(root);
    let release = target.join("release");
    let mut ours = Command::new("cargo");
    ours.args(["build", "--release", "-p", "windlass-cli", "-p", "bench-load"]).current_dir(root);
    if !ours_alone {
        ours.args(["-p", "bench-windlass", "-p", "bench-embedded"]);
    }
    if fresh {
        done(ours, "building windlass")?;
    }
    let mut missing = Vec::new();
    let kube_rs = match release.join("bench-kube-rs") {
        _ if !wanted.iter().any(|one| has_kube_rs(one)) => None,
        made if !fresh && made.exists() => Some(made),
        _ => note(&mut missing, "kube-rs", build_kube_rs(root, &target)),
    };
    let bin = cache()?.join("bin");
    fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    let runtime = root.join("bench/controller-runtime");
    let contestant = || match fresh {
        true => go_always(&bin, "bench-controller-runtime", &runtime, "."),
        false => go(&bin, "bench-controller-runtime", &runtime, "."),
    };
    let controller_runtime = match ours_alone {
        true => None,
        false => note(&mut missing, "controller-runtime", contestant()),
    };
    let mut real = match without_real {
        true => None,
        false => note(&mut missing, "kube-apiserver and etcd", Real::build(root)),
    };
    if let Some(real) = &mut real {
        note(&mut missing, "kube-controller-manager", real.build_controller_manager(root));
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

fn note<T>(missing: &mut Vec<String>, what: &str, built: Result<T, String>) -> Option<T> {
    built.map_err(|why| missing.push(format!("{what} is left out: {why}"))).ok()
}
