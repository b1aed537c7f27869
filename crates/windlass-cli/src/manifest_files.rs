//! Manifests in files and directories.

use std::path::Path;

use serde_json::Value;
use windlass_manifests::yaml;

use crate::failure::Failure;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How deep a directory is searched.
const DEPTH_MAX: usize = 16;

/// Reads all documents of a file, or of the YAML and JSON files below a directory. Lists are
/// taken apart.
pub fn read(path: &Path) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    walk(path, 0, &mut found)?;
    Ok(found)
}

fn walk(path: &Path, depth: usize, found: &mut Vec<Value>) -> Result<(), Failure> {
    let shown = path.display();
    let unreadable =
        |error: std::io::Error| Failure::usage(format!("cannot read {shown}: {error}"));
    if !path.is_dir() {
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(Failure::usage(format!("{shown} has more than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        return parse(&text, &shown.to_string(), found);
    }
    if depth > DEPTH_MAX {
        return Err(Failure::usage(format!("{shown} is nested too deeply")));
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        entries.push(entry.map_err(unreadable)?.path());
    }
    entries.sort();
    for entry in entries {
        if entry.is_dir() || is_manifest(&entry.to_string_lossy()) {
            walk(&entry, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Returns `true` if a file of this name holds manifests.
pub fn is_manifest(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending))
}

/// Adds the documents of a text; lists are taken apart.
pub fn parse(text: &str, shown: &str, found: &mut Vec<Value>) -> Result<(), Failure> {
    let documents = yaml::read(text).map_err(|why| Failure::usage(format!("{shown}: {why}")))?;
    for mut document in documents {
        match document["items"].take() {
            Value::Array(items)
                if document["kind"].as_str().is_some_and(|k| k.ends_with("List")) =>
            {
                found.extend(items);
            }
            Value::Null => found.push(document),
            other => {
                document["items"] = other;
                found.push(document);
            }
        }
    }
    Ok(())
}
