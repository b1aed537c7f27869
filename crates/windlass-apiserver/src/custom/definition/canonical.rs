//! The form definitions are kept in: what says nothing is left out, as Go's `omitempty` does.

use serde_json::{Map, Value};

/// Keywords of a schema that are left out when they are empty, zero or false.
const OMITTED: &[&str] = &[
    "id",
    "$schema",
    "description",
    "type",
    "format",
    "title",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "pattern",
    "uniqueItems",
    "enum",
    "required",
    "allOf",
    "oneOf",
    "anyOf",
    "properties",
    "patternProperties",
    "dependencies",
    "definitions",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];

/// Brings a definition into that form, and gives versions the fields they always have.
pub fn definition(object: &mut Value) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    omit(spec, &["preserveUnknownFields"]);
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        omit(names, &["singular", "shortNames", "listKind", "categories"]);
    }
    let Some(Value::Array(versions)) = spec.get_mut("versions") else { return };
    for version in versions {
        let Value::Object(version) = version else { continue };
        version.entry("name").or_insert("".into());
        for key in ["served", "storage"] {
            version.entry(key).or_insert(false.into());
        }
        let fields = ["deprecated", "additionalPrinterColumns", "selectableFields"];
        omit(version, &fields);
        for key in ["schema", "subresources", "deprecationWarning"] {
            if version.get(key).is_some_and(Value::is_null) {
                version.remove(key);
            }
        }
        for column in list(version.get_mut("additionalPrinterColumns")) {
            if let Value::Object(column) = column {
                omit(column, &["format", "description", "priority"]);
            }
        }
        if let Some(schema) = version.get_mut("schema").and_then(|s| s.get_mut("openAPIV3Schema")) {
            node(schema);
        }
    }
}

fn node(schema: &mut Value) {
    match schema {
        Value::Array(items) => return items.iter_mut().for_each(node),
        Value::Object(_) => {}
        _ => return,
    }
    let Value::Object(map) = schema else { return };
    map.retain(|_, value| !value.is_null());
    omit(map, OMITTED);
    for rule in list(map.get_mut("x-kubernetes-validations")) {
        if let Value::Object(rule) = rule {
            omit(rule, &["message", "messageExpression", "fieldPath"]);
            rule.retain(|_, value| !value.is_null());
        }
    }
    for key in ["items", "not", "allOf", "oneOf", "anyOf", "additionalProperties"] {
        if let Some(below) = map.get_mut(key) {
            node(below);
        }
    }
    for key in ["properties", "patternProperties", "definitions", "dependencies"] {
        if let Some(Value::Object(fields)) = map.get_mut(key) {
            fields.values_mut().filter(|value| value.is_object()).for_each(node);
        }
    }
}

fn list(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

fn omit(map: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        let empty = match map.get(*key) {
            Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(Value::Number(number)) => number.as_i64() == Some(0),
            Some(Value::Bool(true)) | None => false,
        };
        if empty {
            map.remove(*key);
        }
    }
}
