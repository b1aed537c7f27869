//! The state of a run in a form that can be compared with that of another run.
//!
//! Uids, versions, times, addresses and generated names differ between two runs that did the same.
//! They are replaced by what they stand for; objects with generated names are compared as a set.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::sim::Outcome;
use crate::world::{ObjectKey, World};

/// Objects that the cluster derives from others, and that say nothing of their own.
const DERIVED: &[&str] = &[
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "controllerrevisions.apps",
    "podmetrics.metrics.k8s.io",
];

/// Metadata that only the server writes.
const SERVER_FIELDS: &[&str] =
    &["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];

/// Fields whose values the cluster allocates.
pub(crate) const ALLOCATED: &[&str] = &[
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "ip",
    "healthCheckNodePort",
];

/// Names an object independent of the run: the resource, the namespace and the canonical name.
pub(crate) type CanonicalKey = (String, String, String);

/// A comparable state.
#[derive(Debug, Default)]
pub(crate) struct Canonical {
    /// The objects of each key in a fixed order, each with its real key.
    pub objects: BTreeMap<CanonicalKey, Vec<(Value, ObjectKey)>>,
    /// What exists outside the cluster.
    pub external: BTreeMap<(String, String), usize>,
}

/// How texts of one run are replaced.
struct Replacer {
    /// Generated names, longest first, and what stands for them.
    names: Vec<(String, String)>,
}

// === impl Canonical ===

impl Canonical {
    /// The end of a run.
    pub(crate) fn of(run: &Outcome) -> Self {
        let replacer = Replacer::of(run);
        let reported = reported_by_operator(run);
        let mut objects: BTreeMap<CanonicalKey, Vec<(Value, ObjectKey)>> = BTreeMap::new();
        for (key, object) in &run.end.objects {
            if !compared(key, object) || run.expected.contains(&key.resource) {
                continue;
            }
            let name = generated(object).map(|prefix| format!("~{prefix}"));
            let canonical = (
                key.resource.clone(),
                key.namespace.clone(),
                name.unwrap_or_else(|| without_uids(&key.name)),
            );
            let mut masked = object.as_ref().clone();
            let own_status = reported.contains(&key.resource);
            mask(&mut masked, run, key, own_status);
            replacer.replace(&mut masked);
            sort_unordered(&mut masked, schema_of(run, &key.resource));
            objects.entry(canonical).or_default().push((masked, key.clone()));
        }
        for same in objects.values_mut() {
            same.sort_by_cached_key(|(object, _)| object.to_string());
        }
        let mut external = BTreeMap::new();
        for entry in run.ledger.open() {
            *external.entry((entry.system.clone(), entry.key.clone())).or_default() += 1;
        }
        Self { objects, external }
    }

    /// Returns `true` if the other state is the same; the real keys of the objects may differ.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let same = |(one, _): &(Value, ObjectKey), (other, _): &(Value, ObjectKey)| one == other;
        self.external == other.external
            && self.objects.len() == other.objects.len()
            && self.objects.iter().zip(&other.objects).all(|((key, all), (other_key, others))| {
                let pairs = all.iter().zip(others);
                key == other_key
                    && all.len() == others.len()
                    && pairs.into_iter().all(|(a, b)| same(a, b))
            })
    }
}

/// Returns `true` if an object says something about the result of a run.
fn compared(key: &ObjectKey, object: &Value) -> bool {
    let scaled_down =
        key.resource == "replicasets.apps" && object["spec"]["replicas"].as_i64() == Some(0);
    !crate::site::is_background(&key.resource)
        && !DERIVED.contains(&key.resource.as_str())
        && !scaled_down
}

/// The prefix of a generated name.
pub(crate) fn generated(object: &Value) -> Option<&str> {
    let meta = &object["metadata"];
    let prefix = meta["generateName"].as_str().filter(|prefix| !prefix.is_empty())?;
    meta["name"].as_str()?.starts_with(prefix).then_some(prefix)
}

/// The resources whose status the operator writes.
fn reported_by_operator(run: &Outcome) -> BTreeSet<String> {
    let defined = run.definitions.iter().filter_map(crate::sim::kind_of);
    let defined = defined.map(|kind| crate::site::resource(kind.group(), kind.plural()));
    let written = run.writes.iter().filter(|write| {
        write.actor != "user" && write.site.subresource == "status" && write.status < 300
    });
    defined.chain(written.map(|write| write.resource.clone())).collect()
}

fn mask(object: &mut Value, run: &Outcome, key: &ObjectKey, own_status: bool) {
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in SERVER_FIELDS {
            meta.remove(*field);
        }
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
            annotations.remove("deployment.kubernetes.io/revision-history");
        }
    }
    if let Some(fields) = object.as_object_mut()
        && let Some(status) = fields.remove("status")
    {
        // A field that is missing and one with its default say the same.
        let status = if own_status { without_defaults(&status) } else { Some(summary(&status)) };
        fields.extend(status.map(|status| ("status".to_owned(), status)));
    }
    leave_out(object, &run.masks, &key.resource);
}

/// Replaces the fields that the author leaves out of comparisons.
pub(crate) fn leave_out(object: &mut Value, masks: &[(String, String)], of: &str) {
    for (resource, pointer) in masks {
        if resource == of
            && let Some(value) = object.pointer_mut(pointer)
        {
            *value = "<masked>".into();
        }
    }
}

/// The schema of a custom resource.
pub(crate) fn schema_of<'a>(run: &'a Outcome, resource: &str) -> &'a Value {
    let defined = |definition: &&Value| {
        let spec = &definition["spec"];
        let (group, plural) = (spec["group"].as_str(), spec["names"]["plural"].as_str());
        crate::site::resource(group.unwrap_or_default(), plural.unwrap_or_default()) == resource
    };
    let definition = run.definitions.iter().find(defined).unwrap_or(&Value::Null);
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    stored.map_or(&Value::Null, |version| &version["schema"]["openAPIV3Schema"])
}

/// Sorts what has no order: conditions, finalizers, owners, and lists that their schema declares to
/// be sets or maps.
fn sort_unordered(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let schema = &schema["properties"][name];
                sort_unordered(field, schema);
                let kind = schema["x-kubernetes-list-type"].as_str();
                let known =
                    matches!(name.as_str(), "conditions" | "finalizers" | "ownerReferences");
                if (known || matches!(kind, Some("set" | "map")))
                    && let Value::Array(items) = field
                {
                    items.sort_by_cached_key(Value::to_string);
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| sort_unordered(item, &schema["items"]));
        }
        _ => {}
    }
}

/// What a status that a controller of the cluster wrote says independent of its history: counts,
/// the phase, and the state of each condition.
fn summary(status: &Value) -> Value {
    let mut summary = Map::new();
    for (field, value) in status.as_object().into_iter().flatten() {
        let kept = value.is_number() || field == "phase";
        if kept && field != "observedGeneration" && field != "collisionCount" {
            summary.insert(field.clone(), value.clone());
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        if let (Some(kind), state) = (condition["type"].as_str(), &condition["status"]) {
            summary.insert(format!("condition {kind}"), state.clone());
        }
    }
    Value::Object(summary)
}

/// A value without fields that are empty, `false` or 0; `None` if nothing is left.
fn without_defaults(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(fields) => {
            let kept =
                fields.iter().filter_map(|(name, v)| Some((name.clone(), without_defaults(v)?)));
            let kept: Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other.clone()),
    }
}

// === impl Replacer ===

impl Replacer {
    fn of(run: &Outcome) -> Self {
        let mut names = BTreeMap::new();
        for change in &run.history {
            let object = change.after.as_ref().or(change.before.as_ref());
            let Some((object, prefix)) = object.and_then(|o| Some((o, generated(o)?))) else {
                continue;
            };
            let Some(name) = object["metadata"]["name"].as_str() else { continue };
            let stands = match is_there(&run.end, &change.key) {
                true => format!("~{prefix}"),
                false => format!("~{prefix}<gone>"),
            };
            names.insert(name.to_owned(), stands);
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self { names }
    }

    fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.replace_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(fields) => {
                fields.remove("observedGeneration");
                for (name, field) in fields.iter_mut() {
                    match ALLOCATED.contains(&name.as_str()) && !field.is_null() {
                        true => *field = "<allocated>".into(),
                        false => self.replace(field),
                    }
                }
            }
            _ => {}
        }
    }

    fn replace_text(&self, text: &mut String) {
        if is_time(text) {
            *text = "<time>".into();
        } else {
            *text = without_uids(text);
            for (name, stands) in &self.names {
                if text.contains(name.as_str()) {
                    *text = text.replace(name.as_str(), stands);
                }
            }
        }
    }
}

fn is_there(world: &World, key: &ObjectKey) -> bool {
    world.objects.contains_key(key)
}

/// `2026-01-01T00:00:00Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=35).contains(&bytes.len())
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// The text with every uid in it replaced, as in the names of volumes.
fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    let (mut masked, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let step = match rest.get(..LENGTH).is_some_and(is_uid) {
            true => {
                masked.push_str("<uid>");
                LENGTH
            }
            false => {
                masked.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[step..];
    }
    masked
}

/// Five groups of hexadecimal digits.
fn is_uid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_and_uids_are_recognized() {
        assert!(is_time("2026-01-01T00:00:00Z") && is_time("2026-01-01T00:00:00.123456Z"));
        assert!(!is_time("2026-01-01") && !is_time("a text that has twenty characters"));
        assert!(is_uid("123e4567-e89b-12d3-a456-426614174000") && !is_uid("web-1-2-3-4"));
        assert_eq!(without_uids("pvc-123e4567-e89b-12d3-a456-426614174000-ä"), "pvc-<uid>-ä");
    }

    #[test]
    fn a_status_with_defaults_is_no_status() {
        assert_eq!(without_defaults(&json!({"a": "", "b": [], "c": {"d": false}, "e": 0})), None);
        assert_eq!(without_defaults(&json!({"a": "x", "b": []})), Some(json!({"a": "x"})));
    }

    #[test]
    fn the_status_of_a_controller_is_reduced_to_counts_and_conditions() {
        let status = json!({
            "replicas": 3, "observedGeneration": 4, "phase": "Running", "message": "x",
            "conditions": [{"type": "Available", "status": "True", "message": "moved"}],
        });
        let expected = json!({"replicas": 3, "phase": "Running", "condition Available": "True"});
        assert_eq!(summary(&status), expected);
    }
}
