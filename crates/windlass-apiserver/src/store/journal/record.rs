//! One write as the journal keeps it.
//!
//! A record is `length (4, LE) | CRC-32 of the payload (4, LE) | payload`; the payload is a line of
//! JSON about the object, then its body.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::store::{Entry, Key, ResourceKey};

/// The bytes before a payload.
pub(super) const FRAME_BYTES: u64 = 8;
/// The most bytes of a payload that are written or read.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 20;
/// How every payload starts.
pub(super) const HEAD: &[u8] = br#"{"group":""#;
/// The bytes of a record besides the texts of its object; rounded down.
const FIXED_BYTES: usize = 100;

/// One write.
#[derive(Debug)]
pub(crate) struct Record {
    pub resource: ResourceKey,
    pub key: Key,
    pub revision: u64,
    pub deleted: bool,
    fields: Vec<(Arc<str>, String)>,
    body: Bytes,
}

/// What is found at a place of a journal.
pub(super) enum Found {
    /// A whole record, and its length with its frame.
    Record(Record, u64),
    /// The end of the file.
    End,
    /// The beginning of a record: the file ends before the record does.
    Incomplete,
    /// Something that is not a record.
    Damage,
}

#[derive(Serialize, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    plural: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    /// Names of roles may have characters that JSON escapes.
    #[serde(borrow)]
    name: Cow<'a, str>,
    revision: u64,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    fields: Vec<(String, String)>,
}

// === impl Record ===

impl Record {
    /// Creates a write of an object.
    pub fn put(resource: &ResourceKey, entry: &Entry) -> Self {
        Self {
            resource: resource.clone(),
            key: entry.key.clone(),
            revision: entry.revision,
            deleted: false,
            fields: entry.fields.clone(),
            body: entry.body.clone(),
        }
    }

    /// Creates a deletion.
    pub fn delete(resource: &ResourceKey, key: Key, revision: u64) -> Self {
        let resource = resource.clone();
        Self { resource, key, revision, deleted: true, fields: Vec::new(), body: Bytes::new() }
    }

    /// Appends the record in its written form.
    ///
    /// # Errors
    /// If it would be too large to be read again; `out` is as it was then.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let head = Head {
            group: (&*self.resource.group).into(),
            plural: (&*self.resource.plural).into(),
            namespace: (&*self.key.namespace).into(),
            name: (&*self.key.name).into(),
            revision: self.revision,
            deleted: self.deleted,
            fields: self.fields.iter().map(|(k, v)| (k.to_string(), v.clone())).collect(),
        };
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_BYTES as usize]);
        serde_json::to_writer(&mut *out, &head)?;
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        let payload = start + FRAME_BYTES as usize;
        let bytes = out.len() - payload;
        let length = u32::try_from(bytes).ok().filter(|n| u64::from(*n) <= RECORD_BYTES_MAX);
        let Some(length) = length else {
            out.truncate(start);
            let text = format!("a record of {bytes} bytes is more than a journal takes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        };
        let sum = checksum(&out[payload..]);
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..payload].copy_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    /// Reads what is at a place of a journal with `remaining` bytes behind it.
    pub(super) fn read(reader: &mut impl Read, remaining: u64) -> io::Result<Found> {
        if remaining == 0 {
            return Ok(Found::End);
        }
        if remaining < FRAME_BYTES {
            return Ok(Found::Incomplete);
        }
        let mut frame = [0; FRAME_BYTES as usize];
        reader.read_exact(&mut frame)?;
        let [a, b, c, d, e, f, g, h] = frame;
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let sum = u32::from_le_bytes([e, f, g, h]);
        let rest = remaining - FRAME_BYTES;
        if length == 0 {
            return zeros(reader, rest);
        }
        if length > rest {
            return incomplete(reader, rest, sum);
        }
        if length > RECORD_BYTES_MAX {
            return Ok(Found::Damage);
        }
        let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
        reader.read_exact(&mut payload)?;
        if checksum(&payload) != sum {
            // What a file system keeps of a write at a loss of power ends in zeros.
            let lost = payload.last() == Some(&0);
            return Ok(if lost { Found::Incomplete } else { Found::Damage });
        }
        let record = Self::decode(payload);
        Ok(record.map_or(Found::Damage, |record| Found::Record(record, FRAME_BYTES + length)))
    }

    /// Returns `true` if there is a whole record; reads no more than that.
    pub(super) fn is_at(reader: &mut impl Read, remaining: u64) -> io::Result<bool> {
        let mut frame = [0; FRAME_BYTES as usize];
        if remaining < FRAME_BYTES {
            return Ok(false);
        }
        reader.read_exact(&mut frame)?;
        let [a, b, c, d, ..] = frame;
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        if length == 0 || length > RECORD_BYTES_MAX.min(remaining - FRAME_BYTES) {
            return Ok(false);
        }
        let found = Self::read(&mut frame.chain(reader), remaining)?;
        Ok(matches!(found, Found::Record(..)))
    }

    fn decode(payload: Vec<u8>) -> Option<Self> {
        let split = payload.iter().position(|b| *b == b'\n')?;
        let payload = Bytes::from(payload);
        let text = std::str::from_utf8(&payload[..split]).ok()?;
        let head: Head<'_> = serde_json::from_str(text).ok()?;
        Some(Self {
            resource: ResourceKey::new(&head.group, &head.plural),
            key: Key::new(&head.namespace, &head.name),
            revision: head.revision,
            deleted: head.deleted,
            fields: head.fields.into_iter().map(|(k, v)| (k.into(), v)).collect(),
            body: payload.slice(split + 1..),
        })
    }

    /// Returns the object that was written.
    pub fn into_entry(self) -> Entry {
        Entry::stored(self.key, self.revision, self.body, self.fields)
    }
}

/// About how many bytes the journal needs to keep an object; never more than it takes.
pub(super) fn weight(resource: &ResourceKey, entry: &Entry) -> u64 {
    let fields: usize = entry.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    let key = entry.key.namespace.len() + entry.key.name.len();
    let resource = resource.group.len() + resource.plural.len();
    (FIXED_BYTES + resource + key + fields + entry.body.len()) as u64
}

/// Distinguishes a record that was cut off from one whose length is wrong.
fn incomplete(reader: &mut impl Read, rest: u64, sum: u32) -> io::Result<Found> {
    let mut crc = flate2::Crc::new();
    for_each_chunk(reader, rest, |bytes| crc.update(bytes))?;
    let whole = rest > 0 && crc.sum() == sum;
    Ok(if whole { Found::Damage } else { Found::Incomplete })
}

/// Distinguishes preallocated space that a loss of power left empty from a record whose length is
/// wrong.
fn zeros(reader: &mut impl Read, rest: u64) -> io::Result<Found> {
    let mut empty = true;
    for_each_chunk(reader, rest, |bytes| empty &= bytes.iter().all(|byte| *byte == 0))?;
    Ok(if empty { Found::Incomplete } else { Found::Damage })
}

fn for_each_chunk(
    reader: &mut impl Read,
    count: u64,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut reader = reader.take(count);
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            read => take(&buffer[..read]),
        }
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
