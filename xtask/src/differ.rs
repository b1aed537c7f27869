//! `cargo xtask differ`: the embedded API server beside a real one, on generated requests.

use std::process::Command;

use crate::peers::go::done;
use crate::peers::real::{Real, RealServer};
use crate::peers::{root, target, until};

/// Starts a real server, with its controllers if asked to, and runs the program of `xtask/differ`
/// beside it.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let root = root();
    let mut build = Command::new("cargo");
    build.args(["build", "--package", "differ"]).current_dir(&root);
    done(build, "building differ")?;
    let mut real = Real::build(&root)?;
    let controllers = arguments.contains(&"--controllers");
    if controllers {
        real.build_controller_manager(&root)?;
    }
    let mut server = RealServer::start(&real)?;
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
    if controllers {
        // No node sends heartbeats.
        let arguments = [
            "--controllers=*,-node-lifecycle-controller",
            "--horizontal-pod-autoscaler-sync-period=1s",
        ];
        server.start_controllers(&real, &arguments)?;
    }
    let mut compare = Command::new(&program);
    compare.arg(&server.kubeconfig).args(arguments);
    done(compare, "comparing")
}
