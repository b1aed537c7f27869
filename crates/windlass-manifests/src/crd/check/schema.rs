//! The form of schemas.

use serde_json::{Map, Value};

use super::{Report, form, is_set, keywords, kind, value};
use crate::schema::{INT_OR_STRING, PRESERVE};

/// Checks a schema and everything inside.
pub(super) fn check(root: &Map<String, Value>, report: &mut Report) {
    if is_set(root, "nullable") {
        report.add("", "the root cannot be null");
    }
    if kind(root) != "object" || root.contains_key("additionalProperties") {
        report.add("", "the root is an object with fields");
    }
    if root.contains_key("default") {
        report.add("", "the root has no default, give one to its fields");
    }
    implicit(root, report);
    node(root, "", report);
}

/// Checks what a schema says about the fields that every object has.
fn implicit(root: &Map<String, Value>, report: &mut Report) {
    let Some(properties) = root.get("properties").and_then(Value::as_object) else { return };
    for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let Some(schema) = properties.get(name).and_then(Value::as_object) else { continue };
        if kind(schema) != wanted {
            report.add(&format!(".{name}"), format_args!("`{name}` is of type {wanted}"));
        }
    }
    let Some(metadata) = properties.get("metadata").and_then(Value::as_object) else { return };
    let fields = metadata.get("properties").and_then(Value::as_object);
    let fields = fields.into_iter().flat_map(Map::keys);
    for name in fields.filter(|name| !["name", "generateName"].contains(&name.as_str())) {
        report.add(
            ".metadata",
            format_args!(
                "the schema restricts `{name}`, and only `name` and `generateName` can be"
            ),
        );
    }
    if metadata.contains_key("default") {
        report.add(".metadata", "metadata has no default");
    }
}

fn node(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        report.add(path, unsupported(reference));
        return;
    }
    forbidden(schema, path, report);
    types(schema, path, report);
    keywords::check(schema, path, report);
    list(schema, path, report);
    map(schema, path, report);
    if let Some(default) = schema.get("default")
        && let Some(why) = value::problem(schema, default, "")
    {
        report.add(path, format_args!("the default {why}"));
    }
    let lacks =
        |default: &Value| ["apiVersion", "kind"].into_iter().find(|key| !default[key].is_string());
    if is_set(schema, "x-kubernetes-embedded-resource")
        && let Some(key) = schema.get("default").and_then(lacks)
    {
        report.add(path, format_args!("the default of an embedded resource lacks `{key}`"));
    }
    form::logic(schema, path, report);
    form::rules(schema, path, report);
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, child) in
            properties.iter().filter_map(|(name, child)| Some((name, child.as_object()?)))
        {
            node(child, &format!("{path}.{name}"), report);
        }
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(Value::Object(child)) = schema.get(keyword) {
            node(child, &format!("{path}{suffix}"), report);
        }
    }
}

/// Why there is no schema.
fn unsupported(reference: &str) -> String {
    let Some(why) = reference.strip_prefix("unsupported: ") else {
        return format!("the reference `{reference}` is not allowed in a definition");
    };
    if why.ends_with("contains itself") {
        return format!(
            "{why}, which no schema can describe, cut it with #[k8s(schemaless, type = \"object\", preserve_unknown)]"
        );
    }
    why.to_owned()
}

fn forbidden(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    for keyword in
        ["patternProperties", "definitions", "dependencies", "additionalItems", "id", "$schema"]
    {
        if schema.contains_key(keyword) {
            report.add(path, format_args!("`{keyword}` is not allowed in a definition"));
        }
    }
    if is_set(schema, "uniqueItems") {
        report.add(path, "`uniqueItems` is refused because it is slow to check, use `list = set`");
    }
    if schema.get("items").is_some_and(Value::is_array) {
        report.add(path, "items of different types are not allowed, use a struct");
    }
    let has = |keyword: &str| {
        schema.get(keyword).and_then(Value::as_object).is_some_and(|map| !map.is_empty())
    };
    if has("properties") && has("additionalProperties") {
        report.add(path, "a map has no fields of its own, `properties` and `additionalProperties` exclude each other");
    }
    if schema.get("additionalProperties").is_some_and(|value| value == false) {
        report
            .add(path, "`additionalProperties` is not `false`, unknown fields are dropped anyway");
    }
    if schema.get(PRESERVE).is_some_and(|value| value == false) {
        report.add(path, "`x-kubernetes-preserve-unknown-fields` is true or not given");
    }
}

fn types(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    let int_or_string = is_set(schema, INT_OR_STRING);
    let embedded = is_set(schema, "x-kubernetes-embedded-resource");
    match kind(schema) {
        "" if int_or_string || is_set(schema, PRESERVE) => {}
        "" => report.add(
            path,
            "a type is missing, add `type = \"..\"`, `int_or_string` or `preserve_unknown`",
        ),
        _ if int_or_string => report.add(path, "an int-or-string has no other type"),
        "string" | "integer" | "number" | "boolean" | "object" => {}
        "array" if schema.contains_key("items") => {}
        "array" => report.add(path, "a list needs a type for its items"),
        other => report.add(path, format_args!("`{other}` is not a type")),
    }
    if int_or_string && (is_set(schema, PRESERVE) || embedded) {
        report.add(
            path,
            "an int-or-string has no fields, remove `preserve_unknown` and `embedded_resource`",
        );
    }
    let described = schema.contains_key("properties") || is_set(schema, PRESERVE);
    if embedded && (kind(schema) != "object" || schema.contains_key("additionalProperties")) {
        report.add(path, "an embedded resource is an object, use a struct or `RawExtension`");
    } else if embedded && !described {
        report.add(path, "an embedded resource needs fields or `preserve_unknown`");
    }
}

fn list(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    if list_type.is_some() && kind(schema) != "array" {
        report.add(
            path,
            format_args!("`list` applies to lists, but this is {}", keywords::word(schema)),
        );
        return;
    }
    let items = schema.get("items").and_then(Value::as_object);
    match (list_type, items) {
        (Some("map"), Some(items)) => {
            if is_set(items, "nullable") {
                report.add(path, "items of a list with keys cannot be null");
            }
            let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
            if keys.is_empty() {
                report.add(path, "a list of type `map` has keys: `list = map(\"key\")`");
            }
            for (at, key) in keys.iter().enumerate() {
                map_key(items, key, path, report);
                if keys[..at].contains(key) {
                    report.add(path, format_args!("`{key}` is named twice as a key of the list"));
                }
            }
        }
        (Some("set"), Some(items)) => {
            let atomic = items.get("x-kubernetes-map-type").is_some_and(|kind| kind == "atomic")
                || items.get("x-kubernetes-list-type").is_some_and(|kind| kind == "atomic");
            if matches!(kind(items), "object" | "array") && !atomic {
                report.add(path, "items of a set are scalars or atomic, use `list = map(\"key\")` or `list = atomic`");
            }
            if is_set(items, "nullable") {
                report.add(path, "items of a set cannot be null");
            }
        }
        (Some("atomic") | None, _) | (_, None) => {}
        (Some(other), _) => {
            report.add(path, format_args!("a list is not `{other}` but `atomic`, `set` or `map`"));
        }
    }
    if keys.is_some() && list_type != Some("map") {
        report.add(path, "keys belong to `list = map(\"key\")`");
    }
}

fn map_key(items: &Map<String, Value>, key: &str, path: &str, report: &mut Report) {
    let property = items
        .get("properties")
        .and_then(|properties| properties.get(key))
        .and_then(Value::as_object);
    let Some(property) = property else {
        report
            .add(path, format_args!("the items have no field `{key}`, which is a key of the list"));
        return;
    };
    let required = items
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|name| name == key));
    if !required && !property.contains_key("default") {
        report.add(&format!("{path}[].{key}"), "a key of a list is required or has a default");
    }
    if matches!(kind(property), "object" | "array") {
        report.add(&format!("{path}[].{key}"), "a key of a list is a scalar");
    }
    if is_set(property, "nullable") {
        report.add(&format!("{path}[].{key}"), "a key of a list cannot be null");
    }
}

fn map(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    let map_type = schema.get("x-kubernetes-map-type").and_then(Value::as_str);
    if let Some(other) = map_type.filter(|name| !["atomic", "granular"].contains(name)) {
        report.add(path, format_args!("a map is not `{other}` but `atomic` or `granular`"));
    }
    if map_type.is_some() && kind(schema) != "object" {
        report.add(
            path,
            format_args!(
                "`map` applies to maps and structs, but this is {}",
                keywords::word(schema)
            ),
        );
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let open = schema.contains_key("additionalProperties")
        || is_set(schema, PRESERVE)
        || properties.is_none();
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !open && !properties.is_some_and(|properties| properties.contains_key(name)) {
            report.add(path, format_args!("`{name}` is required, but there is no such field"));
        }
    }
}
