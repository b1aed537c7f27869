//! The journal of a data directory: an append-only file of writes, replayed at start.
//!
//! A log of our own instead of a key-value engine: the store already has the whole state in memory
//! in the structure reads need, so an engine's tree would only be a second copy, and its commit
//! costs two syncs. Here a write is one `write(2)` of one framed record before it is acknowledged,
//! so it survives `kill -9` at any instant; [`Journal::sync`] makes it survive a loss of power.
//!
//! The directory has the files `journal` (which starts with [`MAGIC`], then [`record`] by record),
//! `journal.next` while the journal is compacted, and `lock`, which the process that uses the
//! directory holds.
//!
//! **Invariant:** what is acknowledged can be read: a record that replay would refuse is not
//! written, and nothing is written behind a record that was written in part.
//! **Invariant:** an incomplete last record is a write that was never synced, and is cut off.
//! Anything else that cannot be read is damage: the journal is refused and left as it is.
//! **Invariant:** the journal is never larger than three times the live objects and
//! [`ROOM_BYTES`], unless the disk refuses to take the compacted one.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Entry, ResourceKey, World};
use disk::Disk;
use record::{FRAME_BYTES, Found, HEAD};

mod compaction;
mod disk;
mod record;

pub(crate) use record::Record;

const MAGIC: &[u8] = b"windlass journal 1\n";
/// A journal that is larger than twice the live objects and this is compacted.
const SLACK_BYTES: u64 = 1 << 20;
/// Writes wait for the compaction under way when the journal is larger than three times the live
/// objects and this.
const ROOM_BYTES: u64 = 8 << 20;
/// How much of a journal is read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The directory or a file in it cannot be read or written.
    #[error("data directory: cannot read or write {path}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("data directory {path} is in use by another process")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The file is not a journal of windlass.
    #[error("{path} is not a windlass journal; move it away or choose another data directory")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A record is unreadable, and it is not merely the incomplete last one.
    #[error(
        "{path} is damaged at byte {offset} of {length}: the bytes there are not a whole record, \
         and not the beginning of an unfinished one either; restore the file from a copy, or lose \
         everything written from there on with `truncate --size={offset} {path}`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first byte of the unreadable record.
        offset: u64,
        /// The length of the file.
        length: u64,
    },
    /// An earlier failure may have left an incomplete record, and what follows it would be lost.
    #[error("{path} takes no more writes since one failed halfway; restart the server")]
    Poisoned {
        /// The file.
        path: PathBuf,
    },
}

/// An open journal.
pub struct Journal {
    shared: Arc<Shared>,
    compactor: Option<JoinHandle<()>>,
    /// About how many bytes the live objects need.
    live: u64,
    /// Held as long as the journal is used.
    _lock: File,
}

/// What a journal shares with its compaction.
struct Shared {
    directory: PathBuf,
    path: PathBuf,
    disk: Disk,
    state: Mutex<State>,
    /// Notified when a compaction ends.
    compacted: Condvar,
    /// Set when the journal is closed: a compaction ends early.
    closing: AtomicBool,
}

struct State {
    file: File,
    /// The length of the acknowledged records, and the position of the file.
    end: u64,
    /// Whether there may be an incomplete record behind `end`.
    poisoned: bool,
    /// Whether the name of the file survives a loss of power.
    directory_synced: bool,
    compacting: bool,
    /// After a compaction failed, the next one waits until the journal is this large.
    compact_from: u64,
}

// === impl Journal ===

impl Journal {
    /// Opens or creates the journal of a data directory, and locks the directory.
    ///
    /// A directory that does not exist is created; only its owner may use it. An existing one keeps
    /// its permissions, but its files become readable for their owner alone.
    ///
    /// # Errors
    /// If the directory cannot be used, is in use, or has another journal.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        Self::open_on(directory, Disk::default())
    }

    fn open_on(directory: &Path, disk: Disk) -> Result<Self, JournalError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| JournalError::Io { path, source }
        };
        disk::create_directory(directory).map_err(at(directory))?;
        let path = directory.join("lock");
        let lock = disk.open(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Locked { path: directory.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(at(&path)(source)),
        }
        let path = directory.join("journal");
        let mut file = disk.open(&path).map_err(at(&path))?;
        let mut magic = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(at(&path))?;
        if magic != MAGIC {
            // A file cut within the magic is one whose very first write did not finish.
            if !MAGIC.starts_with(&magic) {
                return Err(JournalError::Foreign { path });
            }
            let written = disk.truncate(&file, 0).and_then(|()| disk.write(&file, MAGIC));
            written.map_err(at(&path))?;
        }
        let state = State {
            file,
            end: MAGIC.len() as u64,
            poisoned: false,
            directory_synced: false,
            compacting: false,
            compact_from: 0,
        };
        let shared = Shared {
            directory: directory.to_owned(),
            path,
            disk,
            state: Mutex::new(state),
            compacted: Condvar::new(),
            closing: AtomicBool::new(false),
        };
        // What a compaction left that did not finish.
        let _ = std::fs::remove_file(shared.draft());
        Ok(Self { shared: Arc::new(shared), compactor: None, live: 0, _lock: lock })
    }

    /// Gives all records to `take`, oldest first, and prepares to append more.
    pub(super) fn replay(&self, mut take: impl FnMut(Record)) -> Result<(), JournalError> {
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        let start = MAGIC.len() as u64;
        let length = state.file.metadata().map_err(|e| shared.failed(e))?.len();
        let read = read_all(&state.file, start..length, &mut take).map_err(|e| shared.failed(e))?;
        let end = read.map_err(|offset| {
            let path = shared.path.clone();
            JournalError::Damaged { path, offset, length }
        })?;
        state.end = end;
        shared.disk.truncate(&state.file, end).map_err(|e| shared.failed(e))?;
        if end < length {
            tracing::warn!(
                path = %shared.path.display(), offset = end, bytes = length - end,
                "the journal ended in an incomplete record, which was cut off: the write it was \
                 for had not been made durable"
            );
        }
        Ok(())
    }

    /// Takes note of the live objects after a replay.
    pub(super) fn weigh(&mut self, world: &World) {
        let tables = world.resources();
        let entries = tables.flat_map(|(resource, table)| {
            table.items.values().map(move |entry| record::weight(resource, entry))
        });
        self.live = entries.sum();
    }

    /// Writes the new state of an object (`None`: it is deleted) in the place of `previous`.
    ///
    /// # Errors
    /// If it cannot be written; the journal is as it was then.
    pub(super) fn append(
        &mut self,
        resource: &ResourceKey,
        entry: &Entry,
        deleted: bool,
        previous: Option<&Entry>,
    ) -> Result<(), JournalError> {
        let record = match deleted {
            true => Record::delete(resource, entry.key.clone(), entry.revision),
            false => Record::put(resource, entry),
        };
        let mut bytes = Vec::with_capacity(entry.body.len() + 256);
        let encoded = record.encode(&mut bytes).map_err(|e| self.shared.failed(e));
        let written = encoded.and_then(|()| self.shared.append(&bytes, self.live));
        written.inspect_err(|error| {
            let source = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(%error, source, "a write could not be made durable");
        })?;
        let (added, removed) = (
            if deleted { 0 } else { record::weight(resource, entry) },
            previous.map_or(0, |previous| record::weight(resource, previous)),
        );
        self.live = (self.live + added).saturating_sub(removed);
        Ok(())
    }

    /// Starts a compaction if it is due. The state is that after the last append.
    pub(super) fn compact_if_due(&mut self, world: &World) {
        let from = {
            let mut state = self.shared.state.lock();
            let due = (2 * self.live + SLACK_BYTES).max(state.compact_from);
            if state.compacting || state.poisoned || state.end <= due {
                return;
            }
            state.compacting = true;
            state.end
        };
        if let Some(last) = self.compactor.take() {
            // It has ended already: it said so by `compacting`.
            let _ = last.join();
        }
        let (shared, world) = (self.shared.clone(), world.clone());
        let work = move || compaction::run(&shared, &world, from);
        match std::thread::Builder::new().name("windlass-journal".into()).spawn(work) {
            Ok(compactor) => self.compactor = Some(compactor),
            Err(error) => {
                tracing::warn!(%error, "the journal was not compacted");
                let mut state = self.shared.state.lock();
                state.compacting = false;
                state.compact_from = state.end + SLACK_BYTES;
            }
        }
    }

    /// Makes everything that was appended survive a loss of power.
    ///
    /// # Errors
    /// If the disk reports an error. Later writes fail then, because the contents of the file are
    /// unknown.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        shared.check(&state)?;
        if let Err(error) = shared.disk.sync(&state.file) {
            state.poisoned = true;
            return Err(shared.failed(error));
        }
        if !state.directory_synced {
            shared.disk.sync_directory(&shared.directory).map_err(|e| shared.failed(e))?;
            state.directory_synced = true;
        }
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if let Some(compactor) = self.compactor.take() {
            let _ = compactor.join();
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    /// Where the compacted journal is written.
    fn draft(&self) -> PathBuf {
        self.path.with_extension("next")
    }

    fn append(&self, bytes: &[u8], live: u64) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        while state.compacting && state.end > 3 * live + ROOM_BYTES {
            self.compacted.wait(&mut state);
        }
        self.check(&state)?;
        if let Err(error) = self.disk.write(&state.file, bytes) {
            // An incomplete record must not stay in front of the next one.
            state.poisoned = self.disk.truncate(&state.file, state.end).is_err();
            return Err(self.failed(error));
        }
        state.end += bytes.len() as u64;
        Ok(())
    }

    fn check(&self, state: &MutexGuard<'_, State>) -> Result<(), JournalError> {
        match state.poisoned {
            true => Err(JournalError::Poisoned { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), source }
    }
}

/// Reads the records of a range; returns where they end, or as an error where the damage is.
fn read_all(
    mut file: &File,
    range: std::ops::Range<u64>,
    take: &mut impl FnMut(Record),
) -> io::Result<Result<u64, u64>> {
    let mut at = range.start;
    file.seek(SeekFrom::Start(at))?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    loop {
        match Record::read(&mut reader, range.end - at)? {
            Found::Record(record, bytes) => {
                take(record);
                at += bytes;
            }
            Found::End => return Ok(Ok(at)),
            Found::Damage => return Ok(Err(at)),
            Found::Incomplete => break,
        }
    }
    Ok(if has_record(file, at..range.end)? { Err(at) } else { Ok(at) })
}

/// Returns `true` if a whole record starts anywhere within a range of the file.
fn has_record(mut file: &File, range: std::ops::Range<u64>) -> io::Result<bool> {
    let mut chunk = Vec::new();
    let mut start = range.start;
    while start < range.end {
        chunk.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(BUFFER_BYTES as u64).read_to_end(&mut chunk)?;
        for (at, _) in chunk.windows(HEAD.len()).enumerate().filter(|(_, text)| *text == HEAD) {
            let payload = start + at as u64;
            let Some(frame) = payload.checked_sub(FRAME_BYTES).filter(|f| *f > range.start) else {
                continue;
            };
            file.seek(SeekFrom::Start(frame))?;
            if Record::is_at(&mut BufReader::new(file), range.end - frame)? {
                return Ok(true);
            }
        }
        // Chunks overlap, so that no start is missed between them.
        let step = chunk.len().saturating_sub(HEAD.len());
        start += if step == 0 { range.end - start } else { step as u64 };
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
