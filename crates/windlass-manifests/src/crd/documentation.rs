//! How much documentation a definition carries.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

use crate::schema::FOREIGN;

/// The bytes that the schema of one version may have before it loses documentation.
///
/// `kubectl apply` writes the whole object into an annotation, and all annotations together may
/// have 262144 bytes.
pub const SIZE_BUDGET: usize = 200_000;

/// Drops the documentation of Kubernetes' own types if the schema is too large otherwise.
pub(super) fn fit(schema: &mut Map<String, Value>) {
    let size = serde_json::to_string(schema).map(|text| text.len()).unwrap_or_default();
    if size > SIZE_BUDGET {
        drop_foreign(schema, false);
    }
}

fn drop_foreign(schema: &mut Map<String, Value>, inside: bool) {
    let foreign = schema.contains_key(FOREIGN);
    if inside {
        schema.remove("description");
    }
    let inside = inside || foreign;
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties
            .values_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|child| drop_foreign(child, inside));
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(Value::Object(child)) = schema.get_mut(keyword) {
            drop_foreign(child, inside);
        }
    }
}

/// Shortens the descriptions of a definition to whole sentences of at most `length` bytes.
///
/// A length of 0 removes them. The descriptions of columns stay.
pub fn document(crd: &mut CustomResourceDefinition, length: usize) {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            shorten(schema, length);
        }
    }
}

fn shorten(schema: &mut JSONSchemaProps, length: usize) {
    schema.description = match schema.description.take() {
        Some(text) if length > 0 => Some(sentences(text, length)),
        _ => None,
    };
    if let Some(properties) = &mut schema.properties {
        properties.values_mut().for_each(|child| shorten(child, length));
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(child)) => shorten(child, length),
        Some(JSONSchemaPropsOrArray::Schemas(children)) => {
            children.iter_mut().for_each(|child| shorten(child, length));
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(child)) = &mut schema.additional_properties {
        shorten(child, length);
    }
}

/// The whole sentences that fit; the beginning of the text if not even one does.
fn sentences(text: String, length: usize) -> String {
    if text.len() <= length {
        return text;
    }
    let mut end = length;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let ends = text.char_indices().filter(|(at, letter)| {
        let after = text[at + letter.len_utf8()..].chars().next();
        *letter == '.' && *at < end && after.is_none_or(char::is_whitespace)
    });
    match ends.map(|(at, _)| at + 1).next_back() {
        Some(at) => text[..at].to_owned(),
        None => text[..end].trim_end().to_owned(),
    }
}
