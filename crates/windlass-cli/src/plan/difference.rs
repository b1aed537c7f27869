//! What differs between two states of a cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_manifests::yaml;

use crate::text::plain;

/// Resources that follow from others, or say nothing about what an operator does.
const NOT_COMPARED: [&str; 7] = [
    "events",
    "leases",
    "endpoints",
    "endpointslices",
    "controllerrevisions",
    "nodes",
    "customresourcedefinitions",
];
/// Resources whose objects come and go with those of others: to delete one loses nothing.
const DERIVED: [&str; 2] = ["pods", "replicasets"];
/// Fields of the metadata that the server writes.
const SERVERS_OWN: [&str; 6] =
    ["uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "selfLink"];

/// An object by resource, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    resource: String,
    namespace: String,
    name: String,
}

/// All objects that are compared.
#[derive(Debug, Default)]
pub struct State {
    objects: BTreeMap<Place, Value>,
}

/// What would happen to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Created,
    Changed,
    /// Deleted, and created again under the same name.
    Replaced,
    Deleted,
}

/// What differs between two states.
#[derive(Debug, Default)]
pub struct Differences {
    changes: Vec<(Place, Change, Value, Value)>,
    /// Pods that would end, with the name of their controller.
    restarts: Vec<(String, String)>,
}

// === impl State ===

impl State {
    /// The present state of a server.
    pub fn of(server: &ApiServer) -> Self {
        let mut objects = BTreeMap::new();
        for (resource, table) in server.world().resources() {
            if NOT_COMPARED.contains(&&*resource.plural) {
                continue;
            }
            let plural = match &*resource.group {
                "" => resource.plural.to_string(),
                group => format!("{}.{group}", resource.plural),
            };
            for entry in table.items.values() {
                let place = Place {
                    resource: plural.clone(),
                    namespace: entry.key.namespace.to_string(),
                    name: entry.key.name.to_string(),
                };
                objects.insert(place, entry.object());
            }
        }
        Self { objects }
    }
}

// === impl Place ===

impl Place {
    fn plural(&self) -> &str {
        self.resource.split('.').next().unwrap_or_default()
    }

    fn shown(&self) -> String {
        let name = match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        };
        plain(&format!("{} {name}", self.resource))
    }
}

// === impl Differences ===

impl Differences {
    /// Compares two states.
    pub fn between(before: &State, after: &State) -> Self {
        let mut found = Self::default();
        let gone = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        for (place, old) in &before.objects {
            let new = after.objects.get(place).filter(|new| !gone(new));
            let was_gone = gone(old);
            let change = match new {
                _ if was_gone => continue,
                None => Change::Deleted,
                Some(new) if new["metadata"]["uid"] != old["metadata"]["uid"] => Change::Replaced,
                Some(new) if shown(place, new) != shown(place, old) => Change::Changed,
                Some(_) => continue,
            };
            let new = new.cloned().unwrap_or_default();
            found.changes.push((place.clone(), change, old.clone(), new));
        }
        for (place, new) in &after.objects {
            if !before.objects.contains_key(place) && !gone(new) {
                let change = (place.clone(), Change::Created, Value::Null, new.clone());
                found.changes.push(change);
            }
        }
        found.restarts = restarts(&found.changes);
        // Pods and the like follow from what is listed; only how many restart is of interest.
        found.changes.retain(|(place, ..)| !DERIVED.contains(&place.plural()));
        found
    }

    /// Returns `true` if an object would be deleted or replaced.
    pub fn is_destructive(&self) -> bool {
        self.changes
            .iter()
            .any(|(_, change, ..)| matches!(change, Change::Deleted | Change::Replaced))
    }

    /// The differences for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (place, change, old, new) in &self.changes {
            let sign = match change {
                Change::Created => '+',
                Change::Changed => '~',
                Change::Replaced | Change::Deleted => '-',
            };
            let word = change.word();
            text.push_str(&format!("{sign} {} would be {word}\n", place.shown()));
            if *change != Change::Deleted {
                let lines = lines(&shown(place, old), &shown(place, new));
                lines.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
            }
        }
        for (pod, owner) in &self.restarts {
            text.push_str(&format!("! pod {} of {} would restart\n", plain(pod), plain(owner)));
        }
        text.push_str(&self.summary());
        text.push('\n');
        text
    }

    fn summary(&self) -> String {
        let count = |wanted: &[Change]| {
            self.changes.iter().filter(|(_, change, ..)| wanted.contains(change)).count()
        };
        if self.changes.is_empty() && self.restarts.is_empty() {
            return "nothing would change".to_owned();
        }
        let pods = if self.restarts.len() == 1 { "pod" } else { "pods" };
        format!(
            "{} created, {} changed, {} deleted or replaced, {} {pods} restarted",
            count(&[Change::Created]),
            count(&[Change::Changed]),
            count(&[Change::Deleted, Change::Replaced]),
            self.restarts.len()
        )
    }

    /// The differences for programs.
    pub fn json(&self) -> Value {
        let changes = self.changes.iter().map(|(place, change, old, new)| {
            json!({
                "resource": place.resource, "namespace": place.namespace, "name": place.name,
                "change": change.word(), "before": shown(place, old), "after": shown(place, new),
            })
        });
        let restarts = self.restarts.iter().map(|(pod, owner)| json!({"pod": pod, "of": owner}));
        json!({
            "changes": changes.collect::<Vec<_>>(),
            "restarts": restarts.collect::<Vec<_>>(),
            "destructive": self.is_destructive(),
        })
    }
}

// === impl Change ===

impl Change {
    fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Replaced => "replaced",
            Self::Deleted => "deleted",
        }
    }
}

/// Pods that existed and would end while another pod of the same workload comes.
fn restarts(changes: &[(Place, Change, Value, Value)]) -> Vec<(String, String)> {
    let pods = || changes.iter().filter(|(place, ..)| place.resource == "pods");
    let mut coming: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (place, change, _, new) in pods() {
        if matches!(change, Change::Created | Change::Replaced) {
            *coming.entry((&place.namespace, workload(new))).or_default() += 1;
        }
    }
    let mut restarts = Vec::new();
    for (place, change, old, _) in pods() {
        if matches!(change, Change::Deleted | Change::Replaced)
            && let Some(count) = coming.get_mut(&(place.namespace.as_str(), workload(old)))
            && *count > 0
        {
            *count -= 1;
            restarts.push((place.name.clone(), workload(old)));
        }
    }
    restarts
}

/// The workload of a pod: its controller, or the Deployment of its ReplicaSet.
fn workload(pod: &Value) -> String {
    let owner = &pod["metadata"]["ownerReferences"][0];
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    match (text("kind"), text("name").rsplit_once('-')) {
        // A ReplicaSet is named after its Deployment, with a hash of the template behind it.
        ("ReplicaSet", Some((deployment, _))) => format!("deployment {deployment}"),
        (kind, _) => format!("{} {}", kind.to_lowercase(), text("name")),
    }
}

/// An object without what the server writes, and without the values of a Secret.
fn shown(place: &Place, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        SERVERS_OWN.iter().for_each(|field| drop(meta.remove(*field)));
    }
    if let Some(fields) = object.as_object_mut() {
        // The status of a built-in kind is what its controller finds.
        if !place.resource.contains('.') || is_builtin(&place.resource) {
            fields.remove("status");
        }
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if place.resource == "secrets" {
        for part in ["data", "stringData"] {
            for (_, value) in object[part].as_object_mut().into_iter().flatten() {
                *value = format!("({})", fingerprint(value)).into();
            }
        }
    }
    without_times(&mut object);
    object
}

/// Built-in groups have no domain, or that of Kubernetes.
fn is_builtin(resource: &str) -> bool {
    let group = resource.split_once('.').map_or("", |(_, group)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Distinguishes two secrets without showing either.
fn fingerprint(value: &Value) -> String {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    static STATE: OnceLock<RandomState> = OnceLock::new();
    let hash = STATE.get_or_init(RandomState::new).hash_one(value.to_string());
    format!("secret {:08x}", hash & 0xffff_ffff)
}

/// Removes times, which differ between any two runs.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for time in
                ["lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"]
            {
                fields.remove(time);
            }
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// The lines that differ, with a few around them.
fn lines(old: &Value, new: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        value => yaml::document(value),
    };
    let (old, new) = (text(old), text(new));
    let diff = similar::TextDiff::from_lines(&old, &new);
    let mut lines = Vec::new();
    for (place, group) in diff.grouped_ops(2).iter().enumerate() {
        if place > 0 {
            lines.push("…".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                similar::ChangeTag::Delete => '-',
                similar::ChangeTag::Insert => '+',
                similar::ChangeTag::Equal => ' ',
            };
            lines.push(format!("{sign} {}", plain(change.value().trim_end_matches('\n'))));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(objects: &[(&str, &str, Value)]) -> State {
        let objects = objects.iter().map(|(resource, name, object)| {
            let place = Place {
                resource: (*resource).to_owned(),
                namespace: "default".to_owned(),
                name: (*name).to_owned(),
            };
            (place, object.clone())
        });
        State { objects: objects.collect() }
    }

    fn meta(uid: &str) -> Value {
        json!({"uid": uid, "resourceVersion": uid})
    }

    #[test]
    fn objects_are_created_changed_replaced_and_deleted() {
        let before = state(&[
            ("configmaps", "same", json!({"metadata": meta("1"), "data": {"a": "1"}})),
            ("configmaps", "changed", json!({"metadata": meta("2"), "data": {"a": "1"}})),
            ("configmaps", "replaced", json!({"metadata": meta("3"), "data": {"a": "1"}})),
            ("configmaps", "deleted", json!({"metadata": meta("4")})),
        ]);
        let mut same = meta("1");
        same["resourceVersion"] = "99".into();
        let after = state(&[
            ("configmaps", "same", json!({"metadata": same, "data": {"a": "1"}})),
            ("configmaps", "changed", json!({"metadata": meta("2"), "data": {"a": "2"}})),
            ("configmaps", "replaced", json!({"metadata": meta("5"), "data": {"a": "1"}})),
            ("configmaps", "created", json!({"metadata": meta("6"), "data": {"b": "1"}})),
        ]);
        let found = Differences::between(&before, &after);
        let text = found.text();
        assert!(text.contains("~ configmaps default/changed would be changed"), "{text}");
        assert!(text.contains("-   a: \"1\"\n    +   a: \"2\""), "{text}");
        assert!(text.contains("- configmaps default/replaced would be replaced"), "{text}");
        assert!(text.contains("- configmaps default/deleted would be deleted"), "{text}");
        assert!(text.contains("+ configmaps default/created would be created"), "{text}");
        assert!(!text.contains("default/same"), "{text}");
        assert!(text.ends_with("1 created, 1 changed, 2 deleted or replaced, 0 pods restarted\n"));
        assert!(found.is_destructive());
        assert_eq!(found.json()["changes"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn nothing_changes_if_only_the_server_and_time_differ() {
        let object = |version: &str, time: &str| {
            let status = json!({"conditions": [{"type": "Ready", "lastTransitionTime": time}]});
            let meta = json!({"uid": "1", "resourceVersion": version});
            state(&[("lamps.example.com", "a", json!({"metadata": meta, "status": status}))])
        };
        let found = Differences::between(&object("1", "10:00"), &object("2", "11:00"));
        assert_eq!(found.text(), "nothing would change\n");
        assert!(!found.is_destructive());
    }

    #[test]
    fn the_values_of_a_secret_are_compared_and_not_shown() {
        let secret = |value: &str| {
            state(&[("secrets", "s", json!({"metadata": meta("1"), "data": {"key": value}}))])
        };
        let text = Differences::between(&secret("aHVudGVyMg=="), &secret("b3RoZXI=")).text();
        assert!(text.contains("secrets default/s would be changed"), "{text}");
        assert!(!text.contains("aHVudGVyMg") && !text.contains("b3RoZXI"), "{text}");
    }

    #[test]
    fn pods_that_make_room_for_others_restart() {
        let pod = |uid: &str| {
            let owner = json!([{"kind": "ReplicaSet", "name": "web-1"}]);
            json!({"metadata": {"uid": uid, "ownerReferences": owner}})
        };
        let before = state(&[("pods", "a", pod("1")), ("pods", "b", pod("2"))]);
        let mut ending = pod("1");
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let after =
            state(&[("pods", "a", ending), ("pods", "b", pod("2")), ("pods", "c", pod("3"))]);
        let found = Differences::between(&before, &after);
        assert_eq!(
            found.text(),
            "! pod a of deployment web would restart\n\
             0 created, 0 changed, 0 deleted or replaced, 1 pod restarted\n"
        );
        assert!(!found.is_destructive());
    }
}
