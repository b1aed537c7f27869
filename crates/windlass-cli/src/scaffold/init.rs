//! `windlass init`: a new project.

use std::path::{Component, Path, PathBuf};

use clap::Args;

use super::changes::{Changes, How};
use super::template::{GITIGNORE, Project};
use super::workspace::Workspace;
use super::{names, prompt};
use crate::failure::Failure;

#[derive(Args)]
pub struct InitArgs {
    /// The end of the groups of this project, such as example.com.
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// The name of the package and of what is installed; by default that of the directory.
    #[arg(long, visible_alias = "project-name", value_name = "NAME")]
    name: Option<String>,

    /// The directory of the project; by default this one, or a new one in a workspace.
    #[arg(long, value_name = "DIRECTORY")]
    path: Option<PathBuf>,

    /// The repository of the project, for Cargo.toml.
    #[arg(long, value_name = "URL")]
    repo: Option<String>,

    /// The checkout of windlass to depend on; by default the one that this command was built from.
    #[arg(long, value_name = "DIRECTORY")]
    windlass_path: Option<PathBuf>,

    #[command(flatten)]
    how: How,
}

/// Creates a project.
pub fn run(args: InitArgs) -> Result<(), Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::other(format!("cannot find the current directory: {error}")))?;
    let domain = prompt::required(
        args.domain,
        "domain",
        "which domain do the groups of this project end with, such as example.com",
        names::domain,
    )?;
    let directory = directory(&here, args.path, args.name.as_deref())?;
    let name = match args.name {
        Some(name) => name,
        None => directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let name = names::project(&name)
        .map_err(|why| Failure::usage(format!("{why}; choose one with --name")))?;
    let repository = args.repo.map(|text| repository(&text)).transpose()?;

    let workspace = Workspace::find(&directory)?;
    let member = workspace.as_ref().map(|found| below(&found.root, &directory)).transpose()?;
    let workspace = match (workspace, member) {
        (Some(found), Some(member)) if !found.excludes(&member) => Some((found, member)),
        _ => None,
    };
    let root = workspace.as_ref().map_or(directory.as_path(), |(found, _)| &found.root);
    let crates = crates(args.windlass_path, root, &directory)?;
    let project = Project {
        name: &name,
        domain: &domain,
        repository: repository.as_deref(),
        crates: &crates,
        member: workspace.is_some(),
    };
    // Files are named as seen from here, if they are below.
    let here = here.canonicalize().unwrap_or(here);
    let base = match workspace {
        Some(_) => root,
        None if directory.starts_with(&here) => &here,
        None => &directory,
    };
    let changes = changes(&project, workspace.as_ref(), base, &directory)?;
    changes.finish(base, &args.how)
}

/// The files of a new project, below the root of the workspace or below another directory.
fn changes(
    project: &Project<'_>,
    workspace: Option<&(Workspace, String)>,
    base: &Path,
    directory: &Path,
) -> Result<Changes, Failure> {
    let mut changes = Changes::default();
    let below = directory.strip_prefix(base).unwrap_or(Path::new(""));
    let prefix = match super::modules::shown(below) {
        none if none.is_empty() => none,
        below => format!("{below}/"),
    };
    if directory.join("Cargo.toml").exists() {
        return Err(Failure::usage(
            "this directory has a Cargo.toml already; choose another directory with --path, \
             nothing was changed",
        ));
    }
    let files = [
        ("Cargo.toml", project.manifest()),
        ("Makefile", project.makefile()),
        ("src/lib.rs", project.library()),
        ("src/main.rs", project.program()),
    ];
    for (path, text) in files {
        match path == "Makefile" && directory.join(path).exists() {
            true => changes.note("kept Makefile: the commands of `windlass` do what its verbs do"),
            false => changes.create(format!("{prefix}{path}"), text),
        }
    }
    match workspace {
        None if directory.join(".gitignore").exists() => {
            changes.note("kept .gitignore: let it contain /target");
        }
        None => changes.create(format!("{prefix}.gitignore"), GITIGNORE),
        Some((found, member)) => {
            changes.update("Cargo.toml", &found.text, found.with_member(member)?);
            if !found.optimizes_dependencies() {
                changes.note(
                    "note: tests on the embedded cluster take nine times as long without \
                     `\"*\".opt-level = 1` in [profile.dev.package] of the workspace's Cargo.toml",
                );
            }
        }
    }
    let at = directory.strip_prefix(std::env::current_dir().unwrap_or_default());
    let at = at.unwrap_or(directory);
    if !at.as_os_str().is_empty() {
        changes.next(format!("cd {}", at.display()));
    }
    changes.next("windlass create api --group GROUP --version v1alpha1 --kind KIND");
    Ok(changes)
}

/// The directory of the project, absolute. It may not exist yet.
fn directory(here: &Path, path: Option<PathBuf>, name: Option<&str>) -> Result<PathBuf, Failure> {
    let here = here
        .canonicalize()
        .map_err(|error| Failure::other(format!("{}: {error}", here.display())))?;
    let root_of_workspace = Workspace::find(&here)?.is_some_and(|found| found.root == here);
    let path = match (path, name) {
        (Some(path), _) => path,
        (None, Some(name)) if root_of_workspace => {
            names::project(name).map_err(Failure::usage)?.into()
        }
        (None, None) if root_of_workspace => {
            return Err(Failure::usage(
                "this is the root of a workspace: name the new member with --name or --path",
            ));
        }
        (None, _) => PathBuf::new(),
    };
    let mut directory = here;
    for component in path.components() {
        match component {
            Component::ParentDir => drop(directory.pop()),
            Component::CurDir => {}
            other => directory.push(other),
        }
    }
    Ok(directory)
}

/// A directory below another, with slashes.
fn below(root: &Path, directory: &Path) -> Result<String, Failure> {
    let relative = directory.strip_prefix(root).unwrap_or(directory);
    match relative.to_str() {
        Some(text) if !text.is_empty() && !text.contains(['"', '\\', '*', '?', '[']) => {
            Ok(super::modules::shown(relative))
        }
        Some("") => Err(Failure::usage(
            "this is the root of a workspace: name the new member with --name or --path",
        )),
        _ => Err(Failure::usage(format!("{} cannot be a member", directory.display()))),
    }
}

/// The directory with the crates of windlass, as Cargo.toml of the project names it.
pub fn crates(given: Option<PathBuf>, root: &Path, directory: &Path) -> Result<String, Failure> {
    let built_from = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let checkout = given.unwrap_or_else(|| built_from.into());
    let crates = checkout.join("crates").canonicalize().ok();
    let crates = crates.filter(|crates| crates.join("windlass/Cargo.toml").is_file());
    let crates = crates.ok_or_else(|| {
        Failure::usage(format!(
            "found no checkout of windlass at {}, and its crates are not published yet; name one \
             with --windlass-path",
            checkout.display()
        ))
    })?;
    // A relative path survives a move of the whole workspace.
    let path = match crates.strip_prefix(root) {
        Err(_) => crates,
        Ok(inside) => {
            let up = directory.strip_prefix(root).unwrap_or(Path::new("")).components();
            up.map(|_| Component::ParentDir.as_os_str()).collect::<PathBuf>().join(inside)
        }
    };
    match path.to_str() {
        Some(text) if !text.contains(['"', '\\']) => Ok(text.to_owned()),
        _ => Err(Failure::usage(format!("{} cannot be in Cargo.toml", path.display()))),
    }
}

/// A URL for Cargo.toml; the name of a Go module, as kubebuilder takes it, becomes one.
fn repository(text: &str) -> Result<String, Failure> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == '"' || c == '\\';
    if text.is_empty() || text.contains(bad) {
        return Err(Failure::usage(format!("{text:?} is not a URL")));
    }
    Ok(if text.contains("://") { text.to_owned() } else { format!("https://{text}") })
}
