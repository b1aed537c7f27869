//! Where definitions come from.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::Value;
use windlass_apiserver::custom::Schema;
use windlass_apiserver::custom::definition::violations;
use windlass_manifests::crd;

use crate::failure::Failure;
use crate::manifest_files::{self, is_manifest, parse};
use crate::target_cluster::NamedArgs;
use crate::text::explain;

/// Reads both sides. A cluster has definitions of everybody, so only those that the other side names
/// are compared.
pub(super) fn read_both(
    old: &str,
    new: &str,
    cluster: &NamedArgs,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let (mut before, mut after) =
        (definitions(old, new, cluster)?, definitions(new, old, cluster)?);
    match (old, new) {
        ("cluster", "cluster") => {
            return Err(Failure::usage(
                "both sides are the cluster, so there is nothing to compare",
            ));
        }
        ("cluster", _) => before.retain(|one| after.iter().any(|other| name(other) == name(one))),
        (_, "cluster") => after.retain(|one| before.iter().any(|other| name(other) == name(one))),
        _ => {}
    }
    Ok((before, after))
}

/// Reads the definitions of one side, ordered by name. A revision of git without a path has those
/// under the path of the other side.
fn definitions(source: &str, other: &str, cluster: &NamedArgs) -> Result<Vec<Value>, Failure> {
    let mut found = if source == "cluster" {
        of_cluster(cluster)?
    } else if Path::new(source).exists() {
        manifest_files::read(Path::new(source))?
    } else if let Some((revision, path)) = source.split_once(':') {
        of_revision(revision, path)?
    } else if Path::new(other).exists() && is_revision(source) {
        of_revision(source, other)?
    } else {
        return Err(Failure::usage(format!(
            "{source} is neither a file or directory nor REVISION:PATH of git nor `cluster`"
        )));
    };
    found.retain(|value| value["kind"] == "CustomResourceDefinition");
    let mut found = without_patches(found);
    if found.is_empty() {
        return Err(Failure::usage(format!("{source} has no CustomResourceDefinition")));
    }
    for value in &found {
        check(value).map_err(|why| Failure::usage(format!("{source}: {why}")))?;
    }
    found.sort_by_key(|value| name(value).to_owned());
    if let Some(pair) = found.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
        return Err(Failure::usage(format!("{source} defines {} twice", name(&pair[0]))));
    }
    Ok(found)
}

/// Leaves out patches: definitions without versions that have the name of a whole one. A directory
/// for kustomize contains them next to what they change.
fn without_patches(mut all: Vec<Value>) -> Vec<Value> {
    let is_whole = |value: &Value| !versions(value).is_empty();
    let whole: BTreeSet<String> =
        all.iter().filter(|value| is_whole(value)).map(|value| name(value).to_owned()).collect();
    all.retain(|value| is_whole(value) || !whole.contains(name(value)));
    all
}

fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

fn versions(definition: &Value) -> &[Value] {
    definition["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// Checks that a document can be compared.
fn check(value: &Value) -> Result<(), String> {
    let name = name(value);
    if name.is_empty() {
        return Err("a CustomResourceDefinition has no name".into());
    }
    if value["apiVersion"] != "apiextensions.k8s.io/v1" {
        let version = value["apiVersion"].as_str().unwrap_or_default();
        return Err(format!("{name} is of version {version:?}, expected apiextensions.k8s.io/v1"));
    }
    serde_json::from_value::<CustomResourceDefinition>(value.clone())
        .map_err(|error| format!("{name} is not a CustomResourceDefinition: {error}"))?;
    if value["spec"]["group"].as_str().is_none_or(str::is_empty) {
        return Err(format!("{name} has no spec.group"));
    }
    let versions = versions(value);
    if versions.is_empty() {
        return Err(format!("{name} has no spec.versions"));
    }
    let stored = versions.iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        return Err(format!("{name} has {stored} storage versions, expected exactly one"));
    }
    // Definitions that were made before every schema had to be structural say so.
    if value["spec"]["preserveUnknownFields"] == true {
        return Ok(());
    }
    for (at, version) in versions.iter().enumerate() {
        let schema = Schema::parse(&version["schema"]["openAPIV3Schema"]);
        let place = format!("spec.versions[{at}].schema.openAPIV3Schema");
        if let Some(error) = violations(&schema, &place).iter().next() {
            return Err(format!("the schema of {name} is not structural: {error}"));
        }
    }
    Ok(())
}

/// Reads the files of a git revision, with the command `git` in the current directory.
fn of_revision(revision: &str, path: &str) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    let listed = git(&["ls-tree", "-r", "-z", "--name-only", "--end-of-options", revision, path])?;
    let names: Vec<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Err(Failure::usage(format!("git revision {revision} has no {path}")));
    }
    for name in names.iter().filter(|name| is_manifest(name) || **name == path) {
        // `ls-tree` lists relative to the current directory, as `./` does here.
        let object = format!("{revision}:./{name}");
        let text = git(&["cat-file", "blob", &object])?;
        parse(&text, &format!("{revision}:{name}"), &mut found)?;
    }
    Ok(found)
}

/// Returns `true` if git knows a commit of this name.
fn is_revision(name: &str) -> bool {
    let commit = format!("{name}^{{commit}}");
    git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).is_ok()
}

fn git(args: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git").args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::usage(format!("cannot run git: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or("it failed without a message");
        return Err(Failure::usage(format!("git {}: {line}", args[0])));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure::usage("a file in git is not UTF-8"))
}

/// Reads the definitions of a cluster that was named.
fn of_cluster(cluster: &NamedArgs) -> Result<Vec<Value>, Failure> {
    if !cluster.is_named() {
        return Err(Failure::usage("name the cluster with --kubeconfig or --context"));
    }
    let mut items = Vec::new();
    let read = crate::cluster::block_on(async {
        let client = cluster.open().await?.client;
        let list = Api::<CustomResourceDefinition>::all(client).list(&Default::default()).await;
        items = list.map_err(|error| Failure::other(explain(&error)))?.items;
        Ok(())
    });
    read.map_err(|why| Failure::usage(format!("cannot read the cluster: {why}")))?;
    let complete = |definition: &CustomResourceDefinition| {
        let mut value = crd::to_value(definition);
        value["apiVersion"] = "apiextensions.k8s.io/v1".into();
        value["kind"] = "CustomResourceDefinition".into();
        value
    };
    Ok(items.iter().map(complete).collect())
}
