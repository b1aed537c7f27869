//! Types whose JSON is not that of their message.

use std::io::Write;

use serde_json::value::RawValue;

use super::JsonWriter;
use crate::DEPTH_MAX;
use crate::envelope::{self, MAGIC};
use crate::error::{Error, Reason};
use crate::facts::{Kind, props};
use crate::wire::{LEN, Reader, VARINT};

impl JsonWriter<'_> {
    pub(super) fn int_or_string(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(bytes, "IntOrString");
        let (mut kind, mut number, mut text) = (0, 0, &b""[..]);
        while !reader.is_empty() {
            match reader.tag()? {
                (1, VARINT) => kind = reader.varint()?,
                (2, VARINT) => number = reader.varint()? as i32,
                (3, LEN) => text = reader.len()?,
                (field @ 1..=3, wire) => {
                    let name = ["Type", "IntVal", "StrVal"][field as usize - 1].to_owned();
                    return Err(Reason::WireType { wire, field: name }.into());
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        match kind {
            0 => write!(self.out, "{number}").expect("memory takes all bytes"),
            1 => self.text(text),
            other => return Err(Error::value("the type of an integer or a string", other)),
        }
        Ok(())
    }

    /// Embedded JSON, or an object in an envelope of its own.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(raw) = only_bytes(bytes, "RawExtension")?.filter(|raw| !raw.is_empty()) else {
            self.out.extend_from_slice(b"null");
            return Ok(());
        };
        if raw.starts_with(&MAGIC) {
            if self.depth == DEPTH_MAX {
                return Err(Reason::Depth.into());
            }
            self.depth += 1;
            envelope::write_json(raw, self)?;
            self.depth -= 1;
            return Ok(());
        }
        let text: &RawValue =
            serde_json::from_slice(raw).map_err(|e| Reason::Json(e.to_string()))?;
        self.out.extend_from_slice(text.get().as_bytes());
        Ok(())
    }

    /// The texts that a message holds under a number.
    pub(super) fn strings(&mut self, bytes: &[u8], number: u32) -> Result<(), Error> {
        let mut reader = Reader::new(bytes, "Items");
        self.out.push(b'[');
        let first = self.out.len();
        while !reader.is_empty() {
            match reader.tag()? {
                (n, LEN) if n == number => {
                    let text = reader.len()?;
                    self.comma(first);
                    self.text(text);
                }
                (_, wire) => reader.skip(wire)?,
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// A schema in one of its three other forms.
    pub(super) fn schema_or(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Error> {
        let (mut allows, mut schema, mut many) = (0, None, Vec::new());
        let mut reader = Reader::new(bytes, "JSONSchemaProps");
        while !reader.is_empty() {
            match (kind, reader.tag()?) {
                (Kind::SchemaOrBool, (1, VARINT)) => allows = reader.varint()?,
                (Kind::SchemaOrBool, (2, LEN)) | (_, (1, LEN)) => schema = Some(reader.len()?),
                (_, (2, LEN)) => many.push(reader.len()?),
                (_, (_, wire)) => reader.skip(wire)?,
            }
        }
        match (kind, schema) {
            (Kind::SchemaOrStrings, _) if !many.is_empty() => return self.strings(bytes, 2),
            (Kind::SchemaOrArray, _) if !many.is_empty() => {
                self.out.push(b'[');
                let first = self.out.len();
                for schema in many {
                    self.comma(first);
                    self.message(props(), schema)?;
                }
                self.out.push(b']');
            }
            (_, Some(schema)) => return self.message(props(), schema),
            (Kind::SchemaOrBool, None) if allows != 0 => self.out.extend_from_slice(b"true"),
            (Kind::SchemaOrBool, None) => self.out.extend_from_slice(b"false"),
            _ => self.out.extend_from_slice(b"null"),
        }
        Ok(())
    }
}

/// The bytes of field 1, which is all that some messages have.
pub(super) fn only_bytes<'a>(
    bytes: &'a [u8],
    message: &'static str,
) -> Result<Option<&'a [u8]>, Error> {
    let mut reader = Reader::new(bytes, message);
    let mut found = None;
    while !reader.is_empty() {
        match reader.tag()? {
            (1, LEN) => found = Some(reader.len()?),
            (1, wire) => return Err(Reason::WireType { wire, field: "Raw".to_owned() }.into()),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(found)
}
