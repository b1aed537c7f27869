//! The file operations of a journal, in one place so that tests can make each of them fail.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Performs the file operations.
#[derive(Clone, Default)]
pub(super) struct Disk {
    #[cfg(test)]
    faults: Option<std::sync::Arc<Faults>>,
}

/// Decides whether an operation fails.
#[cfg(test)]
type Faults = dyn Fn(Operation) -> io::Result<()> + Send + Sync;

/// An operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Write,
    Truncate,
    Sync,
    Rename,
    SyncDirectory,
}

// === impl Disk ===

impl Disk {
    /// Returns a disk on which the operations fail for which `faults` returns an error.
    #[cfg(test)]
    pub fn failing(faults: impl Fn(Operation) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { faults: Some(std::sync::Arc::new(faults)) }
    }

    #[cfg(test)]
    fn check(&self, operation: Operation) -> io::Result<()> {
        self.faults.as_ref().map_or(Ok(()), |faults| faults(operation))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the disk has faults in tests only")]
    fn check(&self, _: Operation) -> io::Result<()> {
        Ok(())
    }

    /// Opens a file to read and write, which only its owner may do; it is created if missing.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = private().truncate(false).open(path)?;
        restrict(&file)?;
        Ok(file)
    }

    /// Opens an empty file to read and write, which only its owner may do.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        self.check(Operation::Create)?;
        let file = private().truncate(true).open(path)?;
        restrict(&file)?;
        Ok(file)
    }

    /// Writes at the file's position. If it fails, a part may have been written.
    pub fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.check(Operation::Write) {
            file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        file.write_all(bytes)
    }

    /// Cuts a file to a length, and continues to write there.
    pub fn truncate(&self, mut file: &File, length: u64) -> io::Result<()> {
        self.check(Operation::Truncate)?;
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length)).map(drop)
    }

    /// Makes the contents of a file survive a loss of power.
    pub fn sync(&self, file: &File) -> io::Result<()> {
        self.check(Operation::Sync)?;
        file.sync_data()
    }

    /// Puts a file in the place of another.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Operation::Rename)?;
        fs::rename(from, to)
    }

    /// Makes the names of a directory survive a loss of power.
    pub fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.check(Operation::SyncDirectory)?;
        if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
    }
}

/// Creates a directory, and those above it, that only its owner may use.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Takes the rights of others away from a file that had them before.
fn restrict(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata()?.permissions().mode();
        if mode & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}
