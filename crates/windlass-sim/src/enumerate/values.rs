//! Other values of the fields of a spec, as its schema allows them.

use serde_json::{Map, Value};

/// The largest bound of a number that is tried: more objects than that only cost time.
const NUMBER_MAX: i64 = 1000;
/// An image that no node can pull, because its host does not exist.
const IMAGE: &str = "registry.invalid/none:1";
/// A text that is allowed nearly everywhere, also as a label.
const TEXT: &str = "other";

/// Other values of the fields of a spec: `spec/field` and the value.
///
/// They are bounds and neighbours of numbers, other words of enumerations, empty and other texts, an
/// image that cannot be pulled, lists and maps with one entry more or less, and nothing.
pub(super) fn of(schema: &Value, spec: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    fields(schema, spec, "spec", &mut found);
    found
}

fn fields(schema: &Value, object: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        let now = &object[name];
        let required = schema["required"].as_array().into_iter().flatten().any(|r| r == name);
        let mut others = Vec::new();
        if !required && !now.is_null() {
            others.push(Value::Null);
        }
        match field["enum"].as_array() {
            Some(words) => others.extend(words.iter().filter(|word| !word.is_null()).cloned()),
            None => others.extend(of_type(field, name, now)),
        }
        for value in others {
            let new = (path.clone(), value);
            if new.1 != *now && !found.contains(&new) {
                found.push(new);
            }
        }
        if field["properties"].is_object() && now.is_object() {
            fields(field, now, &path, found);
        }
    }
}

fn of_type(schema: &Value, name: &str, now: &Value) -> Vec<Value> {
    match schema["type"].as_str() {
        Some("integer") => numbers(schema, now).into_iter().map(Value::from).collect(),
        Some("boolean") => vec![Value::Bool(now != &Value::Bool(true))],
        Some("string") => texts(schema, name, now).into_iter().map(Value::from).collect(),
        Some("array") => lists(schema, name, now),
        Some("object") if schema["additionalProperties"].is_object() => maps(schema, now),
        _ => Vec::new(),
    }
}

/// Bounds, 0, 1 and the neighbours of the value.
fn numbers(schema: &Value, now: &Value) -> Vec<i64> {
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let mut all: Vec<i64> = least.into_iter().chain(most).collect();
    all.extend([0, 1]);
    if let Some(now) = now.as_i64() {
        all.extend([now.saturating_sub(1), now.saturating_add(1)]);
    }
    all.retain(|n| {
        let bounded = least.is_none_or(|least| *n >= least) && most.is_none_or(|most| *n <= most);
        // Most numbers count something. A negative one needs a schema that asks for it.
        bounded && n.abs() < NUMBER_MAX && (*n >= 0 || least.is_some())
    });
    all
}

/// No text, another one, and for images one that cannot be pulled.
fn texts(schema: &Value, name: &str, now: &Value) -> Vec<String> {
    let form = schema["format"].is_string() || schema["pattern"].is_string();
    let least = schema["minLength"].as_u64().unwrap_or_default() as usize;
    let most = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize);
    let mut all = Vec::new();
    if name.to_lowercase().ends_with("image") {
        all.push(IMAGE.to_owned());
    } else if !form {
        all.push(format!("{}{TEXT}", now.as_str().unwrap_or_default()));
    }
    if !form {
        all.push(String::new());
    }
    all.retain(|text| (least..=most).contains(&text.chars().count()));
    all
}

/// The list without its last entry, and with another one.
fn lists(schema: &Value, name: &str, now: &Value) -> Vec<Value> {
    let entries = now.as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    if let Some((_, rest)) = entries.split_last() {
        all.push(Value::from(rest.to_vec()));
    }
    let items = &schema["items"];
    let last = entries.last().unwrap_or(&Value::Null);
    let new = of_type(items, name, last).into_iter().find(|new| !entries.contains(new));
    if let Some(new) = new.filter(|new| !new.is_object() && *new != "") {
        all.push(Value::from([entries, vec![new]].concat()));
    }
    all
}

/// The map without its first entry, and with another one.
fn maps(schema: &Value, now: &Value) -> Vec<Value> {
    let entries = now.as_object().cloned().unwrap_or_default();
    let mut all = Vec::new();
    if let Some(first) = entries.keys().next() {
        // In a merge patch, an entry goes with null.
        all.push(Value::from(Map::from_iter([(first.clone(), Value::Null)])));
    }
    let new = of_type(&schema["additionalProperties"], TEXT, &Value::Null);
    if let Some(new) = new.into_iter().next().filter(|_| !entries.contains_key(TEXT)) {
        all.push(Value::from(Map::from_iter([(TEXT.to_owned(), new)])));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(properties: Value, object: Value) -> Vec<String> {
        let found = of(&json!({"required": ["size"], "properties": properties}), &object);
        found.into_iter().map(|(path, value)| format!("{path}={value}")).collect()
    }

    #[test]
    fn numbers_words_and_flags_follow_from_the_schema() {
        let schema = json!({
            "size": {"type": "integer", "minimum": 1.0, "maximum": 5.0},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "on": {"type": "boolean"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer"}}},
        });
        let object = json!({"size": 4, "mode": "a", "deep": {"n": 1}});
        assert_eq!(
            found(schema, object),
            [
                "spec/deep=null",
                "spec/deep/n=null",
                "spec/deep/n=0",
                "spec/deep/n=2",
                "spec/mode=null",
                "spec/mode=\"b\"",
                "spec/on=true",
                "spec/size=1",
                "spec/size=5",
                "spec/size=3",
            ]
        );
    }

    #[test]
    fn texts_are_emptied_and_changed_and_an_image_is_one_that_cannot_be_pulled() {
        let schema = json!({
            "image": {"type": "string"},
            "note": {"type": "string", "minLength": 1},
            "when": {"type": "string", "format": "date-time"},
        });
        let object = json!({"image": "nginx", "note": "x"});
        assert_eq!(
            found(schema, object),
            [
                "spec/image=null",
                "spec/image=\"registry.invalid/none:1\"",
                "spec/image=\"\"",
                "spec/note=null",
                "spec/note=\"xother\"",
            ]
        );
    }

    #[test]
    fn lists_and_maps_lose_an_entry_and_get_another_one() {
        let schema = json!({
            "args": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        });
        let object = json!({"args": ["a", "b"], "labels": {"x": "y"}});
        assert_eq!(
            found(schema, object),
            [
                "spec/args=null",
                "spec/args=[\"a\"]",
                "spec/args=[\"a\",\"b\",\"bother\"]",
                "spec/labels=null",
                "spec/labels={\"x\":null}",
                "spec/labels={\"other\":\"other\"}",
            ]
        );
    }
}
