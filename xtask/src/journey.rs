//! `cargo xtask journey`: from an empty directory to an operator that is tested and runs.
//!
//! The tests of the workspace check what the commands write and that it compiles. This goes all the
//! way, with builds of its own, as a newcomer does; so it takes minutes. It follows the README, makes
//! the change that the README shows while `windlass dev` runs, breaks the code and repairs it, deploys,
//! takes the verbs of the Makefile, adds versions, groups and webhooks, renames and deletes, and does
//! the same in a workspace with a crate of types. On an idle machine it also judges the times.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::peers::process::Process;
use crate::rebuild;

/// How long a build in `windlass dev` may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long the way from the empty directory to the changed operator may take, without the first build
/// of the dependencies.
const START: Duration = Duration::from_secs(300);

/// Goes the way, in a directory that is removed at the end. `--no-build` takes the command that is
/// built already.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is in the workspace")?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    match arguments {
        [] => step(root, &cargo, &["build", "-p", "windlass-cli"])?,
        ["--no-build"] => {}
        _ => return Err("journey takes --no-build and nothing else".into()),
    }
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let windlass = root.join(target).join("debug/windlass").display().to_string();

    let name = format!("windlass-journey-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let project = directory.join("shop");
    std::fs::create_dir_all(&project).map_err(|error| format!("{}: {error}", project.display()))?;
    let readme = std::fs::read_to_string(root.join("README.md"));
    let readme = readme.map_err(|error| format!("README.md: {error}"))?;
    let outcome = way(&project, &cargo, &windlass, &readme);
    let removed = std::fs::remove_dir_all(&directory);
    outcome.and(removed.map_err(|error| format!("{}: {error}", directory.display())))
}

fn way(project: &Path, cargo: &str, windlass: &str, readme: &str) -> Result<(), String> {
    let line = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        step(project, windlass, &words)
    };
    let idle = rebuild::is_idle();
    let begin = Instant::now();
    line("init --domain example.com")?;
    line("create api --group cache --version v1alpha1 --kind Memcached")?;
    let build = Instant::now();
    step(project, cargo, &["test", "--no-run"])?;
    let dependencies = build.elapsed();
    step(project, cargo, &["test"])?;
    let slowest = develop(project, windlass, readme)?;
    let start = begin.elapsed().saturating_sub(dependencies);
    println!(
        "\nfrom nothing to a changed operator: {} s, and {} s for the first build; the slowest change \
         was seen after {:.1} s",
        start.as_secs(),
        dependencies.as_secs(),
        slowest.as_secs_f64()
    );
    if idle && (start > START || slowest > rebuild::LIMIT) {
        return Err(format!("too slow: at most {START:?} and {:?}", rebuild::LIMIT));
    }
    verbs(project, windlass)?;

    let memcached = "--group cache --version v1alpha1 --kind Memcached";
    line("create api --group cache --version v1 --kind Memcached")?;
    line(&format!("create webhook {memcached} --defaulting --validation --conversion"))?;
    line("create webhook --group core --version v1 --kind Pod --validation")?;
    line("create api --group web --version v1 --kind Route")?;
    step(project, cargo, &["test"])?;
    step(project, windlass, &["manifests"])?;
    step(project, windlass, &["manifests", "--check"])?;
    line("rename api --group web --kind Route --to Way")?;
    line("delete api --group cache --version v1 --kind Memcached")?;
    // The author has edited it.
    line(&format!("delete api {memcached} --force"))?;
    step(project, cargo, &["test"])?;
    refuse_to_edit(project, windlass)?;
    workspace(project, cargo, windlass)
}

/// Takes the verbs of the Makefile, as the tutorials do.
fn verbs(project: &Path, windlass: &str) -> Result<(), String> {
    let variable = format!("WINDLASS={windlass}");
    step(project, "make", &[&variable, "manifests", "generate", "test", "install"])?;
    println!("\n$ make run");
    let mut command = newcomer("sh");
    command.args(["-c", "exec make \"$0\" run 2>&1", &variable]).current_dir(project);
    let run = Process::spawn(command)?;
    shown(
        &run,
        "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com created",
    )?;
    shown(&run, "Starting workers")?;
    run.end();
    step(project, "make", &[&variable, "uninstall", "CLUSTER="])
}

/// Changes, breaks and repairs the code while `windlass dev` runs, and deploys to its cluster; returns
/// the longest time until a change was seen.
fn develop(project: &Path, windlass: &str, readme: &str) -> Result<Duration, String> {
    println!("\n$ windlass dev");
    let mut command = newcomer(windlass);
    command.arg("dev").current_dir(project).stderr(Stdio::null());
    let dev = Process::spawn(command)?;
    shown(&dev, "reconcile memcached default/memcached-sample ok")?;
    let mut slowest = seen(&dev, "(the first of build 2, ", || edit(project, readme))?;
    let source = project.join("src/memcached.rs");
    let good = read(&source)?;
    write(&source, &good.replace("Ok(Next::Done)", "Ok(Next::Never)"))?;
    shown(&dev, "build failed; the previous operator keeps running")?;
    let loud = good.replace("cx.name())", "cx.name().to_uppercase())");
    slowest = slowest.max(seen(&dev, "(the first of build 3, ", || write(&source, &loud))?);
    write(&source, &good)?;
    shown(&dev, "(the first of build 4, ")?;
    for words in ["install", "deploy --image shop:latest", "undeploy --delete-resources"] {
        let words: Vec<&str> = words.split(' ').collect();
        step(project, windlass, &words)?;
    }
    dev.end();
    Ok(slowest)
}

/// Makes a change, and returns the time until a line with a text comes.
fn seen(
    dev: &Process,
    text: &str,
    change: impl FnOnce() -> Result<(), String>,
) -> Result<Duration, String> {
    let saved = Instant::now();
    change()?;
    shown(dev, text)?;
    Ok(saved.elapsed())
}

/// Waits for a line that contains a text.
fn shown(dev: &Process, text: &str) -> Result<(), String> {
    loop {
        let (line, _) =
            dev.line(PATIENCE).map_err(|why| format!("no line with {text:?}: {why}"))?;
        println!("{line}");
        if line.contains(text) {
            return Ok(());
        }
    }
}

/// Expects a project that does not parse to be left alone.
fn refuse_to_edit(project: &Path, windlass: &str) -> Result<(), String> {
    let (library, broken) = (project.join("src/lib.rs"), "pub fn operator( -> Operator {\n");
    let good = read(&library)?;
    write(&library, broken)?;
    let words = "create api --group cache --version v1 --kind Lorry";
    println!("\n$ windlass {words}");
    let output = newcomer(windlass).args(words.split(' ')).current_dir(project).output();
    let output = output.map_err(|error| format!("cannot run windlass: {error}"))?;
    print!("{}", String::from_utf8_lossy(&output.stderr));
    if output.status.code() != Some(1) || output.stderr.split(|byte| *byte == b'\n').count() != 2 {
        return Err(format!("expected one sentence and status 1, not {}", output.status));
    }
    if read(&library)? != broken || project.join("src/lorry.rs").exists() {
        return Err("a project that does not parse was changed".into());
    }
    write(&library, &good)
}

/// Creates two operators in a workspace, with what the first project has built.
fn workspace(project: &Path, cargo: &str, windlass: &str) -> Result<(), String> {
    let root = project.with_file_name("company");
    std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    // With the profile of the first project, what that has built is used again.
    let profile = read(&project.join("Cargo.toml"))?;
    let (_, profile) = profile.split_once("[profile.dev]").ok_or("Cargo.toml has no profile")?;
    let manifest = format!("[workspace]\nresolver = \"3\"\nmembers = []\n\n[profile.dev]{profile}");
    write(&root.join("Cargo.toml"), &manifest)?;
    for (name, group, kind) in [("shop", "cache", "Memcached"), ("site", "web", "Route")] {
        step(&root, windlass, &["init", "--domain", "example.com", "--name", name])?;
        let words = ["create", "api", "--group", group, "--version", "v1", "--kind", kind];
        step(&root.join(name), windlass, &words)?;
    }
    // A crate of types, and an operator that has a controller for one of them.
    step(&root, cargo, &["new", "--lib", "--vcs", "none", "shop-api"])?;
    let bolt = ["--group", "shop.example.com", "--version", "v1", "--kind", "Bolt"];
    let words = [&["create", "api", "--no-controller"], &bolt[..]].concat();
    step(&root.join("shop-api"), windlass, &words)?;
    step(&root.join("shop"), cargo, &["add", "--offline", "--path", "../shop-api"])?;
    let external = ["--no-resource", "--external-api-path", "shop_api::bolt::Bolt"];
    let words = [&["create", "api"], &bolt[..], &external].concat();
    step(&root.join("shop"), windlass, &words)?;
    let shared = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = shared.unwrap_or_else(|| project.join("target"));
    let target = target.to_str().ok_or("the name of the directory is not UTF-8")?;
    step(&root, cargo, &["test", "--workspace", "--target-dir", target])
}

/// Makes the change of two lines that the README shows.
fn edit(project: &Path, readme: &str) -> Result<(), String> {
    let change = readme.split("```diff\n").nth(1).and_then(|rest| rest.split("```").next());
    let change = change.ok_or("the README shows no change")?;
    let lines = |sign: char| {
        let lines = change.lines().filter_map(|line| line.strip_prefix(sign));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let path = project.join("src/memcached.rs");
    let text = read(&path)?;
    let edited = text.replace(&lines('-'), &lines('+'));
    if edited == text {
        return Err("src/memcached.rs does not have the lines that the README changes".into());
    }
    write(&path, &edited)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A command as a newcomer runs it: without what cargo says about this program.
pub fn newcomer(program: &str) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars_os() {
        let kept = key == "CARGO_HOME" || key == "CARGO_TARGET_DIR";
        if key.to_string_lossy().starts_with("CARGO_") && !kept {
            command.env_remove(key);
        }
    }
    command
}

/// Runs a command that has to succeed.
fn step(directory: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let line = format!("{name} {}", arguments.join(" "));
    println!("\n$ {line}");
    let start = Instant::now();
    let status =
        newcomer(program).args(arguments).current_dir(directory).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => {
            println!("({} s)", start.elapsed().as_secs());
            Ok(())
        }
        Ok(status) => Err(format!("`{line}` failed: {status}")),
        Err(error) => Err(format!("cannot run `{line}`: {error}")),
    }
}
