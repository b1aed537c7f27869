//! Which names a definition gets, and its conditions.

use std::collections::{BTreeSet, HashSet};

use base64::Engine as _;
use serde_json::{Map, Value, json};
use windlass_cel::Schema;
use windlass_text::format::scheme_of;

use super::definition;
use super::put;
use crate::status::quote;

/// The finalizer that keeps a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub status: bool,
    /// Why, in a word.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
}

impl Condition {
    fn new(
        kind: &'static str,
        status: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, status, reason, message: message.into() }
    }
}

/// Brings the status of a definition up to date, as the controllers of the real server do.
/// `others` are all definitions (this one may be among them), `now` is the time as text.
/// Returns whether anything changed.
///
/// `establish` is false as long as the resource may not be served yet (`Installing`).
pub fn update_status(object: &mut Value, others: &[&Value], establish: bool, now: &str) -> bool {
    let before = object["status"].clone();
    let (accepted, names, mut established) = accept(object, others);
    put(object, &["status", "acceptedNames"], accepted);
    let names_good = names.status;
    if condition(object, "NamesAccepted").is_none_or(|old| !equal(old, &names)) {
        set(object, &names, now);
    }
    if establish && names_good {
        let message = "the initial names have been accepted";
        established = Some(Condition::new("Established", true, "InitialNamesAccepted", message));
        if is_true(object, "Established") {
            established = None;
        }
    }
    if let Some(established) = established {
        set(object, &established, now);
    }
    match structural(object) {
        Some(found) => set(object, &found, now),
        None => remove(object, "NonStructuralSchema"),
    }
    if let Some(found) = conformance(object) {
        set(object, &found, now);
    }
    object["status"] != before
}

/// The accepted names, `NamesAccepted`, and `Established` if it changes.
fn accept(object: &Value, others: &[&Value]) -> (Value, Condition, Option<Condition>) {
    let wanted = &object["spec"]["names"];
    let have = &object["status"]["acceptedNames"];
    let (resources, kinds) = used(object, others);
    let text = |names: &Value, key: &str| names[key].as_str().unwrap_or_default().to_owned();
    let mut accepted = have.as_object().cloned().unwrap_or_default();
    let mut condition = Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found");
    let mut conflict = |reason: &'static str, message: String| {
        condition = Condition::new("NamesAccepted", false, reason, message);
    };
    let taken = |name: &str, mine: &str, used: &BTreeSet<String>| {
        (name != mine && used.contains(name)).then(|| format!("{} is already in use", quote(name)))
    };
    let mut single = |key: &str, reason: &'static str, used: &BTreeSet<String>| {
        let name = text(wanted, key);
        match taken(&name, &text(have, key), used) {
            Some(message) => conflict(reason, message),
            None => put_name(&mut accepted, key, name),
        }
    };
    single("plural", "PluralConflict", &resources);
    single("singular", "SingularConflict", &resources);
    let short = short_names(wanted, have, &resources);
    if let Err(message) = &short {
        conflict("ShortNamesConflict", message.clone());
    }
    let mut single = |key: &str, reason: &'static str, used: &BTreeSet<String>| {
        let name = text(wanted, key);
        match taken(&name, &text(have, key), used) {
            Some(message) => conflict(reason, message),
            None => put_name(&mut accepted, key, name),
        }
    };
    single("kind", "KindConflict", &kinds);
    single("listKind", "ListKindConflict", &kinds);
    if short.is_ok() {
        copy_list(&mut accepted, wanted, "shortNames");
    }
    copy_list(&mut accepted, wanted, "categories");
    for key in ["plural", "kind"] {
        accepted.entry(key).or_insert_with(|| "".into());
    }
    let established = match (is_true(object, "Established"), condition.status) {
        (true, _) => None,
        (false, true) => {
            let message = "the initial names have been accepted";
            Some(Condition::new("Established", false, "Installing", message))
        }
        (false, false) if self::condition(object, "Established").is_some() => None,
        (false, false) => {
            let message = "not all names are accepted";
            Some(Condition::new("Established", false, "NotAccepted", message))
        }
    };
    (Value::Object(accepted), condition, established)
}

fn put_name(names: &mut Map<String, Value>, key: &str, name: String) {
    match name.is_empty() {
        true => drop(names.remove(key)),
        false => drop(names.insert(key.into(), name.into())),
    }
}

fn copy_list(names: &mut Map<String, Value>, from: &Value, key: &str) {
    match from[key].as_array().filter(|list| !list.is_empty()) {
        Some(list) => drop(names.insert(key.into(), list.clone().into())),
        None => drop(names.remove(key)),
    }
}

fn short_names(wanted: &Value, have: &Value, used: &BTreeSet<String>) -> Result<(), String> {
    let list = |names: &Value| names["shortNames"].as_array().cloned().unwrap_or_default();
    let mine: HashSet<Value> = list(have).into_iter().collect();
    let mut known = HashSet::new();
    let mut messages = Vec::new();
    for name in list(wanted).iter().filter(|name| !mine.contains(name)) {
        let name = name.as_str().unwrap_or_default();
        let message = format!("{} is already in use", quote(name));
        if used.contains(name) && known.insert(message.clone()) {
            messages.push(message);
        }
    }
    match &messages[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

/// Names the definitions of a group have been given: of resources, and of kinds.
///
/// Those of the definition itself count: they are compared before.
fn used(object: &Value, others: &[&Value]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        if other["spec"]["group"] != object["spec"]["group"]
            || other["metadata"]["name"] == object["metadata"]["name"]
        {
            continue;
        }
        let names = &other["status"]["acceptedNames"];
        let text = |key: &str| names[key].as_str().map(str::to_owned);
        resources.extend(["plural", "singular"].into_iter().filter_map(text));
        kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
        let short = names["shortNames"].as_array().into_iter().flatten();
        resources.extend(short.filter_map(Value::as_str).map(str::to_owned));
    }
    resources.remove("");
    kinds.remove("");
    let mine = &object["status"]["acceptedNames"];
    for key in ["plural", "singular"] {
        resources.extend(mine[key].as_str().filter(|n| !n.is_empty()).map(str::to_owned));
    }
    for key in ["kind", "listKind"] {
        kinds.extend(mine[key].as_str().filter(|n| !n.is_empty()).map(str::to_owned));
    }
    (resources, kinds)
}

/// `NonStructuralSchema`, if a schema is not structural.
fn structural(object: &Value) -> Option<Condition> {
    let versions = object["spec"]["versions"].as_array()?;
    let mut texts = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let raw = &version["schema"]["openAPIV3Schema"];
        if raw.is_object() {
            let place = format!("spec.versions[{index}].schema.openAPIV3Schema");
            let found = definition::violations(&Schema::parse(raw), &place);
            texts.extend(found.iter().map(ToString::to_string));
        }
    }
    let message = match &texts[..] {
        [] => return None,
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    Some(Condition::new("NonStructuralSchema", true, "Violations", message))
}

/// Returns `true` if a group belongs to the Kubernetes community.
pub fn is_protected(group: &str) -> bool {
    let under = |domain: &str| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    under("k8s.io") || under("kubernetes.io")
}

/// The state of the approval annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Something else is in its place.
    Invalid,
    /// A URL.
    Approved,
    /// A reason why not.
    Bypassed,
    /// Nothing.
    Missing,
}

/// Returns the state of the approval annotation, and the sentence about it.
pub fn approval(object: &Value) -> (Approval, String) {
    const NAME: &str = "api-approved.kubernetes.io";
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let given = object["metadata"]["annotations"][NAME].as_str().unwrap_or_default();
    let host = scheme_of(given).and_then(|(_, rest)| rest.strip_prefix("//"));
    let host = host.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let must = format!("protected groups must have approval annotation \"{NAME}\"");
    if given.is_empty() {
        (Approval::Missing, format!("{must}, {SEE}"))
    } else if given.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {}", quote(given)))
    } else if !host.is_empty() && windlass_text::format::uri(given) {
        (Approval::Approved, format!("approved in {given}"))
    } else {
        let how = "with either a URL or a reason starting with \"unapproved\"";
        (Approval::Invalid, format!("{must} {how}, {SEE}"))
    }
}

/// `KubernetesAPIApprovalPolicyConformant`, for groups of the community.
fn conformance(object: &Value) -> Option<Condition> {
    if !is_protected(object["spec"]["group"].as_str().unwrap_or_default()) {
        return None;
    }
    let (state, message) = approval(object);
    let (status, reason) = match state {
        Approval::Invalid => (false, "InvalidAnnotation"),
        Approval::Missing => (false, "MissingAnnotation"),
        Approval::Approved => (true, "ApprovedAnnotation"),
        Approval::Bypassed => (false, "UnapprovedAnnotation"),
    };
    Some(Condition::new("KubernetesAPIApprovalPolicyConformant", status, reason, message))
}

/// How far the deletion of a definition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It was just asked for.
    Pending,
    /// Objects are being deleted.
    InProgress,
    /// All objects are gone.
    Completed,
    /// It never served anything.
    NeverEstablished,
}

/// Sets the `Terminating` condition of a definition in deletion.
pub fn set_terminating(object: &mut Value, deletion: &Deletion, now: &str) {
    let (status, reason, message) = match deletion {
        Deletion::Pending => (
            true,
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        ),
        Deletion::InProgress => {
            (true, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        }
        Deletion::Completed => (false, "InstanceDeletionCompleted", "removed all instances"),
        Deletion::NeverEstablished => (false, "NeverEstablished", "resource was never established"),
    };
    set(object, &Condition::new("Terminating", status, reason, message), now);
}

/// Returns `true` if a condition of a definition is true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|found| found["status"] == "True")
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

fn equal(old: &Value, new: &Condition) -> bool {
    let status = if new.status { "True" } else { "False" };
    old["status"] == status && old["reason"] == new.reason && old["message"] == *new.message
}

/// Sets a condition; its time changes only with its status.
pub fn set(object: &mut Value, new: &Condition, now: &str) {
    let status = if new.status { "True" } else { "False" };
    let old = condition(object, new.kind);
    let time = match old.filter(|old| old["status"] == status) {
        Some(old) => old["lastTransitionTime"].clone(),
        None => now.into(),
    };
    let value = json!({
        "type": new.kind, "status": status, "lastTransitionTime": time,
        "reason": new.reason, "message": new.message,
    });
    match object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        Some(list) => match list.iter_mut().find(|c| c["type"] == new.kind) {
            Some(old) => *old = value,
            None => list.push(value),
        },
        None => put(object, &["status", "conditions"], json!([value])),
    }
}

fn remove(object: &mut Value, kind: &str) {
    if let Some(Value::Array(list)) = object.pointer_mut("/status/conditions") {
        list.retain(|c| c["type"] != kind);
    }
}

/// Returns `true` if a base64 text holds a certificate in PEM form.
pub fn bundle_holds(bundle: &str) -> bool {
    let bytes = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.contains("-----BEGIN CERTIFICATE-----") && text.contains("-----END CERTIFICATE-----")
}
