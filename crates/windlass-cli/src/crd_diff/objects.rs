//! Stored objects against new definitions.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apiserver::custom::{Part, Version, compile};

use super::converter;
use crate::failure::Failure;
use crate::manifest_files;

/// Something that is wrong with a stored object.
pub(super) struct Finding {
    object: String,
    version: String,
    message: String,
}

/// Checks the objects of a file or directory against new definitions: each in its own version, and
/// converted to every other version that is served or stored.
pub(super) fn check(
    path: &Path,
    definitions: &[Value],
    converter: Option<&Path>,
) -> Result<Vec<Finding>, Failure> {
    let objects = manifest_files::read(path)?;
    let mut findings = Vec::new();
    let mut checked = 0;
    for definition in definitions {
        let versions = compile(&Arc::new(definition.clone()));
        let kind = &definition["spec"]["names"]["kind"];
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let mine = objects.iter().filter(|object| {
            object["kind"] == *kind && group_and_version(object).is_some_and(|(g, _)| g == group)
        });
        let mine: Vec<&Value> = mine.collect();
        checked += mine.len();
        check_kind(definition, &versions, &mine, converter, &mut findings)?;
    }
    if checked == 0 {
        let shown = path.display();
        return Err(Failure::usage(format!("{shown} has no object of a kind that is compared")));
    }
    Ok(findings)
}

fn check_kind(
    definition: &Value,
    versions: &[Arc<Version>],
    objects: &[&Value],
    converter: Option<&Path>,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let webhook = definition["spec"]["conversion"]["strategy"] == "Webhook";
    for stored in versions {
        let of: Vec<Value> = objects
            .iter()
            .filter(|object| group_and_version(object).is_some_and(|(_, v)| v == stored.name))
            .map(|object| (*object).clone())
            .collect();
        for object in &of {
            findings.extend(problems(stored, object, "does not fit the new schema"));
        }
        let others = versions.iter().filter(|v| v.name != stored.name && (v.served || v.storage));
        for other in others.filter(|_| !of.is_empty()) {
            let to = other.gvk.api_version();
            let converted = match (webhook, converter) {
                (false, _) => of.iter().map(|object| renamed(object, &to)).collect(),
                (true, Some(program)) => converter::convert(program, &of, &to)?,
                (true, None) => {
                    return Err(Failure::usage(format!(
                        "objects of {} are converted by a webhook, name the program of the operator \
                         with --convert",
                        stored.gvk.api_version()
                    )));
                }
            };
            let what = format!("does not fit once it is converted from {}", stored.name);
            for object in &converted {
                findings.extend(problems(other, object, &what));
            }
        }
    }
    let gone = objects.iter().filter(|object| {
        group_and_version(object).is_none_or(|(_, v)| versions.iter().all(|known| known.name != v))
    });
    for object in gone {
        let message = "is stored in a version that the new definition does not have";
        findings.push(Finding::new(object, message.into()));
    }
    Ok(())
}

fn group_and_version(object: &Value) -> Option<(&str, &str)> {
    object["apiVersion"].as_str()?.split_once('/')
}

/// The strategy `None`: another name for the same content.
fn renamed(object: &Value, api_version: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = api_version.into();
    object
}

/// What a server would drop from an object, and why it would refuse it.
fn problems(version: &Version, object: &Value, what: &str) -> Vec<Finding> {
    let mut read = object.clone();
    let mut found = Vec::new();
    match version.decode(&mut read) {
        Ok(dropped) => {
            found.extend(dropped.iter().map(|path| format!("{what}: .{path} is dropped")));
        }
        Err(why) => found.push(format!("{what}: {why}")),
    }
    version.default(&mut read);
    let verdict = version.validate(&read, None, Part::Main);
    found.extend(verdict.errors.iter().map(|error| format!("{what}: {error}")));
    found.into_iter().map(|message| Finding::new(object, message)).collect()
}

// === impl Finding ===

impl Finding {
    fn new(object: &Value, message: String) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let name = match metadata["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
            None => text(&metadata["name"]),
        };
        let object_name = format!("{} {name}", text(&object["kind"]));
        Self { object: object_name, version: text(&object["apiVersion"]), message }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"object": self.object, "apiVersion": self.version, "message": self.message})
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.object, self.version, self.message)
    }
}
