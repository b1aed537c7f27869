//! `kubectl` as suites start it: the one that is installed, if there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Binary;
use crate::failure::Failure;

/// Replaces this process by the kubectl on the `PATH`, or explains that there is none.
pub fn run() -> Result<(), Failure> {
    let kubectl = std::env::var_os("PATH")
        .and_then(|path| find(std::env::split_paths(&path)))
        .ok_or_else(|| {
            Failure::with_code(
                127,
                "windlass has no kubectl; install it on the PATH, or name one with \
                 TEST_ASSET_KUBECTL",
            )
        })?;
    let mut command = Command::new(&kubectl);
    command.args(std::env::args_os().skip(1));
    let failed = |error| Failure::other(format!("cannot start {}: {error}", kubectl.display()));
    #[cfg(unix)]
    {
        Err(failed(std::os::unix::process::CommandExt::exec(&mut command)))
    }
    #[cfg(not(unix))]
    {
        let status = command.status().map_err(failed)?;
        std::process::exit(status.code().unwrap_or(1));
    }
}

/// Returns the first kubectl of these directories that is not this program.
fn find(dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let is_other = |path: &Path| {
        let real = std::fs::canonicalize(path).ok();
        real.is_some_and(|real| real.is_file() && Some(real) != own)
    };
    let candidates = dirs.map(|dir| dir.join(Binary::Kubectl.file_name()));
    candidates.into_iter().find(|path| is_other(path))
}
