//! The changes of one command: all of them are made, or none.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// What happens to files below a directory.
#[derive(Default)]
pub struct Changes {
    all: Vec<Change>,
    notes: Vec<String>,
    next: Vec<String>,
}

struct Change {
    path: String,
    action: Action,
}

enum Action {
    Create(String),
    Update { old: String, new: String },
    Remove { old: String },
}

/// What was done, for people and scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    dry_run: bool,
    changes: Vec<Line<'a>>,
    notes: &'a [String],
    next: &'a [String],
}

#[derive(Serialize)]
struct Line<'a> {
    action: &'static str,
    path: &'a str,
}

/// What a command does with its changes.
#[derive(Args)]
pub struct How {
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    /// How to report what was done.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

/// How a command reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
}

// === impl Changes ===

impl Changes {
    /// Creates a file that must not exist.
    pub fn create(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.all.push(Change { path: path.into(), action: Action::Create(text.into()) });
    }

    /// Changes a file, if there is anything to change.
    pub fn update(&mut self, path: &str, old: &str, new: String) {
        if old != new {
            let action = Action::Update { old: old.to_owned(), new };
            self.all.push(Change { path: path.to_owned(), action });
        }
    }

    /// Removes a file, and the directories that it leaves empty.
    pub fn remove(&mut self, path: &str, old: &str) {
        let action = Action::Remove { old: old.to_owned() };
        self.all.push(Change { path: path.to_owned(), action });
    }

    /// Returns `true` if a file is removed.
    pub fn removes(&self, path: &str) -> bool {
        let removed = |one: &Change| matches!(one.action, Action::Remove { .. });
        self.all.iter().any(|one| one.path == path && removed(one))
    }

    /// The new text of a file that is changed.
    pub fn updated(&self, path: &str) -> Option<&str> {
        self.all.iter().find_map(|one| match &one.action {
            Action::Update { new, .. } if one.path == path => Some(new.as_str()),
            _ => None,
        })
    }

    /// Adds a line about something that was not done.
    pub fn note(&mut self, line: impl Into<String>) {
        self.notes.push(line.into());
    }

    /// Adds a line about what to do next.
    pub fn next(&mut self, line: impl Into<String>) {
        self.next.push(line.into());
    }

    /// Makes the changes below a directory, and reports them.
    pub fn finish(&self, root: &Path, how: &How) -> Result<(), Failure> {
        match how.dry_run {
            true => self.check(root)?,
            false => self.apply(root)?,
        }
        self.report(how);
        Ok(())
    }

    /// Refuses what would overwrite something.
    fn check(&self, root: &Path) -> Result<(), Failure> {
        self.all.iter().try_for_each(|change| change.check(root))
    }

    /// Makes all changes below a directory; after a failure everything is as before.
    fn apply(&self, root: &Path) -> Result<(), Failure> {
        self.check(root)?;
        let mut done = Vec::new();
        for change in &self.all {
            if let Err(error) = change.make(root, &mut done) {
                let left: Vec<String> =
                    done.iter().rev().filter_map(|undo: &Undo| undo.run().err()).collect();
                let failure = format!("cannot write {}: {error}", change.path);
                return Err(Failure::other(match left.is_empty() {
                    true => format!("{failure}; nothing was changed"),
                    false => format!("{failure}; left over: {}", left.join(", ")),
                }));
            }
        }
        for change in &self.all {
            if let Action::Remove { .. } = change.action {
                remove_empty(root, &change.path);
            }
        }
        Ok(())
    }

    /// Prints what was done, or would be done.
    fn report(&self, how: &How) {
        let changes = self.all.iter().map(|change| Line {
            action: match change.action {
                Action::Create(_) => "created",
                Action::Update { .. } => "updated",
                Action::Remove { .. } => "removed",
            },
            path: &change.path,
        });
        let (notes, next) = (&self.notes, &self.next);
        let report = Report { dry_run: how.dry_run, changes: changes.collect(), notes, next };
        if how.output == Output::Json {
            let json = serde_json::to_string(&report).expect("plain texts are JSON");
            say!("{json}");
            return;
        }
        for line in &report.changes {
            let end = if how.dry_run { " (dry run)" } else { "" };
            say!("{} {}{end}", line.action, line.path);
        }
        for note in report.notes {
            say!("{note}");
        }
        for (index, line) in report.next.iter().enumerate() {
            say!("{} {line}", if index == 0 { "Next:" } else { "     " });
        }
    }
}

// === impl Change ===

impl Change {
    /// Refuses what would overwrite something.
    fn check(&self, root: &Path) -> Result<(), Failure> {
        let path = root.join(&self.path);
        let old = match &self.action {
            Action::Create(_) if path.symlink_metadata().is_err() => return Ok(()),
            Action::Create(_) => {
                return Err(Failure::other(format!(
                    "{} exists already, and is not overwritten; move it away first, nothing was changed",
                    self.path
                )));
            }
            Action::Update { old, .. } | Action::Remove { old } => old,
        };
        match fs::read_to_string(&path) {
            Ok(text) if text == *old => Ok(()),
            Ok(_) => Err(Failure::other(format!(
                "{} was changed at the same time; nothing was changed by this command",
                self.path
            ))),
            Err(error) => Err(Failure::other(format!("cannot read {}: {error}", self.path))),
        }
    }

    fn make(&self, root: &Path, done: &mut Vec<Undo>) -> io::Result<()> {
        let path = root.join(&self.path);
        match &self.action {
            Action::Create(text) => {
                create_directories(root, &self.path, done)?;
                let draft = draft(&path, text, None)?;
                draft.persist_noclobber(&path).map_err(|error| error.error)?;
                done.push(Undo::RemoveFile(path));
            }
            Action::Update { old, new } => {
                replace(&path, new)?;
                done.push(Undo::Restore(path, old.clone()));
            }
            Action::Remove { old } => {
                fs::remove_file(&path)?;
                done.push(Undo::Restore(path, old.clone()));
            }
        }
        Ok(())
    }
}

/// How a step is taken back.
enum Undo {
    RemoveFile(PathBuf),
    RemoveDirectory(PathBuf),
    Restore(PathBuf, String),
}

// === impl Undo ===

impl Undo {
    fn run(&self) -> Result<(), String> {
        match self {
            Self::RemoveFile(path) => fs::remove_file(path),
            Self::RemoveDirectory(path) => fs::remove_dir(path),
            Self::Restore(path, text) => replace(path, text),
        }
        .map_err(|_| match self {
            Self::RemoveFile(path) | Self::RemoveDirectory(path) | Self::Restore(path, _) => {
                path.display().to_string()
            }
        })
    }
}

/// Replaces the content of a file at once; its permissions stay, and so does a link to it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let permissions = fs::metadata(path).ok().map(|metadata| metadata.permissions());
    draft(path, text, permissions)?.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Writes a file that takes the place of another.
fn draft(path: &Path, text: &str, mode: Option<fs::Permissions>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".windlass-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut draft = builder.tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
    draft.write_all(text.as_bytes())?;
    if let Some(mode) = mode {
        draft.as_file().set_permissions(mode)?;
    }
    draft.as_file().sync_all()?;
    Ok(draft)
}

/// Creates the directories of a file, from the root down.
fn create_directories(root: &Path, path: &str, done: &mut Vec<Undo>) -> io::Result<()> {
    let parents: Vec<PathBuf> = root.join(path).ancestors().skip(1).map(Path::to_owned).collect();
    for parent in parents.into_iter().rev() {
        if !parent.is_dir() {
            fs::create_dir(&parent).map_err(|error| {
                let text = format!("cannot create {}: {error}", parent.display());
                io::Error::new(error.kind(), text)
            })?;
            done.push(Undo::RemoveDirectory(parent));
        }
    }
    Ok(())
}

/// Removes the directories above a removed file that are empty now.
fn remove_empty(root: &Path, path: &str) {
    for parent in Path::new(path).ancestors().skip(1) {
        if parent.as_os_str().is_empty() || fs::remove_dir(root.join(parent)).is_err() {
            return;
        }
    }
}
