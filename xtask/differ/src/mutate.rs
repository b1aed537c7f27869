//! One random change of an object, along its schema.

use serde_json::Value;

use crate::draw::Draw;
use crate::schemas::Schemas;
use crate::sequence::Edit;
use crate::value::{broken, value};

/// Fields that servers set, and those that make two runs differ, or one run another one.
const LEFT_ALONE: [&str; 8] = [
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
    "selfLink",
    "generateName",
    "namespace",
    "resourceVersion",
    "globalDefault",
];

/// Draws a change of `object` within the part of its schema named by `parts` (all of it if empty).
pub fn edit(
    draw: &mut Draw,
    schemas: &Schemas,
    schema: &Value,
    object: &Value,
    parts: &[&str],
) -> Edit {
    let mut path: Vec<String> = Vec::new();
    let (mut schema, mut here) = (schemas.resolve(schema), Some(object));
    let mut name = String::new();
    for depth in 0.. {
        let properties = schema["properties"].as_object();
        if let Some(properties) = properties {
            let names: Vec<&String> = properties
                .keys()
                .filter(|name| !LEFT_ALONE.contains(&name.as_str()))
                .filter(|name| depth > 0 || candidate(name, parts))
                .collect();
            if names.is_empty() || (depth > 1 && draw.chance(10)) {
                break;
            }
            if draw.chance(2) {
                path.push("unknownField".into());
                return Edit { path, to: Some(broken(draw)) };
            }
            let present: Vec<&String> = names
                .iter()
                .copied()
                .filter(|name| here.is_some_and(|value| value.get(name.as_str()).is_some()))
                .collect();
            let chosen = if !present.is_empty() && draw.chance(55) {
                *draw.pick(&present)
            } else {
                *draw.pick(&names)
            };
            name.clone_from(chosen);
            path.push(chosen.clone());
            here = here.and_then(|value| value.get(chosen.as_str()));
            schema = schemas.resolve(&properties[chosen]);
        } else if schema["type"] == "array"
            && schemas.resolve(&schema["items"])["properties"].is_object()
        {
            if draw.chance(15) {
                break;
            }
            let count = here.and_then(Value::as_array).map_or(0, Vec::len);
            let index = if count > 0 && draw.chance(75) {
                draw.below(count).to_string()
            } else {
                "-".into()
            };
            here = index.parse().ok().and_then(|index: usize| here?.get(index));
            path.push(index);
            schema = schemas.resolve(&schema["items"]);
        } else {
            break;
        }
    }
    if here.is_some() && draw.chance(15) {
        return Edit { path, to: None };
    }
    let to = value(draw, schemas, schema, &name, 1);
    Edit { path, to: Some(to) }
}

fn candidate(name: &str, parts: &[&str]) -> bool {
    match parts {
        [] => !["apiVersion", "kind", "status"].contains(&name),
        parts => parts.contains(&name),
    }
}
