//! `cargo xtask differ`: the embedded API server beside a real one, on generated requests.

use std::process::Command;

use crate::peers::go::done;
use crate::peers::real::{Real, RealServer};
use crate::peers::{root, target, until};

/// Starts a real server, and runs the program of `xtask/differ` beside it.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let root = root();
    let mut build = Command::new("cargo");
    build.args(["build", "--package", "differ"]).current_dir(&root);
    done(build, "building differ")?;
    let server = RealServer::start(&Real::build(&root)?)?;
    let program = target(&root).join("debug/differ");
    // A run of no time reads the schemas, which a server has once it is ready.
    until(|| {
        let mut probe = Command::new(&program);
        probe.arg(&server.kubeconfig).args(["--seconds", "0"]);
        let output = probe.output().map_err(|error| format!("differ: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })?;
    let mut compare = Command::new(&program);
    compare.arg(&server.kubeconfig).args(arguments);
    done(compare, "comparing")
}
