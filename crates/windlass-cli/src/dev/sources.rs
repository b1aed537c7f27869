//! The files of a project, and what changed of them.
//!
//! Files are compared by time and size, a few times per second. That costs less than a thousandth of
//! a core for a usual project, needs no watches of the system, whose number is limited, and works on
//! network mounts as well.
//!
//! **Invariant:** a change is reported once the files are at rest: two looks in a row find the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::project::Project;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(150);
/// The time in which files have to be at rest.
const REST: Duration = Duration::from_millis(50);
/// Files beyond this number are not watched.
const FILES_MAX: usize = 50_000;
/// Directories that are nested deeper are not watched.
const DEPTH_MAX: usize = 32;

/// When a file was written, and how large it is.
type Stamp = (Option<SystemTime>, u64);
type Snapshot = BTreeMap<PathBuf, Stamp>;

/// The watched files of a project.
pub struct Sources {
    places: Places,
    known: Snapshot,
}

/// What changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Whether anything changed that a build may depend on.
    pub code: bool,
    /// The samples that were added or changed.
    pub samples: Vec<PathBuf>,
}

/// Where files are, and what they are for.
#[derive(Clone)]
struct Places {
    roots: Vec<PathBuf>,
    files: Vec<PathBuf>,
    target: PathBuf,
    samples: PathBuf,
    /// What is generated or written for people: no build depends on it.
    ignored: Vec<PathBuf>,
}

// === impl Sources ===

impl Sources {
    /// Watches the files of a project, as they are now.
    pub fn new(project: &Project) -> Self {
        let below = |name: &str| project.root.join(name);
        let files = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];
        let places = Places {
            roots: project.sources.clone(),
            files: files.map(|name| project.workspace.join(name)).to_vec(),
            target: project.target.clone(),
            samples: project.samples(),
            ignored: ["config", "dist", "docs", "Dockerfile"].map(below).to_vec(),
        };
        let known = places.snapshot();
        Self { places, known }
    }

    /// The samples that exist.
    pub fn samples(&self) -> Vec<PathBuf> {
        self.known.keys().filter(|path| self.places.is_sample(path)).cloned().collect()
    }

    /// Returns how many files are watched.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Returns `false` if there are more files than can be watched.
    pub fn is_complete(&self) -> bool {
        self.known.len() < FILES_MAX
    }

    /// Waits for a change.
    ///
    /// # Cancel safety
    ///
    /// No change is lost if the future is dropped.
    pub async fn changed(&mut self) -> Changes {
        loop {
            let (mut found, took) = self.look().await;
            if found != self.known {
                loop {
                    tokio::time::sleep(REST).await;
                    let (again, _) = self.look().await;
                    let at_rest = again == found;
                    found = again;
                    if at_rest {
                        break;
                    }
                }
                let changes = self.places.compare(&self.known, &found);
                self.known = found;
                if changes != Changes::default() {
                    return changes;
                }
            }
            // Large trees are looked at less often.
            tokio::time::sleep(INTERVAL.max(took * 10)).await;
        }
    }

    async fn look(&self) -> (Snapshot, Duration) {
        let start = Instant::now();
        let places = self.places.clone();
        let found = tokio::task::spawn_blocking(move || places.snapshot()).await;
        (found.unwrap_or_else(|_| self.known.clone()), start.elapsed())
    }
}

// === impl Places ===

impl Places {
    fn snapshot(&self) -> Snapshot {
        let mut found = Snapshot::new();
        for file in &self.files {
            if let Ok(metadata) = fs::metadata(file) {
                found.insert(file.clone(), (metadata.modified().ok(), metadata.len()));
            }
        }
        let mut open: Vec<(PathBuf, usize)> = self.roots.iter().map(|r| (r.clone(), 0)).collect();
        while let Some((directory, depth)) = open.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                if is_scratch(&name.to_string_lossy()) || path == self.target {
                    continue;
                }
                if kind.is_dir() {
                    // Every cache directory says so, also the target directories of others.
                    if depth < DEPTH_MAX && !path.join("CACHEDIR.TAG").exists() {
                        open.push((path, depth + 1));
                    }
                } else if found.len() < FILES_MAX
                    && let Ok(metadata) = fs::metadata(&path)
                {
                    found.insert(path, (metadata.modified().ok(), metadata.len()));
                }
            }
        }
        found
    }

    fn compare(&self, before: &Snapshot, after: &Snapshot) -> Changes {
        let added = after.iter().filter(|(path, stamp)| before.get(*path) != Some(stamp));
        let removed = before.keys().filter(|path| !after.contains_key(*path));
        let mut changes = Changes::default();
        for (path, _) in added {
            if self.is_sample(path) {
                changes.samples.push(path.clone());
            }
            changes.code |= self.is_code(path);
        }
        changes.code |= removed.into_iter().any(|path| self.is_code(path));
        changes
    }

    fn is_sample(&self, path: &Path) -> bool {
        let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        yaml && path.parent() == Some(&self.samples)
    }

    fn is_code(&self, path: &Path) -> bool {
        let text = path.extension().is_some_and(|end| end == "md");
        !text && !self.ignored.iter().any(|ignored| path.starts_with(ignored))
    }
}

/// Returns `true` for hidden files and for what editors leave behind while they write.
fn is_scratch(name: &str) -> bool {
    let ends = ["~", ".swp", ".swx", ".tmp", ".orig", ".rej"];
    name.starts_with(['.', '#']) || name == "4913" || ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(root: &Path) -> Project {
        Project {
            package: "shop".into(),
            binary: "shop".into(),
            manifest: root.join("Cargo.toml"),
            root: root.to_owned(),
            workspace: root.to_owned(),
            target: root.join("target"),
            sources: vec![root.to_owned()],
        }
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[tokio::test]
    async fn code_and_samples_are_distinguished_and_the_rest_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write(root, "src/main.rs", "fn main() {}");
        write(root, "config/samples/shop.yaml", "a: 1");
        let mut sources = Sources::new(&project(root));
        assert_eq!(sources.samples(), [root.join("config/samples/shop.yaml")]);

        write(root, "target/debug/shop", "built");
        write(root, "README.md", "text");
        write(root, "config/crd/bases/shop.yaml", "generated");
        write(root, "src/.main.rs.swp", "scratch");
        write(root, "other/CACHEDIR.TAG", "a cache");
        write(root, "other/file.rs", "cached");
        write(root, "config/samples/shop.yaml", "a: 22");
        let samples = vec![root.join("config/samples/shop.yaml")];
        assert_eq!(sources.changed().await, Changes { code: false, samples });

        write(root, "src/deep/er/new.rs", "// new");
        assert_eq!(sources.changed().await, Changes { code: true, samples: Vec::new() });
        fs::remove_file(root.join("src/deep/er/new.rs")).unwrap();
        assert_eq!(sources.changed().await, Changes { code: true, samples: Vec::new() });
    }
}
