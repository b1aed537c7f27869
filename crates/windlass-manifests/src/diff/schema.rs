//! Two schemas, field by field.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{EMPTY, Report, keyword, texts};
use crate::schema::{INT_OR_STRING, PRESERVE};

/// The keyword of an object of another kind.
pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";

type Schema = Map<String, Value>;

/// Keywords without effect on objects and clients.
const DOCUMENTATION: [&str; 5] = ["description", "title", "example", "externalDocs", "$schema"];

/// Keywords that have rules of their own.
const KNOWN: [&str; 32] = [
    "type",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "nullable",
    "default",
    "enum",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    EMBEDDED,
    PRESERVE,
    INT_OR_STRING,
];

/// What a schema describes. Objects have some fields whether their schema names them or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A whole object of the kind.
    Root,
    /// An object of another kind within it.
    Embedded,
    /// The metadata of one of these.
    Metadata,
    /// Everything else.
    Field,
}

// === impl Place ===

impl Place {
    /// The schema of a field that every object has at this place.
    fn implied(self, name: &str) -> Option<&'static Schema> {
        static TEXT: LazyLock<Schema> = LazyLock::new(|| of_type("string"));
        static OBJECT: LazyLock<Schema> = LazyLock::new(|| of_type("object"));
        match (self, name) {
            (Self::Root | Self::Embedded, "apiVersion" | "kind")
            | (Self::Metadata, "name" | "generateName") => Some(&TEXT),
            (Self::Root | Self::Embedded, "metadata") => Some(&OBJECT),
            _ => None,
        }
    }

    /// Returns `true` if no object is without this field. The name of an object is generated before
    /// its schema is checked; an embedded object need not have one.
    fn always_has(self, path: &str, name: &str) -> bool {
        match self {
            Self::Root => self.implied(name).is_some(),
            Self::Embedded => matches!(name, "apiVersion" | "kind"),
            Self::Metadata => name == "name" && path == ".metadata",
            Self::Field => false,
        }
    }

    /// What the schema of a field describes.
    fn below(self, name: &str, old: &Schema, new: &Schema) -> Self {
        if is_set(old, EMBEDDED) && is_set(new, EMBEDDED) {
            return Self::Embedded;
        }
        match self {
            Self::Root | Self::Embedded if name == "metadata" => Self::Metadata,
            _ => Self::Field,
        }
    }
}

fn of_type(kind: &str) -> Schema {
    Map::from_iter([("type".to_owned(), kind.into())])
}

pub(super) fn compare(old: &Schema, new: &Schema, report: &mut Report) {
    node(old, new, "", Place::Root, report);
}

fn node(old: &Schema, new: &Schema, path: &str, place: Place, report: &mut Report) {
    let (before, after) = (kind(old), kind(new));
    if before != after {
        let effect = match (before, after) {
            ("integer", "number")
            | (_, "anything")
            | ("integer" | "string", "integer or string") => {
                "stored values still fit, but clients may read what they do not expect"
            }
            _ => "stored values and clients no longer fit",
        };
        let message = format!("the type changes from {before} to {after}: {effect}");
        return report.breaking(path, "type", message);
    }
    keyword::compare(old, new, path, report);
    preserve(old, new, path, report);
    required(old, new, path, place, report);
    properties(old, new, path, place, report);
    if let (Some(old), Some(new)) = (child(old, "items"), child(new, "items")) {
        let place = Place::Field.below("", old, new);
        node(old, new, &format!("{path}[*]"), place, report);
    }
    additional(old, new, path, report);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let known = KNOWN.contains(&name.as_str()) || DOCUMENTATION.contains(&name.as_str());
        if !known && old.get(name) != new.get(name) {
            let message = format!("the keyword {name} changes, and no rule knows its effect");
            report.breaking(path, "unknown", message);
        }
    }
}

/// The type of a schema, with names for schemas that have none.
fn kind(schema: &Schema) -> &str {
    match schema.get("type").and_then(Value::as_str) {
        Some(kind) if !kind.is_empty() => kind,
        _ if is_set(schema, INT_OR_STRING) => "integer or string",
        _ => "anything",
    }
}

fn is_set(schema: &Schema, keyword: &str) -> bool {
    schema.get(keyword).is_some_and(|value| value == true)
}

/// Returns `true` if objects keep fields that `properties` does not name.
pub(super) fn keeps_unknown(schema: &Schema) -> bool {
    is_set(schema, PRESERVE) || rest(schema).is_some()
}

fn child<'a>(schema: &'a Schema, keyword: &str) -> Option<&'a Schema> {
    schema.get(keyword)?.as_object()
}

fn preserve(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    match (is_set(old, PRESERVE), is_set(new, PRESERVE)) {
        (true, false) => {
            let why =
                "unknown fields are no longer preserved, so they are removed from stored objects";
            report.breaking(path, "preserveUnknownFields", why);
        }
        (false, true) => report.safe(path, "preserveUnknownFields", "unknown fields are preserved"),
        _ => {}
    }
}

fn required(old: &Schema, new: &Schema, path: &str, place: Place, report: &mut Report) {
    let names = |schema: &Schema| -> BTreeSet<String> {
        let list = schema.get("required").unwrap_or(&Value::Null);
        texts(list).into_iter().map(str::to_owned).collect()
    };
    let (mut before, mut after) = (names(old), names(new));
    for names in [&mut before, &mut after] {
        names.retain(|name| !place.always_has(path, name));
    }
    for name in after.difference(&before) {
        let path = format!("{path}.{name}");
        let property = child(new, "properties").and_then(|all| child(all, name));
        if property.is_some_and(|property| property.contains_key("default")) {
            report.safe(&path, "required", "the field becomes required, and its default is used");
        } else {
            let why =
                "the field becomes required and has no default, so objects without it are refused";
            report.breaking(&path, "required", why);
        }
    }
    for name in before.difference(&after) {
        report.safe(&format!("{path}.{name}"), "required", "the field becomes optional");
    }
}

fn properties(old: &Schema, new: &Schema, path: &str, place: Place, report: &mut Report) {
    let before = child(old, "properties").unwrap_or(&EMPTY);
    let after = child(new, "properties").unwrap_or(&EMPTY);
    for (name, value) in before {
        let path = format!("{path}.{name}");
        let Some(value) = value.as_object() else { continue };
        let other = after.get(name).and_then(Value::as_object).or_else(|| place.implied(name));
        if let Some(other) = other.or_else(|| rest(new)) {
            node(value, other, &path, place.below(name, value, other), report);
        } else if is_set(new, PRESERVE) {
            let why = "the field is no longer described, and its values are kept";
            report.safe(&path, "field", why);
            keyword::default(value, &EMPTY, &path, report);
        } else {
            let why = "the field is removed, so its stored values are dropped and clients that use it fail";
            report.breaking(&path, "field", why);
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        let path = format!("{path}.{name}");
        // Objects may have any value there already.
        let Some(value) = after[name].as_object() else { continue };
        if let Some(other) = place.implied(name).or_else(|| rest(old)) {
            node(other, value, &path, place.below(name, other, value), report);
        } else if is_set(old, PRESERVE) {
            let why =
                "the field gets a schema where any value was allowed, so stored values may not fit";
            report.breaking(&path, "field", why);
        } else {
            report.safe(&path, "field", "the field is new");
        }
    }
}

/// The schema of fields that `properties` does not name. `true` allows everything.
fn rest(schema: &Schema) -> Option<&Schema> {
    static ANYTHING: LazyLock<Schema> =
        LazyLock::new(|| Map::from_iter([(PRESERVE.to_owned(), true.into())]));
    match schema.get("additionalProperties")? {
        Value::Bool(true) => Some(&ANYTHING),
        Value::Object(schema) => Some(schema),
        _ => None,
    }
}

fn additional(old: &Schema, new: &Schema, path: &str, report: &mut Report) {
    match (rest(old), rest(new)) {
        (Some(old), Some(new)) => {
            let place = Place::Field.below("", old, new);
            node(old, new, &format!("{path}.*"), place, report);
        }
        (Some(_), None) if is_set(new, PRESERVE) => {
            report.safe(path, "additionalProperties", "values of the map are no longer checked");
        }
        (Some(_), None) => {
            let why = "the map takes no more keys of its own, so stored values are dropped";
            report.breaking(path, "additionalProperties", why);
        }
        (None, Some(_)) if is_set(old, PRESERVE) => {
            let why =
                "values get a schema where any value was allowed, so stored values may not fit";
            report.breaking(path, "additionalProperties", why);
        }
        (None, Some(_)) => report.safe(path, "additionalProperties", "further keys are allowed"),
        (None, None) => {}
    }
}
