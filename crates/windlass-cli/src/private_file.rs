//! Files that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Writes a file that only its owner can read, whole or not at all, also at a loss of power.
pub fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let (draft, mut file) = create_draft(path).map_err(|error| not_written(path, &error))?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_directory(path));
    written.map_err(|error| {
        let _ = fs::remove_file(&draft);
        not_written(path, &error)
    })
}

/// Makes sure that a file can be written later, before anything else is done.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(not_written(path, &io::ErrorKind::IsADirectory.into()));
    }
    let (draft, _) = create_draft(path).map_err(|error| not_written(path, &error))?;
    fs::remove_file(draft).map_err(|error| not_written(path, &error))
}

/// Creates a file beside the one to be written, which takes its place once it is whole.
///
/// Its name cannot be guessed, and it must not exist: nobody can put a file or a link of theirs in
/// the way.
fn create_draft(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", uuid::Uuid::new_v4().simple()));
    let draft = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&draft)?;
    Ok((draft, file))
}

/// Makes the name of a file survive a loss of power.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if cfg!(unix) { File::open(parent.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::other(format!("cannot write {}: {error}", path.display()))
}

/// Creates a directory that only its owner can enter, and that is removed with the value.
pub fn private_temp_dir() -> Result<tempfile::TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("windlass-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder
        .tempdir()
        .map_err(|error| Failure::other(format!("cannot create a temporary directory: {error}")))
}

/// Creates a directory that only its owner can enter; one that exists is made so.
pub fn create_private_dir(path: &Path) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let created = builder.create(path);
    #[cfg(unix)]
    let created = created.and_then(|()| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(path, mode)
    });
    created.map_err(|error| not_written(path, &error))
}
