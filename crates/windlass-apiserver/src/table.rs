//! Objects for people: `meta.k8s.io/v1` Table and PartialObjectMetadata.
//!
//! Columns of built-in resources come from a table of facts (`data/builtin-columns.tsv`), their
//! cells from `cells`; custom resources bring `additionalPrinterColumns` with paths.
//!
//! **Invariant:** a row has as many cells as there are columns.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::resource::{Gvk, Resource};
use crate::status::{Result, Status};

mod age;
mod cells;
mod network;
mod path;
mod pods;
mod selector_text;
mod volumes;
mod workloads;

pub use path::JsonPath;

/// What a row carries of its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Its metadata.
    #[default]
    Metadata,
    /// Nothing.
    None,
    /// All of it.
    Object,
}

const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating \
    resources, although some resources may allow a client to request the generation of an \
    appropriate name automatically. Name is primarily intended for creation idempotence and \
    configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when \
    this object was created. It is not guaranteed to be set in happens-before order across \
    separate operations. Clients may not set this value. It is represented in RFC3339 form and \
    is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

// === impl Include ===

impl Include {
    /// Parses the query parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for anything else than the three names and nothing.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        Ok(match text.unwrap_or_default() {
            "" | "Metadata" => Self::Metadata,
            "None" => Self::None,
            "Object" => Self::Object,
            other => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                     must be 'Metadata', 'Object', 'None', or empty",
                    crate::status::quote(other)
                )));
            }
        })
    }
}

/// Returns `true` if a resource has columns of its own; a name and an age are those of all.
fn has_columns(resource: &Resource) -> bool {
    let plain = |columns: &[Value]| matches!(columns, [_, age] if age["name"] == "Created At");
    custom_columns(resource).is_some() || !plain(&columns(resource))
}

/// Returns the `columnDefinitions` of a resource.
pub fn columns(resource: &Resource) -> Vec<Value> {
    if let Some(extra) = custom_columns(resource) {
        let mut out = vec![column("Name", "string", "name", NAME_TEXT, 0)];
        out.extend(extra.iter().map(custom_column));
        return out;
    }
    let key = (&*resource.gvk.group, &*resource.gvk.version, &*resource.plural);
    match builtin_columns().get(&key) {
        Some(columns) => columns.clone(),
        None => vec![
            column("Name", "string", "name", NAME_TEXT, 0),
            column("Created At", "date", "", CREATED_TEXT, 0),
        ],
    }
}

/// Returns the cells of one object, as many as there are [`columns`].
pub fn row(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if let Some(extra) = custom_columns(resource) {
        let mut out = vec![object["metadata"]["name"].clone()];
        out.extend(extra.iter().map(|column| custom_cell(column, object, now)));
        return out;
    }
    let mut out = cells::cells(&resource.gvk.group, &resource.plural, object, now);
    let key = (&*resource.gvk.group, &*resource.gvk.version, &*resource.plural);
    out.resize(builtin_columns().get(&key).map_or(2, Vec::len), Value::Null);
    out
}

/// Returns the Table of a list, of one object or of one watch event; its metadata is left empty.
///
/// `api_version` is that of the table and of partial objects in it, `meta.k8s.io/v1`.
pub fn table(
    resource: &Resource,
    objects: &[Value],
    include: Include,
    now: Timestamp,
    api_version: &str,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| table_row(resource, object, include, now, api_version))
        .collect();
    let mut out = Map::new();
    out.insert("kind".into(), "Table".into());
    out.insert("apiVersion".into(), api_version.into());
    out.insert("metadata".into(), json!({}));
    out.insert("columnDefinitions".into(), columns(resource).into());
    // Without columns of its own a kind has no rows at all, where others have an empty list.
    let none = rows.is_empty() && !has_columns(resource);
    out.insert("rows".into(), if none { Value::Null } else { rows.into() });
    Value::Object(out)
}

/// Returns the Table of a `Scale`, whatever it scales; its metadata is left empty.
pub fn scale_table(
    resource: &Resource,
    scale: &Value,
    include: Include,
    now: Timestamp,
    api_version: &str,
) -> Value {
    let (format, age, texts) = match resource.is_custom() {
        true => ("name", "date", ["Number of desired replicas", "Number of actual replicas"]),
        false => (
            "",
            "string",
            [
                "replicas is the desired number of instances for the scaled object.",
                "replicas is the actual number of observed instances of the scaled object.",
            ],
        ),
    };
    let created = scale["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse().ok());
    let since = created.map_or_else(|| "<unknown>".to_owned(), |time| age::since(time, now));
    let gvk = Gvk::new("autoscaling", "v1", "Scale");
    let number = |part: &str| scale[part]["replicas"].as_i64().unwrap_or_default();
    json!({
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": {},
        "columnDefinitions": [
            column("Name", "string", format, NAME_TEXT, 0),
            column("Desired", "integer", "", texts[0], 0),
            column("Available", "integer", "", texts[1], 0),
            column("Age", age, "", CREATED_TEXT, 0),
        ],
        "rows": [{
            "cells": [scale["metadata"]["name"], number("spec"), number("status"), since],
            "object": shown(&gvk, scale, include, api_version),
        }],
    })
}

/// Returns the PartialObjectMetadata of an object.
pub fn partial_metadata(object: &Value) -> Value {
    let mut out = Map::new();
    out.insert("kind".into(), "PartialObjectMetadata".into());
    out.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    out.insert("metadata".into(), metadata);
    Value::Object(out)
}

fn table_row(
    resource: &Resource,
    object: &Value,
    include: Include,
    now: Timestamp,
    api_version: &str,
) -> Value {
    let mut out = Map::new();
    out.insert("cells".into(), row(resource, object, now).into());
    if !resource.is_custom() && &*resource.plural == "pods" && resource.gvk.group.is_empty() {
        let conditions = pods::row_conditions(object);
        if let Some(condition) = conditions {
            out.insert("conditions".into(), json!([condition]));
        }
    }
    out.insert("object".into(), shown(&resource.gvk, object, include, api_version));
    Value::Object(out)
}

/// What a row carries of its object.
fn shown(gvk: &Gvk, object: &Value, include: Include, api_version: &str) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Metadata => {
            let mut partial = partial_metadata(object);
            partial["apiVersion"] = api_version.into();
            partial
        }
        Include::Object => {
            let mut object = object.clone();
            object["kind"] = (*gvk.kind).into();
            object["apiVersion"] = gvk.api_version().into();
            object
        }
    }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({
        "name": name, "type": kind, "format": format,
        "description": description, "priority": priority,
    })
}

type Columns = BTreeMap<(&'static str, &'static str, &'static str), Vec<Value>>;

fn builtin_columns() -> &'static Columns {
    static ALL: OnceLock<Columns> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Columns::new();
        for line in include_str!("../data/builtin-columns.tsv").lines().skip(1) {
            let mut parts = line.split('\t');
            let mut next = || parts.next().unwrap_or_default();
            let key = (next(), next(), next());
            let (name, kind, format, priority) = (next(), next(), next(), next());
            let description = match name {
                "Name" => NAME_TEXT,
                "Age" | "Created At" => CREATED_TEXT,
                _ => "",
            };
            let priority = priority.parse().unwrap_or_default();
            all.entry(key).or_default().push(column(name, kind, format, description, priority));
        }
        all
    })
}

/// The printer columns of a custom resource's version; age alone if it declares none.
fn custom_columns(resource: &Resource) -> Option<Vec<Value>> {
    let version = resource.custom.as_ref()?;
    let versions = version.definition["spec"]["versions"].as_array();
    let spec = versions.into_iter().flatten().find(|v| v["name"] == version.name.as_str());
    let declared = spec.and_then(|v| v["additionalPrinterColumns"].as_array());
    Some(match declared {
        Some(columns) if !columns.is_empty() => columns.clone(),
        _ => vec![json!({
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": CREATED_TEXT,
        })],
    })
}

fn custom_column(column: &Value) -> Value {
    let text = |key: &str| column[key].as_str().unwrap_or_default();
    let described = match text("description") {
        "" => {
            format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
        }
        given => given.to_owned(),
    };
    let priority = column["priority"].as_i64().unwrap_or_default();
    self::column(text("name"), text("type"), text("format"), &described, priority)
}

/// The first value at the column's path, if it has the column's type.
fn custom_cell(column: &Value, object: &Value, now: Timestamp) -> Value {
    let path = column["jsonPath"].as_str().unwrap_or_default();
    let Ok(path) = JsonPath::parse(path) else { return Value::Null };
    let Some(found) = path.find(object).into_iter().next() else { return Value::Null };
    match column["type"].as_str().unwrap_or_default() {
        "integer" => match found {
            Value::Number(n) => match n.as_i64() {
                Some(n) => n.into(),
                // A whole part is what a float shows of itself here.
                None => n.as_f64().map_or(Value::Null, |f| (f as i64).into()),
            },
            _ => Value::Null,
        },
        "number" => {
            if found.is_number() {
                found.clone()
            } else {
                Value::Null
            }
        }
        "boolean" => {
            if found.is_boolean() {
                found.clone()
            } else {
                Value::Null
            }
        }
        "date" => match found.as_str() {
            Some("" | "null") => "<unknown>".into(),
            Some(text) => match text.parse::<Timestamp>() {
                Ok(time) => age::since(time, now).into(),
                Err(_) => "<invalid>".into(),
            },
            None => Value::Null,
        },
        _ => match found {
            Value::Null => "<no value>".into(),
            Value::String(text) => text.clone().into(),
            Value::Number(n) if n.is_f64() => {
                windlass_text::number::go_float(n.as_f64().unwrap_or_default()).into()
            }
            other => other.to_string().into(),
        },
    }
}

#[cfg(test)]
mod tests;
