//! Enums: unions with one schema.
//!
//! A structural schema has one type per value. The variants of an enum therefore share one object,
//! in which every field is optional, and rules say which fields belong together.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::rule::{self, Count, INT_OR_STRING, Rule};
use super::{Field, SchemaOf, cel, describe, entry, field_schema, finish, require, unsupported};

/// An enum.
#[derive(Clone, Copy)]
pub struct Union<'a> {
    /// The documentation of the type.
    pub doc: &'a str,
    /// How JSON says which variant a value is.
    pub tagging: Tagging<'a>,
    /// The variants, in their order.
    pub variants: &'a [Variant<'a>],
    /// The rules of the type.
    pub rules: &'a [Rule<'a>],
}

/// How JSON says which variant a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagging<'a> {
    /// By the one field that is set.
    External,
    /// By the value of a field beside the fields of the variant.
    Internal(&'a str),
    /// By the value of the first field; the second has the content.
    Adjacent(&'a str, &'a str),
    /// By nothing but the fields that are set.
    Untagged,
}

/// One variant of an enum.
#[derive(Clone, Copy)]
pub struct Variant<'a> {
    /// The name in JSON.
    pub name: &'a str,
    /// The documentation of the variant.
    pub doc: &'a str,
    /// What the variant holds.
    pub content: Content<'a>,
}

/// What a variant holds.
#[derive(Clone, Copy)]
pub enum Content<'a> {
    /// Nothing: the name alone is the value.
    Unit,
    /// An empty object, beside variants with data.
    Nothing,
    /// A value.
    Value(SchemaOf, &'a [Rule<'a>]),
    /// Fields.
    Fields(&'a [Field<'a>]),
}

/// A part of a union: the name of the variant and its schema.
struct Part<'a> {
    name: &'a str,
    schema: Option<Map<String, Value>>,
}

/// The schema of an enum.
pub fn union(generator: &mut SchemaGenerator, union: &Union<'_>) -> Schema {
    let parts: Vec<Part<'_>> =
        union.variants.iter().map(|variant| part(generator, variant)).collect();
    let mut schema = match union.tagging {
        _ if parts.is_empty() => unsupported("an enum without variants has no values"),
        Tagging::External => external(parts),
        Tagging::Internal(tag) => internal(tag, parts),
        Tagging::Adjacent(tag, content) => adjacent(tag, content, parts),
        Tagging::Untagged => untagged(parts.into_iter().filter_map(|part| part.schema).collect()),
    };
    describe(&mut schema, union.doc);
    rule::apply_all(&mut schema, union.rules);
    finish(schema)
}

fn part<'a>(generator: &mut SchemaGenerator, variant: &Variant<'a>) -> Part<'a> {
    let schema = match variant.content {
        Content::Unit => None,
        Content::Nothing => return Part { name: variant.name, schema: Some(empty_object()) },
        Content::Value(inner, rules) => {
            let mut schema = field_schema(generator, inner);
            rule::apply_all(&mut schema, rules);
            Some(schema)
        }
        Content::Fields(fields) => Some(super::fields(generator, fields)),
    };
    let schema = schema.map(|mut schema| {
        describe(&mut schema, variant.doc);
        schema
    });
    Part { name: variant.name, schema }
}

/// `"Name"`, or `{"name": content}`.
fn external(parts: Vec<Part<'_>>) -> Map<String, Value> {
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    if parts.iter().all(|part| part.schema.is_none()) {
        return strings(&names);
    }
    let mut schema = empty_object();
    for part in &parts {
        let content = part.schema.clone().unwrap_or_else(empty_object);
        entry(&mut schema, "properties").insert(part.name.into(), Value::Object(content));
    }
    if let [only] = names.as_slice() {
        require(&mut schema, only);
    } else {
        rule::push_cel(&mut schema, cel::count(Count::Exactly, &names));
    }
    schema
}

/// `{"tag": "Name", fields of the variant}`.
fn internal(tag: &str, parts: Vec<Part<'_>>) -> Map<String, Value> {
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let mut schema = empty_object();
    entry(&mut schema, "properties").insert(tag.into(), Value::Object(strings(&names)));
    require(&mut schema, tag);
    let mut fields = Fields::default();
    for part in parts {
        let Some(mut content) = part.schema else { continue };
        only_if(tag, part.name, &mut content);
        if let Err(error) = fields.add(part.name, content) {
            return error;
        }
    }
    fields.finish(tag, None, &names, &mut schema);
    schema
}

/// Lets the rules of a variant hold for that variant alone.
fn only_if(tag: &str, variant: &str, content: &mut Map<String, Value>) {
    if let Some(Value::Array(rules)) = content.get_mut(rule::VALIDATIONS) {
        rules.iter_mut().for_each(|rule| cel::only_if(tag, variant, rule));
    }
}

/// `{"tag": "Name", "content": content}`.
fn adjacent(tag: &str, content: &str, parts: Vec<Part<'_>>) -> Map<String, Value> {
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let with: Vec<&str> =
        parts.iter().filter(|part| part.schema.is_some()).map(|part| part.name).collect();
    let mut schema = empty_object();
    entry(&mut schema, "properties").insert(tag.into(), Value::Object(strings(&names)));
    require(&mut schema, tag);
    let parts: Vec<(&str, Map<String, Value>)> =
        parts.into_iter().filter_map(|part| Some((part.name, part.schema?))).collect();
    if parts.is_empty() {
        return schema;
    }
    let mut rules = Vec::new();
    let merged = match contents(tag, content, parts, &mut rules) {
        Ok(merged) => merged,
        Err(error) => return error,
    };
    entry(&mut schema, "properties").insert(content.into(), Value::Object(merged));
    if with.len() == names.len() {
        require(&mut schema, content);
    } else {
        rule::push_cel(&mut schema, cel::required_with(tag, &with, content));
        rule::push_cel(&mut schema, cel::only_with(tag, &with, content));
    }
    rules.into_iter().for_each(|rule| rule::push_cel(&mut schema, rule));
    schema
}

/// Joins the contents of variants, and adds the rules by which they follow from the tag.
fn contents(
    tag: &str,
    content: &str,
    parts: Vec<(&str, Map<String, Value>)>,
    rules: &mut Vec<Value>,
) -> Result<Map<String, Value>, Map<String, Value>> {
    let ruled = |part: &&(&str, Map<String, Value>)| part.1.contains_key(rule::VALIDATIONS);
    if parts.len() > 1
        && let Some((variant, _)) = parts.iter().find(ruled)
    {
        return Err(unsupported(format_args!(
            "variant {variant} has a rule, which would hold for all variants, remove `content` from #[serde(..)]"
        )));
    }
    if parts.len() > 1 && parts.iter().all(|(_, part)| kind(part) == "object") {
        let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
        let mut fields = Fields::default();
        for (variant, part) in parts {
            fields.add(variant, part)?;
        }
        let mut merged = empty_object();
        fields.finish(tag, Some((content, rules)), &names, &mut merged);
        return Ok(merged);
    }
    let kinds: Vec<(&str, String)> =
        parts.iter().map(|(name, part)| (*name, kind(part).to_owned())).collect();
    let merged = untagged(parts.into_iter().map(|(_, part)| part).collect());
    if merged.contains_key(INT_OR_STRING) {
        let scalars = kinds.iter().filter(|(_, kind)| kind != "int-or-string");
        rules.extend(scalars.map(|(name, kind)| cel::of_type(tag, name, content, kind)));
    }
    Ok(merged)
}

/// Values of which nothing says which variant they are: the fields of all, or one scalar type.
pub(super) fn untagged(parts: Vec<Map<String, Value>>) -> Map<String, Value> {
    if let [only] = parts.as_slice() {
        return only.clone();
    }
    let kinds: Vec<&str> = parts.iter().map(kind).collect();
    if parts.iter().all(|part| part.contains_key("enum") && kind(part) == "string") {
        let values = parts.iter().filter_map(|part| part.get("enum")?.as_array()).flatten();
        return json_object(json!({ "type": "string", "enum": values.collect::<Vec<_>>() }));
    }
    if kinds.iter().all(|kind| *kind == "object") {
        return objects(parts);
    }
    let scalar = ["integer", "string", "int-or-string"];
    if kinds.iter().all(|kind| scalar.contains(kind)) && kinds.iter().any(|kind| *kind != kinds[0])
    {
        return json_object(json!({
            INT_OR_STRING: true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
        }));
    }
    let bare: Vec<Map<String, Value>> = parts.iter().map(without_text).collect();
    match bare.first() {
        Some(first) if bare.iter().all(|part| part == first) => first.clone(),
        Some(_) if kinds.iter().all(|kind| *kind == kinds[0]) && kinds[0] != "array" => {
            json_object(json!({ "type": kinds[0] }))
        }
        _ => unsupported(format_args!(
            "the variants of an enum have different types ({}), tag it with #[serde(tag = \"type\")]",
            kinds.join(", ")
        )),
    }
}

/// Objects of which nothing says which variant they are.
fn objects(parts: Vec<Map<String, Value>>) -> Map<String, Value> {
    let mut schema = empty_object();
    let required: Vec<Vec<Value>> = parts.iter().map(required_of).collect();
    if parts.iter().any(|part| part.contains_key(rule::VALIDATIONS)) {
        return unsupported(
            "a variant of an untagged enum has a rule, which would hold for all variants, tag it with #[serde(tag = \"type\")]",
        );
    }
    let mut fields = Fields::default();
    for part in parts {
        if let Err(error) = fields.add("", part) {
            return error;
        }
    }
    for name in required.first().into_iter().flatten() {
        if required.iter().all(|names| names.contains(name))
            && let Some(name) = name.as_str()
        {
            require(&mut schema, name);
        }
    }
    fields.write(&mut schema);
    schema
}

fn required_of(part: &Map<String, Value>) -> Vec<Value> {
    part.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn kind(schema: &Map<String, Value>) -> &str {
    if schema.contains_key(INT_OR_STRING) {
        return "int-or-string";
    }
    schema.get("type").and_then(Value::as_str).unwrap_or("any")
}

fn without_text(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    schema.remove("description");
    schema.remove("title");
    schema
}

fn strings(names: &[&str]) -> Map<String, Value> {
    json_object(json!({ "type": "string", "enum": names }))
}

fn empty_object() -> Map<String, Value> {
    json_object(json!({ "type": "object" }))
}

fn json_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The fields of all variants, with the variants that have and that demand them.
#[derive(Default)]
struct Fields<'a> {
    schemas: BTreeMap<String, Value>,
    with: BTreeMap<String, Vec<&'a str>>,
    required: BTreeMap<String, Vec<&'a str>>,
    rules: Vec<Value>,
    is_open: bool,
}

// === impl Fields ===

impl<'a> Fields<'a> {
    /// Adds the fields of a variant, or returns why they cannot share a schema with the others.
    fn add(
        &mut self,
        variant: &'a str,
        mut part: Map<String, Value>,
    ) -> Result<(), Map<String, Value>> {
        if kind(&part) != "object" {
            return Err(unsupported(format_args!(
                "variant {variant} has no fields, which an enum with #[serde(tag)] needs"
            )));
        }
        self.is_open |= part.contains_key(rule::PRESERVE);
        let required = required_of(&part);
        if let Some(Value::Object(properties)) = part.remove("properties") {
            for (name, schema) in properties {
                if required.iter().any(|known| *known == name.as_str()) {
                    self.required.entry(name.clone()).or_default().push(variant);
                }
                self.with.entry(name.clone()).or_default().push(variant);
                self.join(name, schema)?;
            }
        }
        if let Some(Value::Array(rules)) = part.remove(rule::VALIDATIONS) {
            self.rules.extend(rules);
        }
        Ok(())
    }

    fn join(&mut self, name: String, schema: Value) -> Result<(), Map<String, Value>> {
        let bare = |value: &Value| value.as_object().map(without_text);
        match self.schemas.get_mut(&name) {
            None => {
                self.schemas.insert(name, schema);
            }
            Some(known) if bare(known) == bare(&schema) => {}
            Some(known) => {
                let all = |value: &Value| value.get("enum").and_then(Value::as_array).cloned();
                let (Some(mut first), Some(second)) = (all(known), all(&schema)) else {
                    return Err(unsupported(format_args!(
                        "field {name} has different types in the variants of an enum"
                    )));
                };
                first.extend(
                    second.into_iter().filter(|value| !first.contains(value)).collect::<Vec<_>>(),
                );
                known["enum"] = Value::Array(first);
            }
        }
        Ok(())
    }

    fn write(&mut self, schema: &mut Map<String, Value>) {
        for (name, value) in std::mem::take(&mut self.schemas) {
            entry(schema, "properties").insert(name, value);
        }
        for rule in std::mem::take(&mut self.rules) {
            rule::push_cel(schema, rule);
        }
        if self.is_open {
            schema.insert(rule::PRESERVE.into(), true.into());
        }
    }

    /// Writes the fields, and the rules by which they follow from the tag: rules of the schema, or
    /// of the object that has it as this field.
    fn finish(
        mut self,
        tag: &str,
        mut inside: Option<(&str, &mut Vec<Value>)>,
        all: &[&str],
        schema: &mut Map<String, Value>,
    ) {
        // The API server would fill in the default of a field for every variant.
        for (name, variants) in &self.with {
            if variants.len() < all.len()
                && let Some(Value::Object(field)) = self.schemas.get_mut(name)
            {
                field.remove("default");
            }
        }
        self.write(schema);
        let content = inside.as_ref().map(|(content, _)| *content);
        let mut found = Vec::new();
        for (name, variants) in &self.required {
            if variants.len() == all.len() {
                require(schema, name);
            } else {
                found.push(cel::field_required_with(tag, variants, content, name));
            }
        }
        for (name, variants) in &self.with {
            if variants.len() < all.len() && !self.is_open {
                found.push(cel::field_only_with(tag, variants, content, name));
            }
        }
        match &mut inside {
            Some((_, rules)) => rules.extend(found),
            None => found.into_iter().for_each(|rule| rule::push_cel(schema, rule)),
        }
    }
}
