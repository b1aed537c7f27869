//! Compaction: rewrites a journal in the background so that it has live objects only.
//!
//! The state to keep is a [`World`], which costs nothing to hold. A thread writes it to
//! `journal.next`, appends what was written to the journal meanwhile, and puts the new file in the
//! place of the old one. Writers wait for the last few records to be copied at most.
//!
//! **Invariant:** until the new file is complete and synced, the old one has its name: a crash at
//! any instant leaves a whole journal.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;

use super::record::Record;
use super::{MAGIC, SLACK_BYTES, Shared};
use crate::store::{Key, World};

/// How many bytes are written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The most bytes that are copied while writers wait, unless they write faster than they are
/// copied.
const TAIL_BYTES_MAX: u64 = 64 << 10;
/// How often the tail is copied before writers have to wait.
const TAIL_ROUNDS_MAX: usize = 8;

/// Compacts the journal. The state is as of the journal's byte `from`.
pub(super) fn run(shared: &Shared, world: &World, from: u64) {
    let outcome = compact(shared, world, from);
    let mut state = shared.state.lock();
    if let Err(error) = outcome {
        let _ = std::fs::remove_file(shared.draft());
        state.compact_from = state.end + (state.end / 2).max(SLACK_BYTES);
        if !shared.closing.load(Ordering::Relaxed) {
            tracing::warn!(path = %shared.path.display(), %error, "the journal was not compacted");
        }
    }
    state.compacting = false;
    shared.compacted.notify_all();
}

fn compact(shared: &Shared, world: &World, from: u64) -> io::Result<()> {
    let draft = shared.draft();
    let file = shared.disk.create(&draft)?;
    let mut length = write_world(shared, world, &file)?;
    // Only this thread renames files, so the path still names the file that is appended to.
    let mut old = File::open(&shared.path)?;
    let mut copied = from;
    for _ in 0..TAIL_ROUNDS_MAX {
        let end = shared.state.lock().end;
        if end - copied <= TAIL_BYTES_MAX {
            break;
        }
        copy(shared, &mut old, copied..end, &file)?;
        length += end - copied;
        copied = end;
    }
    shared.disk.sync(&file)?;
    let mut state = shared.state.lock();
    if state.poisoned {
        return Err(io::Error::other("an earlier write failed"));
    }
    let end = state.end;
    copy(shared, &mut old, copied..end, &file)?;
    length += end - copied;
    shared.disk.sync(&file)?;
    shared.disk.rename(&draft, &shared.path)?;
    let before = state.end;
    (state.file, state.end, state.compact_from) = (file, length, 0);
    state.directory_synced = shared.disk.sync_directory(&shared.directory).is_ok();
    tracing::debug!(path = %shared.path.display(), before, after = length, "compacted the journal");
    Ok(())
}

/// Writes the live objects; returns the length of the file.
fn write_world(shared: &Shared, world: &World, file: &File) -> io::Result<u64> {
    let (mut buffer, mut length) = (MAGIC.to_vec(), 0);
    for (resource, table) in world.resources() {
        let mut newest = 0;
        for entry in table.items.values() {
            newest = newest.max(entry.revision);
            Record::put(resource, entry).encode(&mut buffer)?;
            if buffer.len() >= CHUNK_BYTES {
                length += flush(shared, &mut buffer, file)?;
            }
        }
        // The revision of the last deletion must not be given out again.
        if table.revision > newest {
            let nothing = Key::new("", "");
            Record::delete(resource, nothing, table.revision).encode(&mut buffer)?;
        }
    }
    Ok(length + flush(shared, &mut buffer, file)?)
}

fn flush(shared: &Shared, buffer: &mut Vec<u8>, file: &File) -> io::Result<u64> {
    if shared.closing.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    shared.disk.write(file, buffer)?;
    let count = buffer.len() as u64;
    buffer.clear();
    Ok(count)
}

/// Appends a range of the old file to the new one.
fn copy(
    shared: &Shared,
    old: &mut File,
    range: std::ops::Range<u64>,
    file: &File,
) -> io::Result<()> {
    old.seek(SeekFrom::Start(range.start))?;
    let mut rest = range.end - range.start;
    let mut buffer = Vec::new();
    while rest > 0 {
        buffer.clear();
        let count = old.take(rest.min(CHUNK_BYTES as u64)).read_to_end(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        rest -= flush(shared, &mut buffer, file)?;
    }
    Ok(())
}
