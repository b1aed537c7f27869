//! Envelopes: the four bytes and the message around every object, and events of a watch.

use serde_json::Value;

use crate::error::{Error, Reason};
use crate::facts::message_of;
use crate::json::{JsonOptions, JsonWriter};
use crate::wire::{LEN, Reader, put_bytes, put_sized, put_tag, put_varint, varint_size};

/// What every object in protobuf begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// An object that is not read yet, with the kind it says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Group and version; may be empty.
    pub api_version: &'a str,
    /// The kind; may be empty.
    pub kind: &'a str,
    /// The object.
    pub raw: &'a [u8],
    /// Empty for protobuf; `application/json` if `raw` is JSON.
    pub content_type: &'a str,
}

/// One event of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFrame<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'a str,
    /// The object in its envelope.
    pub object: &'a [u8],
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Reads what is around an object.
    ///
    /// # Errors
    /// In the words of the Go decoder, if the bytes are no envelope.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let body = match bytes.strip_prefix(&MAGIC) {
            _ if bytes.is_empty() => return Err(Reason::EmptyData.into()),
            None => return Err(Reason::Prefix.into()),
            Some([]) => return Err(Reason::EmptyBody.into()),
            Some(body) => body,
        };
        let mut envelope = Self::default();
        let mut reader = Reader::new(body, "Unknown");
        while !reader.is_empty() {
            match reader.tag()? {
                (1, LEN) => envelope.read_type(reader.len()?)?,
                (2, LEN) => envelope.raw = reader.len()?,
                (3, LEN) => drop(reader.len()?),
                (4, LEN) => envelope.content_type = text(reader.len()?)?,
                (number @ 1..=4, wire) => {
                    let names = ["TypeMeta", "Raw", "ContentEncoding", "ContentType"];
                    let field = names[number as usize - 1].to_owned();
                    return Err(Reason::WireType { wire, field }.into());
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        let mut reader = Reader::new(bytes, "TypeMeta");
        while !reader.is_empty() {
            match reader.tag()? {
                (1, LEN) => self.api_version = text(reader.len()?)?,
                (2, LEN) => self.kind = text(reader.len()?)?,
                (number @ 1..=2, wire) => {
                    let field = ["APIVersion", "Kind"][number as usize - 1].to_owned();
                    return Err(Reason::WireType { wire, field }.into());
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(())
    }

    /// The bytes before and after an object of `len` bytes.
    ///
    /// Lists are sent in pieces this way, without being put together first.
    pub fn around(api_version: &str, kind: &str, len: usize) -> (Vec<u8>, &'static [u8]) {
        let mut head = MAGIC.to_vec();
        put_tag(&mut head, 1, LEN);
        let done = put_sized(&mut head, |out| {
            put_tag(out, 1, LEN);
            put_bytes(out, api_version.as_bytes());
            put_tag(out, 2, LEN);
            put_bytes(out, kind.as_bytes());
            Ok::<_, std::convert::Infallible>(())
        });
        match done {
            Ok(()) => {}
            Err(never) => match never {},
        }
        put_tag(&mut head, 2, LEN);
        put_varint(&mut head, len as u64);
        // Encoding and type of the content, both empty.
        (head, &[0x1a, 0, 0x22, 0])
    }

    /// An object in an envelope.
    pub fn wrap(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let (mut out, tail) = Self::around(api_version, kind, raw.len());
        out.reserve_exact(raw.len() + tail.len());
        out.extend_from_slice(raw);
        out.extend_from_slice(tail);
        out
    }

    /// The fields that name the kind, as JSON has them within an object: `"kind":"Pod",...`.
    fn head(&self) -> String {
        let quote = |text: &str| Value::from(text).to_string();
        let mut parts = Vec::new();
        for (name, value) in [("kind", self.kind), ("apiVersion", self.api_version)] {
            if !value.is_empty() {
                parts.push(format!("\"{name}\":{}", quote(value)));
            }
        }
        parts.join(",")
    }
}

// === impl WatchFrame ===

impl<'a> WatchFrame<'a> {
    /// Reads an event, which is what is in a frame of a watch.
    ///
    /// # Errors
    /// If the bytes are no event.
    ///
    /// ```
    /// use windlass_protobuf::{WatchFrame, watch_frame};
    ///
    /// let frame = watch_frame("ADDED", b"k8s\0...");
    /// let event = WatchFrame::read(&frame[4..])?;
    /// assert_eq!((event.kind, event.object), ("ADDED", &b"k8s\0..."[..]));
    /// # Ok::<(), windlass_protobuf::Error>(())
    /// ```
    pub fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let bytes = match bytes.starts_with(&MAGIC) {
            true => Envelope::read(bytes)?.raw,
            false => bytes,
        };
        let mut event = Self::default();
        let mut reader = Reader::new(bytes, "WatchEvent");
        while !reader.is_empty() {
            match reader.tag()? {
                (1, LEN) => event.kind = text(reader.len()?)?,
                (2, LEN) => event.object = raw(reader.len()?)?,
                (number @ 1..=2, wire) => {
                    let field = ["Type", "Object"][number as usize - 1].to_owned();
                    return Err(Reason::WireType { wire, field }.into());
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(event)
    }
}

/// An event as a watch sends it: four bytes of length, then the event, whose object has its own
/// envelope.
pub fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let inner = 1 + varint_size(object.len() as u64) + object.len();
    let mut out = Vec::with_capacity(inner + kind.len() + 24);
    out.extend_from_slice(&[0; 4]);
    put_tag(&mut out, 1, LEN);
    put_bytes(&mut out, kind.as_bytes());
    put_tag(&mut out, 2, LEN);
    put_varint(&mut out, inner as u64);
    put_tag(&mut out, 1, LEN);
    put_bytes(&mut out, object);
    let len = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}

/// An object of a built-in kind as protobuf in its envelope.
///
/// # Errors
/// If its kind is not in the table, or a value does not fit its field.
pub fn from_value(value: &Value) -> Result<Vec<u8>, Error> {
    let part = |key: &str| value[key].as_str().unwrap_or_default();
    let (api_version, kind) = (part("apiVersion"), part("kind"));
    let message = message_of(api_version, kind).ok_or_else(|| unknown(api_version, kind))?;
    let mut raw = Vec::new();
    message.encode(value, &mut raw)?;
    Ok(Envelope::wrap(api_version, kind, &raw))
}

/// The JSON of an object in an envelope.
///
/// # Errors
/// If the bytes are no envelope, its kind is not in the table, or the object is malformed.
pub fn to_json(bytes: &[u8], options: JsonOptions) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(bytes.len() * 3 / 2);
    let mut writer = JsonWriter { out: &mut out, options, depth: 0 };
    write_json(bytes, &mut writer)?;
    Ok(out)
}

/// The value of an object in an envelope.
///
/// # Errors
/// As [`to_json`].
pub fn to_value(bytes: &[u8]) -> Result<Value, Error> {
    let json = to_json(bytes, JsonOptions::default())?;
    serde_json::from_slice(&json).map_err(|error| Reason::Json(error.to_string()).into())
}

/// Appends the JSON of an object in an envelope.
pub(crate) fn write_json(bytes: &[u8], writer: &mut JsonWriter<'_>) -> Result<(), Error> {
    let envelope = Envelope::read(bytes)?;
    if envelope.content_type == "application/json" {
        let text: &serde_json::value::RawValue = serde_json::from_slice(envelope.raw)
            .map_err(|error| Reason::Json(error.to_string()))?;
        writer.out.extend_from_slice(text.get().as_bytes());
        return Ok(());
    }
    let message = message_of(envelope.api_version, envelope.kind)
        .ok_or_else(|| unknown(envelope.api_version, envelope.kind))?;
    writer.embedded(message, envelope.raw, &envelope.head())
}

pub(crate) fn unknown(api_version: &str, kind: &str) -> Error {
    Reason::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }.into()
}

fn raw(bytes: &[u8]) -> Result<&[u8], Error> {
    let mut reader = Reader::new(bytes, "RawExtension");
    let mut found = &b""[..];
    while !reader.is_empty() {
        match reader.tag()? {
            (1, LEN) => found = reader.len()?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::value("a text in UTF-8", format!("{bytes:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_envelope_is_reported_in_the_words_of_go() {
        let read = |bytes: &[u8]| Envelope::read(bytes).unwrap_err().to_string();
        assert_eq!(read(b""), "empty data");
        assert_eq!(read(b"k8s\0"), "empty body");
        assert_eq!(
            read(b"{}"),
            "provided data does not appear to be a protobuf message, \
             expected prefix [107 56 115 0]"
        );
        assert_eq!(read(b"k8s\0\x0a"), "unexpected EOF");
        assert_eq!(read(b"k8s\0\x08\x01"), "proto: wrong wireType = 0 for field TypeMeta");
    }

    #[test]
    fn an_envelope_comes_back() {
        let bytes = Envelope::wrap("apps/v1", "Deployment", b"raw");
        let envelope = Envelope::read(&bytes).unwrap();
        assert_eq!((envelope.api_version, envelope.kind), ("apps/v1", "Deployment"));
        assert_eq!((envelope.raw, envelope.content_type), (&b"raw"[..], ""));
    }

    #[test]
    fn json_in_an_envelope_is_taken_as_it_is() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(b"\x12\x07{\"a\":1}\x22\x10application/json");
        assert_eq!(to_json(&bytes, JsonOptions::default()).unwrap(), b"{\"a\":1}");
    }

    #[test]
    fn a_kind_without_a_protobuf_form_is_refused_by_name() {
        let error = from_value(&serde_json::json!({"kind": "Boat", "apiVersion": "x/v1"}));
        let wanted = "no kind \"Boat\" of version \"x/v1\" has a protobuf form";
        assert_eq!(error.unwrap_err().to_string(), wanted);
    }
}
