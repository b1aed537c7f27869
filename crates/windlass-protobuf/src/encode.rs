//! From JSON to protobuf.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::error::{Error, Reason};
use crate::facts::{Field, Kind, Message, Shape, props};
use crate::node::{Members, Node};
use crate::wire::{FIXED64, LEN, VARINT, put_bytes, put_sized, put_tag, put_varint};
use crate::{DEPTH_MAX, time};

impl Message {
    /// Appends an object in protobuf, without an envelope.
    ///
    /// As Go does, values that cannot be missing are written also if they are zero. Fields that
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
        self.put(&Node::from(value), out)
    }

    /// Appends an object that is given as JSON text, as [`encode`](Self::encode) does.
    ///
    /// # Errors
    /// If the text is no JSON, or a value does not fit its field.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_protobuf::message_of;
    ///
    /// let (pod, object) = (message_of("v1", "Pod").unwrap(), json!({"metadata": {"name": "a"}}));
    /// let (mut one, mut other) = (Vec::new(), Vec::new());
    /// pod.encode(&object, &mut one)?;
    /// pod.encode_json(object.to_string().as_bytes(), &mut other)?;
    /// assert_eq!(one, other);
    /// # Ok::<(), windlass_protobuf::Error>(())
    /// ```
    pub fn encode_json(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let no_json = |error: &dyn std::fmt::Display| Reason::Json(error.to_string());
        let text = std::str::from_utf8(json).map_err(|error| no_json(&error))?;
        let node: Node<'_> = serde_json::from_str(text).map_err(|error| no_json(&error))?;
        self.put(&node, out)
    }

    fn put(&self, node: &Node<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        fields(self, object(node)?, out, 0)
    }
}

fn fields(
    message: &Message,
    map: &Members<'_>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    if depth == DEPTH_MAX {
        return Err(Reason::Depth.into());
    }
    for field in &message.fields {
        if field.name().is_empty() {
            if let Kind::Message(id) = field.kind {
                put_tag(out, field.number, LEN);
                put_sized(out, |out| fields(id.get(), map, out, depth + 1))?;
            }
            continue;
        }
        let value = map.get(field.name()).filter(|value| **value != Node::Null);
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
        done.map_err(|error| error.within(field.name()))?;
    }
    Ok(())
}

fn put_map(field: &Field, value: &Node<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    for (key, value) in object(value)?.iter() {
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
        kind => put_value(field.number, kind, &Node::Null, out, depth),
    }
}

/// A tag and a value; `null` is the zero value.
fn put_value(
    number: u32,
    kind: Kind,
    value: &Node<'_>,
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
        (Kind::Bool, Node::Bool(value)) => put_varint(out, u64::from(*value)),
        (Kind::Bool, Node::Null) => put_varint(out, 0),
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
                Node::Null => 0.0,
                Node::Number(number) => number.as_f64().unwrap_or_default(),
                other => return Err(Error::value("a number", other)),
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
fn content(kind: Kind, value: &Node<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    match (kind, value) {
        (Kind::Message(id), Node::Null) => fields(id.get(), &Members::default(), out, depth + 1),
        (Kind::Message(id), value) => fields(id.get(), object(value)?, out, depth + 1),
        (Kind::Quantity, value) => {
            put_tag(out, 1, LEN);
            match value {
                Node::Null => put_bytes(out, b"0"),
                Node::Number(number) => put_bytes(out, number.to_string().as_bytes()),
                value => put_bytes(out, text(value)?.as_bytes()),
            }
            Ok(())
        }
        (Kind::IntOrString, value) => int_or_string(value, out),
        (Kind::Time | Kind::MicroTime | Kind::Raw, Node::Null) => Ok(()),
        (Kind::Time | Kind::MicroTime, value) => {
            time::write(text(value)?, kind == Kind::MicroTime, out)
        }
        (Kind::Raw, value) => {
            put_tag(out, 1, LEN);
            put_sized(out, |out| {
                serde_json::to_writer(out, value).map_err(|e| Reason::Json(e.to_string()).into())
            })
        }
        (Kind::Strings, Node::Null) => Ok(()),
        (Kind::Strings, value) => put_strings(1, list(value)?, out),
        (Kind::SchemaOrBool, value) => {
            put_tag(out, 1, VARINT);
            put_varint(out, u64::from(!matches!(value, Node::Null | Node::Bool(false))));
            match value {
                Node::Null | Node::Bool(_) => Ok(()),
                schema => put_schema(2, schema, out, depth),
            }
        }
        (_, Node::Null) => Ok(()),
        (Kind::SchemaOrArray, Node::List(schemas)) => {
            schemas.iter().try_for_each(|schema| put_schema(2, schema, out, depth))
        }
        (Kind::SchemaOrStrings, Node::List(names)) => put_strings(2, names, out),
        (_, schema) => put_schema(1, schema, out, depth),
    }
}

fn int_or_string(value: &Node<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let (kind, number, text) = match value {
        Node::Text(text) => (1, 0, &**text),
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

fn put_schema(
    number: u32,
    schema: &Node<'_>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    let schema = object(schema)?;
    put_tag(out, number, LEN);
    put_sized(out, |out| fields(props(), schema, out, depth + 1))
}

fn put_strings(number: u32, items: &[Node<'_>], out: &mut Vec<u8>) -> Result<(), Error> {
    for item in items {
        let item = text(item)?;
        put_tag(out, number, LEN);
        put_bytes(out, item.as_bytes());
    }
    Ok(())
}

fn object<'n, 'a>(node: &'n Node<'a>) -> Result<&'n Members<'a>, Error> {
    match node {
        Node::Map(members) => Ok(members),
        other => Err(Error::value("an object", other)),
    }
}

fn list<'n, 'a>(node: &'n Node<'a>) -> Result<&'n [Node<'a>], Error> {
    match node {
        Node::List(items) => Ok(items),
        other => Err(Error::value("a list", other)),
    }
}

fn text<'n>(node: &'n Node<'_>) -> Result<&'n str, Error> {
    match node {
        Node::Null => Ok(""),
        Node::Text(text) => Ok(text),
        other => Err(Error::value("a text", other)),
    }
}

fn integer(node: &Node<'_>) -> Result<i64, Error> {
    let whole = |number: f64| {
        let fits = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
        fits.then_some(number as i64)
    };
    let found = match node {
        Node::Null => Some(0),
        Node::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
        _ => None,
    };
    found.ok_or_else(|| Error::value("an integer", node))
}
