//! Compares manifests as data.
//!
//! Passed over are: the annotation with the version of controller-gen, `preserveUnknownFields:
//! false`, empty subresources, descriptions (unless they are asked for), bounds of the width of
//! integers, the order of lists that are sets, and rules of a type that meet rules of a field.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

const WIDTHS: [f64; 13] = [
    0.0,
    127.0,
    255.0,
    32_767.0,
    65_535.0,
    2_147_483_647.0,
    4_294_967_295.0,
    9_223_372_036_854_775_807.0,
    18_446_744_073_709_551_615.0,
    -128.0,
    -32_768.0,
    -2_147_483_648.0,
    -9_223_372_036_854_775_808.0,
];

/// Fields of Kubernetes 1.37. The types here are those of 1.36.
const NEWER: [&str; 6] =
    ["bindMountOptions", "defaultUser", "evictionResponders", "mode", "protocol", "user"];

/// Reads the expected manifests of a case, by name.
pub fn golden(case: &str) -> BTreeMap<String, Value> {
    let path = format!("{}/tests/golden/data/{case}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let named = documents.into_iter().filter(|document| !document.is_null());
    named
        .map(|document| (document["metadata"]["name"].as_str().unwrap().to_owned(), document))
        .collect()
}

/// Returns one line per difference.
pub fn differences(mut golden: Value, mut mine: Value, texts: bool) -> Vec<String> {
    clean(&mut golden, texts);
    clean(&mut mine, texts);
    let mut found = Vec::new();
    compare(&mut Vec::new(), Some(&golden), Some(&mine), &mut found);
    found
}

fn clean(document: &mut Value, texts: bool) {
    let metadata = document["metadata"].as_object_mut().unwrap();
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove("controller-gen.kubebuilder.io/version");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    document.as_object_mut().unwrap().remove("status");
    let spec = document["spec"].as_object_mut().unwrap();
    spec.remove("preserveUnknownFields");
    let versions = spec.remove("versions").unwrap();
    let mut named = Map::new();
    for version in versions.as_array().unwrap() {
        let mut version = version.clone();
        if version.get("subresources") == Some(&json!({})) {
            version.as_object_mut().unwrap().remove("subresources");
        }
        schema(&mut version["schema"]["openAPIV3Schema"], texts);
        named.insert(version["name"].as_str().unwrap().to_owned(), version);
    }
    spec.insert("versions".into(), Value::Object(named));
}

fn schema(value: &mut Value, texts: bool) {
    let Some(schema_map) = value.as_object_mut() else { return };
    if !texts {
        schema_map.remove("description");
    }
    if let Some(Value::Object(properties)) = schema_map.get_mut("properties") {
        properties.values_mut().for_each(|child| schema(child, texts));
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = schema_map.get_mut(keyword) {
            schema(child, texts);
        }
    }
    if schema_map.get("type").is_some_and(|kind| kind != "object") {
        schema_map.remove("minProperties");
    }
    for keyword in ["required", "enum"] {
        if let Some(Value::Array(list)) = schema_map.get_mut(keyword) {
            list.sort_by_key(Value::to_string);
        }
    }
    if let Some(rules) = schema_map.remove("x-kubernetes-validations") {
        let rules: Map<String, Value> = rules
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| (rule["rule"].as_str().unwrap().to_owned(), rule.clone()))
            .collect();
        schema_map.insert("x-kubernetes-validations".into(), Value::Object(rules));
    }
    if let Some(Value::Array(parts)) = schema_map.remove("allOf") {
        stricter(schema_map, parts);
    }
}

/// Of equal keywords of a type and a field the stricter one holds.
fn stricter(schema: &mut Map<String, Value>, parts: Vec<Value>) {
    let mut rest: Vec<Value> = Vec::new();
    for part in parts {
        let mut part = part.as_object().unwrap().clone();
        part.retain(|keyword, value| {
            let (Some(bound), true) = (value.as_f64(), is_bound(keyword)) else { return true };
            let current = schema.get(keyword).and_then(Value::as_f64);
            let wins = current.is_none_or(|current| {
                if keyword.starts_with("min") { bound > current } else { bound < current }
            });
            if wins {
                schema.insert(keyword.clone(), value.clone());
            }
            false
        });
        let part = Value::Object(part);
        if part != json!({}) && !rest.contains(&part) {
            rest.push(part);
        }
    }
    rest.sort_by_key(Value::to_string);
    if !rest.is_empty() {
        schema.insert("allOf".into(), Value::Array(rest));
    }
}

fn is_bound(keyword: &str) -> bool {
    [
        "minimum",
        "minLength",
        "minItems",
        "minProperties",
        "maximum",
        "maxLength",
        "maxItems",
        "maxProperties",
    ]
    .contains(&keyword)
}

fn compare(
    path: &mut Vec<String>,
    golden: Option<&Value>,
    mine: Option<&Value>,
    found: &mut Vec<String>,
) {
    match (golden, mine) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let mut keys: Vec<&String> = one.keys().collect();
            keys.extend(other.keys().filter(|key| !one.contains_key(*key)));
            for key in keys {
                path.push(key.clone());
                compare(path, one.get(key), other.get(key), found);
                path.pop();
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                path.push(at.to_string());
                compare(path, Some(one), Some(other), found);
                path.pop();
            }
        }
        _ if golden == mine || is_width(path, golden, mine) || is_newer(path, mine) => {}
        _ => found.push(format!(
            "{}: golden {}, mine {}",
            path.join("/"),
            short(golden),
            short(mine)
        )),
    }
}

fn is_width(path: &[String], golden: Option<&Value>, mine: Option<&Value>) -> bool {
    let is_limit = path.last().is_some_and(|key| key == "minimum" || key == "maximum");
    let number = mine.and_then(Value::as_f64);
    is_limit && golden.is_none() && number.is_some_and(|number| WIDTHS.contains(&number))
}

fn is_newer(path: &[String], mine: Option<&Value>) -> bool {
    let kubernetes = ["template", "container", "volumes"];
    let inside = path.iter().any(|key| kubernetes.contains(&key.as_str()));
    inside && mine.is_none() && path.last().is_some_and(|key| NEWER.contains(&key.as_str()))
}

fn short(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    text.chars().take(160).collect()
}
