//! `cargo xtask build-times`: what the attributes `api` and `k8s` add to the build of an operator.
//!
//! Two operators are built in two forms each. One form has the attributes; the other has the same
//! types with `#[derive(CustomResource)]` of kube and `#[derive(JsonSchema)]`, and is otherwise the
//! same program on the same runtime. One operator is the Memcached example with its first version,
//! the other has forty types. Every project is built from nothing, and again after a change of the
//! reconcile function; the two forms take turns in beginning.

mod many;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::peers::root;
use crate::peers::scratch::Scratch;
use report::Row;

/// What the attributes may add.
const LIMIT: f64 = 1.10;
/// How often a project is built from nothing and after a change, unless it is said otherwise.
const ROUNDS: (usize, usize) = (2, 5);

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
    name: String,
    directory: PathBuf,
    library: String,
    /// The line of the reconcile function in front of which a change is made.
    line: &'static str,
}

/// Builds all projects, and writes what it took.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let mut rounds = ROUNDS;
    for pair in arguments.chunks(2) {
        let count = pair.get(1).and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        match (pair[0], count) {
            ("--cold", Some(count)) => rounds.0 = count,
            ("--rounds", Some(count)) => rounds.1 = count,
            _ => return Err("usage: cargo xtask build-times [--cold N] [--rounds N]".into()),
        }
    }
    let root = root();
    let scratch = Scratch::new()?;
    let mut rows = Vec::new();
    for (what, forms) in operators(&root)? {
        let pair = forms.map(|form| project(&root, scratch.path(), what, form));
        let [attributes, derives] = pair;
        rows.extend(compare(what, &[attributes?, derives?], rounds)?);
    }
    report::write(&root, &rows, rounds)?;
    let slow: Vec<String> = rows.iter().filter(|row| row.ratio() > LIMIT).map(Row::name).collect();
    match slow.as_slice() {
        [] => Ok(()),
        slow => Err(format!("the attributes add more than 10 %: {}", slow.join(", "))),
    }
}

/// Builds both forms of an operator, first the one and then the other first.
fn compare(what: &str, pair: &[Project; 2], rounds: (usize, usize)) -> Result<[Row; 2], String> {
    let mut cold = [Vec::new(), Vec::new()];
    let mut warm = [Vec::new(), Vec::new()];
    let turns = |round: usize| if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    for round in 0..rounds.0 {
        for at in turns(round) {
            pair[at].forget()?;
            cold[at].push(pair[at].build()?);
        }
    }
    for round in 0..rounds.1 {
        for at in turns(round) {
            pair[at].change(round)?;
            warm[at].push(pair[at].build()?);
        }
    }
    let row = |build, times| Row { operator: what.to_owned(), build, times };
    Ok([row("from nothing", cold), row("after a change of `reconcile`", warm)])
}

/// The source of an operator in one form.
struct Form {
    name: &'static str,
    library: String,
    program: String,
    line: &'static str,
}

/// The operators: with attributes, and with derives.
fn operators(root: &Path) -> Result<[(&'static str, [Form; 2]); 2], String> {
    let example = root.join("examples/memcached/src");
    let library = one_version(&read(&example.join("lib.rs"))?);
    let program = read(&example.join("main.rs"))?;
    let derived = derived(&library)?;
    let memcached = |name, library| Form {
        name,
        library,
        program: program.clone(),
        line: "let Some(memcached) = cx.object()",
    };
    let many = |name, library| Form { name, library, program: many::program(), line: many::LINE };
    Ok([
        ("Memcached", [memcached("attributes", library), memcached("derives", derived)]),
        ("forty types", [many("attributes", many::attributes()), many("derives", many::derives())]),
    ])
}

fn project(root: &Path, scratch: &Path, what: &str, form: Form) -> Result<Project, String> {
    let name = format!("{}-{}", what.to_lowercase().replace(' ', "-"), form.name);
    let directory = scratch.join(&name);
    let sources = directory.join("src");
    fs::create_dir_all(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
    write(&directory.join("Cargo.toml"), &manifest(root))?;
    write(&directory.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
    write(&sources.join("main.rs"), &form.program)?;
    write(&sources.join("lib.rs"), &form.library)?;
    Ok(Project { name, directory, library: form.library, line: form.line })
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

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

// === impl Project ===

impl Project {
    /// Removes what was built.
    fn forget(&self) -> Result<(), String> {
        let target = self.directory.join("target");
        match fs::remove_dir_all(&target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", target.display()))
            }
            _ => Ok(()),
        }
    }

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
        let new = format!("let _round = {round};\n    {}", self.line);
        let changed = self.library.replacen(self.line, &new, 1);
        if changed == self.library {
            return Err(format!("{}: the reconcile function is not what it was", self.name));
        }
        write(&self.directory.join("src/lib.rs"), &changed)
    }
}
