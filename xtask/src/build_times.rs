//! `cargo xtask build-times`: what the attributes `api` and `k8s` add to the build of an operator.
//!
//! Two projects are the Memcached example with its first version. One is the example as it is; the other has the same types with
//! `#[derive(CustomResource)]` of kube and `#[derive(JsonSchema)]`. Both are built from nothing,
//! and again after a change of the reconcile function, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::peers::root;
use crate::peers::scratch::Scratch;

/// What the attributes may add.
const LIMIT: f64 = 1.10;
/// How often a project is built after a change, unless it is said otherwise.
const ROUNDS: usize = 5;

/// The types of the example, with the derives of kube.
const DERIVED: &str = r##"/// A cluster of memcached servers.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema, kube::CustomResource)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    shortname = "mc",
    status = "MemcachedStatus",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    /// How many pods run memcached.
    #[schemars(range(min = 1, max = 5))]
    pub size: i32,
}

/// What the operator reports.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemcachedStatus {
    /// The names of the pods.
    pub nodes: Vec<String>,
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The generation of the spec that the conditions are about.
    pub observed_generation: Option<i64>,
}

"##;

/// A project that is built.
struct Project {
    name: &'static str,
    directory: PathBuf,
    library: String,
}

/// Builds both projects and prints a table.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let rounds = match arguments {
        [] => ROUNDS,
        ["--rounds", number] => number.parse().map_err(|_| format!("{number} is not a number"))?,
        _ => return Err("usage: cargo xtask build-times [--rounds N]".into()),
    };
    let root = root();
    let scratch = Scratch::new()?;
    let projects = projects(&root, scratch.path())?;
    let mut cold = Vec::new();
    for project in &projects {
        cold.push(project.build()?);
    }
    let mut warm = vec![Vec::new(); projects.len()];
    for round in 0..rounds {
        for (project, times) in projects.iter().zip(&mut warm) {
            project.change(round)?;
            times.push(project.build()?);
        }
    }
    let warm: Vec<f64> = warm.into_iter().map(median).collect();
    println!("| build | attributes | derives of kube | ratio |\n|---|---|---|---|");
    let mut slow = Vec::new();
    for (what, times) in [("from nothing", &cold), ("after a change of reconcile", &warm)] {
        let ratio = times[0] / times[1];
        println!("| {what} | {:.1} s | {:.1} s | {ratio:.2} |", times[0], times[1]);
        if ratio > LIMIT {
            slow.push(what);
        }
    }
    match slow.as_slice() {
        [] => Ok(()),
        slow => Err(format!("the attributes add more than 10 %: {}", slow.join(", "))),
    }
}

fn projects(root: &Path, scratch: &Path) -> Result<Vec<Project>, String> {
    let example = root.join("examples/memcached/src");
    let library = one_version(&read(&example.join("lib.rs"))?);
    let derived = derived(&library)?;
    let mut projects = Vec::new();
    for (name, library) in [("attributes", library), ("derives", derived)] {
        let directory = scratch.join(name);
        let sources = directory.join("src");
        fs::create_dir_all(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
        write(&directory.join("Cargo.toml"), &manifest(root))?;
        write(&directory.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
        write(&sources.join("main.rs"), &read(&example.join("main.rs"))?)?;
        write(&sources.join("lib.rs"), &library)?;
        projects.push(Project { name, directory, library });
    }
    Ok(projects)
}

/// The library of the example without its second version.
fn one_version(library: &str) -> String {
    let line = |line: &str| match line {
        line if !line.contains("v1beta1") => format!("{line}\n"),
        line if line.contains("let memory") => "    let memory = 64;\n".to_owned(),
        _ => String::new(),
    };
    library.lines().map(line).collect()
}

/// The library of the example with derives in the place of attributes.
fn derived(library: &str) -> Result<String, String> {
    let begin = library.find("/// A cluster of memcached servers.");
    let end = library.find("/// The operator: run by");
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err("the types of the Memcached example are not where they were".into());
    };
    let text = format!("{}{DERIVED}{}", &library[..begin], &library[end..]);
    Ok(text.replace(" api,", "").replace(" k8s,", ""))
}

fn manifest(root: &Path) -> String {
    let windlass = root.join("crates/windlass");
    format!(
        "[package]\nname = \"memcached-operator\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n\
         k8s-openapi = {{ version = \"0.29\", features = [\"schemars\", \"v1_36\"] }}\n\
         kube = {{ version = \"5\", default-features = false, features = [\"client\", \"derive\", \"rustls-tls\"] }}\n\
         schemars = \"1.2\"\nserde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\"\n\
         tokio = {{ version = \"1\", features = [\"full\"] }}\n\
         windlass = {{ path = {windlass:?} }}\n\n[workspace]\n"
    )
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

// === impl Project ===

impl Project {
    /// Builds the project, and returns how many seconds it took.
    fn build(&self) -> Result<f64, String> {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet"]).current_dir(&self.directory);
        cargo.env("CARGO_TARGET_DIR", self.directory.join("target"));
        let begin = Instant::now();
        let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
        let time = begin.elapsed().as_secs_f64();
        eprintln!("{}: {time:.1} s", self.name);
        if status.success() { Ok(time) } else { Err(format!("{} does not build", self.name)) }
    }

    /// Changes the reconcile function.
    fn change(&self, round: usize) -> Result<(), String> {
        let old = "let Some(memcached) = cx.object()";
        let new = format!("let _round = {round};\n    {old}");
        let changed = self.library.replacen(old, &new, 1);
        if changed == self.library {
            return Err("the reconcile function of the Memcached example is not what it was".into());
        }
        write(&self.directory.join("src/lib.rs"), &changed)
    }
}
