//! Values of a schema: valid ones, boundary ones and broken ones.

use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::schemas::Schemas;

/// How deep generated objects are.
const DEPTH_MAX: usize = 4;

const TEXTS: [&str; 14] = [
    "a",
    "web",
    "a-b.c",
    "example.com/x",
    "A_b",
    "",
    " ",
    "-a",
    "a b",
    "ü",
    "/x/../y",
    "TCP",
    "1",
    "Always",
];
const QUANTITIES: [&str; 10] = ["1", "100m", "1Gi", "0", "-1", "1.5", "abc", "1e3", "0.5m", ""];
const NUMBERS: [i64; 11] = [0, 1, 2, 3, 80, 100, -1, 65_535, 65_536, 2_147_483_647, 4_294_967_296];

/// Returns a value for a field; `name` is that of the field.
pub fn value(
    draw: &mut Draw,
    schemas: &Schemas,
    schema: &Value,
    name: &str,
    depth: usize,
) -> Value {
    if draw.chance(4) {
        return broken(draw);
    }
    if Schemas::name(schema).ends_with("resource.Quantity") {
        return json!(draw.pick(&QUANTITIES));
    }
    let schema = schemas.resolve(schema);
    if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
        return if draw.chance(90) { draw.pick(values).clone() } else { json!("Other") };
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (_, Some("int-or-string")) => int_or_string(draw),
        (Some("string"), format) => text(draw, format, name),
        (Some("integer"), _) => json!(draw.pick(&NUMBERS)),
        (Some("number"), _) => json!(draw.pick(&[0.5, 1.0, -2.25])),
        (Some("boolean"), _) => json!(draw.chance(50)),
        (Some("array"), _) => {
            let count = if depth >= DEPTH_MAX { 0 } else { *draw.pick(&[0, 1, 1, 1, 2, 2]) };
            let mut items: Vec<Value> = (0..count)
                .map(|_| value(draw, schemas, &schema["items"], name, depth + 1))
                .collect();
            if items.len() == 2 && draw.chance(20) {
                items[1] = items[0].clone();
            }
            Value::Array(items)
        }
        (Some("object"), _) if schema["properties"].is_object() => {
            object(draw, schemas, schema, depth)
        }
        (Some("object"), _) if schema["additionalProperties"].is_object() => {
            let mut map = Map::new();
            for _ in 0..draw.below(3) {
                let key =
                    (*draw.pick(&["a", "example.com/b", "cpu", "memory", "bad key", "storage"]))
                        .to_owned();
                map.insert(
                    key,
                    value(draw, schemas, &schema["additionalProperties"], name, depth + 1),
                );
            }
            Value::Object(map)
        }
        _ => json!({"a": draw.below(3)}),
    }
}

fn object(draw: &mut Draw, schemas: &Schemas, schema: &Value, depth: usize) -> Value {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut map = Map::new();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let wanted = if required.contains(&name.as_str()) {
            draw.chance(95)
        } else {
            depth < DEPTH_MAX && draw.chance(20)
        };
        if wanted && name != "managedFields" {
            map.insert(name.clone(), value(draw, schemas, inner, name, depth + 1));
        }
    }
    Value::Object(map)
}

fn text(draw: &mut Draw, format: Option<&str>, name: &str) -> Value {
    match format {
        Some("date-time") => {
            json!(draw.pick(&["2026-01-02T03:04:05Z", "2026-01-02", "", "2026-13-02T03:04:05Z"]))
        }
        Some("byte") => json!(draw.pick(&["MQ==", "not base64!", ""])),
        _ if draw.chance(3) => json!("x".repeat(*draw.pick(&[63, 64, 253, 254]))),
        _ if name.to_lowercase().ends_with("name") && draw.chance(70) => {
            json!(draw.pick(&["a", "web", "a.b", "x-1"]))
        }
        _ if name.ends_with("IP") => json!(draw.pick(&["1.2.3.4", "::1", "1.2.3", "1.2.3.04"])),
        _ => json!(draw.pick(&TEXTS)),
    }
}

fn int_or_string(draw: &mut Draw) -> Value {
    draw.pick(&[
        json!(1),
        json!(0),
        json!("50%"),
        json!("http"),
        json!(-1),
        json!("101%"),
        json!(70_000),
        json!("Bad_Name"),
        json!(""),
    ])
    .clone()
}

/// Returns a value that fits few schemas.
pub fn broken(draw: &mut Draw) -> Value {
    draw.pick(&[
        json!(null),
        json!("text"),
        json!(1),
        json!(-1.5),
        json!(true),
        json!([]),
        json!({}),
        json!([1]),
        json!({"unknownField": 1}),
    ])
    .clone()
}
