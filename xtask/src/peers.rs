//! Programs of other projects that windlass is compared with: a real kube-apiserver,
//! kube-controller-manager, etcd and kubectl, built from Go modules into a cache outside of the
//! repository.

pub mod cluster;
pub mod go;
pub mod kubectl;
pub mod process;
pub mod real;
pub mod scratch;
pub mod versions;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns where cargo puts what it builds.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Tries until something holds, for at most a minute and a half.
pub fn until(mut look: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let limit = Instant::now() + Duration::from_secs(90);
    loop {
        match look() {
            Err(_) if Instant::now() < limit => std::thread::sleep(Duration::from_millis(200)),
            outcome => return outcome,
        }
    }
}
