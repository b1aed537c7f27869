//! Fields whose fields are fields of the struct around them.

use serde_json::{Map, Value, json};

use super::rule::{self, INT_OR_STRING, PRESERVE};
use super::{KEYS, cel, entry, require, unsupported};

/// The keywords that combine schemas.
const LOGIC: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];

/// Adds what `value` describes to an object. A value that is not required is an `Option`: what it
/// asks for holds as soon as one of its fields is set.
pub(super) fn flatten(
    schema: &mut Map<String, Value>,
    mut value: Map<String, Value>,
    required: bool,
) {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or("object");
    if kind != "object" || value.contains_key(INT_OR_STRING) {
        let why =
            "a flattened field has fields of its own, use a struct, an enum with fields or a map";
        schema.extend(unsupported(why));
        return;
    }
    let mut properties = properties_of(&mut value);
    let names: Vec<String> = properties.keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let whole = required || names.is_empty();
    if !whole {
        // The API server would fill in the default of a field although the option is empty.
        let fields = properties.values_mut().filter_map(Value::as_object_mut);
        fields.for_each(|field| drop(field.remove("default")));
    }
    for (name, property) in properties {
        if entry(schema, "properties").insert(name.clone(), property).is_some() {
            twice(schema, &name);
        }
    }
    let demanded = match value.remove("required") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let demanded: Vec<&str> = demanded.iter().filter_map(Value::as_str).collect();
    if whole {
        demanded.iter().for_each(|name| require(schema, name));
    } else if !demanded.is_empty() && names.len() > 1 {
        rule::push_cel(schema, cel::required_with_any(&demanded, &names));
    }
    if let Some(Value::Array(rules)) = value.remove(rule::VALIDATIONS) {
        for mut rule in rules {
            match demanded.as_slice() {
                _ if whole => {}
                [] => cel::only_if_any(&names, &mut rule),
                demanded => cel::only_if_all(demanded, &mut rule),
            }
            rule::push_cel(schema, rule);
        }
    }
    let open = value.contains_key("additionalProperties") || value.contains_key(PRESERVE);
    counts(schema, &mut value, (!open).then_some(&names), required);
    for keyword in LOGIC {
        if let Some(logic) = value.remove(keyword) {
            combine(schema, keyword, logic, if whole { &[] } else { &names });
        }
    }
    if open {
        schema.insert(PRESERVE.into(), true.into());
    }
    if let Some(reference) = value.remove("$ref") {
        schema.insert("$ref".into(), reference);
    }
}

/// Takes the fields of a schema away: those of a struct, or the keys of a map that are known.
fn properties_of(value: &mut Map<String, Value>) -> Map<String, Value> {
    if let Some(note) = value.remove(KEYS)
        && note["patterns"].as_array().is_some_and(Vec::is_empty)
        && let Some(inner) = value.remove("additionalProperties")
    {
        let names = note["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return names.map(|name| (name.to_owned(), inner.clone())).collect();
    }
    match value.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

/// Makes a schema of an object in which two fields have one name.
pub(super) fn twice(schema: &mut Map<String, Value>, name: &str) {
    schema.extend(unsupported(format_args!(
        "two fields have the name `{name}`, one of them in a flattened type, rename one"
    )));
}

/// Bounds how many of the flattened fields there are. The fields around them count too, so a lower
/// bound is kept and an upper one becomes a rule.
fn counts(
    schema: &mut Map<String, Value>,
    value: &mut Map<String, Value>,
    names: Option<&Vec<&str>>,
    required: bool,
) {
    if let Some(least) = value.remove("minProperties")
        && required
    {
        rule::bound(schema, "minProperties", least);
    }
    let Some(most) = value.remove("maxProperties") else { return };
    match (names, most.as_u64()) {
        (Some(names), Some(most)) if !names.is_empty() => {
            rule::push_cel(schema, cel::at_most(most, names));
        }
        _ => schema.extend(unsupported(
            "`max_properties` of a flattened map counts the fields around it too, remove one of the two",
        )),
    }
}

/// Adds `anyOf` and its like; with names, it holds as soon as one of these fields is set.
fn combine(schema: &mut Map<String, Value>, keyword: &str, logic: Value, names: &[&str]) {
    let part = if names.is_empty() {
        if !schema.contains_key(keyword) {
            schema.insert(keyword.into(), logic);
            return;
        }
        json!({ keyword: logic })
    } else {
        let set: Vec<Value> = names.iter().map(|name| json!({ "required": [name] })).collect();
        json!({ "anyOf": [{ "not": { "anyOf": set } }, { keyword: logic }] })
    };
    let slot = schema.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(parts) = slot {
        match part {
            Value::Object(mut part) if part.contains_key("allOf") => {
                if let Some(Value::Array(more)) = part.remove("allOf") {
                    parts.extend(more);
                }
            }
            part => parts.push(part),
        }
    }
}
