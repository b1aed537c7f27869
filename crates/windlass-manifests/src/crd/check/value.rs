//! Values against their schema: defaults.

use serde_json::{Map, Value};

use super::{is_set, keywords, kind};
use crate::schema::{INT_OR_STRING, PRESERVE};

/// Returns why a value does not fit a schema; `at` is the path inside of it.
pub(super) fn problem(schema: &Map<String, Value>, value: &Value, at: &str) -> Option<String> {
    let place = if at.is_empty() { String::new() } else { format!(" at {at}") };
    if let Some(why) = type_problem(schema, value) {
        return Some(format!("{value} {why}{place}"));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let list: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Some(format!("{value} is not one of {}{place}", list.join(", ")));
    }
    let why = match value {
        Value::Number(_) => number(schema, value),
        Value::String(text) => string(schema, text),
        Value::Array(items) => return list(schema, items, at),
        Value::Object(fields) => return object(schema, fields, at),
        _ => None,
    };
    why.map(|why| format!("{value} {why}{place}"))
}

/// Returns why a value does not have the type of a schema.
pub(super) fn type_problem(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    if value.is_null() {
        return (!is_set(schema, "nullable"))
            .then(|| "is not allowed, the field is not nullable".into());
    }
    let whole = value.is_i64()
        || value.is_u64()
        || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = match kind(schema) {
        "string" => value.is_string(),
        "integer" => value.is_number() && whole,
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ if is_set(schema, INT_OR_STRING) => value.is_string() || value.is_number() && whole,
        _ => true,
    };
    (!fits).then(|| format!("does not fit, this is {}", keywords::word(schema)))
}

fn bound(schema: &Map<String, Value>, keyword: &str) -> Option<f64> {
    schema.get(keyword).and_then(Value::as_f64)
}

fn number(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    let number = value.as_f64()?;
    let narrow = schema.get("format").is_some_and(|format| format == "int32");
    if narrow && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
        return Some("does not fit the format int32".into());
    }
    if let Some(least) = bound(schema, "minimum") {
        if number < least {
            return Some(format!("is below the minimum {least}"));
        }
        if is_set(schema, "exclusiveMinimum") && number <= least {
            return Some(format!("is not above {least}"));
        }
    }
    if let Some(most) = bound(schema, "maximum") {
        if number > most {
            return Some(format!("is above the maximum {most}"));
        }
        if is_set(schema, "exclusiveMaximum") && number >= most {
            return Some(format!("is not below {most}"));
        }
    }
    let step = bound(schema, "multipleOf")?;
    let times = number / step;
    ((times - times.round()).abs() > 1e-9).then(|| format!("is not a multiple of {step}"))
}

fn string(schema: &Map<String, Value>, text: &str) -> Option<String> {
    let length = text.chars().count() as f64;
    if let Some(least) = bound(schema, "minLength").filter(|least| length < *least) {
        return Some(format!("is shorter than {least} characters"));
    }
    if let Some(most) = bound(schema, "maxLength").filter(|most| length > *most) {
        return Some(format!("is longer than {most} characters"));
    }
    let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let patterns = parts.filter_map(|part| part.get("pattern")).chain(schema.get("pattern"));
    for pattern in patterns.filter_map(Value::as_str) {
        if windlass_text::pattern::compile(pattern).is_ok_and(|regex| !regex.is_match(text)) {
            return Some(format!("does not match the pattern {pattern}"));
        }
    }
    let format = schema.get("format").and_then(Value::as_str)?;
    (!windlass_text::format::matches(format, text)).then(|| format!("has not the format {format}"))
}

fn list(schema: &Map<String, Value>, items: &[Value], at: &str) -> Option<String> {
    let count = items.len() as f64;
    if let Some(least) = bound(schema, "minItems").filter(|least| count < *least) {
        return Some(format!("has fewer than {least} items{}", place(at)));
    }
    if let Some(most) = bound(schema, "maxItems").filter(|most| count > *most) {
        return Some(format!("has more than {most} items{}", place(at)));
    }
    let of = schema.get("items").and_then(Value::as_object)?;
    items.iter().enumerate().find_map(|(index, item)| problem(of, item, &format!("{at}[{index}]")))
}

fn object(schema: &Map<String, Value>, fields: &Map<String, Value>, at: &str) -> Option<String> {
    let count = fields.len() as f64;
    if let Some(least) = bound(schema, "minProperties").filter(|least| count < *least) {
        return Some(format!("has fewer than {least} fields{}", place(at)));
    }
    if let Some(most) = bound(schema, "maxProperties").filter(|most| count > *most) {
        return Some(format!("has more than {most} fields{}", place(at)));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let child = |name: &str| {
        properties.and_then(|properties| properties.get(name)).and_then(Value::as_object)
    };
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if fields.contains_key(name) {
            continue;
        }
        // The API server judges a default before it fills in those inside of it.
        let own = match child(name).is_some_and(|child| child.contains_key("default")) {
            true => ", write its default there too or remove `required` from it",
            false => "",
        };
        return Some(format!("lacks the field `{name}`, which is required{}{own}", place(at)));
    }
    let rest = schema.get("additionalProperties").and_then(Value::as_object);
    let open = is_set(schema, PRESERVE);
    fields.iter().find_map(|(name, value)| match child(name).or(rest) {
        Some(of) => problem(of, value, &format!("{at}.{name}")),
        None if open => None,
        None => Some(format!("has a field `{name}` that the type does not have{}", place(at))),
    })
}

fn place(at: &str) -> String {
    if at.is_empty() { String::new() } else { format!(" at {at}") }
}
