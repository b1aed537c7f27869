//! The operator project that a command works on, found through `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use serde::Deserialize;

use crate::child::cargo;
use crate::failure::Failure;

/// The library that every operator depends on.
const LIBRARY: &str = "windlass";

/// Which operator of the workspace is meant.
#[derive(Args, Clone, Debug, Default)]
pub struct ProjectArgs {
    /// The package of the operator; by default the one of this directory, or the only one of the
    /// workspace.
    #[arg(long, short, value_name = "PACKAGE")]
    package: Option<String>,

    /// The binary of the operator, if its package has several.
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// The path to Cargo.toml.
    #[arg(long, value_name = "FILE")]
    manifest_path: Option<PathBuf>,
}

/// An operator project: a package with a binary that depends on windlass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The name of the package.
    pub package: String,
    /// The name of the binary.
    pub binary: String,
    /// The Cargo.toml of the package.
    pub manifest: PathBuf,
    /// The directory of the package, which also has `config/`.
    pub root: PathBuf,
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// Where cargo puts what it builds.
    pub target: PathBuf,
    /// The directories of the package and of every local package that it depends on.
    pub sources: Vec<PathBuf>,
}

/// The part of the output of `cargo metadata` that is used here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    default_run: Option<String>,
    targets: Vec<Target>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<PathBuf>,
    kind: Option<String>,
}

// === impl Project ===

impl Project {
    /// Finds the operator of the current directory.
    ///
    /// # Errors
    ///
    /// If there is no cargo, no project, or more than one operator to choose from.
    pub async fn find(args: &ProjectArgs) -> Result<Self, Failure> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(path) = &args.manifest_path {
            command.arg("--manifest-path").arg(path);
        }
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|error| {
            Failure::other(format!("cannot run cargo: {error}; install Rust from rustup.rs"))
        })?;
        if !output.status.success() {
            return Err(unreadable(&String::from_utf8_lossy(&output.stderr)));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout).map_err(|error| {
            Failure::other(format!("the output of cargo metadata cannot be read: {error}"))
        })?;
        let here = match &args.manifest_path {
            Some(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
            None => PathBuf::from("."),
        };
        let here = here
            .canonicalize()
            .map_err(|error| Failure::other(format!("{}: {error}", here.display())))?;
        metadata.project(args, &here)
    }

    /// The directory of the samples, which may not exist.
    pub fn samples(&self) -> PathBuf {
        self.root.join("config/samples")
    }

    /// The directory with the state of this project's development cluster.
    pub fn state(&self) -> PathBuf {
        self.target.join("windlass").join(&self.package)
    }
}

// === impl Metadata ===

impl Metadata {
    fn project(&self, args: &ProjectArgs, here: &Path) -> Result<Project, Failure> {
        let package = self.choose(args.package.as_deref(), here)?;
        let binary = package.binary(args.bin.as_deref())?;
        Ok(Project {
            package: package.name.clone(),
            binary: binary.to_owned(),
            manifest: package.manifest_path.clone(),
            root: package.directory().to_owned(),
            workspace: self.workspace_root.clone(),
            target: self.target_directory.clone(),
            sources: self.sources(package),
        })
    }

    fn choose(&self, name: Option<&str>, here: &Path) -> Result<&Package, Failure> {
        if let Some(name) = name {
            let found = self.packages.iter().find(|package| package.name == name);
            return found.ok_or_else(|| {
                let known: Vec<&str> = self.operators().map(|one| one.name.as_str()).collect();
                let known = match known.is_empty() {
                    true => "none that depends on windlass".to_owned(),
                    false => known.join(", "),
                };
                Failure::usage(format!("no package {name} in this workspace; it has {known}"))
            });
        }
        let nearest = self.operators().filter(|package| here.starts_with(package.directory()));
        let nearest = nearest.max_by_key(|package| package.directory().components().count());
        // The package at the root of a workspace is near to everything.
        if let Some(package) = nearest {
            return Ok(package);
        }
        let operators: Vec<&Package> = self.operators().collect();
        match &operators[..] {
            [package] => Ok(package),
            [] => Err(Failure::other(
                "found no operator: no package of this workspace has a binary and depends on \
                 windlass; `windlass init` starts one",
            )),
            several => {
                let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
                Err(Failure::usage(format!(
                    "this workspace has several operators ({}): choose one with --package",
                    names.join(", ")
                )))
            }
        }
    }

    fn operators(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_operator())
    }

    /// The directories of a package and of the local packages that it depends on, in order.
    fn sources(&self, package: &Package) -> Vec<PathBuf> {
        let known: BTreeMap<&Path, &Package> =
            self.packages.iter().map(|package| (package.directory(), package)).collect();
        let mut found = BTreeSet::new();
        let mut open = vec![package.directory()];
        while let Some(directory) = open.pop() {
            if found.insert(directory.to_owned())
                && let Some(package) = known.get(directory)
            {
                let local = package.dependencies.iter().filter(|one| one.is_built());
                open.extend(local.filter_map(|one| one.path.as_deref()));
            }
        }
        found.into_iter().collect()
    }
}

// === impl Package ===

impl Package {
    fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    fn is_operator(&self) -> bool {
        let uses = self.dependencies.iter().any(|one| one.name == LIBRARY && one.is_built());
        uses && self.binaries().next().is_some()
    }

    fn binaries(&self) -> impl Iterator<Item = &str> {
        let binaries = self.targets.iter().filter(|target| target.kind.iter().any(|k| k == "bin"));
        binaries.map(|target| target.name.as_str())
    }

    fn binary(&self, name: Option<&str>) -> Result<&str, Failure> {
        let all: Vec<&str> = self.binaries().collect();
        let package = &self.name;
        let names = || all.join(", ");
        if let Some(name) = name {
            let found = all.iter().find(|binary| **binary == name);
            return found.copied().ok_or_else(|| {
                Failure::usage(format!(
                    "package {package} has no binary {name}; it has {}",
                    names()
                ))
            });
        }
        let default = self.default_run.as_ref().unwrap_or(package);
        match (&all[..], all.iter().find(|binary| *binary == default)) {
            (_, Some(binary)) | ([binary], None) => Ok(binary),
            ([], None) => Err(Failure::usage(format!("package {package} has no binary"))),
            _ => Err(Failure::usage(format!(
                "package {package} has several binaries ({}): choose one with --bin",
                names()
            ))),
        }
    }
}

// === impl Dependency ===

impl Dependency {
    /// Returns `true` if the binary is built with it: it is not for tests or build scripts alone.
    fn is_built(&self) -> bool {
        self.kind.as_deref() != Some("dev")
    }
}

/// Says why cargo cannot read a project, from what it printed.
fn unreadable(text: &str) -> Failure {
    let why = text.lines().find_map(|line| line.strip_prefix("error: "));
    let why = why.or(text.lines().next()).unwrap_or("it failed without a word");
    if why.starts_with("could not find `Cargo.toml`") {
        return Failure::usage(
            "found no Cargo.toml here or above; change to the directory of an operator, or start \
             one with `windlass init`",
        );
    }
    // Below a mistake in a file, an arrow leads to its place.
    let place = text.lines().find_map(|line| line.trim_start().strip_prefix("--> "));
    match place {
        Some(place) => Failure::other(format!("{place}: {why}; correct it first")),
        None => Failure::other(format!("cargo cannot read the project: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, binaries: &[&str], dependencies: &[&str]) -> Value {
        let targets = binaries.iter().map(|name| json!({"name": name, "kind": ["bin"]}));
        let path = |name: &&str| (*name != LIBRARY).then(|| format!("/w/{name}"));
        let dependencies = dependencies
            .iter()
            .map(|name| json!({"name": name, "path": path(name), "kind": Value::Null}));
        json!({
            "name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "default_run": null,
            "targets": targets.collect::<Vec<_>>(),
            "dependencies": dependencies.collect::<Vec<_>>(),
        })
    }

    fn workspace(packages: &[Value]) -> Metadata {
        serde_json::from_value(json!({
            "packages": packages, "target_directory": "/w/target", "workspace_root": "/w",
        }))
        .unwrap()
    }

    fn find(metadata: &Metadata, here: &str, name: Option<&str>) -> Result<Project, String> {
        let args = ProjectArgs { package: name.map(str::to_owned), ..ProjectArgs::default() };
        metadata.project(&args, Path::new(here)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_operator_of_the_directory_is_found_with_its_local_dependencies() {
        let metadata = workspace(&[
            package("shop", &["shop"], &["windlass", "api"]),
            package("bank", &["bank"], &["windlass"]),
            package("api", &[], &["text"]),
            package("text", &[], &[]),
            package("tool", &["tool"], &["text"]),
        ]);
        let shop = find(&metadata, "/w/shop/src", None).unwrap();
        assert_eq!((shop.package.as_str(), shop.binary.as_str()), ("shop", "shop"));
        let sources: Vec<&Path> = shop.sources.iter().map(PathBuf::as_path).collect();
        assert_eq!(sources, ["/w/api", "/w/shop", "/w/text"].map(Path::new));
        assert_eq!(shop.state(), Path::new("/w/target/windlass/shop"));
        let several = find(&metadata, "/w", None).unwrap_err();
        assert!(several.contains("several operators (shop, bank)"), "{several}");
        assert_eq!(find(&metadata, "/w", Some("bank")).unwrap().package, "bank");
        let unknown = find(&metadata, "/w", Some("bonk")).unwrap_err();
        assert!(unknown.contains("it has shop, bank"), "{unknown}");
    }

    #[test]
    fn a_workspace_without_an_operator_says_how_to_start_one() {
        let metadata = workspace(&[package("tool", &["tool"], &[]), package("api", &[], &[])]);
        let error = find(&metadata, "/w", None).unwrap_err();
        assert!(error.contains("`windlass init` starts one"), "{error}");
    }

    #[test]
    fn one_of_several_binaries_has_to_be_named() {
        let metadata = workspace(&[package("shop", &["a", "b"], &["windlass"])]);
        let error = find(&metadata, "/w", None).unwrap_err();
        assert!(error.contains("(a, b): choose one with --bin"), "{error}");
    }
}
