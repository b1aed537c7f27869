//! Keywords that fit the type, and each other.

use serde_json::{Map, Value};

use super::{Report, is_set, kind, value};
use crate::schema::INT_OR_STRING;

/// Each keyword, the attribute that writes it, and the type that it applies to.
const KEYWORDS: [(&str, &str, &str); 14] = [
    ("minimum", "min", "number"),
    ("maximum", "max", "number"),
    ("exclusiveMinimum", "exclusive_min", "number"),
    ("exclusiveMaximum", "exclusive_max", "number"),
    ("multipleOf", "multiple_of", "number"),
    ("minLength", "min_length", "string"),
    ("maxLength", "max_length", "string"),
    ("pattern", "pattern", "string"),
    ("minItems", "min_items", "array"),
    ("maxItems", "max_items", "array"),
    ("items", "items", "array"),
    ("minProperties", "min_properties", "object"),
    ("maxProperties", "max_properties", "object"),
    ("additionalProperties", "values", "object"),
];

/// The keywords that are lower and upper bounds of the same.
const PAIRS: [(&str, &str); 4] = [
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
];

/// Checks the keywords of one schema.
pub(super) fn check(schema: &Map<String, Value>, path: &str, report: &mut Report) {
    for (keyword, attribute, wanted) in KEYWORDS {
        if schema.contains_key(keyword) && !applies(schema, wanted) {
            let plural = match wanted {
                "number" => "numbers",
                "string" => "strings",
                "array" => "lists",
                _ => "maps and structs",
            };
            report.add(
                path,
                format_args!("`{attribute}` applies to {plural}, but this is {}", word(schema)),
            );
        }
    }
    for (lower, upper) in PAIRS {
        let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
        if let (Some(least), Some(most)) = (bound(lower), bound(upper))
            && (least > most || (least == most && is_exclusive(schema)))
        {
            report.add(
                path,
                format_args!("no value is possible, {lower} is {least} and {upper} is {most}"),
            );
        }
    }
    let patterns = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let patterns = patterns.filter_map(|part| part.get("pattern")).chain(schema.get("pattern"));
    for pattern in patterns.filter_map(Value::as_str) {
        if let Err(why) = windlass_text::pattern::compile(pattern) {
            report.add(
                path,
                format_args!("the pattern `{pattern}` is not a regular expression of Go, {why}"),
            );
        }
    }
    for allowed in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        if let Some(why) = value::type_problem(schema, allowed) {
            report.add(path, format_args!("the value {allowed} of `enum` {why}"));
        }
    }
}

/// Returns `true` if a bound is not itself a possible value.
fn is_exclusive(schema: &Map<String, Value>) -> bool {
    is_set(schema, "exclusiveMinimum") || is_set(schema, "exclusiveMaximum")
}

fn applies(schema: &Map<String, Value>, wanted: &str) -> bool {
    match (kind(schema), wanted) {
        ("integer" | "number", "number") => true,
        ("", "string" | "number") if is_set(schema, INT_OR_STRING) => true,
        ("", _) => !is_set(schema, INT_OR_STRING),
        (kind, wanted) => kind == wanted,
    }
}

/// The word for the type of a schema.
pub(super) fn word(schema: &Map<String, Value>) -> &str {
    match kind(schema) {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "a boolean",
        "array" => "a list",
        "object" if schema.contains_key("additionalProperties") => "a map",
        "object" => "a struct",
        _ if is_set(schema, INT_OR_STRING) => "an int-or-string",
        _ => "a value of any type",
    }
}
