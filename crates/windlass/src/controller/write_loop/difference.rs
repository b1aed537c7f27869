//! What a write changes: the paths of the fields, and a hash to compare one change with another.
//!
//! All timestamps are equal here, because they would make every write a new one. Values only enter
//! hashes, as they may be secrets; paths consist of field names.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::apply::{covers, is_empty};

/// Most paths that are named.
const PATHS_MAX: usize = 8;
/// Most characters of a path that are shown.
const PATH_MAX: usize = 120;
/// Most pairs of items that are compared to find those of one list in another.
const PAIRS_MAX: usize = 10_000;
/// The metadata that only the server sets.
const SERVER_SIDE: [&str; 8] = [
    "resourceVersion",
    "managedFields",
    "generation",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// The difference between what is there and what is wanted.
#[derive(Debug, Default)]
pub(super) struct Difference {
    hasher: DefaultHasher,
    count: usize,
    paths: Vec<String>,
    /// Something else than a timestamp differs.
    lasting: bool,
    /// Something below `metadata` differs.
    metadata: bool,
    /// Something below `status` differs.
    status: bool,
}

// === impl Difference ===

impl Difference {
    /// Returns what `wanted` has and `there` lacks; with `whole` also what `there` has beyond it.
    pub(super) fn between(there: &Value, wanted: &Value, whole: bool) -> Self {
        let mut difference = Self::default();
        difference.compare(&mut String::new(), there, wanted, whole);
        difference
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `true` if nothing but timestamps differs.
    pub(super) fn only_times(&self) -> bool {
        self.count > 0 && !self.lasting
    }

    pub(super) fn touches_metadata(&self) -> bool {
        self.metadata
    }

    pub(super) fn touches_status(&self) -> bool {
        self.status
    }

    pub(super) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Returns the paths that differ, or the first of them.
    pub(super) fn paths(&self) -> String {
        let more = self.count - self.paths.len();
        let mut paths = self.paths.join(", ");
        if more > 0 {
            // Writing into a String cannot fail.
            let _ = write!(paths, " and {more} more");
        }
        paths
    }

    fn compare(&mut self, path: &mut String, there: &Value, wanted: &Value, whole: bool) {
        match (there, wanted) {
            (Value::Object(there), Value::Object(wanted)) => {
                self.members(path, there, wanted, whole);
            }
            (Value::Array(there), Value::Array(wanted)) if there.len() == wanted.len() => {
                for (at, (there, wanted)) in there.iter().zip(wanted).enumerate() {
                    let length = path.len();
                    let _ = write!(path, "[{at}]");
                    self.compare(path, there, wanted, whole);
                    path.truncate(length);
                }
            }
            // Others may have items in the list as well.
            (Value::Array(there), Value::Array(wanted)) if !whole && holds(there, wanted) => {}
            (there, wanted) if there == wanted || is_empty(there) && is_empty(wanted) => {}
            (_, wanted) => self.differs(path, wanted),
        }
    }

    fn members(
        &mut self,
        path: &mut String,
        there: &Map<String, Value>,
        wanted: &Map<String, Value>,
        whole: bool,
    ) {
        let gone = there.keys().filter(|name| whole && !wanted.contains_key(*name));
        for name in wanted.keys().chain(gone) {
            let length = path.len();
            if name.contains(['.', '/']) {
                let _ = write!(path, "[{name}]");
            } else {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(name);
            }
            let member = |of: &Map<String, Value>| of.get(name).cloned().unwrap_or_default();
            match (there.get(name), wanted.get(name)) {
                (Some(there), Some(wanted)) => self.compare(path, there, wanted, whole),
                _ => self.compare(path, &member(there), &member(wanted), whole),
            }
            path.truncate(length);
        }
    }

    fn differs(&mut self, path: &str, wanted: &Value) {
        self.count += 1;
        path.hash(&mut self.hasher);
        digest_into(wanted, &mut self.hasher);
        self.lasting |= !is_time(wanted);
        self.metadata |= path.starts_with("metadata");
        self.status |= path.starts_with("status");
        if self.paths.len() < PATHS_MAX {
            self.paths.push(path.chars().take(PATH_MAX).collect());
        }
    }
}

/// Returns the part of an object that a write is about, without what only the server sets.
pub(super) fn part_of(mut object: Value, part: &str) -> Value {
    if part == "status" {
        return json!({"status": object["status"].take()});
    }
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            SERVER_SIDE.iter().for_each(|name| drop(metadata.remove(*name)));
        }
    }
    object
}

/// Returns a hash of a value in which all timestamps are equal.
pub(super) fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    digest_into(value, &mut hasher);
    hasher.finish()
}

fn digest_into(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(members) => {
            // Null means absent.
            let members = members.iter().filter(|(_, value)| !value.is_null());
            for (name, value) in members {
                name.hash(hasher);
                digest_into(value, hasher);
            }
            1_u8.hash(hasher);
        }
        Value::Array(items) => {
            items.iter().for_each(|item| digest_into(item, hasher));
            2_u8.hash(hasher);
        }
        value if is_time(value) => 3_u8.hash(hasher),
        value => value.hash(hasher),
    }
}

/// Returns `true` if each item of `wanted` is among those of `there`.
fn holds(there: &[Value], wanted: &[Value]) -> bool {
    there.len() * wanted.len() <= PAIRS_MAX
        && wanted.iter().all(|item| there.iter().any(|known| covers(known, item)))
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().filter(|text| (20..=40).contains(&text.len()));
    text.is_some_and(|text| text.parse::<Timestamp>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_paths_and_never_values() {
        let there = json!({"data": {"password": "old", "same": 1}, "list": [{"a": 1}]});
        let wanted = json!({
            "data": {"password": "secret", "same": 1},
            "list": [{"a": 2}],
            "metadata": {"annotations": {"example.com/at": "x"}},
        });
        let difference = Difference::between(&there, &wanted, false);
        assert_eq!(difference.paths(), "data.password, list[0].a, metadata");
        assert!(
            difference.touches_metadata()
                && !difference.touches_status()
                && !difference.only_times()
        );
        assert!(!format!("{difference:?}").contains("secret"));
    }

    #[test]
    fn what_others_have_beyond_is_a_difference_only_to_a_whole_object() {
        let there = json!({"spec": {"a": 1, "b": 2}, "items": [{"n": 1, "d": 0}, {"n": 2}]});
        let wanted = json!({"spec": {"a": 1, "c": {}}, "items": [{"n": 1}], "gone": null});
        assert!(Difference::between(&there, &wanted, false).is_empty());
        assert_eq!(Difference::between(&there, &wanted, true).paths(), "items, spec.b");
    }

    #[test]
    fn timestamps_are_alike_and_other_texts_are_not() {
        let at = |time: &str, phase: &str| json!({"status": {"at": time, "phase": phase}});
        let (one, two) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5+02:00");
        assert_eq!(digest(&at(one, "a")), digest(&at(two, "a")));
        assert_ne!(digest(&at(one, "a")), digest(&at(one, "b")));
        assert!(Difference::between(&at(one, "a"), &at(two, "a"), true).only_times());
        assert!(!Difference::between(&at(one, "a"), &at(two, "b"), true).only_times());
    }

    #[test]
    fn only_the_first_paths_are_named() {
        let wanted: Map<String, Value> =
            (0..12).map(|at| (format!("f{at:02}"), json!(at))).collect();
        let difference = Difference::between(&json!({}), &Value::Object(wanted), false);
        assert!(difference.paths().ends_with("f07 and 4 more"), "{}", difference.paths());
    }
}
