//! The document of v2 in protobuf, as clients in Go read it.
//!
//! The messages are those of gnostic's `openapi.v2.Document`; what has no field of its own (names
//! that begin with `x-`) is written as YAML, of which JSON is a part. Only what [`super::v2`] makes
//! is written, so this is an encoder for one document and not for the format.

use serde_json::{Map, Value};

/// The fields of a schema that are texts.
const SCHEMA_TEXTS: [(&str, u64); 6] = [
    ("$ref", 1),
    ("format", 2),
    ("title", 3),
    ("description", 4),
    ("pattern", 13),
    ("discriminator", 26),
];
const SCHEMA_NUMBERS: [(&str, u64); 3] = [("multipleOf", 6), ("maximum", 7), ("minimum", 9)];
const SCHEMA_FLAGS: [(&str, u64); 4] =
    [("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16), ("readOnly", 27)];
const SCHEMA_COUNTS: [(&str, u64); 6] = [
    ("maxLength", 11),
    ("minLength", 12),
    ("maxItems", 14),
    ("minItems", 15),
    ("maxProperties", 17),
    ("minProperties", 18),
];

/// The whole document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, info);
    let mut paths = Message::default();
    for (name, item) in map(&document["paths"]) {
        paths.named(2, name, path_item(item));
    }
    out.message(8, paths);
    out.message(9, named_schemas(&document["definitions"]));
    out.0
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in map(item) {
        let field = match name.as_str() {
            "get" => 2,
            "put" => 3,
            "post" => 4,
            "delete" => 5,
            "options" => 6,
            "head" => 7,
            "patch" => 8,
            _ => continue,
        };
        out.message(field, operation(value));
    }
    for parameter in list(&item["parameters"]) {
        out.message(9, self::parameter(parameter));
    }
    out
}

fn operation(operation: &Value) -> Message {
    let mut out = Message::default();
    out.texts(1, &operation["tags"]);
    out.text(3, &operation["description"]);
    out.text(5, &operation["operationId"]);
    out.texts(6, &operation["produces"]);
    out.texts(7, &operation["consumes"]);
    for parameter in list(&operation["parameters"]) {
        out.message(8, self::parameter(parameter));
    }
    let mut responses = Message::default();
    for (code, response) in map(&operation["responses"]) {
        let mut one = Message::default();
        one.text(1, &response["description"]);
        if response["schema"].is_object() {
            one.message(2, Message::of(1, schema(&response["schema"])));
        }
        responses.named(1, code, Message::of(1, one));
    }
    out.message(9, responses);
    out.extensions(13, operation);
    out
}

fn parameter(parameter: &Value) -> Message {
    let mut out = Message::default();
    let place = parameter["in"].as_str().unwrap_or_default();
    if place == "body" {
        out.text(1, &parameter["description"]);
        out.text(2, &parameter["name"]);
        out.text(3, &parameter["in"]);
        out.flag(4, &parameter["required"]);
        out.message(5, schema(&parameter["schema"]));
        return Message::of(1, Message::of(1, out));
    }
    out.flag(1, &parameter["required"]);
    out.text(2, &parameter["in"]);
    out.text(3, &parameter["description"]);
    out.text(4, &parameter["name"]);
    // A parameter of the path has no `allowEmptyValue`, which moves what follows by one.
    let (kind, shift) = if place == "path" { (4, 0) } else { (3, 1) };
    out.text(5 + shift, &parameter["type"]);
    out.text(6 + shift, &parameter["format"]);
    out.flag(19 + shift, &parameter["uniqueItems"]);
    Message::of(1, Message::of(2, Message::of(kind, out)))
}

fn named_schemas(schemas: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in map(schemas) {
        out.named(1, name, schema(value));
    }
    out
}

fn schema(schema: &Value) -> Message {
    let mut out = Message::default();
    SCHEMA_TEXTS.iter().for_each(|(name, field)| out.text(*field, &schema[name]));
    SCHEMA_NUMBERS.iter().for_each(|(name, field)| out.number(*field, &schema[name]));
    SCHEMA_FLAGS.iter().for_each(|(name, field)| out.flag(*field, &schema[name]));
    SCHEMA_COUNTS.iter().for_each(|(name, field)| out.count(*field, &schema[name]));
    out.any(5, schema.get("default"));
    out.any(30, schema.get("example"));
    out.texts(19, &schema["required"]);
    for value in list(&schema["enum"]) {
        out.any(20, Some(value));
    }
    match &schema["additionalProperties"] {
        Value::Bool(flag) => {
            let mut one = Message::default();
            one.tag(2, 0);
            one.varint(u64::from(*flag));
            out.message(21, one);
        }
        Value::Object(_) => {
            let value = self::schema(&schema["additionalProperties"]);
            out.message(21, Message::of(1, value));
        }
        _ => {}
    }
    if schema["type"].is_string() {
        let mut one = Message::default();
        one.text(1, &schema["type"]);
        out.message(22, one);
    }
    if schema["items"].is_object() {
        out.message(23, Message::of(1, self::schema(&schema["items"])));
    }
    for one in list(&schema["allOf"]) {
        out.message(24, self::schema(one));
    }
    if schema["properties"].is_object() {
        out.message(25, named_schemas(&schema["properties"]));
    }
    out.extensions(31, schema);
    out
}

fn map(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The bytes of one message; what is empty or zero is left out, as the format has it.
#[derive(Default)]
struct Message(Vec<u8>);

// === impl Message ===

impl Message {
    /// A message with one field, which is a message.
    fn of(field: u64, value: Self) -> Self {
        let mut out = Self::default();
        out.message(field, value);
        out
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn tag(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, value: Self) {
        self.bytes(field, &value.0);
    }

    /// An entry of a map: its name and its value.
    fn named(&mut self, field: u64, name: &str, value: Self) {
        let mut entry = Self::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, value);
        self.message(field, entry);
    }

    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, values: &Value) {
        for text in list(values).filter_map(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u64, value: &Value) {
        if value == true {
            self.tag(field, 0);
            self.varint(1);
        }
    }

    fn count(&mut self, field: u64, value: &Value) {
        if let Some(count) = value.as_u64().filter(|count| *count > 0) {
            self.tag(field, 0);
            self.varint(count);
        }
    }

    fn number(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_f64().filter(|number| *number != 0.0) {
            self.tag(field, 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Anything at all, as YAML.
    fn any(&mut self, field: u64, value: Option<&Value>) {
        if let Some(value) = value {
            self.message(field, Self::yaml(value));
        }
    }

    fn yaml(value: &Value) -> Self {
        let mut out = Self::default();
        out.bytes(2, value.to_string().as_bytes());
        out
    }

    fn extensions(&mut self, field: u64, object: &Value) {
        for (name, value) in map(object).filter(|(name, _)| name.starts_with("x-")) {
            self.named(field, name, Self::yaml(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }

    /// The first value at a path of field numbers, as the format lays it out.
    fn at(mut bytes: &[u8], path: &[u64]) -> Vec<u8> {
        let Some((wanted, deeper)) = path.split_first() else { return bytes.to_vec() };
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let length = match tag & 7 {
                0 => {
                    let before = bytes;
                    varint(&mut bytes);
                    let value = &before[..before.len() - bytes.len()];
                    bytes = before;
                    value.len()
                }
                1 => 8,
                2 => usize::try_from(varint(&mut bytes)).unwrap(),
                other => panic!("wire type {other}"),
            };
            let (value, rest) = bytes.split_at(length);
            if tag >> 3 == *wanted {
                return at(value, deeper);
            }
            bytes = rest;
        }
        panic!("nothing at {path:?}");
    }

    #[test]
    fn the_contents_of_the_document_are_in_the_fields_of_the_format() {
        let bytes = document(&json!({
            "swagger": "2.0", "info": {"title": "T", "version": "1"},
            "paths": {"/a/{name}": {
                "get": {
                    "operationId": "read", "x-kubernetes-action": "get",
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/d"}}},
                },
                "parameters": [{"name": "name", "in": "path", "type": "string", "required": true}],
            }},
            "definitions": {"d": {
                "type": "object", "minimum": 1, "maxLength": 300, "required": ["b"],
                "properties": {"b": {"type": "array", "items": {"type": "string"}}},
                "additionalProperties": false, "x-kubernetes-group-version-kind": [{"kind": "K"}],
            }},
        }));
        let text = |path: &[u64]| String::from_utf8(at(&bytes, path)).unwrap();
        assert_eq!((text(&[1]), text(&[2, 1])), ("2.0".into(), "T".into()));
        assert_eq!(text(&[8, 2, 1]), "/a/{name}");
        assert_eq!(text(&[8, 2, 2, 2, 5]), "read");
        assert_eq!(text(&[8, 2, 2, 2, 13, 2, 2]), "\"get\"");
        assert_eq!(text(&[8, 2, 2, 2, 9, 1, 1]), "200");
        assert_eq!(text(&[8, 2, 2, 2, 9, 1, 2, 1, 2, 1, 1]), "#/d");
        assert_eq!(text(&[8, 2, 2, 9, 1, 2, 4, 5]), "string");
        assert_eq!(text(&[9, 1, 1]), "d");
        assert_eq!(text(&[9, 1, 2, 22, 1]), "object");
        assert_eq!(text(&[9, 1, 2, 19]), "b");
        assert_eq!(text(&[9, 1, 2, 25, 1, 2, 23, 1, 22, 1]), "string");
        assert_eq!(text(&[9, 1, 2, 31, 2, 2]), "[{\"kind\":\"K\"}]");
        assert_eq!(at(&bytes, &[9, 1, 2, 11]), [0xac, 0x02]);
        assert_eq!(at(&bytes, &[9, 1, 2, 21, 2]), [0]);
        assert_eq!(at(&bytes, &[9, 1, 2, 9]), 1f64.to_le_bytes());
    }
}
