//! Messages: the values that the expressions of mutating policies make.
//!
//! `Object{spec: Object.spec{replicas: 3}}` is a piece of the object, each message named after the
//! path to it; `JSONPatch{op: "add", path: "/spec/x", value: 1}` is one step of a patch.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::types::Type;
use super::value::{List, Map, Val};

/// The name of the type of a step.
pub const STEP: &str = "JSONPatch";
const OBJECT: &str = "Object";

/// A message: its type and its fields.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// The fields that are set.
    pub fields: BTreeMap<Arc<str>, Val<'a>>,
}

/// Returns `true` if messages of a type can be made.
pub fn is_type(name: &str) -> bool {
    let below = name.strip_prefix(OBJECT);
    name == STEP || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the type of a field of a message type, if it has such a field.
pub fn field_type(message: &str, field: &str) -> Option<Type> {
    match (message, field) {
        (STEP, "op" | "path" | "from") => Some(Type::String),
        (STEP, "value") => Some(Type::Dyn),
        (STEP, _) => None,
        _ => Some(Type::Dyn),
    }
}

// === impl Message ===

impl<'a> Message<'a> {
    /// Returns the value of a field; a text of a step that is not set is empty.
    pub fn get(&self, field: &str) -> Option<Val<'a>> {
        let texts = &*self.name == STEP && matches!(field, "op" | "path" | "from");
        self.fields.get(field).cloned().or_else(|| texts.then(|| Val::text("")))
    }

    /// Returns `true` if both are of one type, with equal fields.
    pub fn equals(&self, other: &Self) -> bool {
        let mut names: Vec<&str> =
            self.fields.keys().chain(other.fields.keys()).map(|n| &**n).collect();
        names.dedup();
        let same = |field: &str| match (self.get(field), other.get(field)) {
            (Some(a), Some(b)) => a.equals(&b),
            (None, None) => true,
            _ => false,
        };
        self.name == other.name && names.into_iter().all(same)
    }

    /// Returns the message as JSON, if JSON can say it.
    pub fn to_json(&self) -> Option<Value> {
        let fields =
            self.fields.iter().map(|(name, value)| Some((name.to_string(), value.to_json()?)));
        Some(Value::Object(fields.collect::<Option<_>>()?))
    }

    /// Checks that every message within is named after the path to it.
    ///
    /// # Errors
    /// The misnamed ones, one per line.
    pub fn check_names(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        self.check_fields(&self.name, &mut wrong);
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn check_fields(&self, path: &str, wrong: &mut Vec<String>) {
        if &*self.name != path {
            wrong.push(format!(
                "unexpected type name {:?}, expected {path:?}, which matches field name path from \
                 root Object type",
                self.name
            ));
        }
        for (field, value) in &self.fields {
            check_value(value, &format!("{path}.{field}"), wrong);
        }
    }
}

fn check_value(value: &Val<'_>, path: &str, wrong: &mut Vec<String>) {
    match value {
        Val::Message(message) => message.check_fields(path, wrong),
        Val::List(List::Owned(items)) => {
            items.iter().for_each(|item| check_value(item, path, wrong));
        }
        Val::Map(Map::Owned(entries)) => {
            entries.values().for_each(|(_, value)| check_value(value, path, wrong));
        }
        _ => {}
    }
}
