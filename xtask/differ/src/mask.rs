//! What two servers may answer differently is masked: UIDs, versions, times, addresses.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::run::ns;
use crate::server::Answer;

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"20[23]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"));
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(resource version: |current: |Precondition failed: )\d+"));
// The ranges from which the two servers give addresses to services.
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.(96\.\d+|0\.0)\.\d+\b(/\d+)?"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"));
// The type of a rule's own value, which the real server gives a random number.
static SELF: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bselfType\d+"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d+s$"));
// Where Go made the registry of kinds: it depends on how the server was built.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| pattern(r#"in scheme "[^"]*""#));
// Differences between two Go structs, and those between two JSON values.
static CHANGES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?s)(previously negative\)|field is immutable|source is immutable after creation)\n.*",
    )
});
static OBJECT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?s)Invalid value: "?\{.*?\}"?: "#));

/// Fields whose values servers choose.
const CHOSEN: [&str; 11] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "continue",
    "clusterIP",
    "nodePort",
    "healthCheckNodePort",
    "lastTransitionTime",
    "remainingItemCount",
];

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are valid")
}

/// Masks an answer of the run `id`.
pub fn answer(answer: &Answer, id: &str) -> Answer {
    Answer {
        status: answer.status,
        body: value(&answer.body, id),
        warnings: answer.warnings.iter().map(|warning| text(warning, id)).collect(),
    }
}

fn value(from: &Value, id: &str) -> Value {
    match from {
        Value::Object(map) => {
            let mut masked = Map::new();
            for (name, inner) in map {
                // The descriptions of columns come from Go's types, and are not carried over.
                if name == "columnDefinitions" {
                    masked.insert(name.clone(), value(&without_descriptions(inner), id));
                    continue;
                }
                // Ages depend on how fast the servers are.
                if name == "cells" {
                    let aged = |cell: &Value| match cell.as_str() {
                        Some(text) if AGE.is_match(text) => Value::from("<age>"),
                        _ => value(cell, id),
                    };
                    let cells = inner.as_array().into_iter().flatten().map(aged);
                    masked.insert(name.clone(), cells.collect());
                    continue;
                }
                let chosen = CHOSEN.contains(&name.as_str());
                let inner = match inner {
                    Value::String(held) if chosen && !held.is_empty() && held != "None" => {
                        Value::String(format!("<{name}>"))
                    }
                    Value::Number(_) if chosen => Value::String(format!("<{name}>")),
                    inner => value(inner, id),
                };
                masked.insert(text(name, id), inner);
            }
            Value::Object(masked)
        }
        Value::Array(list) => Value::Array(list.iter().map(|inner| value(inner, id)).collect()),
        Value::String(held) => Value::String(text(held, id)),
        other => other.clone(),
    }
}

fn without_descriptions(columns: &Value) -> Value {
    let mut columns = columns.clone();
    for column in columns.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        column.remove("description");
    }
    columns
}

fn text(from: &str, id: &str) -> String {
    let named = from.replace(&ns(id), "{ns}").replace(id, "{id}");
    let named = named.replace("kubernetes.default.svc.cluster.local", "kubernetes.default.svc");
    let masked = UID.replace_all(&named, "<uid>");
    let masked = TOKEN.replace_all(&masked, "<token>");
    let masked = TIME.replace_all(&masked, "<time>");
    let masked = ADDRESS.replace_all(&masked, "<address>");
    let masked = VERSION.replace_all(&masked, "${1}<version>");
    let masked = SELF.replace_all(&masked, "selfType");
    let masked = SCHEME.replace_all(&masked, "in scheme <scheme>");
    let masked = CHANGES.replace(&masked, "${1}");
    OBJECT.replace_all(&masked, "Invalid value: <object>: ").into_owned()
}
