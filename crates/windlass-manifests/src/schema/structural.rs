//! Makes the schemas of foreign types structural.
//!
//! Types of `std`, of Kubernetes and of other crates come with JSON schemas of draft 2020-12. The
//! API server knows a part of OpenAPI 3: no references, one type per value, no type `null`.

use serde_json::{Map, Value, json};

use super::rule::{INT_OR_STRING, PRESERVE, bound};
use super::{FOREIGN, KEYS, STRUCTURAL, WIDE, overlay, union};

/// How deep types may be nested before a schema is taken for endless.
const DEPTH_MAX: usize = 128;

/// The keywords of a structural schema, and ours.
const KEYWORDS: [&str; 41] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    FOREIGN,
    KEYS,
    WIDE,
    super::UI,
];

/// A schema that says why there is none.
pub(crate) fn unsupported(why: impl std::fmt::Display) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("$ref".into(), format!("unsupported: {why}").into());
    schema
}

/// Makes a schema structural, with the definitions that it may refer to.
pub(crate) fn structural(schema: Value, definitions: &Map<String, Value>) -> Map<String, Value> {
    Resolver { definitions, open: Vec::new() }.resolve(schema, false)
}

struct Resolver<'a> {
    definitions: &'a Map<String, Value>,
    /// The definitions that are being resolved.
    open: Vec<String>,
}

// === impl Resolver ===

impl Resolver<'_> {
    /// Makes a schema structural; that of a map is never the `definition` of a type.
    fn resolve(&mut self, schema: Value, definition: bool) -> Map<String, Value> {
        let mut schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return unsupported("no value is allowed here"),
            _ => Map::new(),
        };
        if schema.remove(STRUCTURAL).is_some() {
            return schema;
        }
        if let Some(Value::String(reference)) = schema.remove("$ref") {
            return self.reference(&reference, schema);
        }
        drop_null(&mut schema);
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.remove(keyword) {
                self.branches(&mut schema, branches);
            }
        }
        if let Some(Value::Array(parts)) = schema.remove("allOf") {
            self.all_of(&mut schema, parts);
        }
        keys(&mut schema, definition);
        self.children(&mut schema);
        rewrite(&mut schema);
        schema
    }

    /// Puts a definition in the place of a reference to it.
    fn reference(&mut self, reference: &str, siblings: Map<String, Value>) -> Map<String, Value> {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let name = name.replace("~1", "/").replace("~0", "~");
        let definition = self.definitions.get(&name).filter(|found| found.is_object());
        let recursive = self.open.contains(&name) || self.open.len() > DEPTH_MAX;
        let Some(definition) = definition.filter(|_| !recursive) else {
            return unsupported(format_args!("type {name} contains itself"));
        };
        let mut definition = definition.clone();
        let foreign = overlay::apply(&name, &mut definition);
        self.open.push(name);
        let mut schema = self.resolve(definition, true);
        self.open.pop();
        if foreign {
            schema.insert(FOREIGN.into(), true.into());
        }
        for (keyword, value) in siblings {
            if KEYWORDS.contains(&keyword.as_str()) && !value.is_null() {
                schema.insert(keyword, value);
            }
        }
        schema
    }

    fn branches(&mut self, schema: &mut Map<String, Value>, branches: Vec<Value>) {
        let is_null = |branch: &Value| branch.get("type").is_some_and(|kind| kind == "null");
        let branches: Vec<Map<String, Value>> = branches
            .into_iter()
            .filter(|branch| !is_null(branch))
            .map(|branch| self.resolve(branch, false))
            .collect();
        for (keyword, value) in union::untagged(branches) {
            schema.entry(keyword).or_insert(value);
        }
    }

    fn all_of(&mut self, schema: &mut Map<String, Value>, parts: Vec<Value>) {
        for part in parts {
            let mut part = self.resolve(part, true);
            let properties = part.remove("properties");
            let required = part.remove("required");
            if let Some(Value::Object(properties)) = properties {
                super::entry(schema, "properties").extend(properties);
            }
            if let Some(Value::Array(names)) = required {
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .for_each(|name| super::require(schema, name));
            }
            for (keyword, value) in part {
                schema.entry(keyword).or_insert(value);
            }
        }
    }

    fn children(&mut self, schema: &mut Map<String, Value>) {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for value in properties.values_mut() {
                *value = Value::Object(self.resolve(value.take(), false));
            }
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(value) = schema.get_mut(keyword)
                && *value != false
            {
                *value = Value::Object(self.resolve(value.take(), false));
            }
        }
    }
}

/// Describes the values of a map alone, with a note about its keys: `schemars` lists the values of
/// an enum as properties, and says by patterns what other keys look like.
fn keys(schema: &mut Map<String, Value>, definition: bool) {
    let patterns = match schema.remove("patternProperties") {
        Some(Value::Object(patterns)) => patterns,
        _ => Map::new(),
    };
    let is_closed = schema.get("additionalProperties").is_some_and(|open| *open == false);
    let none = Map::new();
    let named = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut values = patterns.values().chain(named.values());
    let Some(value) = values.next().cloned() else { return };
    let is_uniform = !schema.contains_key("required") && values.all(|other| *other == value);
    let is_map = is_uniform && (named.is_empty() || is_closed && !definition);
    if is_map && is_closed {
        let names: Vec<&String> = named.keys().collect();
        let patterns: Vec<&String> = patterns.keys().collect();
        let note = json!({ "names": names, "patterns": patterns });
        schema.insert(KEYS.into(), note);
    }
    if is_map {
        schema.remove("properties");
    }
    if is_map || !patterns.is_empty() {
        schema.insert("additionalProperties".into(), value);
    }
}

/// `Option` means that a value may be missing, not that it may be null.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            schema.insert("type".into(), kind);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// Rewrites one level of a schema.
fn rewrite(schema: &mut Map<String, Value>) {
    if let Some(value) = schema.remove("const") {
        schema.insert("enum".into(), json!([value]));
    }
    if let Some(Value::Array(examples)) = schema.remove("examples")
        && let Some(example) = examples.into_iter().next()
    {
        schema.insert("example".into(), example);
    }
    if schema.contains_key("prefixItems") {
        *schema = unsupported("a tuple is a list of values of different types, use a struct");
        return;
    }
    if schema.remove("uniqueItems").is_some_and(|unique| unique == true) && has_scalar_items(schema)
    {
        schema.insert("x-kubernetes-list-type".into(), "set".into());
    }
    types(schema);
    exclusive(schema);
    format(schema);
    additional_properties(schema);
    if let Some(inner) = schema.remove("not") {
        match negated(inner) {
            Ok(Some(inner)) => drop(schema.insert("not".into(), inner)),
            Ok(None) => {}
            Err(why) => *schema = why,
        }
    }
    schema.retain(|keyword, _| KEYWORDS.contains(&keyword.as_str()));
    let described = ["type", "$ref", "enum", "anyOf", INT_OR_STRING, PRESERVE];
    if !described.iter().any(|keyword| schema.contains_key(*keyword)) {
        schema.insert(PRESERVE.into(), true.into());
    }
    if schema.contains_key(INT_OR_STRING) && !schema.contains_key("anyOf") {
        schema.remove("type");
        schema.remove("format");
        schema.insert("anyOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
}

fn has_scalar_items(schema: &Map<String, Value>) -> bool {
    let kind = schema.get("items").and_then(|items| items.get("type"));
    kind.is_some_and(|kind| kind == "string" || kind == "integer" || kind == "boolean")
}

/// Leaves one type per schema.
fn types(schema: &mut Map<String, Value>) {
    if !schema.contains_key("type")
        && let Some(Value::Array(values)) = schema.get("enum")
        && values.iter().all(Value::is_string)
    {
        schema.insert("type".into(), "string".into());
    }
    let Some(Value::Array(kinds)) = schema.get("type") else { return };
    let names: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
    match names.as_slice() {
        ["integer", "string"] | ["string", "integer"] => {
            schema.remove("type");
            schema.insert(INT_OR_STRING.into(), true.into());
        }
        _ => {
            schema.remove("type");
            schema.insert(PRESERVE.into(), true.into());
        }
    }
}

/// Writes exclusive bounds as OpenAPI 3.0 does: a bound, and whether it is exclusive.
fn exclusive(schema: &mut Map<String, Value>) {
    for (exclusive, keyword) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if schema.get(exclusive).is_some_and(Value::is_number)
            && let Some(value) = schema.remove(exclusive)
        {
            super::rule::exclusive(schema, keyword, value);
        }
    }
}

/// Makes what a value must not be structural; `None` if that is nothing.
fn negated(inner: Value) -> Result<Option<Value>, Map<String, Value>> {
    let mut inner = match inner {
        Value::Bool(false) => return Ok(None),
        Value::Object(inner) => inner,
        _ => Map::new(),
    };
    if let Some(value) = inner.remove("const") {
        inner.insert("enum".into(), json!([value]));
    }
    inner.retain(|keyword, _| KEYWORDS.contains(&keyword.as_str()));
    match inner.is_empty() {
        true => Err(unsupported("no value is allowed here, `not` excludes all of them")),
        false => Ok(Some(Value::Object(inner))),
    }
}

/// Writes the width of integers as bounds, unless stricter ones are there; the API server knows the
/// formats `int32` and `int64`. A format of text that it does not know is left out.
fn format(schema: &mut Map<String, Value>) {
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return };
    if schema.get("type").is_some_and(|kind| kind == "string") {
        match format {
            "ip" => {
                schema.insert("anyOf".into(), json!([{ "format": "ipv4" }, { "format": "ipv6" }]));
            }
            known if windlass_text::format::known(known) => return,
            _ => {}
        }
        schema.remove("format");
        return;
    }
    let wide = format == "uint32";
    let (format, bounds) = match format {
        "int8" => (None, Some((i64::from(i8::MIN), i64::from(i8::MAX)))),
        "int16" => (None, Some((i64::from(i16::MIN), i64::from(i16::MAX)))),
        "uint8" => (None, Some((0, i64::from(u8::MAX)))),
        "uint16" => (None, Some((0, i64::from(u16::MAX)))),
        // The API server refuses every number if a bound does not fit the format.
        "uint32" => (Some("int32"), Some((0, i64::from(i32::MAX)))),
        "uint64" => (Some("int64"), None),
        "int" | "uint" | "float" | "double" => (None, None),
        _ => return,
    };
    schema.remove("format");
    if let Some(format) = format {
        schema.insert("format".into(), format.into());
    }
    let limits = ["minimum", "maximum"].map(|keyword| schema.remove(keyword));
    if let Some((minimum, maximum)) = bounds {
        schema.insert("minimum".into(), minimum.into());
        schema.insert("maximum".into(), maximum.into());
    }
    if wide {
        schema.insert(WIDE.into(), u32::MAX.into());
    }
    for (keyword, limit) in ["minimum", "maximum"].into_iter().zip(limits) {
        if let Some(limit) = limit {
            bound(schema, keyword, limit);
        }
    }
}

fn additional_properties(schema: &mut Map<String, Value>) {
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            schema.remove("additionalProperties");
        }
        Some(_) if schema.contains_key("properties") => {
            schema.remove("additionalProperties");
            schema.insert(PRESERVE.into(), true.into());
        }
        _ => {}
    }
}
