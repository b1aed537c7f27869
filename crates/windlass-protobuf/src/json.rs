//! From protobuf straight into JSON bytes, without a tree between them.
//!
//! A message's fields come ordered by number, as every encoder writes them, so fields are written
//! as they are read and those that are missing are filled in on the way. A message in any other
//! order is put in order first (see [`crate::order`]).

use std::collections::BTreeMap;
use std::io::Write;

use crate::error::{Error, Reason};
use crate::facts::{Field, Kind, Message, Shape};
use crate::wire::{FIXED64, LEN, Reader, VARINT};
use crate::{DEPTH_MAX, order, time};

mod special;
mod text;

use special::only_bytes;

/// What JSON is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// Whether `metadata.managedFields` is written.
    pub managed_fields: bool,
    /// Whether a field that the table does not have is an error, instead of being left out.
    pub known_only: bool,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self { managed_fields: true, known_only: false }
    }
}

impl Message {
    /// Appends an object as JSON.
    ///
    /// `head` comes first within the object; it is empty or ends without a comma.
    ///
    /// # Errors
    /// If the bytes are no such message. What was appended is to be thrown away then.
    ///
    /// ```
    /// use windlass_protobuf::{JsonOptions, message_of};
    ///
    /// let namespace = message_of("v1", "Namespace").unwrap();
    /// let mut out = Vec::new();
    /// let metadata = [0x0a, 3, 0x0a, 1, b'x'];
    /// namespace.write_json(&metadata, r#""kind":"Namespace""#, JsonOptions::default(), &mut out)?;
    /// let text = r#"{"kind":"Namespace","metadata":{"name":"x"},"spec":{},"status":{}}"#;
    /// assert_eq!(out, text.as_bytes());
    /// # Ok::<(), windlass_protobuf::Error>(())
    /// ```
    pub fn write_json(
        &self,
        bytes: &[u8],
        head: &str,
        options: JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut writer = JsonWriter { out, options, depth: 0 };
        writer.out.push(b'{');
        writer.out.extend_from_slice(head.as_bytes());
        writer.fields(self, bytes)?;
        writer.out.push(b'}');
        Ok(())
    }
}

/// Appends one object after another to the same bytes.
pub(crate) struct JsonWriter<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) options: JsonOptions,
    pub(crate) depth: usize,
}

impl JsonWriter<'_> {
    fn message(&mut self, message: &Message, bytes: &[u8]) -> Result<(), Error> {
        self.out.push(b'{');
        self.fields(message, bytes)?;
        self.out.push(b'}');
        Ok(())
    }

    /// The fields without the braces, because an inlined message has none of its own.
    fn fields(&mut self, message: &Message, bytes: &[u8]) -> Result<(), Error> {
        if self.depth == DEPTH_MAX {
            return Err(Reason::Depth.into());
        }
        self.depth += 1;
        let start = self.out.len();
        if !self.ordered_fields(message, bytes)? {
            self.out.truncate(start);
            let ordered = order::by_number(message, bytes)?;
            self.ordered_fields(message, &ordered)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// `false` if the fields are not in order; what was written then is void.
    fn ordered_fields(&mut self, message: &Message, bytes: &[u8]) -> Result<bool, Error> {
        let mut reader = Reader::new(bytes, message.short);
        let mut fields = message.fields.iter();
        let mut next = fields.next();
        while !reader.is_empty() {
            let (number, wire) = reader.tag()?;
            while let Some(field) = next
                && field.number < number
            {
                self.absent(field)?;
                next = fields.next();
            }
            match next {
                Some(field) if field.number == number => {
                    self.present(field, wire, &mut reader).map_err(|e| at(e, field))?;
                    next = fields.next();
                }
                _ if message.field(number).is_some() => return Ok(false),
                _ if self.options.known_only => {
                    let message = message.short;
                    return Err(Reason::UnknownField { message, number }.into());
                }
                _ => reader.skip(wire)?,
            }
        }
        while let Some(field) = next {
            self.absent(field)?;
            next = fields.next();
        }
        Ok(true)
    }

    /// A field that is not on the wire: Go still writes it, unless it is marked `omitempty`.
    #[inline]
    fn absent(&mut self, field: &Field) -> Result<(), Error> {
        if field.always { self.zero(field) } else { Ok(()) }
    }

    fn zero(&mut self, field: &Field) -> Result<(), Error> {
        if field.name().is_empty() {
            return match field.kind {
                Kind::Message(id) => self.fields(id.get(), &[]),
                _ => Ok(()),
            };
        }
        self.key(field);
        let nil = field.shape != Shape::Plain;
        let zero: &[u8] = match field.kind {
            _ if nil => b"null",
            Kind::Bool | Kind::SchemaOrBool => b"false",
            Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => b"0",
            Kind::String => b"\"\"",
            Kind::Quantity => b"\"0\"",
            Kind::Message(id) => return self.message(id.get(), &[]),
            _ => b"null",
        };
        self.out.extend_from_slice(zero);
        Ok(())
    }

    fn present(&mut self, field: &Field, wire: u8, reader: &mut Reader<'_>) -> Result<(), Error> {
        if field.managed && !self.options.managed_fields {
            return skip_all(field, wire, reader);
        }
        match field.shape {
            Shape::Map => return self.map(field, wire, reader),
            Shape::List => return self.list(field, wire, reader),
            Shape::Plain | Shape::Pointer => {}
        }
        if field.name().is_empty()
            && let Kind::Message(id) = field.kind
        {
            check_wire(field, wire, LEN)?;
            let bytes = reader.len()?;
            return self.fields(id.get(), bytes);
        }
        let omit = (field.omit_zero || field.omit_empty) && field.shape == Shape::Plain;
        // What is zero on the wire has one byte of it, so it need not be written to be left out.
        if omit && reader.rest().first() == Some(&0) && leaves_out_zero(field) {
            check_wire(field, wire, if field.kind.is_number() { VARINT } else { LEN })?;
            reader.varint()?;
            return Ok(());
        }
        let start = self.out.len();
        self.key(field);
        let zero = self.value(field, wire, reader)?;
        if zero && omit {
            self.out.truncate(start);
        }
        Ok(())
    }

    /// One value. Returns `true` if `omitempty` (or `omitzero`, for times) leaves it out.
    fn value(&mut self, field: &Field, wire: u8, reader: &mut Reader<'_>) -> Result<bool, Error> {
        match field.kind {
            // Most are texts.
            Kind::String => {
                check_wire(field, wire, LEN)?;
                let bytes = reader.len()?;
                self.text(bytes);
                Ok(bytes.is_empty())
            }
            Kind::Bool | Kind::Int32 | Kind::Int64 => {
                check_wire(field, wire, VARINT)?;
                let value = reader.varint()?;
                Ok(self.number(field.kind, value))
            }
            Kind::Double => {
                check_wire(field, wire, FIXED64)?;
                let value = f64::from_bits(reader.fixed64()?);
                self.double(value)?;
                Ok(value == 0.0)
            }
            _ => {
                check_wire(field, wire, LEN)?;
                let bytes = reader.len()?;
                self.sized_value(field.kind, bytes)?;
                Ok(match field.kind {
                    Kind::Bytes => bytes.is_empty(),
                    Kind::Time | Kind::MicroTime => field.omit_zero && bytes.is_empty(),
                    _ => false,
                })
            }
        }
    }

    fn number(&mut self, kind: Kind, value: u64) -> bool {
        match kind {
            Kind::Bool => {
                let word: &[u8] = if value == 0 { b"false" } else { b"true" };
                self.out.extend_from_slice(word);
                return value == 0;
            }
            Kind::Int32 => text::put_number(i64::from(value as i32), self.out),
            _ => text::put_number(value as i64, self.out),
        }
        value == 0
    }

    /// As Go writes it: with an exponent only if it is very large or very small.
    fn double(&mut self, value: f64) -> Result<(), Error> {
        let number = serde_json::Number::from_f64(value)
            .ok_or_else(|| Error::value("a finite number", value))?;
        let size = value.abs();
        match size == 0.0 || (1e-6..1e21).contains(&size) {
            true => write!(self.out, "{value}"),
            false => write!(self.out, "{number}"),
        }
        .expect("memory takes all bytes");
        Ok(())
    }

    /// A value that has a length on the wire.
    fn sized_value(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Error> {
        match kind {
            Kind::String => self.text(bytes),
            Kind::Bytes => text::put_base64(bytes, self.out),
            Kind::Message(id) => return self.message(id.get(), bytes),
            Kind::Quantity => {
                let text = only_bytes(bytes, "Quantity")?.unwrap_or(b"0");
                self.text(text);
            }
            Kind::IntOrString => return self.int_or_string(bytes),
            Kind::Time | Kind::MicroTime => {
                let micro = kind == Kind::MicroTime;
                match time::read(bytes, micro)? {
                    Some(text) => self.text(text.as_bytes()),
                    None => self.out.extend_from_slice(b"null"),
                }
            }
            Kind::Raw => return self.raw(bytes),
            Kind::Strings => return self.strings(bytes, 1),
            Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => {
                return self.schema_or(kind, bytes);
            }
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double => {}
        }
        Ok(())
    }

    fn list(&mut self, field: &Field, wire: u8, reader: &mut Reader<'_>) -> Result<(), Error> {
        let start = self.out.len();
        self.key(field);
        self.out.push(b'[');
        let first = self.out.len();
        let mut wire = wire;
        loop {
            let packed =
                wire == LEN && matches!(field.kind, Kind::Bool | Kind::Int32 | Kind::Int64);
            if packed {
                let mut values = Reader::new(reader.len()?, "");
                while !values.is_empty() {
                    self.comma(first);
                    self.number(field.kind, values.varint()?);
                }
            } else {
                self.comma(first);
                self.value(field, wire, reader)?;
            }
            match reader.again(field.number) {
                Some(next) => wire = next,
                None => break,
            }
        }
        if self.out.len() == first {
            // Packed, but nothing in it: as good as not there.
            self.out.truncate(start);
            return self.absent(field);
        }
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, field: &Field, wire: u8, reader: &mut Reader<'_>) -> Result<(), Error> {
        self.key(field);
        self.out.push(b'{');
        let first = self.out.len();
        let again = reader.clone();
        let mut last: Option<&[u8]> = None;
        let mut sorted = true;
        each_entry(field, wire, reader, |key, value| {
            sorted &= last.is_none_or(|last| last < key);
            last = Some(key);
            match sorted {
                true => self.entry(field, key, value, first),
                false => Ok(()),
            }
        })?;
        if !sorted {
            // A key may be there twice, and the last one counts.
            self.out.truncate(first);
            let mut entries = BTreeMap::new();
            let mut again = again;
            each_entry(field, wire, &mut again, |key, value| {
                entries.insert(key, value);
                Ok(())
            })?;
            for (key, value) in entries {
                self.entry(field, key, value, first)?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn entry(
        &mut self,
        field: &Field,
        key: &[u8],
        value: Option<(u8, &[u8])>,
        first: usize,
    ) -> Result<(), Error> {
        self.comma(first);
        self.text(key);
        self.out.push(b':');
        let done = match value {
            Some((wire, bytes)) => self.value(field, wire, &mut Reader::new(bytes, "")).map(|_| ()),
            None => match field.kind {
                Kind::Strings => {
                    self.out.extend_from_slice(b"null");
                    Ok(())
                }
                Kind::Bool | Kind::Int32 | Kind::Int64 => {
                    self.number(field.kind, 0);
                    Ok(())
                }
                kind => self.sized_value(kind, &[]),
            },
        };
        done.map_err(|error| error.within(&String::from_utf8_lossy(key)))
    }

    pub(crate) fn embedded(
        &mut self,
        message: &Message,
        bytes: &[u8],
        head: &str,
    ) -> Result<(), Error> {
        self.out.push(b'{');
        self.out.extend_from_slice(head.as_bytes());
        self.fields(message, bytes)?;
        self.out.push(b'}');
        Ok(())
    }

    #[inline]
    fn key(&mut self, field: &Field) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.extend_from_slice(field.key.as_bytes());
    }

    /// A comma, except before the first element.
    #[inline]
    fn comma(&mut self, first: usize) {
        if self.out.len() != first {
            self.out.push(b',');
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        text::put_text(bytes, self.out);
    }
}

/// Returns `true` if a single zero byte is all there is to the field's zero, and that is left out.
fn leaves_out_zero(field: &Field) -> bool {
    let text = matches!(field.kind, Kind::String | Kind::Bytes);
    let time = matches!(field.kind, Kind::Time | Kind::MicroTime) && field.omit_zero;
    text || time || field.kind.is_number()
}

fn at(error: Error, field: &Field) -> Error {
    if field.name().is_empty() { error } else { error.within(field.name()) }
}

pub(crate) fn check_wire(field: &Field, wire: u8, wanted: u8) -> Result<(), Error> {
    match wire == wanted {
        true => Ok(()),
        false => Err(Reason::WireType { wire, field: field.go_name() }.into()),
    }
}

/// Passes over a field and its repetitions.
fn skip_all(field: &Field, wire: u8, reader: &mut Reader<'_>) -> Result<(), Error> {
    reader.skip(wire)?;
    while let Some(wire) = reader.again(field.number) {
        reader.skip(wire)?;
    }
    Ok(())
}

/// Hands out the entries of a map: key, and the bytes and type of the value.
fn each_entry<'a>(
    field: &Field,
    wire: u8,
    reader: &mut Reader<'a>,
    mut found: impl FnMut(&'a [u8], Option<(u8, &'a [u8])>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut wire = wire;
    loop {
        check_wire(field, wire, LEN)?;
        let mut entry = Reader::new(reader.len()?, "");
        let (mut key, mut value) = (&b""[..], None);
        while !entry.is_empty() {
            match entry.tag()? {
                (1, LEN) => key = entry.len()?,
                (2, wire) => {
                    let start = entry.rest();
                    entry.skip(wire)?;
                    value = Some((wire, &start[..start.len() - entry.rest().len()]));
                }
                (_, wire) => entry.skip(wire)?,
            }
        }
        found(key, value)?;
        match reader.again(field.number) {
            Some(next) => wire = next,
            None => return Ok(()),
        }
    }
}
