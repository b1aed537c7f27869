//! Schemas as Rust types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::item::{Body, Field, Item, Variant, literal};
use super::name::{self, Names};
use super::rules::{self, Reader, Shape};
use super::{Lost, doc, known};

/// How deep schemas may be nested.
const DEPTH_MAX: usize = 64;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// The pattern of quantities in definitions.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
const META: &str = "k8s_openapi::apimachinery::pkg::apis::meta::v1";

/// The types of one version of a kind.
pub struct Types<'a> {
    /// The items in the order in which they are printed; those that others equal are empty.
    items: Vec<Option<Item>>,
    /// The names of items, by their documentation and body.
    known: BTreeMap<String, String>,
    pub names: Names,
    /// What the code imports.
    pub imports: BTreeSet<String>,
    pub lost: &'a mut Lost,
    /// The version, for messages.
    pub version: String,
}

/// A place in a definition.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The name that a type at this place would have.
    pub name: &'a str,
    /// The path of the field.
    pub path: &'a str,
    /// How deep it is.
    pub depth: usize,
    /// Whether it is an item of a list or a value of a map.
    pub is_element: bool,
}

/// A Rust type with the rules that complete it.
pub struct Typed {
    pub kind: String,
    pub rules: Vec<String>,
    /// How a default is written.
    default: DefaultForm,
    /// Whether a floating-point number is inside.
    has_float: bool,
}

enum DefaultForm {
    /// As a literal, for a field without `Option`.
    Literal,
    /// As a variant of the enum of this name.
    Variant(String, Vec<Variant>),
    /// As JSON, for a field with `Option`.
    Json,
}

// === impl Types ===

impl<'a> Types<'a> {
    /// Creates a set without types.
    pub fn new(version: &str, lost: &'a mut Lost) -> Self {
        let mut names = Names::default();
        name::RESERVED.iter().for_each(|reserved| drop(names.take(reserved)));
        Types {
            items: Vec::new(),
            known: BTreeMap::new(),
            names,
            imports: BTreeSet::new(),
            lost,
            version: version.to_owned(),
        }
    }

    /// Returns all items.
    pub fn into_items(self) -> (Vec<Item>, BTreeSet<String>) {
        (self.items.into_iter().flatten().collect(), self.imports)
    }

    /// Records a difference.
    pub fn lose(&mut self, path: &str, what: impl std::fmt::Display) {
        let path = format!("{} {path}", self.version);
        self.lost.add(path.trim_end(), what);
    }

    fn import(&mut self, module: &str, name: &str) -> String {
        self.imports.insert(format!("{module}::{name}"));
        name.to_owned()
    }

    fn rules(
        &mut self,
        schema: &Map<String, Value>,
        shape: Shape,
        said: &[&str],
        path: &str,
    ) -> Vec<String> {
        let path = format!("{} {path}", self.version);
        Reader { schema, shape, said, path: &path, lost: self.lost }.read()
    }

    /// Returns the Rust type of a schema.
    pub fn typed(
        &mut self,
        schema: &Map<String, Value>,
        place: Place<'_>,
    ) -> Result<Typed, String> {
        if place.depth > DEPTH_MAX {
            return Err(format!("{} is nested too deeply", place.path));
        }
        if is_set(schema, INT_OR_STRING) {
            return Ok(self.int_or_string(schema, place));
        }
        match kind(schema) {
            "string" => Ok(self.string(schema, place)),
            "integer" => Ok(self.integer(schema, place)),
            "number" => {
                let rules = self.rules(schema, Shape::Number, &[], place.path);
                Ok(Typed { has_float: true, ..Typed::literal("f64", rules) })
            }
            "boolean" => {
                let rules = self.rules(schema, Shape::Boolean, &[], place.path);
                Ok(Typed::literal("bool", rules))
            }
            "array" => self.array(schema, place),
            "object" => self.object(schema, place),
            _ => {
                if !is_set(schema, PRESERVE) {
                    self.lose(place.path, "a value of any type is described without `type`");
                }
                let value = self.import("k8s_openapi::serde_json", "Value");
                let said = [PRESERVE, "properties", "items"];
                Ok(Typed::json(value, self.rules(schema, Shape::Any, &said, place.path)))
            }
        }
    }

    fn int_or_string(&mut self, schema: &Map<String, Value>, place: Place<'_>) -> Typed {
        let both = json!([{ "type": "integer" }, { "type": "string" }]);
        let described = schema.get("anyOf") == Some(&both);
        let pattern = schema.get("pattern").and_then(Value::as_str);
        if described && pattern == Some(QUANTITY) {
            let quantity = self.import("k8s_openapi::apimachinery::pkg::api::resource", "Quantity");
            let rules = self.rules(schema, Shape::IntOrString, &["anyOf", "pattern"], place.path);
            return Typed::json(quantity, rules);
        }
        let kind = self.import("k8s_openapi::apimachinery::pkg::util::intstr", "IntOrString");
        let said: &[&str] = if described { &["anyOf"] } else { &[] };
        let mut rules = self.rules(schema, Shape::IntOrString, said, place.path);
        if !described && place.is_element {
            self.lose(place.path, "`anyOf` is added to `x-kubernetes-int-or-string`");
        } else if !described {
            rules.splice(0..0, ["schemaless".into(), "int_or_string".into()]);
        }
        Typed::json(kind, rules)
    }

    fn string(&mut self, schema: &Map<String, Value>, place: Place<'_>) -> Typed {
        let narrowed = ["pattern", "minLength", "maxLength", "enum"];
        let is_narrowed = narrowed.iter().any(|keyword| schema.contains_key(*keyword));
        match schema.get("format").and_then(Value::as_str) {
            Some("date-time") if !schema.contains_key("enum") => {
                let time = self.import(META, "Time");
                return Typed::json(
                    time,
                    self.rules(schema, Shape::String, &["format"], place.path),
                );
            }
            Some("byte") if !is_narrowed && !place.is_element => {
                let rules = self.rules(schema, Shape::String, &["format"], place.path);
                return Typed::json("Vec<u8>".into(), rules);
            }
            Some("byte") if !is_narrowed => {
                let bytes = self.import("manifests::schema", "Bytes");
                return Typed::json(
                    bytes,
                    self.rules(schema, Shape::String, &["format"], place.path),
                );
            }
            _ => {}
        }
        let values = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        let values: Option<Vec<&str>> =
            values.and_then(|values| values.iter().map(Value::as_str).collect());
        let distinct = |values: &Vec<&str>| {
            !values.is_empty() && values.iter().collect::<BTreeSet<_>>().len() == values.len()
        };
        let Some(values) = values.filter(distinct) else {
            let rules = self.rules(schema, Shape::String, &[], place.path);
            return Typed::literal("String", rules);
        };
        let rules = self.rules(schema, Shape::String, &["enum"], place.path);
        let mut names = Names::default();
        let variant = |value: &&str| Variant {
            name: name::variant(value, &mut names),
            value: (*value).to_owned(),
        };
        let variants: Vec<Variant> = values.iter().map(variant).collect();
        let copies =
            variants.iter().map(|v| Variant { name: v.name.clone(), value: v.value.clone() });
        let copies = copies.collect();
        let attributes = vec!["#[k8s]".into(), "#[derive(Copy, PartialEq, Eq)]".into()];
        let slot = self.reserve();
        let name = self.add(slot, place.name, Vec::new(), attributes, Body::Enum(variants));
        Typed {
            kind: name.clone(),
            rules,
            default: DefaultForm::Variant(name, copies),
            has_float: false,
        }
    }

    fn integer(&mut self, schema: &Map<String, Value>, place: Place<'_>) -> Typed {
        let mut rules = self.rules(schema, Shape::Integer, &["format"], place.path);
        let kind = match schema.get("format").and_then(Value::as_str) {
            Some("int32") => "i32",
            Some("int64") => "i64",
            Some(format) if !format.is_empty() => {
                rules.insert(0, format!("format = {}", literal(format)));
                "i64"
            }
            _ => {
                rules.insert(0, "format = none".into());
                "i64"
            }
        };
        Typed::literal(kind, rules)
    }

    fn array(&mut self, schema: &Map<String, Value>, place: Place<'_>) -> Result<Typed, String> {
        let mut rules = self.rules(schema, Shape::List, &["items"], place.path);
        let Some(Value::Object(items)) = schema.get("items") else {
            self.lose(place.path, "a list without `items` is a list of values of any type");
            let value = self.import("k8s_openapi::serde_json", "Value");
            return Ok(Typed::json(format!("Vec<{value}>"), rules));
        };
        let path = format!("{}[]", place.path);
        let inner = self.element(
            items,
            Place { path: &path, is_element: true, depth: place.depth + 1, ..place },
        )?;
        if !inner.rules.is_empty() {
            rules.push(format!("items({})", inner.rules.join(", ")));
        }
        let kind = format!("Vec<{}>", inner.kind);
        Ok(Typed { has_float: inner.has_float, ..Typed::json(kind, rules) })
    }

    /// The type of items or values, with the rules that belong into `items(..)` or `values(..)`.
    fn element(&mut self, schema: &Map<String, Value>, place: Place<'_>) -> Result<Typed, String> {
        let mut typed = self.typed(schema, place)?;
        if is_set(schema, "nullable") {
            typed.kind = format!("Option<{}>", typed.kind);
            typed.rules.insert(0, "nullable".into());
        }
        if schema.contains_key("default") {
            self.lose(place.path, "the default of an item or value has no attribute");
        }
        let described = schema.get("description").and_then(Value::as_str);
        // The comment of a struct of ours is its description.
        let is_struct = self.is_struct(schema);
        match described {
            Some(text) if !is_struct => typed.rules.push(format!("doc = {}", literal(text))),
            None if self.has_own_doc(schema) => typed.rules.push("doc = \"\"".into()),
            _ => {}
        }
        Ok(typed)
    }

    /// Returns `true` if the schema becomes a struct of the generated code.
    fn is_struct(&self, schema: &Map<String, Value>) -> bool {
        kind(schema) == "object"
            && !is_set(schema, INT_OR_STRING)
            && !schema.get("additionalProperties").is_some_and(|values| *values != false)
            && !is_raw(schema)
            && known::find(schema).is_none()
    }

    /// Returns `true` if the type of Kubernetes for the schema brings a description.
    fn has_own_doc(&self, schema: &Map<String, Value>) -> bool {
        kind(schema) == "object" && known::find(schema).is_some()
    }

    fn object(&mut self, schema: &Map<String, Value>, place: Place<'_>) -> Result<Typed, String> {
        match schema.get("additionalProperties") {
            Some(Value::Object(values)) => return self.map(schema, values, place),
            Some(Value::Bool(true)) => {
                self.lose(place.path, "`additionalProperties: true` is written as a schema");
                self.imports.insert("std::collections::BTreeMap".into());
                let value = self.import("k8s_openapi::serde_json", "Value");
                let rules = self.rules(schema, Shape::Object, &[], place.path);
                return Ok(Typed::json(format!("BTreeMap<String, {value}>"), rules));
            }
            Some(_) => self.lose(place.path, "`additionalProperties: false` is left out"),
            None => {}
        }
        if is_raw(schema) {
            let raw = self.import("k8s_openapi::apimachinery::pkg::runtime", "RawExtension");
            let rules = self.rules(schema, Shape::Object, &[PRESERVE], place.path);
            return Ok(Typed::json(raw, rules));
        }
        if let Some(known) = known::find(schema) {
            let kind = self.import(known.module, known.name);
            let rules = self.rules(schema, Shape::Object, &["x-kubernetes-map-type"], place.path);
            return Ok(Typed::json(kind, rules));
        }
        let said = [PRESERVE, "minProperties", "maxProperties"];
        let rules = self.rules(schema, Shape::Object, &said, place.path);
        let description =
            schema.get("description").and_then(Value::as_str).filter(|_| place.is_element);
        let attributes = vec![format!("#[k8s{}]", field_counts(schema))];
        let name = self.structure(schema, place, description, attributes, &[])?;
        Ok(Typed::json(name, rules))
    }

    fn map(
        &mut self,
        schema: &Map<String, Value>,
        values: &Map<String, Value>,
        place: Place<'_>,
    ) -> Result<Typed, String> {
        if schema.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty()) {
            self.lose(place.path, "`properties` beside `additionalProperties` are left out");
        }
        let mut rules = self.rules(schema, Shape::Object, &[], place.path);
        let path = format!("{}{{}}", place.path);
        let inner = self.element(
            values,
            Place { path: &path, is_element: true, depth: place.depth + 1, ..place },
        )?;
        if !inner.rules.is_empty() {
            rules.push(format!("values({})", inner.rules.join(", ")));
        }
        self.imports.insert("std::collections::BTreeMap".into());
        let kind = format!("BTreeMap<String, {}>", inner.kind);
        Ok(Typed { has_float: inner.has_float, ..Typed::json(kind, rules) })
    }

    /// Adds the struct of an object, and returns its name.
    pub fn structure(
        &mut self,
        schema: &Map<String, Value>,
        place: Place<'_>,
        description: Option<&str>,
        mut attributes: Vec<String>,
        without: &[&str],
    ) -> Result<String, String> {
        let slot = self.reserve();
        let mut fields = Vec::new();
        let mut names = Names::default();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = strings(schema.get("required"));
        for (property, value) in properties {
            let Value::Object(value) = value else { continue };
            if without.contains(&property.as_str()) {
                continue;
            }
            let embedded = is_set(schema, EMBEDDED) && property == "metadata";
            let is_required = required.contains(&property.as_str());
            fields.push(self.field(property, value, is_required, embedded, place, &mut names)?);
        }
        for name in required {
            if !properties.contains_key(name) {
                self.lose(place.path, format_args!("`{name}` is required, but not described"));
            }
        }
        if is_set(schema, PRESERVE) {
            self.imports.insert("std::collections::BTreeMap".into());
            let value = self.import("k8s_openapi::serde_json", "Value");
            fields.push(Field {
                doc: vec!["The fields that the definition does not describe.".into()],
                rules: Vec::new(),
                serde: vec!["flatten".into()],
                name: names.take("rest"),
                kind: format!("BTreeMap<String, {value}>"),
            });
        }
        let is_empty = |field: &Field| {
            field.kind.starts_with("Option<") || field.serde.iter().any(|s| s == "flatten")
        };
        if fields.iter().all(is_empty) {
            attributes.push("#[derive(Default)]".into());
        }
        let (lines, exact) = doc::comment(description.unwrap_or_default());
        if let (Some(description), false) = (description, exact) {
            let counts = field_counts(schema);
            let more = counts.strip_prefix('(').map_or(")".into(), |rest| format!(", {rest}"));
            attributes[0] = format!("#[k8s(doc = {}{more}]", literal(description));
        }
        Ok(self.add(slot, place.name, lines, attributes, Body::Struct(fields)))
    }

    fn field(
        &mut self,
        property: &str,
        schema: &Map<String, Value>,
        required: bool,
        is_metadata: bool,
        owner: Place<'_>,
        names: &mut Names,
    ) -> Result<Field, String> {
        let (name, renamed) = name::field(property, names);
        let path = format!("{}.{property}", owner.path);
        let type_name = format!("{}{}", owner.name, name::part(property));
        let place =
            Place { name: &type_name, path: &path, depth: owner.depth + 1, is_element: false };
        let mut typed = if is_metadata && schema.len() == 1 {
            Typed::json(self.import(META, "ObjectMeta"), Vec::new())
        } else {
            self.typed(schema, place)?
        };
        let mut rules = Vec::new();
        let mut kind = typed.kind.clone();
        let mut optional = !required;
        let nullable = is_set(schema, "nullable");
        if let Some(default) = schema.get("default") {
            match typed.default(default).filter(|_| !nullable) {
                Some(text) => {
                    rules.push(format!("default = {text}"));
                    optional = false;
                }
                None => {
                    rules.push(format!("default = {}", rules::json(default)));
                    optional = true;
                }
            }
        }
        if nullable {
            rules.push("nullable".into());
            optional = true;
        }
        if required && (optional || schema.contains_key("default")) {
            rules.push("required".into());
        }
        if optional {
            kind = format!("Option<{kind}>");
        }
        if typed.has_float {
            rules.push("allow_float".into());
        }
        rules.append(&mut typed.rules);
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let (doc, exact) = doc::comment(description);
        if !exact {
            rules.push(format!("doc = {}", literal(description)));
        } else if description.is_empty() && self.has_own_doc(schema) {
            rules.push("doc = \"\"".into());
        }
        let serde =
            if renamed { vec![format!("rename = {}", literal(property))] } else { Vec::new() };
        Ok(Field { doc, rules, serde, name, kind })
    }

    /// Keeps a place for an item before those inside of it.
    fn reserve(&mut self) -> usize {
        self.items.push(None);
        self.items.len() - 1
    }

    /// Adds an item, unless an equal one is there, and returns the name of it.
    fn add(
        &mut self,
        slot: usize,
        wanted: &str,
        doc: Vec<String>,
        attributes: Vec<String>,
        body: Body,
    ) -> String {
        let key = format!("{}\n{}\n{}", doc.join("\n"), attributes.join("\n"), body.print());
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        let name = self.names.take(wanted);
        self.known.insert(key, name.clone());
        self.items[slot] = Some(Item { name: name.clone(), doc, attributes, body });
        name
    }

    /// The item of this name.
    pub fn item_mut(&mut self, name: &str) -> Option<&mut Item> {
        self.items.iter_mut().flatten().find(|item| item.name == name)
    }
}

// === impl Typed ===

impl Typed {
    fn literal(kind: &str, rules: Vec<String>) -> Self {
        Typed { kind: kind.into(), rules, default: DefaultForm::Literal, has_float: false }
    }

    fn json(kind: String, rules: Vec<String>) -> Self {
        Typed { kind, rules, default: DefaultForm::Json, has_float: false }
    }

    /// Returns the default of a field without `Option`, if there can be one.
    fn default(&self, value: &Value) -> Option<String> {
        match &self.default {
            DefaultForm::Literal => {
                let fits = match self.kind.as_str() {
                    "String" => value.is_string(),
                    "bool" => value.is_boolean(),
                    "f64" => value.is_number(),
                    "i32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
                    _ => value.is_i64(),
                };
                fits.then(|| rules::json(value))
            }
            DefaultForm::Variant(name, variants) => {
                let found = variants.iter().find(|variant| *value == variant.value.as_str())?;
                Some(format!("{name}::{}", found.name))
            }
            DefaultForm::Json => None,
        }
    }
}

/// Returns `true` for an object of which nothing is known.
fn is_raw(schema: &Map<String, Value>) -> bool {
    let described = schema.get("properties").and_then(Value::as_object);
    is_set(schema, PRESERVE)
        && described.is_none_or(Map::is_empty)
        && !schema.contains_key("required")
}

/// The type of a schema; empty if it has none.
pub fn kind(schema: &Map<String, Value>) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

pub fn is_set(schema: &Map<String, Value>, keyword: &str) -> bool {
    schema.get(keyword).is_some_and(|value| *value == true)
}

pub fn strings(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// How many fields a struct may have, as arguments of its attribute.
fn field_counts(schema: &Map<String, Value>) -> String {
    let count = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    let counts = [("minProperties", "min_properties"), ("maxProperties", "max_properties")]
        .into_iter()
        .filter_map(|(keyword, argument)| Some(format!("{argument} = {}", count(keyword)?)));
    match counts.collect::<Vec<_>>() {
        counts if counts.is_empty() => String::new(),
        counts => format!("({})", counts.join(", ")),
    }
}
