//! The schema of a custom resource as a tree: what a definition's `openAPIV3Schema` says.
//!
//! One node type serves structural parts and the value validations inside `allOf` and friends.
//!
//! **Invariant:** parsing never fails and never recurses deeper than [`DEPTH_MAX`]; whether the
//! schema is acceptable is checked when the definition is written.

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};
use windlass_text::{format, pattern, work};

use super::rule::Rule;

/// Schemas nested deeper than this are cut off (JSON bodies are limited to 128 levels anyway).
pub const DEPTH_MAX: usize = 256;

/// One node of a schema (`JSONSchemaProps`).
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// `type`; empty when not given.
    pub kind: String,
    /// `format`.
    pub format: String,
    /// `title`.
    pub title: String,
    /// `description`.
    pub description: String,
    /// `nullable`.
    pub nullable: bool,
    /// `default`; a null default counts as none.
    pub default: Option<Value>,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `maxLength`.
    pub max_length: Option<i64>,
    /// `minLength`.
    pub min_length: Option<i64>,
    /// `pattern`.
    pub pattern: String,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `enum`.
    pub allowed: Vec<Value>,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `required`.
    pub required: Vec<String>,
    /// `items`, when it is one schema.
    pub items: Option<Box<Schema>>,
    /// `items`, when it is a list of schemas (never accepted).
    pub items_list: Vec<Schema>,
    /// `allOf`.
    pub all_of: Vec<Schema>,
    /// `oneOf`.
    pub one_of: Vec<Schema>,
    /// `anyOf`.
    pub any_of: Vec<Schema>,
    /// `not`.
    pub not: Option<Box<Schema>>,
    /// `properties`.
    pub properties: BTreeMap<String, Schema>,
    /// `additionalProperties`.
    pub additional: Option<Additional>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: Option<bool>,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<String>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<String>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// How many keywords are given.
    pub size: usize,
    /// Keywords a definition may not use, and what they hold.
    pub forbidden: Forbidden,
    matcher: OnceLock<Option<Regex>>,
    members: OnceLock<Members>,
}

/// The values of an `enum`, found by their hashes.
#[derive(Clone, Debug, Default)]
struct Members {
    wholes: HashSet<i64>,
    floats: HashSet<u64>,
    others: HashSet<Value>,
}

/// `additionalProperties`: a flag, or a schema for the further fields.
#[derive(Clone, Debug, Default)]
pub struct Additional {
    /// Whether further fields are allowed at all.
    pub allows: bool,
    /// What they have to be.
    pub schema: Option<Box<Schema>>,
}

/// Keywords that exist in the type but that no definition may use, or that say nothing here.
#[derive(Clone, Debug, Default)]
pub struct Forbidden {
    /// `id`.
    pub id: String,
    /// `$schema`.
    pub schema: String,
    /// `$ref`.
    pub reference: Option<String>,
    /// `additionalItems` is there.
    pub additional_items: bool,
    /// `patternProperties` is there and not empty.
    pub pattern_properties: bool,
    /// `definitions`.
    pub definitions: BTreeMap<String, Schema>,
    /// `dependencies`, with their schemas if they have one.
    pub dependencies: Option<BTreeMap<String, Option<Schema>>>,
    /// `externalDocs` is there.
    pub external_docs: bool,
    /// `example` is there.
    pub example: bool,
}

// === impl Schema ===

impl Schema {
    /// Reads a schema; what has the wrong JSON type is taken as not given.
    pub fn parse(value: &Value) -> Self {
        Self::parse_at(value, 0)
    }

    fn parse_at(value: &Value, depth: usize) -> Self {
        let Value::Object(map) = value else { return Self::default() };
        if depth > DEPTH_MAX {
            return Self::default();
        }
        let deeper = |v: &Value| Self::parse_at(v, depth + 1);
        let list = |key: &str| -> Vec<Self> {
            map.get(key).and_then(Value::as_array).into_iter().flatten().map(deeper).collect()
        };
        let items = map.get("items");
        Self {
            kind: text(map, "type"),
            format: text(map, "format"),
            title: text(map, "title"),
            description: text(map, "description"),
            nullable: flag(map, "nullable"),
            default: map.get("default").filter(|v| !v.is_null()).cloned(),
            maximum: map.get("maximum").and_then(Value::as_f64),
            exclusive_maximum: flag(map, "exclusiveMaximum"),
            minimum: map.get("minimum").and_then(Value::as_f64),
            exclusive_minimum: flag(map, "exclusiveMinimum"),
            multiple_of: map.get("multipleOf").and_then(Value::as_f64),
            max_length: map.get("maxLength").and_then(Value::as_i64),
            min_length: map.get("minLength").and_then(Value::as_i64),
            pattern: text(map, "pattern"),
            max_items: map.get("maxItems").and_then(Value::as_i64),
            min_items: map.get("minItems").and_then(Value::as_i64),
            unique_items: flag(map, "uniqueItems"),
            allowed: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            max_properties: map.get("maxProperties").and_then(Value::as_i64),
            min_properties: map.get("minProperties").and_then(Value::as_i64),
            required: texts(map, "required"),
            items: items.filter(|v| v.is_object()).map(|v| Box::new(deeper(v))),
            items_list: list("items"),
            all_of: list("allOf"),
            one_of: list("oneOf"),
            any_of: list("anyOf"),
            not: map.get("not").filter(|v| v.is_object()).map(|v| Box::new(deeper(v))),
            properties: schemas(map, "properties", &deeper),
            additional: map.get("additionalProperties").and_then(|v| match v {
                Value::Bool(allows) => Some(Additional { allows: *allows, schema: None }),
                Value::Object(_) => {
                    Some(Additional { allows: true, schema: Some(Box::new(deeper(v))) })
                }
                _ => None,
            }),
            preserve_unknown: map
                .get("x-kubernetes-preserve-unknown-fields")
                .and_then(Value::as_bool),
            embedded: flag(map, "x-kubernetes-embedded-resource"),
            int_or_string: flag(map, "x-kubernetes-int-or-string"),
            list_type: opt_text(map, "x-kubernetes-list-type"),
            list_map_keys: texts(map, "x-kubernetes-list-map-keys"),
            map_type: opt_text(map, "x-kubernetes-map-type"),
            rules: map
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(Rule::parse)
                .collect(),
            size: map.values().filter(|v| !v.is_null()).count(),
            forbidden: Forbidden::parse(map, &deeper),
            matcher: OnceLock::new(),
            members: OnceLock::new(),
        }
    }

    /// Returns `true` if unknown fields are kept here.
    pub fn preserves(&self) -> bool {
        self.preserve_unknown == Some(true)
    }

    /// Returns the schema of a field: declared, or that of all further fields.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    /// Returns the schema of further fields.
    pub fn additional_schema(&self) -> Option<&Self> {
        self.additional.as_ref().and_then(|a| a.schema.as_deref())
    }

    /// Returns `true` if the pattern matches; one that does not compile matches nothing.
    pub fn pattern_matches(&self, text: &str) -> bool {
        self.matcher
            .get_or_init(|| pattern::compile(&self.pattern).ok())
            .as_ref()
            .is_some_and(|regex| regex.is_match(text))
    }

    /// Returns `true` if the value is one of `enum`. Numbers are compared as Go compares them after
    /// a conversion to the type of the listed one; null equals nothing.
    pub fn allows(&self, value: &Value) -> bool {
        self.members.get_or_init(|| Members::of(&self.allowed)).contains(value)
    }

    /// Returns the format if it is one that the server checks for the type, and an empty text
    /// otherwise.
    pub fn supported_format(&self) -> &str {
        let kind = if self.int_or_string { "" } else { &self.kind };
        match format::is_supported(kind, &self.format) {
            true => &self.format,
            false => "",
        }
    }

    /// Calls `visit` for this node and every node below it, in a fixed order.
    pub fn walk(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        let boxed = [&self.items, &self.not].into_iter().filter_map(Option::as_deref);
        let lists = [&self.items_list, &self.all_of, &self.any_of, &self.one_of];
        let maps = self.properties.values().chain(self.forbidden.definitions.values());
        for node in
            boxed.chain(lists.into_iter().flatten()).chain(maps).chain(self.additional_schema())
        {
            node.walk(visit);
        }
    }

    /// Returns `true` if any node satisfies the predicate.
    pub fn any(&self, predicate: &dyn Fn(&Self) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |node| found = found || predicate(node));
        found
    }
}

// === impl Members ===

impl Members {
    fn of(allowed: &[Value]) -> Self {
        let mut members = Self::default();
        for value in allowed {
            match value {
                Value::Null => {}
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(whole), _) => drop(members.wholes.insert(whole)),
                    (None, Some(float)) => drop(members.floats.insert(bits(float))),
                    (None, None) => {}
                },
                other => drop(members.others.insert(other.clone())),
            }
        }
        members
    }

    fn contains(&self, value: &Value) -> bool {
        work::spent(1);
        match value {
            Value::Number(number) => {
                let float = number.as_f64();
                let whole = number.as_i64().or(float.map(|float| float as i64));
                whole.is_some_and(|whole| self.wholes.contains(&whole))
                    || float.is_some_and(|float| self.floats.contains(&bits(float)))
            }
            other => self.others.contains(other),
        }
    }
}

/// The bits of a number; both zeros have equal bits.
fn bits(float: f64) -> u64 {
    (float + 0.0).to_bits()
}

impl Forbidden {
    fn parse(map: &Map<String, Value>, deeper: &dyn Fn(&Value) -> Schema) -> Self {
        let filled =
            |key: &str| map.get(key).and_then(Value::as_object).is_some_and(|m| !m.is_empty());
        Self {
            id: text(map, "id"),
            schema: text(map, "$schema"),
            reference: opt_text(map, "$ref"),
            additional_items: map.get("additionalItems").is_some_and(|v| !v.is_null()),
            pattern_properties: filled("patternProperties"),
            definitions: schemas(map, "definitions", deeper),
            dependencies: map.get("dependencies").and_then(Value::as_object).map(|deps| {
                let one = |v: &Value| v.is_object().then(|| deeper(v));
                deps.iter().map(|(k, v)| (k.clone(), one(v))).collect()
            }),
            external_docs: map.get("externalDocs").is_some_and(Value::is_object),
            example: map.get("example").is_some_and(|v| !v.is_null()),
        }
    }
}

fn schemas(
    map: &Map<String, Value>,
    key: &str,
    deeper: &dyn Fn(&Value) -> Schema,
) -> BTreeMap<String, Schema> {
    let fields = map.get(key).and_then(Value::as_object).into_iter().flatten();
    fields.map(|(name, v)| (name.clone(), deeper(v))).collect()
}

fn text(map: &Map<String, Value>, key: &str) -> String {
    opt_text(map, key).unwrap_or_default()
}

fn opt_text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn texts(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or_default()
}
