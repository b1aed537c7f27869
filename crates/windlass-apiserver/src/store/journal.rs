//! The journal of a data directory: an append-only file of writes, replayed at start.
//!
//! A log of our own instead of a key-value engine: the store already has the whole state in memory
//! in the structure reads need, so an engine's tree would only be a second copy, and its commit
//! costs two syncs. Here a write is one `write(2)` of one framed record before it is acknowledged,
//! so it survives `kill -9` at any instant; [`Journal::sync`] makes it survive a loss of power.
//!
//! A record is `length (4, LE) | CRC-32 of the payload (4, LE) | payload`; the payload is a line of
//! JSON about the object, then its body. The file starts with [`MAGIC`].
//!
//! **Invariant:** a record is whole or it is not there: a broken last one is a write that was never
//! acknowledged, and is cut off. A broken one with whole ones behind it is damage: the journal is
//! refused and left as it is.

use std::borrow::Cow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Entry, Key, ResourceKey, labels_of};

const MAGIC: &[u8] = b"windlass journal 1\n";
/// How every payload starts.
const HEAD: &[u8] = br#"{"group":""#;
const RECORD_BYTES_MAX: u32 = 64 << 20;
/// A journal with this many records more than twice its live objects is rewritten at start.
const SLACK_RECORDS: usize = 1000;

/// Why a journal can not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The directory or file can not be read or written.
    #[error("data directory {path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("data directory {path} is in use by another process")]
    Locked {
        /// Where.
        path: PathBuf,
    },
    /// The file is not a journal of ours.
    #[error("{path} is not a windlass journal; move it away or choose another data directory")]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// A record in the midst of it is broken.
    #[error(
        "{path} is damaged at byte {offset}, and records follow: restore it from a copy, or keep \
         what is before the damage with `truncate --size {offset}`"
    )]
    Damaged {
        /// Where.
        path: PathBuf,
        /// The first byte of the broken record.
        offset: u64,
    },
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    end: u64,
    repaired: u64,
}

/// One write as it is kept.
#[derive(Debug)]
pub struct Record {
    pub(super) resource: ResourceKey,
    pub(super) key: Key,
    pub(super) revision: u64,
    pub(super) deleted: bool,
    fields: Vec<(Arc<str>, String)>,
    body: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    plural: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    /// Names of roles may hold quotes and more, which JSON escapes.
    #[serde(borrow)]
    name: Cow<'a, str>,
    revision: u64,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    fields: Vec<(String, String)>,
}

// === impl Journal ===

impl Journal {
    /// Opens or creates the journal of a data directory.
    ///
    /// # Errors
    /// If the directory can not be used, is in use, or holds something else.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        let path = directory.join("journal");
        let fail = |source| JournalError::Io { path: path.clone(), source };
        std::fs::create_dir_all(directory)
            .map_err(|source| JournalError::Io { path: directory.to_owned(), source })?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Locked { path: directory.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        let mut magic = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(fail)?;
        if magic != MAGIC {
            // A file cut within the magic is one whose very first write did not finish.
            if !MAGIC.starts_with(&magic) {
                return Err(JournalError::Foreign { path });
            }
            file.set_len(0).map_err(fail)?;
            file.seek(SeekFrom::Start(0)).map_err(fail)?;
            file.write_all(MAGIC).map_err(fail)?;
        }
        Ok(Self { path, file, end: MAGIC.len() as u64, repaired: 0 })
    }

    /// Bytes of a torn tail that were cut off at start.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    pub(super) fn replay(&mut self) -> Result<Vec<Record>, JournalError> {
        let path = self.path.clone();
        let fail = |source| JournalError::Io { path: path.clone(), source };
        let length = self.file.metadata().map_err(fail)?.len();
        self.file.seek(SeekFrom::Start(MAGIC.len() as u64)).map_err(fail)?;
        let mut reader = BufReader::with_capacity(1 << 20, &self.file);
        let (mut records, mut end) = (Vec::new(), MAGIC.len() as u64);
        while let Some((record, bytes)) = read_record(&mut reader).map_err(fail)? {
            records.push(record);
            end += bytes;
        }
        self.repaired = length - end;
        self.end = end;
        if self.repaired > 0 {
            self.file.seek(SeekFrom::Start(end)).map_err(fail)?;
            if has_record(BufReader::with_capacity(1 << 20, &self.file)).map_err(fail)? {
                return Err(JournalError::Damaged { path, offset: end });
            }
            tracing::warn!(
                path = %self.path.display(), bytes = self.repaired,
                "cut off a torn record at the end of the journal"
            );
            self.file.set_len(end).map_err(fail)?;
        }
        self.file.seek(SeekFrom::Start(end)).map_err(fail)?;
        let kept = live(&records);
        if records.len() > 2 * kept.len() + SLACK_RECORDS {
            self.rewrite(&records, &kept)?;
        }
        Ok(records)
    }

    /// Writes the live records, and the last one for its revision, to a new file in its place.
    fn rewrite(&mut self, records: &[Record], kept: &[usize]) -> Result<(), JournalError> {
        let fail = |source| JournalError::Io { path: self.path.clone(), source };
        let next = self.path.with_extension("next");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&next)
            .map_err(fail)?;
        let mut bytes = MAGIC.to_vec();
        for index in kept {
            records[*index].encode(&mut bytes);
        }
        if let Some(last) = records.last().filter(|r| r.deleted) {
            last.encode(&mut bytes);
        }
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        // A file just made by us: nobody else can hold its lock.
        file.try_lock().map_err(|_| JournalError::Locked { path: next.clone() })?;
        std::fs::rename(&next, &self.path).map_err(fail)?;
        self.file = file;
        self.end = bytes.len() as u64;
        Ok(())
    }

    pub(super) fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let mut bytes = Vec::with_capacity(record.body.len() + 256);
        record.encode(&mut bytes);
        match self.file.write_all(&bytes) {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Half a record must not stay in front of the next one.
                let _ = self.file.set_len(self.end);
                let _ = self.file.seek(SeekFrom::Start(self.end));
                Err(JournalError::Io { path: self.path.clone(), source })
            }
        }
    }

    pub(super) fn sync(&self) -> Result<(), JournalError> {
        let fail = |source| JournalError::Io { path: self.path.clone(), source };
        self.file.sync_data().map_err(fail)
    }
}

/// The positions of the records that still stand, in order.
fn live(records: &[Record]) -> Vec<usize> {
    let mut last = hashbrown::HashMap::new();
    for (index, record) in records.iter().enumerate() {
        last.insert((&record.resource, &record.key), index);
    }
    let mut kept: Vec<usize> = last.into_values().filter(|i| !records[*i].deleted).collect();
    kept.sort_unstable();
    kept
}

/// The next whole record and its length; `None` at the end or at a broken one.
fn read_record(reader: &mut impl Read) -> io::Result<Option<(Record, u64)>> {
    let mut frame = [0; 8];
    if !read_whole(reader, &mut frame)? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = frame;
    let (length, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if length > RECORD_BYTES_MAX {
        return Ok(None);
    }
    let mut payload = Vec::new();
    reader.take(u64::from(length)).read_to_end(&mut payload)?;
    if payload.len() as u64 != u64::from(length) || checksum(&payload) != sum {
        return Ok(None);
    }
    Ok(Record::decode(payload).map(|record| (record, 8 + u64::from(length))))
}

/// Whether any whole record starts within the bytes: at each text that may be the start of one.
fn has_record(mut reader: impl Read) -> io::Result<bool> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    let starts = bytes.windows(HEAD.len()).enumerate().filter(|(_, text)| *text == HEAD);
    for (at, _) in starts {
        let Some(start) = at.checked_sub(8) else { continue };
        if read_record(&mut &bytes[start..])?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_whole(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

// === impl Record ===

impl Record {
    pub(super) fn of(resource: &ResourceKey, entry: &Entry, deleted: bool) -> Self {
        Self {
            resource: resource.clone(),
            key: entry.key.clone(),
            revision: entry.revision,
            deleted,
            fields: if deleted { Vec::new() } else { entry.fields.clone() },
            body: if deleted { Bytes::new() } else { entry.body.clone() },
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
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
        out.extend_from_slice(&[0; 8]);
        serde_json::to_writer(&mut *out, &head).expect("strings and numbers serialise");
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        let payload = start + 8;
        let length = u32::try_from(out.len() - payload).expect("objects are far below 4 GiB");
        let sum = checksum(&out[payload..]);
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..payload].copy_from_slice(&sum.to_le_bytes());
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

    pub(super) fn into_entry(self) -> Option<(ResourceKey, Entry)> {
        let object = serde_json::from_slice(&self.body).ok()?;
        let entry = Entry {
            key: self.key,
            revision: self.revision,
            labels: labels_of(&object),
            fields: self.fields,
            body: self.body,
            protobuf: Default::default(),
            known: Default::default(),
        };
        Some((self.resource, entry))
    }
}
