//! Compares definitions: is a change safe for stored objects and existing clients?
//!
//! `definition` compares what belongs to a whole definition (scope, names, versions, conversion),
//! `version` compares what belongs to one version (served, storage, subresources), and `schema` walks
//! two schemas field by field, with the rules of single keywords in `keyword` and those of conditions
//! in `logic`.
//!
//! A change is breaking if an object that was valid can become invalid or lose a value, if its
//! meaning can change without a write (defaults), or if a request that worked can fail or do something
//! else. It is safe otherwise. Documentation, examples, labels and annotations are not compared.
//!
//! **Invariant:** a keyword that no rule knows is a breaking change if it differs.

use std::fmt;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Map, Value};

mod definition;
mod keyword;
mod logic;
mod schema;
mod version;

/// What a change does to stored objects and existing clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// An object or a client can break.
    Breaking,
    /// Every stored object and every client continues to work.
    Safe,
}

/// One change between two definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The name of the definition, such as `crontabs.example.com`.
    pub definition: String,
    /// The version, or `v1 to v2` for objects that move between versions without conversion; empty
    /// for the whole definition.
    pub version: String,
    /// The path of the field, such as `.spec.ports[*].name`; empty for the version itself.
    pub path: String,
    /// The rule that found the change, such as `maximum` or `required`.
    pub rule: &'static str,
    /// Whether the change is safe.
    pub effect: Effect,
    /// What changed and what follows from it, in one sentence.
    pub message: String,
}

/// Compares definitions, by their names. What is in `old` alone was removed.
///
/// ```
/// use serde_json::json;
/// use windlass_manifests::diff::{self, Effect};
///
/// let definition = |maximum: i64| json!({
///     "metadata": {"name": "lamps.example.com"},
///     "spec": {
///         "group": "example.com", "scope": "Namespaced", "names": {"kind": "Lamp", "plural": "lamps"},
///         "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
///             "type": "object",
///             "properties": {"spec": {"type": "object", "properties": {
///                 "watts": {"type": "integer", "maximum": maximum}}}},
///         }}}],
///     },
/// });
/// assert!(diff::definitions(&[definition(60)], &[definition(60)]).is_empty());
/// let changes = diff::definitions(&[definition(60)], &[definition(40)]);
/// assert_eq!(changes[0].effect, Effect::Breaking);
/// assert_eq!(
///     changes[0].to_string(),
///     "v1 .spec.watts: the maximum is lowered from 60 to 40, so values above 40 are refused"
/// );
/// ```
pub fn definitions(old: &[Value], new: &[Value]) -> Vec<Change> {
    let mut report = Report::default();
    for (old, new) in definition::pairs(old, new) {
        definition::compare(old, new, &mut report);
    }
    report.changes
}

/// Returns how the versions of a definition without conversion differ: objects are written in one and
/// stored in another, so both have to allow the same values.
pub fn unconverted(definition: &Value) -> Vec<Change> {
    let mut report = Report::default();
    definition::unconverted(&Value::Null, definition, &mut report);
    report.changes
}

/// Collects changes.
#[derive(Default)]
struct Report {
    definition: String,
    version: String,
    changes: Vec<Change>,
}

// === impl Report ===

impl Report {
    fn breaking(&mut self, path: &str, rule: &'static str, message: impl fmt::Display) {
        self.add(Effect::Breaking, path, rule, &message);
    }

    fn safe(&mut self, path: &str, rule: &'static str, message: impl fmt::Display) {
        self.add(Effect::Safe, path, rule, &message);
    }

    fn add(&mut self, effect: Effect, path: &str, rule: &'static str, message: &dyn fmt::Display) {
        self.changes.push(Change {
            definition: self.definition.clone(),
            version: self.version.clone(),
            path: path.to_owned(),
            rule,
            effect,
            message: message.to_string(),
        });
    }
}

// === impl Change ===

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match [self.version.as_str(), &self.path].join(" ").trim() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

/// A schema that says nothing.
static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A text of a definition; empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests;
