//! The reference of the kinds, as a page of Markdown: fields, types, defaults, rules and examples.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::sample;
use crate::model::{Api, Model};
use crate::yaml;

/// How deep fields are followed.
const DEPTH_MAX: usize = 64;

/// Returns the page.
pub(super) fn page(model: &Model) -> String {
    let mut text = format!("\n# API reference of {}\n", escape(&model.name));
    for api in &model.apis {
        kind(api, &mut text);
    }
    text
}

fn kind(api: &Api, text: &mut String) {
    let names = &api.definition["spec"]["names"];
    let _ = writeln!(text, "\n## {}\n", escape(api.kind()));
    let scope = if api.namespaced() { "belongs to a namespace" } else { "belongs to no namespace" };
    let _ = write!(text, "Group {}, resource {}, {scope}.", code(api.group()), code(api.plural()));
    for (key, words) in [("shortNames", "Short names"), ("categories", "Categories")] {
        let list = codes(&names[key]);
        if !list.is_empty() {
            let _ = write!(text, " {words}: {list}.");
        }
    }
    text.push('\n');
    let versions = api.definition["spec"]["versions"].as_array();
    for version in versions.into_iter().flatten() {
        self::version(api, version, text);
    }
    let sample = match sample::of(api).as_slice() {
        [one] => yaml::document(one),
        many => yaml::documents(many),
    };
    let fence = "`".repeat(longest_run(&sample, '`').max(2) + 1);
    let _ =
        write!(text, "\n### Example of {}\n\n{fence}yaml\n{sample}{fence}\n", escape(api.kind()));
}

fn version(api: &Api, version: &Value, text: &mut String) {
    let name = version["name"].as_str().unwrap_or_default();
    let schema = &version["schema"]["openAPIV3Schema"];
    let _ = writeln!(text, "\n### {} {}\n", escape(api.kind()), escape(name));
    let mut notes = Vec::new();
    if version["storage"] == true {
        notes.push("Objects are stored in this version.".to_owned());
    }
    if version["served"] != true {
        notes.push("It is not served.".to_owned());
    }
    if version["deprecated"] == true {
        let warning = version["deprecationWarning"].as_str().unwrap_or("It is deprecated.");
        notes.push(format!("Deprecated: {}", inline(warning)));
    }
    let _ = writeln!(text, "{}", notes.join(" "));
    if let Some(description) = schema["description"].as_str() {
        let paragraphs = description.split("\n\n").map(inline).filter(|part| !part.is_empty());
        for paragraph in paragraphs {
            let _ = writeln!(text, "\n{paragraph}");
        }
    }
    let own = rules(schema.as_object().unwrap_or(&Map::new()));
    if !own.is_empty() {
        let _ = writeln!(text, "\n{}", own.join(" "));
    }
    text.push_str("\n| field | type | description |\n|---|---|---|\n");
    let required = names(&schema["required"]);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            rows(property, name, required.contains(&name.as_str()), 0, text);
        }
    }
}

/// Writes the row of a field and those of its fields.
fn rows(schema: &Value, path: &str, required: bool, depth: usize, text: &mut String) {
    let Some(map) = schema.as_object() else { return };
    let need = if required { " *required*" } else { "" };
    let mut words = Vec::new();
    if let Some(description) = schema["description"].as_str() {
        let parts: Vec<String> =
            description.split("\n\n").map(inline).filter(|part| !part.is_empty()).collect();
        words.push(parts.join("<br><br>"));
    }
    words.extend(rules(map));
    let _ = writeln!(text, "| {}{need} | {} | {} |", code(path), shape(schema), words.join("<br>"));
    if depth >= DEPTH_MAX {
        return;
    }
    inside(schema, path, depth, text);
}

/// Writes the rows of the fields inside of a value, through lists and maps.
fn inside(schema: &Value, path: &str, depth: usize, text: &mut String) {
    if depth >= DEPTH_MAX {
        return;
    }
    let required = names(&schema["required"]);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&name.as_str());
        rows(property, &format!("{path}.{name}"), is_required, depth + 1, text);
    }
    if schema["items"].is_object() {
        inside(&schema["items"], &format!("{path}[]"), depth + 1, text);
    }
    if schema["additionalProperties"].is_object() {
        inside(&schema["additionalProperties"], &format!("{path}.*"), depth + 1, text);
    }
}

/// The type of a value, in words.
fn shape(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".into();
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", shape(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", shape(&schema["additionalProperties"]))
        }
        Some("object") if schema["x-kubernetes-embedded-resource"] == true => {
            "object of any kind".into()
        }
        Some(kind) => match schema["format"].as_str() {
            Some(format) => format!("{} ({})", escape(kind), escape(format)),
            None => escape(kind),
        },
        None => "any value".into(),
    }
}

/// What a schema demands of a value, in sentences.
fn rules(schema: &Map<String, Value>) -> Vec<String> {
    let get = |key: &str| schema.get(key);
    let mut rules = Vec::new();
    let mut say = |key: &str, words: &str| {
        if let Some(value) = get(key) {
            rules.push(format!("{words} {}.", code(&value.to_string())));
        }
    };
    say("default", "Default:");
    say("example", "Example:");
    let exclusive = |key: &str| get(key).is_some_and(|value| *value == true);
    say("minimum", if exclusive("exclusiveMinimum") { "More than" } else { "At least" });
    say("maximum", if exclusive("exclusiveMaximum") { "Less than" } else { "At most" });
    say("multipleOf", "A multiple of");
    say("minLength", "Characters at least:");
    say("maxLength", "Characters at most:");
    say("minItems", "Items at least:");
    say("maxItems", "Items at most:");
    say("minProperties", "Fields at least:");
    say("maxProperties", "Fields at most:");
    if let Some(pattern) = get("pattern").and_then(Value::as_str) {
        rules.push(format!("Matches {}.", code(pattern)));
    }
    if let Some(values) = get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(plain).collect();
        rules.push(format!("One of {}.", values.join(", ")));
    }
    if exclusive("nullable") {
        rules.push("May be null.".into());
    }
    match get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => rules.push("Each item occurs once.".into()),
        Some("map") => {
            let keys = get("x-kubernetes-list-map-keys").map(codes).unwrap_or_default();
            rules.push(format!("Items are distinct in {keys}."));
        }
        _ => {}
    }
    if exclusive("x-kubernetes-preserve-unknown-fields") {
        rules.push("Further fields are kept.".into());
    }
    for rule in get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        let expression = rule["rule"].as_str().unwrap_or_default().trim();
        match rule["message"].as_str() {
            Some(message) => {
                rules.push(format!("Rule: {} ({}).", inline(message), code(expression)));
            }
            None => rules.push(format!("Rule: {}.", code(expression))),
        }
    }
    rules
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn codes(list: &Value) -> String {
    names(list).into_iter().map(code).collect::<Vec<_>>().join(", ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => code(text),
        other => code(&other.to_string()),
    }
}

/// A text on one line in which nothing is HTML or ends the cell of a table.
fn inline(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = escape(&words.join(" "));
    if is_balanced(&text) { text } else { text.replace('`', "\\`") }
}

/// Returns `true` if every piece of code in a text ends, so that what follows is not taken for code.
fn is_balanced(text: &str) -> bool {
    let mut open = None;
    let mut here = 0;
    for letter in text.chars().chain([' ']) {
        if letter == '`' {
            here += 1;
        } else if here > 0 {
            open = match open {
                None => Some(here),
                Some(length) if length == here => None,
                Some(length) => Some(length),
            };
            here = 0;
        }
    }
    open.is_none()
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '|' => escaped.push_str("\\|"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A piece of code in the cell of a table.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|l| if l.is_control() { ' ' } else { l }).collect();
    let text = text.replace('|', "\\|");
    let fence = "`".repeat(longest_run(&text, '`') + 1);
    // A space keeps a backtick at the edge apart from the fence, and is not shown.
    let edge =
        if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{edge}{text}{edge}{fence}")
}

fn longest_run(text: &str, wanted: char) -> usize {
    let mut longest = 0;
    let mut here = 0;
    for letter in text.chars() {
        here = if letter == wanted { here + 1 } else { 0 };
        longest = longest.max(here);
    }
    longest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(spec: &Value) -> Model {
        let mut model = Model::new("lamp-operator");
        model.apis.push(Api::new(json!({
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Lamp", "plural": "lamps", "singular": "lamp", "shortNames": ["l"]},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "A lamp.\n\nIt <b>shines</b>.",
                    "required": ["spec"], "properties": {"spec": spec},
                }}}],
            },
        })));
        model
    }

    #[test]
    fn fields_have_types_defaults_and_rules() {
        let page = page(&model(&json!({
            "type": "object", "required": ["watts"], "properties": {
                "watts": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 60, "default": 40,
                    "description": "How bright\nit is."},
                "colors": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"], "items": {
                        "type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string", "enum": ["red", "blue"]},
                        },
                    }},
            },
        })));
        for line in [
            "## Lamp",
            "Group `example.com`, resource `lamps`, belongs to a namespace. Short names: `l`.",
            "It &lt;b&gt;shines&lt;/b&gt;.",
            "| `spec` *required* | object |  |",
            "| `spec.watts` *required* | integer (int32) | How bright it is.<br>Default: `40`.<br>At least `1`.<br>At most `60`. |",
            "| `spec.colors` | list of object | Items are distinct in `name`. |",
            "| `spec.colors[].name` *required* | string | One of `red`, `blue`. |",
            "  watts: 40",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }

    #[test]
    fn no_text_ends_a_cell_or_becomes_html() {
        let nasty = "a | b\r\n| c <script> `|` ``` \u{1b}[0m";
        let page = page(&model(&json!({
            "type": "object", "description": nasty, "properties": {
                nasty: {"type": "string", "description": nasty, "pattern": nasty, "default": nasty,
                    "x-kubernetes-validations": [{"rule": nasty, "message": nasty}]},
            },
        })));
        let outside = |row: &str| {
            let mut rest = row.replace("\\`", "");
            while let Some(at) = rest.find('`') {
                let fence: String =
                    rest[at..].chars().take_while(|letter| *letter == '`').collect();
                let after = &rest[at + fence.len()..];
                let end = after.find(&fence).expect("code ends");
                rest = format!("{}{}", &rest[..at], &after[end + fence.len()..]);
            }
            rest
        };
        let rows: Vec<String> =
            page.lines().filter(|row| row.starts_with("| ")).map(outside).collect();
        assert!(rows.iter().all(|row| !row.contains("<script")), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\r'));
        let table = page.lines().filter(|line| line.starts_with("| "));
        for row in table {
            let cells = row.replace("\\|", "");
            assert_eq!(cells.matches('|').count(), 4, "{row}");
        }
    }
}
