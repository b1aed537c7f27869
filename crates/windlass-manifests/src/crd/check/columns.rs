//! The paths of columns, selectable fields and subresources.

use serde_json::{Map, Value};

use super::{Report, kind};
use crate::crd::path::{Target, resolve};

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// How many fields of a version field selectors may know.
const SELECTABLE_MAX: usize = 8;

/// Checks what a version says beside its schema.
pub(super) fn check(root: &Map<String, Value>, version: &Value, report: &mut Report) {
    for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
        let name = column["name"].as_str().unwrap_or_default();
        let place = format!("column {name}");
        if name.is_empty() {
            report.add(&place, "a column has a name");
        }
        match text(column, "jsonPath") {
            "" => report.add(&place, "a column has a path such as `.spec.size`"),
            path => drop(target(root, path, &place, report)),
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            report.add(
                &place,
                format_args!("the format `{format}` is not one of {}", FORMATS.join(", ")),
            );
        }
        let kind = text(column, "type");
        if !TYPES.contains(&kind) {
            report
                .add(&place, format_args!("the type `{kind}` is not one of {}", TYPES.join(", ")));
        }
    }
    selectable(root, version, report);
    scale(root, version, report);
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the schema of the field that a path leads to, and reports a path that leads nowhere.
fn target(
    root: &Map<String, Value>,
    path: &str,
    place: &str,
    report: &mut Report,
) -> Option<Map<String, Value>> {
    match resolve(root, path) {
        Target::Field(Value::Object(schema)) => return Some(schema),
        Target::Field(_) | Target::Open => {}
        Target::Missing(parent, name, known) => {
            let parent =
                if parent.is_empty() { "the object".into() } else { format!("`{parent}`") };
            let fields = if known.is_empty() {
                String::new()
            } else {
                format!(", its fields are {}", known.join(", "))
            };
            report.add(
                place,
                format_args!(
                    "the path `{path}` leads nowhere, {parent} has no field `{name}`{fields}"
                ),
            );
        }
        Target::Malformed(why) => {
            report.add(place, format_args!("the path `{path}` cannot be read, {why}"));
        }
    }
    None
}

fn selectable(root: &Map<String, Value>, version: &Value, report: &mut Report) {
    let fields = version["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    if fields.len() > SELECTABLE_MAX {
        report.add(
            "selectable",
            format_args!(
                "there are {} fields, and at most {SELECTABLE_MAX} are allowed",
                fields.len()
            ),
        );
    }
    for (at, field) in fields.iter().enumerate() {
        let path = text(field, "jsonPath");
        if fields[..at].iter().any(|other| text(other, "jsonPath") == path) {
            report.add("selectable", format_args!("`{path}` is named twice"));
        }
        if path.starts_with(".metadata") {
            report.add("selectable", format_args!("`{path}` is selectable anyway or not at all"));
        } else if path.contains('[') {
            report.add(
                "selectable",
                format_args!(
                    "`{path}` leads into a list, and only fields of objects are selectable"
                ),
            );
        } else if let Some(schema) = target(root, path, "selectable", report)
            && !matches!(kind(&schema), "string" | "integer" | "boolean")
        {
            report.add(
                "selectable",
                format_args!("`{path}` is not a string, an integer or a boolean"),
            );
        }
    }
}

fn scale(root: &Map<String, Value>, version: &Value, report: &mut Report) {
    let scale = &version["subresources"]["scale"];
    let paths = [
        ("specReplicasPath", ".spec.", "integer"),
        ("statusReplicasPath", ".status.", "integer"),
        ("labelSelectorPath", ".s", "string"),
    ];
    for (key, below, wanted) in paths {
        let path = text(scale, key);
        if path.is_empty() {
            continue;
        }
        if !path.starts_with(below) {
            report.add("scale", format_args!("the path `{path}` does not begin with `{below}`"));
        } else if path.contains('[') {
            report.add("scale", format_args!("the path `{path}` leads into a list"));
        } else if let Some(schema) = target(root, path, "scale", report)
            && kind(&schema) != wanted
        {
            report.add("scale", format_args!("`{path}` is not of type {wanted}"));
        }
    }
}
