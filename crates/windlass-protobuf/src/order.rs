//! Messages whose fields come in another order than their numbers, or more than once.
//!
//! That is allowed, though encoders do not do it. Such a message is put in order as a whole: of
//! single values the last one counts, and parts of one message are joined, which on the wire means
//! to write one after the other.

use crate::error::Error;
use crate::facts::{Kind, Message, Shape};
use crate::wire::{LEN, Reader, put_bytes, put_tag};

/// The same message, its fields by number.
pub(crate) fn by_number(message: &Message, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(bytes, message.short);
    let mut parts: Vec<(u32, u8, &[u8])> = Vec::new();
    while !reader.is_empty() {
        let (number, wire) = reader.tag()?;
        let start = reader.rest();
        reader.skip(wire)?;
        parts.push((number, wire, &start[..start.len() - reader.rest().len()]));
    }
    parts.sort_by_key(|(number, ..)| *number);
    let mut out = Vec::with_capacity(bytes.len());
    for same in parts.chunk_by(|a, b| a.0 == b.0) {
        let (number, wire, last) = same[same.len() - 1];
        let field = message.field(number);
        let single = field.is_none_or(|f| matches!(f.shape, Shape::Plain | Shape::Pointer));
        if let Some(field) = field
            && single
            && same.len() > 1
            && matches!(field.kind, Kind::Message(_))
        {
            let mut joined = Vec::new();
            for (_, wire, part) in same {
                crate::json::check_wire(field, *wire, LEN)?;
                joined.extend_from_slice(Reader::new(part, message.short).len()?);
            }
            put_tag(&mut out, number, LEN);
            put_bytes(&mut out, &joined);
        } else if single {
            put_tag(&mut out, number, wire);
            out.extend_from_slice(last);
        } else {
            for (_, wire, part) in same {
                put_tag(&mut out, number, *wire);
                out.extend_from_slice(part);
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::{JsonOptions, message_of};

    fn json(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        let map = message_of("v1", "ConfigMap").unwrap();
        map.write_json(bytes, "", JsonOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parts_of_a_message_are_joined_and_of_single_values_the_last_one_counts() {
        let bytes = [
            &[0x20, 1][..],                           // immutable
            &[0x12, 6, 0x0a, 1, b'b', 0x12, 1, b'1'], // data
            &[0x0a, 3, 0x0a, 1, b'x'],                // metadata.name
            &[0x20, 0],                               // immutable again
            &[0x0a, 6, 0x0a, 1, b'y', 0x1a, 1, b'n'], // metadata again
            &[0x12, 6, 0x0a, 1, b'a', 0x12, 1, b'2'], // data again
            &[0x12, 6, 0x0a, 1, b'b', 0x12, 1, b'3'],
        ]
        .concat();
        let metadata = r#""metadata":{"name":"y","namespace":"n"}"#;
        let data = r#""data":{"a":"2","b":"3"}"#;
        assert_eq!(json(&bytes), format!("{{{metadata},{data},\"immutable\":false}}"));
    }
}
