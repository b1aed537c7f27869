//! Folders for what servers write, in the cache and thus on a disk, removed when they are done.

use std::fs;
use std::path::{Path, PathBuf};

use super::go::cache;

/// A folder; removed when dropped.
pub struct Scratch(PathBuf);

/// Removes what a run that was ended has left.
pub fn wipe() -> Result<(), String> {
    let folder = folder()?;
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn folder() -> Result<PathBuf, String> {
    Ok(cache()?.join("scratch"))
}

// === impl Scratch ===

impl Scratch {
    /// Makes a new empty folder.
    pub fn new() -> Result<Self, String> {
        Self::within(&folder()?)
    }

    fn within(base: &Path) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", base.display());
        fs::create_dir_all(base).map_err(failed)?;
        for n in 0..10_000 {
            let folder = base.join(format!("{}-{n}", std::process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(format!("{}: too many folders", base.display()))
    }

    /// A file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_with_its_owner() {
        let base = std::env::temp_dir().join(format!("windlass-scratch-{}", std::process::id()));
        let (one, other) = (Scratch::within(&base).unwrap(), Scratch::within(&base).unwrap());
        assert_ne!(one.path(), other.path());
        fs::write(one.join("file"), "text").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
        drop(other);
        fs::remove_dir(&base).unwrap();
    }
}
