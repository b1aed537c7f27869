//! `metadata` of custom objects and of resources embedded in them: reading and rules.

use serde_json::{Map, Value};
use windlass_text::name as text;

use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// All annotations of an object together may not be larger than this.
const ANNOTATIONS_MAX: usize = 256 * 1024;

#[derive(Clone, Copy)]
enum Kind {
    Text(&'static str),
    Whole,
    Flag,
    Time,
    TextMap,
    Texts,
    Struct(&'static str, &'static [(&'static str, Kind)]),
    List(&'static str, &'static [(&'static str, Kind)]),
    Raw,
}

const OWNER: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text("string")),
    ("blockOwnerDeletion", Kind::Flag),
    ("controller", Kind::Flag),
    ("kind", Kind::Text("string")),
    ("name", Kind::Text("string")),
    ("uid", Kind::Text("types.UID")),
];

const MANAGED: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text("string")),
    ("fieldsType", Kind::Text("string")),
    ("fieldsV1", Kind::Raw),
    ("manager", Kind::Text("string")),
    ("operation", Kind::Text("v1.ManagedFieldsOperationType")),
    ("subresource", Kind::Text("string")),
    ("time", Kind::Time),
];

const META: &[(&str, Kind)] = &[
    ("annotations", Kind::TextMap),
    ("creationTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::Whole),
    ("deletionTimestamp", Kind::Time),
    ("finalizers", Kind::Texts),
    ("generateName", Kind::Text("string")),
    ("generation", Kind::Whole),
    ("labels", Kind::TextMap),
    ("managedFields", Kind::List("v1.ManagedFieldsEntry", MANAGED)),
    ("name", Kind::Text("string")),
    ("namespace", Kind::Text("string")),
    ("ownerReferences", Kind::List("v1.OwnerReference", OWNER)),
    ("resourceVersion", Kind::Text("string")),
    ("selfLink", Kind::Text("string")),
    ("uid", Kind::Text("types.UID")),
];

/// Reads metadata as the Go type does: known fields of the right type, empty ones left out.
/// Returns it with the paths of unknown fields.
///
/// # Errors
/// The text of the JSON decoder for a field of the wrong type; `lenient` drops such fields.
pub fn read(value: &Value, lenient: bool) -> Result<(Value, Vec<String>), String> {
    let mut unknown = Vec::new();
    let Value::Object(map) = value else {
        return match value {
            Value::Null => Ok((Value::Object(Map::new()), unknown)),
            other => Err(unfit(other, "value", "v1.ObjectMeta")),
        };
    };
    let mut out = Map::new();
    for (key, value) in map {
        let Some((_, kind)) = META.iter().find(|(name, _)| name == key) else {
            unknown.push(key.clone());
            continue;
        };
        match read_field(value, *kind, key, key, &mut unknown) {
            Ok(Some(value)) => drop(out.insert(key.clone(), value)),
            Ok(None) => {}
            Err(_) if lenient => {}
            Err(why) => return Err(why),
        }
    }
    Ok((Value::Object(out), unknown))
}

fn unfit(value: &Value, place: &str, go_type: &str) -> String {
    let kind = match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        // Only what could have been a whole number is shown.
        Value::Number(n) if n.as_i64().is_none() && go_type == "int64" => format!("number {n}"),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".to_owned(),
    };
    let strukt = match place.split_once('.') {
        Some(("managedFields", _)) => "ManagedFieldsEntry",
        Some(("ownerReferences", _)) => "OwnerReference",
        _ => "ObjectMeta",
    };
    match place {
        "value" => format!("json: cannot unmarshal {kind} into Go value of type {go_type}"),
        _ => format!(
            "json: cannot unmarshal {kind} into Go struct field {strukt}.{place} of type {go_type}"
        ),
    }
}

/// A field's value, `None` if it is left out; `path` is the one for unknown fields, with indices.
fn read_field(
    value: &Value,
    kind: Kind,
    place: &str,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let whole = || Ok(Some(value.clone()));
    let number = |value: &Value| match value {
        Value::Number(n) => n.as_i64().is_some(),
        _ => false,
    };
    match (kind, value) {
        (Kind::Text(_), Value::String(text)) if text.is_empty() => Ok(None),
        (Kind::Text(_), Value::String(_)) | (Kind::Flag, Value::Bool(_)) => whole(),
        (Kind::Text(go_type), other) => Err(unfit(other, place, go_type)),
        (Kind::Flag, other) => Err(unfit(other, place, "bool")),
        (Kind::Whole, value) if number(value) => match value.as_i64() {
            Some(0) if place == "generation" => Ok(None),
            _ => whole(),
        },
        (Kind::Whole, other) => Err(unfit(other, place, "int64")),
        (Kind::Time, Value::String(text)) => match text.parse::<jiff::Timestamp>() {
            Ok(_) => whole(),
            Err(_) => Err(bad_time(text)),
        },
        (Kind::Time, other) => Err(unfit(other, "value", "string")),
        (Kind::TextMap, Value::Object(map)) => read_text_map(map, place),
        (Kind::TextMap, other) => Err(unfit(other, place, "map[string]string")),
        (Kind::Texts, Value::Array(items)) => {
            if let Some(other) = items.iter().find(|item| !item.is_string() && !item.is_null()) {
                return Err(unfit(other, place, "string"));
            }
            let text = |item: &Value| Value::from(item.as_str().unwrap_or_default());
            Ok((!items.is_empty()).then(|| items.iter().map(text).collect()))
        }
        (Kind::Texts, other) => Err(unfit(other, place, "[]string")),
        (Kind::List(name, fields), Value::Array(items)) => {
            let mut out = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let kind = Kind::Struct(name, fields);
                out.push(read_field(item, kind, place, &path, unknown)?.unwrap_or_default());
            }
            Ok((!out.is_empty()).then_some(Value::Array(out)))
        }
        (Kind::List(name, _), other) => Err(unfit(other, place, &format!("[]{name}"))),
        (Kind::Struct(name, fields), Value::Object(map)) => {
            read_struct(map, (name, fields), place, path, unknown).map(Some)
        }
        (Kind::Struct(name, _), other) => Err(unfit(other, place, name)),
        (Kind::Raw, _) => whole(),
    }
}

fn read_text_map(map: &Map<String, Value>, place: &str) -> Result<Option<Value>, String> {
    let mut out = Map::new();
    for (key, value) in map {
        match value {
            Value::String(_) => drop(out.insert(key.clone(), value.clone())),
            Value::Null => drop(out.insert(key.clone(), "".into())),
            other => return Err(unfit(other, place, "string")),
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

fn read_struct(
    map: &Map<String, Value>,
    (name, fields): (&str, &[(&str, Kind)]),
    place: &str,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    let mut out = Map::new();
    if name == "v1.OwnerReference" {
        for key in ["apiVersion", "kind", "name", "uid"] {
            out.insert(key.into(), "".into());
        }
    }
    for (key, value) in map {
        let Some((_, kind)) = fields.iter().find(|(field, _)| field == key) else {
            unknown.push(format!("{path}.{key}"));
            continue;
        };
        let (place, path) = (format!("{place}.{key}"), format!("{path}.{key}"));
        if let Some(value) = read_field(value, *kind, &place, &path, unknown)? {
            out.insert(key.clone(), value);
        }
    }
    Ok(Value::Object(out))
}

fn bad_time(text: &str) -> String {
    let layout = "2006-01-02T15:04:05Z07:00";
    let shown = crate::status::quote(text);
    format!("parsing time {shown} as \"{layout}\": cannot parse {shown} as \"2006\"")
}

/// Problems of every resource embedded in an object.
pub fn validate_embedded(schema: &super::Schema, value: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    walk(Some(schema), value, "", schema.embedded, &mut errors);
    errors
}

/// Problems of a value that is itself a resource, and of those embedded in it.
pub fn validate_resource(schema: &super::Schema, value: &Value, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    walk(Some(schema), value, path, true, &mut errors);
    errors
}

fn walk(
    schema: Option<&super::Schema>,
    value: &Value,
    path: &str,
    embedded: bool,
    errors: &mut FieldErrors,
) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(map) => {
            if embedded {
                check_resource(map, path, errors);
            }
            for (key, value) in map {
                let (next, place) = match (schema.properties.get(key), &schema.additional) {
                    (Some(field), _) => (Some(field), super::prune::child(path, key)),
                    (None, Some(a)) => (a.schema.as_deref(), format!("{path}[{key}]")),
                    (None, None) => continue,
                };
                walk(next, value, &place, next.is_some_and(|s| s.embedded), errors);
            }
        }
        Value::Array(items) => {
            let next = schema.items.as_deref();
            for (index, item) in items.iter().enumerate() {
                let place = format!("{path}[{index}]");
                walk(next, item, &place, next.is_some_and(|s| s.embedded), errors);
            }
        }
        _ => {}
    }
}

fn check_resource(map: &Map<String, Value>, path: &str, errors: &mut FieldErrors) {
    let child = |name: &str| super::prune::child(path, name);
    for key in ["apiVersion", "kind"] {
        let place = child(key);
        match map.get(key) {
            None => errors.push(FieldError::required(place, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid_str(place, text, "must not be empty"));
            }
            Some(Value::String(text)) if key == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid_str(place, text, detail));
                }
            }
            Some(Value::String(text)) => {
                let faults = text::dns1035_faults(&text.to_lowercase());
                if !faults.is_empty() {
                    let detail = format!(
                        "may have mixed case, but should otherwise match: {}",
                        faults.join(",")
                    );
                    errors.push(FieldError::invalid_str(place, text, detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(place, other, "must be a string")),
        }
    }
    let Some(metadata) = map.get("metadata") else { return };
    match read(metadata, false) {
        Ok((read, _)) => check_metadata(&read, &child("metadata"), errors),
        Err(why) => errors.push(FieldError::invalid(child("metadata"), metadata, why)),
    }
}

/// The rules of metadata inside an embedded resource.
fn check_metadata(meta: &Value, path: &str, errors: &mut FieldErrors) {
    let field = |name: &str| format!("{path}.{name}");
    let text = |name: &str| meta[name].as_str().unwrap_or_default();
    for key in ["generateName", "name"] {
        for fault in text::path_segment_faults(text(key)) {
            errors.push(FieldError::invalid_str(field(key), text(key), fault));
        }
    }
    if !text("namespace").is_empty() {
        for fault in text::dns1123_label_faults(text("namespace")) {
            errors.push(FieldError::invalid_str(field("namespace"), text("namespace"), fault));
        }
    }
    if let Some(number) = meta["generation"].as_i64().filter(|n| *n < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(field("generation"), &number.into(), detail));
    }
    if let Some(labels) = meta["labels"].as_object() {
        errors.extend(validate_labels(labels, &field("labels")));
    }
    if let Some(annotations) = meta["annotations"].as_object() {
        errors.extend(validate_annotations(annotations, &field("annotations")));
    }
    check_owners(meta, &field("ownerReferences"), errors);
    for name in meta["finalizers"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        for fault in text::qualified_name_faults(name) {
            errors.push(FieldError::invalid_str(field("finalizers"), name, fault));
        }
    }
}

fn check_owners(meta: &Value, path: &str, errors: &mut FieldErrors) {
    let mut controller: Option<String> = None;
    for owner in meta["ownerReferences"].as_array().into_iter().flatten() {
        let text = |name: &str| owner[name].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            let detail = "version must not be empty";
            let shown = text("apiVersion");
            errors.push(FieldError::invalid_str(format!("{path}.apiVersion"), shown, detail));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                let place = format!("{path}.{key}");
                errors.push(FieldError::invalid_str(place, "", "must not be empty"));
            }
        }
        if owner["controller"] == Value::Bool(true) {
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    &meta["ownerReferences"],
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {}",
                        text("name")
                    ),
                )),
                None => controller = Some(text("name").to_owned()),
            }
        }
    }
}

/// Problems of labels.
pub fn validate_labels(labels: &Map<String, Value>, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (key, value) in labels {
        for fault in text::qualified_name_faults(key) {
            errors.push(FieldError::invalid_str(path, key, fault));
        }
        let value = value.as_str().unwrap_or_default();
        for fault in text::label_value_faults(value) {
            errors.push(FieldError::invalid_str(path, value, fault));
        }
    }
    errors
}

/// Problems of annotations.
pub fn validate_annotations(annotations: &Map<String, Value>, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let mut size = 0;
    for (key, value) in annotations {
        for fault in text::qualified_name_faults(&key.to_lowercase()) {
            errors.push(FieldError::invalid_str(path, key, fault));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        let detail = format!("may not be more than {ANNOTATIONS_MAX} bytes");
        errors.push(FieldError::raw(FieldErrorKind::TooLong, path, "", detail));
    }
    errors
}

/// Warnings about finalizers that were added and have no domain.
pub fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    const STANDARD: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
    let names = |object: &Value| -> std::collections::BTreeSet<String> {
        let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before = old.map(names).unwrap_or_default();
    let mut warnings = Vec::new();
    for name in names(object).difference(&before) {
        let shown = format!("metadata.finalizers: {}", crate::status::quote(name));
        for fault in text::qualified_name_faults(name) {
            warnings.push(format!("{shown}: {fault}"));
        }
        if name.contains('/') || STANDARD.contains(&name.as_str()) {
            continue;
        }
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "{shown}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers"
        ));
    }
    warnings
}
