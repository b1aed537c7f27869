//! The dependencies of a package that gets its first kind, and the crates of the workspace that it
//! depends on.

use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

use super::changes::Changes;
use super::init::crates;
use super::package::{Package, parse};
use super::template::K8S_OPENAPI;
use super::workspace::Workspace;
use super::{Named, modules};
use crate::failure::Failure;

/// The crates that the types of a kind need.
const NEEDED: [&str; 2] = ["k8s-openapi", "windlass"];

/// Adds the crates that the types of a kind need to Cargo.toml.
pub fn add(package: &Package, changes: &mut Changes) -> Result<(), Failure> {
    let known = |name: &&str| package.dependencies.contains(&name.replace('-', "_"));
    let missing: Vec<&str> = NEEDED.into_iter().filter(|name| !known(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let workspace = Workspace::find(&package.root)?;
    let shared = workspace.as_ref().map(|found| parse(&found.text)).transpose()?;
    let root = workspace.as_ref().map_or(&package.root, |found| &found.root);
    let path = Path::new("Cargo.toml");
    let old = modules::read_text(&package.root.join(path), path)?;
    let mut manifest = package.manifest.clone();
    let table = manifest.entry("dependencies").or_insert_with(|| Item::Table(Table::new()));
    let Some(table) = table.as_table_like_mut() else {
        changes.note(by_hand(&missing));
        return Ok(());
    };
    for name in &missing {
        let mut entry = InlineTable::new();
        if shared.as_ref().and_then(|shared| of_workspace(shared, name)).is_some() {
            entry.insert("workspace", true.into());
        } else if *name == "windlass" {
            let Ok(crates) = crates(None, root, &package.root) else {
                changes.note(by_hand(&missing));
                return Ok(());
            };
            entry.insert("path", format!("{crates}/windlass").into());
        } else {
            entry.insert("version", K8S_OPENAPI.into());
            entry.insert("features", Value::Array(["v1_36"].into_iter().collect()));
        }
        table.insert(name, Item::Value(Value::InlineTable(entry)));
    }
    let new = manifest.to_string();
    let new =
        if old.contains("\r\n") { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new };
    changes.update("Cargo.toml", &old, new);
    Ok(())
}

fn by_hand(missing: &[&str]) -> String {
    format!("note: add {} to the dependencies in Cargo.toml", missing.join(" and "))
}

/// A dependency that the workspace shares.
fn of_workspace<'a>(workspace: &'a DocumentMut, name: &str) -> Option<&'a Item> {
    workspace.get("workspace")?.get("dependencies")?.get(name)
}

/// Returns `true` if a path in the code leads to a kind that a crate of this machine defines with
/// the attribute `api`: then the operator can install its definition.
pub fn defines(package: &Package, path: &str, named: &Named) -> bool {
    let first = path.split("::").next().unwrap_or_default();
    let Some(directory) = directory(package, first) else { return false };
    let Ok(found) = Package::find(&package.root.join(directory)) else { return false };
    found.defined().iter().any(|one| {
        let group = [named.group.clone(), package.group(&named.group), found.group(&named.group)];
        group.contains(&one.group) && one.version == named.version && one.kind == named.kind
    })
}

/// The directory of a dependency with a path, below the package or absolute.
fn directory(package: &Package, name: &str) -> Option<PathBuf> {
    let all = package.manifest.get("dependencies")?.as_table_like()?;
    let (key, item) = all.iter().find(|(key, _)| key.replace('-', "_") == name)?;
    if let Some(path) = item.get("path").and_then(Item::as_str) {
        return Some(path.into());
    }
    item.get("workspace")?.as_bool().filter(|shared| *shared)?;
    let workspace = Workspace::find(&package.root).ok()??;
    let shared = parse(&workspace.text).ok()?;
    let path = of_workspace(&shared, key)?.get("path")?.as_str()?;
    Some(workspace.root.join(path))
}
