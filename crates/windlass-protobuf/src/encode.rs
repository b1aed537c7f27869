//! From a JSON value to protobuf.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::error::{Error, Reason};
use crate::facts::{Field, Kind, Message, Shape, props};
use crate::wire::{FIXED64, LEN, VARINT, put_bytes, put_sized, put_tag, put_varint};
use crate::{DEPTH_MAX, time};

type Object = Map<String, Value>;

impl Message {
    /// Appends an object in protobuf, without an envelope.
    ///
    /// As Go does, values that can not be missing are written also if they are zero. Fields that
    /// the message does not have are passed over, `kind` and `apiVersion` among them.
    ///
    /// # Errors
    /// If a value does not fit its field. What was appended is to be thrown away then.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_protobuf::message_of;
    ///
    /// let endpoints = message_of("v1", "Endpoints").unwrap();
    /// let error = endpoints.encode(&json!({"subsets": 3}), &mut Vec::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "subsets: expected a list, found 3");
    /// ```
    pub fn encode(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
        fields(self, object(value)?, out, 0)
    }
}

fn fields(message: &Message, map: &Object, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    if depth == DEPTH_MAX {
        return Err(Reason::Depth.into());
    }
    for field in &message.fields {
        if field.name.is_empty() {
            if let Kind::Message(id) = field.kind {
                put_tag(out, field.number, LEN);
                put_sized(out, |out| fields(id.get(), map, out, depth + 1))?;
            }
            continue;
        }
        let value = map.get(field.name).filter(|value| !value.is_null());
        let done = match (field.shape, value) {
            (Shape::Plain, None) => zero(field, out, depth),
            (_, None) => Ok(()),
            (Shape::Plain | Shape::Pointer, Some(value)) => {
                put_value(field.number, field.kind, value, out, depth)
            }
            (Shape::List, Some(value)) => list(value).and_then(|items| {
                let mut items = items.iter();
                items.try_for_each(|item| put_value(field.number, field.kind, item, out, depth))
            }),
            (Shape::Map, Some(value)) => put_map(field, value, out, depth),
        };
        done.map_err(|error| error.within(field.name))?;
    }
    Ok(())
}

fn put_map(field: &Field, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    for (key, value) in object(value)? {
        put_tag(out, field.number, LEN);
        put_sized(out, |out| {
            put_tag(out, 1, LEN);
            put_bytes(out, key.as_bytes());
            put_value(2, field.kind, value, out, depth)
        })
        .map_err(|error| error.within(key))?;
    }
    Ok(())
}

/// A field that has no value, but is written all the same.
fn zero(field: &Field, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    match field.kind {
        // These are lists in Go, and no list is nothing.
        Kind::Bytes | Kind::Strings => Ok(()),
        kind => put_value(field.number, kind, &Value::Null, out, depth),
    }
}

/// A tag and a value; `null` is the zero value.
fn put_value(
    number: u32,
    kind: Kind,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    let wire = match kind {
        Kind::Bool | Kind::Int32 | Kind::Int64 => VARINT,
        Kind::Double => FIXED64,
        _ => LEN,
    };
    put_tag(out, number, wire);
    match (kind, value) {
        (Kind::Bool, Value::Bool(value)) => put_varint(out, u64::from(*value)),
        (Kind::Bool, Value::Null) => put_varint(out, 0),
        (Kind::Bool, other) => return Err(Error::value("true or false", other)),
        (Kind::Int32, value) => {
            let number = integer(value)?;
            let small =
                i32::try_from(number).map_err(|_| Error::value("an integer of 32 bits", number))?;
            put_varint(out, i64::from(small) as u64);
        }
        (Kind::Int64, value) => put_varint(out, integer(value)? as u64),
        (Kind::Double, value) => {
            let number = match value {
                Value::Null => 0.0,
                value => value.as_f64().ok_or_else(|| Error::value("a number", value))?,
            };
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        (Kind::String, value) => put_bytes(out, text(value)?.as_bytes()),
        (Kind::Bytes, value) => {
            let text = text(value)?;
            let bytes =
                STANDARD.decode(text).map_err(|_| Error::value("bytes in base64", value))?;
            put_bytes(out, &bytes);
        }
        (kind, value) => return put_sized(out, |out| content(kind, value, out, depth)),
    }
    Ok(())
}

/// What is within a message.
fn content(kind: Kind, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    match (kind, value) {
        (Kind::Message(id), Value::Null) => fields(id.get(), &Object::new(), out, depth + 1),
        (Kind::Message(id), value) => fields(id.get(), object(value)?, out, depth + 1),
        (Kind::Quantity, value) => {
            put_tag(out, 1, LEN);
            match value {
                Value::Null => put_bytes(out, b"0"),
                Value::Number(number) => put_bytes(out, number.to_string().as_bytes()),
                value => put_bytes(out, text(value)?.as_bytes()),
            }
            Ok(())
        }
        (Kind::IntOrString, value) => int_or_string(value, out),
        (Kind::Time | Kind::MicroTime | Kind::Raw, Value::Null) => Ok(()),
        (Kind::Time | Kind::MicroTime, value) => {
            time::write(text(value)?, kind == Kind::MicroTime, out)
        }
        (Kind::Raw, value) => {
            put_tag(out, 1, LEN);
            put_bytes(out, value.to_string().as_bytes());
            Ok(())
        }
        (Kind::Strings, Value::Null) => Ok(()),
        (Kind::Strings, value) => put_strings(1, list(value)?, out),
        (Kind::SchemaOrBool, value) => {
            put_tag(out, 1, VARINT);
            put_varint(out, u64::from(!matches!(value, Value::Null | Value::Bool(false))));
            match value {
                Value::Null | Value::Bool(_) => Ok(()),
                schema => put_schema(2, schema, out, depth),
            }
        }
        (_, Value::Null) => Ok(()),
        (Kind::SchemaOrArray, Value::Array(schemas)) => {
            schemas.iter().try_for_each(|schema| put_schema(2, schema, out, depth))
        }
        (Kind::SchemaOrStrings, Value::Array(names)) => put_strings(2, names, out),
        (_, schema) => put_schema(1, schema, out, depth),
    }
}

fn int_or_string(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let (kind, number, text) = match value {
        Value::String(text) => (1, 0, &**text),
        value => (0, integer(value)?, ""),
    };
    let number =
        i32::try_from(number).map_err(|_| Error::value("an integer of 32 bits", number))?;
    put_tag(out, 1, VARINT);
    put_varint(out, kind);
    put_tag(out, 2, VARINT);
    put_varint(out, i64::from(number) as u64);
    put_tag(out, 3, LEN);
    put_bytes(out, text.as_bytes());
    Ok(())
}

fn put_schema(number: u32, schema: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    let schema = object(schema)?;
    put_tag(out, number, LEN);
    put_sized(out, |out| fields(props(), schema, out, depth + 1))
}

fn put_strings(number: u32, items: &[Value], out: &mut Vec<u8>) -> Result<(), Error> {
    for item in items {
        let item = text(item)?;
        put_tag(out, number, LEN);
        put_bytes(out, item.as_bytes());
    }
    Ok(())
}

fn object(value: &Value) -> Result<&Object, Error> {
    value.as_object().ok_or_else(|| Error::value("an object", value))
}

fn list(value: &Value) -> Result<&[Value], Error> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| Error::value("a list", value))
}

fn text(value: &Value) -> Result<&str, Error> {
    match value {
        Value::Null => Ok(""),
        value => value.as_str().ok_or_else(|| Error::value("a text", value)),
    }
}

fn integer(value: &Value) -> Result<i64, Error> {
    let whole = |number: f64| {
        let fits = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
        fits.then_some(number as i64)
    };
    match value {
        Value::Null => Ok(0),
        value => value
            .as_i64()
            .or_else(|| value.as_f64().and_then(whole))
            .ok_or_else(|| Error::value("an integer", value)),
    }
}
