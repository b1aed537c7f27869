//! JSONPaths, and the fields that they lead to.

use serde_json::{Map, Value, json};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of an object.
    Field(String),
    /// An item of a list, by number, filter or `*`; or a key of a map in quotes.
    Inside,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// A field with this schema.
    Field(Value),
    /// A field that no schema describes.
    Open,
    /// No field: the object at the first path has no field of that name, but has these.
    Missing(String, String, Vec<String>),
    /// The path cannot be read.
    Malformed(String),
}

/// Finds the field that a path leads to, from the root of an object.
pub(super) fn resolve(root: &Map<String, Value>, path: &str) -> Target {
    let steps = match steps(path) {
        Ok(steps) => steps,
        Err(why) => return Target::Malformed(why),
    };
    let mut here = Value::Object(root.clone());
    let mut seen = String::new();
    for step in steps {
        match step {
            Step::Field(name) => {
                if seen == ".metadata" {
                    return metadata(&name);
                }
                // Definitions need not mention it.
                if seen.is_empty() && name == "metadata" {
                    here = json!({ "type": "object" });
                    seen.push_str(".metadata");
                    continue;
                }
                match field(&here, &name) {
                    Found::Value(value) => here = value,
                    Found::Open => return Target::Open,
                    Found::Missing(names) => return Target::Missing(seen, name, names),
                }
                seen.push('.');
                seen.push_str(&name);
            }
            Step::Inside => {
                let inner = here.get("items").or_else(|| here.get("additionalProperties"));
                match inner.cloned() {
                    Some(inner) => here = inner,
                    None => return Target::Open,
                }
                seen.push_str("[]");
            }
        }
    }
    Target::Field(here)
}

/// Returns the type of a column for the field that a path leads to.
pub(super) fn column_type(root: &Map<String, Value>, path: &str) -> &'static str {
    let Target::Field(schema) = resolve(root, path) else { return "string" };
    let format = schema.get("format").and_then(Value::as_str);
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => "integer",
        Some("number") => "number",
        Some("boolean") => "boolean",
        Some("string") if matches!(format, Some("date-time" | "date")) => "date",
        _ => "string",
    }
}

enum Found {
    Value(Value),
    Open,
    Missing(Vec<String>),
}

fn field(schema: &Value, name: &str) -> Found {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(found) = properties.and_then(|properties| properties.get(name)) {
        return Found::Value(found.clone());
    }
    if let Some(values) = schema.get("additionalProperties") {
        return Found::Value(values.clone());
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some_and(|open| open == true) {
        return Found::Open;
    }
    Found::Missing(properties.map(|map| map.keys().cloned().collect()).unwrap_or_default())
}

/// The fields of metadata, which no definition describes.
fn metadata(name: &str) -> Target {
    match name {
        "creationTimestamp" | "deletionTimestamp" => {
            Target::Field(json!({ "type": "string", "format": "date-time" }))
        }
        "generation" | "deletionGracePeriodSeconds" => Target::Field(json!({ "type": "integer" })),
        "name" | "namespace" | "uid" | "resourceVersion" | "generateName" => {
            Target::Field(json!({ "type": "string" }))
        }
        "labels" | "annotations" | "ownerReferences" | "finalizers" | "managedFields" => {
            Target::Open
        }
        _ => Target::Missing(".metadata".into(), name.into(), Vec::new()),
    }
}

/// Reads a path: `.spec.list[0].name`, `.status.conditions[?(@.type=="Ready")].status`.
pub(super) fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = field_end(after);
            let name = after[..end].replace("\\.", ".");
            if name.is_empty() && !after[end..].starts_with('[') {
                return Err("a name is missing after a dot".into());
            }
            if !name.is_empty() {
                steps.push(if name == "*" { Step::Inside } else { Step::Field(name) });
            }
            rest = &after[end..];
        } else if rest.starts_with('[') {
            let end = bracket_end(rest).ok_or("a bracket is not closed")?;
            let inside = rest[1..end].trim();
            let quoted = inside.trim_matches(['\'', '"']);
            steps.push(if quoted.len() < inside.len() && !inside.starts_with('?') {
                Step::Field(quoted.into())
            } else {
                Step::Inside
            });
            rest = &rest[end + 1..];
        } else {
            return Err("a path begins with a dot".into());
        }
    }
    Ok(steps)
}

/// Where a name ends: at a dot or bracket that no backslash escapes.
fn field_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\\' => escaped = !escaped,
            '.' | '[' if !escaped => return at,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Where the bracket at the start is closed.
fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Map<String, Value> {
        let root = json!({ "properties": {
            "spec": { "properties": { "size": { "type": "integer" }, "on": { "type": "boolean" } } },
            "status": { "properties": {
                "since": { "type": "string", "format": "date-time" },
                "conditions": { "items": { "properties": { "status": { "type": "string" } } } },
                "free": { "x-kubernetes-preserve-unknown-fields": true },
            } },
        } });
        root.as_object().unwrap().clone()
    }

    #[test]
    fn columns_have_the_types_of_their_fields() {
        let root = root();
        assert_eq!(column_type(&root, ".spec.size"), "integer");
        assert_eq!(column_type(&root, ".spec.on"), "boolean");
        assert_eq!(column_type(&root, ".status.since"), "date");
        assert_eq!(column_type(&root, ".metadata.creationTimestamp"), "date");
        assert_eq!(column_type(&root, ".metadata.labels.app"), "string");
        let filter = r#".status.conditions[?(@.type=="Ready")].status"#;
        assert_eq!(column_type(&root, filter), "string");
    }

    #[test]
    fn a_field_that_is_not_there_is_named_with_its_neighbours() {
        let expected =
            Target::Missing(".spec".into(), "sise".into(), vec!["on".into(), "size".into()]);
        assert_eq!(resolve(&root(), ".spec.sise"), expected);
        assert_eq!(resolve(&root(), ".status.free.x.y"), Target::Open);
        assert!(matches!(resolve(&root(), "spec"), Target::Malformed(_)));
        assert!(matches!(resolve(&root(), ".spec[0"), Target::Malformed(_)));
    }
}
