#![allow(
    clippy::disallowed_methods,
    reason = "certificates and files of real servers belong to real time"
)]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;

use proptest::prelude::*;
use serde_json::json;

use super::disk::Operation;
use super::*;
use crate::store::{Change, Key, LogLimits, Store, WriteError};

/// A data directory that is removed with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("windlass-journal-{}", uuid::Uuid::new_v4());
        Self(std::env::temp_dir().join(name))
    }

    fn file(&self) -> PathBuf {
        self.0.join("journal")
    }

    fn length(&self) -> u64 {
        std::fs::metadata(self.file()).unwrap().len()
    }

    fn open(&self) -> Store {
        self.try_open(Disk::default()).unwrap()
    }

    fn try_open(&self, disk: Disk) -> Result<Store, JournalError> {
        Store::open(LogLimits::default(), Journal::open_on(&self.0, disk)?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A disk that fails at one operation while it is armed, but not the first `skip` times.
fn breaking(operation: Operation, skip: u32) -> (Disk, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let (shared, count) = (armed.clone(), AtomicU32::new(0));
    let disk = Disk::failing(move |asked| {
        let counts = asked == operation && shared.load(Ordering::Relaxed);
        let fails = counts && count.fetch_add(1, Ordering::Relaxed) >= skip;
        if fails { Err(io::Error::other("injected")) } else { Ok(()) }
    });
    (disk, armed)
}

fn maps() -> ResourceKey {
    ResourceKey::new("", "configmaps")
}

fn put(store: &Store, name: &str, text: &str) -> Result<u64, WriteError> {
    let key = Key::new("ns", name);
    let expected = store.world().get(&maps(), &key).map(|entry| entry.revision);
    let object = json!({"metadata": {"name": name, "labels": {"name": name}}, "text": text});
    let change = Change::Put { object, fields: Vec::new() };
    store.write(&maps(), &key, expected, change).map(|entry| entry.revision)
}

fn delete(store: &Store, name: &str) {
    let key = Key::new("ns", name);
    let expected = store.world().get(&maps(), &key).map(|entry| entry.revision);
    store.write(&maps(), &key, expected, Change::Delete).unwrap();
}

/// Everything that is stored: bodies by name, and the revision.
fn state(store: &Store) -> (u64, BTreeMap<String, String>) {
    let world = store.world();
    let table = world.table(&maps());
    let bodies = table.items.iter().map(|(key, entry)| {
        assert_eq!(entry.labels.get("name").map(String::as_str), Some(&*key.name));
        (key.name.to_string(), String::from_utf8_lossy(&entry.body).into_owned())
    });
    (world.revision, bodies.collect())
}

/// Waits until no compaction is under way.
fn settle(store: &Store) {
    let writer = store.writer.lock();
    let shared = writer.journal.as_ref().unwrap().shared.clone();
    let mut state = shared.state.lock();
    while state.compacting {
        shared.compacted.wait(&mut state);
    }
}

fn live(store: &Store) -> u64 {
    store.writer.lock().journal.as_ref().unwrap().live
}

#[test]
fn a_journal_never_exceeds_three_times_the_live_objects_and_a_constant() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let text = "x".repeat(16 << 10);
    for round in 0..2_000 {
        put(&store, &format!("n{}", round % 7), &text).unwrap();
        let bound = 3 * live(&store) + ROOM_BYTES + (32 << 10);
        assert!(scratch.length() <= bound, "{} > {bound}", scratch.length());
    }
    delete(&store, "n6");
    let before = state(&store);
    settle(&store);
    assert!(scratch.length() < 16 << 20);
    drop(store);
    assert_eq!(state(&scratch.open()), before);
    assert!(!scratch.file().with_extension("next").exists());
}

#[test]
fn what_is_written_while_the_journal_is_compacted_is_kept() {
    let scratch = Scratch::new();
    let store = Arc::new(scratch.open());
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                for round in 0..300 {
                    let text = format!("{round} {}", "x".repeat(8 << 10));
                    put(&store, &format!("n{thread}-{}", round % 3), &text).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let before = state(&store);
    assert_eq!(before.0, 1_200);
    assert!(scratch.length() < 1_200 * (8 << 10), "the journal was not compacted");
    drop(store);
    assert_eq!(state(&scratch.open()), before);
}

#[test]
fn the_revision_of_a_deletion_survives_a_compaction() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let text = "x".repeat(1 << 20);
    for _ in 0..3 {
        put(&store, "a", &text).unwrap();
        delete(&store, "a");
    }
    settle(&store);
    put(&store, "b", "1").unwrap();
    delete(&store, "b");
    drop(store);
    let store = scratch.open();
    settle(&store);
    assert!(scratch.length() < 4 << 10, "{}", scratch.length());
    assert_eq!(state(&store), (8, BTreeMap::new()));
}

#[test]
fn a_compaction_that_fails_anywhere_loses_nothing() {
    let operations = [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename];
    for operation in operations.into_iter().chain([Operation::SyncDirectory]) {
        let scratch = Scratch::new();
        // The write that makes a compaction due is the first one after the disk is armed.
        let (disk, armed) = breaking(operation, u32::from(operation == Operation::Write));
        let store = scratch.try_open(disk).unwrap();
        let text = "x".repeat(1 << 20);
        put(&store, "a", &text).unwrap();
        put(&store, "a", &text).unwrap();
        settle(&store);
        armed.store(true, Ordering::Relaxed);
        let written = put(&store, "a", &text).unwrap();
        settle(&store);
        armed.store(false, Ordering::Relaxed);
        assert_eq!(put(&store, "b", "2").unwrap(), written + 1, "{operation:?}");
        let before = state(&store);
        store.sync().unwrap();
        drop(store);
        assert_eq!(state(&scratch.open()), before, "{operation:?}");
    }
}

#[test]
fn a_write_that_fails_is_answered_and_the_next_one_is_kept() {
    let scratch = Scratch::new();
    let (disk, armed) = breaking(Operation::Write, 0);
    let store = scratch.try_open(disk).unwrap();
    put(&store, "a", "1").unwrap();
    armed.store(true, Ordering::Relaxed);
    assert!(matches!(put(&store, "b", "1"), Err(WriteError::Journal(JournalError::Io { .. }))));
    armed.store(false, Ordering::Relaxed);
    assert_eq!(put(&store, "c", "1").unwrap(), 2);
    let before = state(&store);
    drop(store);
    assert_eq!(state(&scratch.open()), before);
}

#[test]
fn nothing_is_written_behind_a_record_that_could_not_be_removed() {
    let scratch = Scratch::new();
    let armed = Arc::new(AtomicBool::new(false));
    let shared = armed.clone();
    let store = scratch
        .try_open(Disk::failing(move |operation| {
            let fails = matches!(operation, Operation::Write | Operation::Truncate)
                && shared.load(Ordering::Relaxed);
            if fails { Err(io::Error::other("injected")) } else { Ok(()) }
        }))
        .unwrap();
    put(&store, "a", "1").unwrap();
    armed.store(true, Ordering::Relaxed);
    put(&store, "b", "1").unwrap_err();
    armed.store(false, Ordering::Relaxed);
    let before = state(&store);
    let refused = put(&store, "c", "1");
    assert!(matches!(refused, Err(WriteError::Journal(JournalError::Poisoned { .. }))));
    assert!(store.sync().is_err());
    assert_eq!(state(&store), before);
    drop(store);
    let store = scratch.open();
    assert_eq!(state(&store), before);
    put(&store, "c", "1").unwrap();
}

#[test]
fn a_failed_sync_is_not_followed_by_writes() {
    let scratch = Scratch::new();
    let (disk, armed) = breaking(Operation::Sync, 0);
    let store = scratch.try_open(disk).unwrap();
    put(&store, "a", "1").unwrap();
    armed.store(true, Ordering::Relaxed);
    assert!(matches!(store.sync(), Err(JournalError::Io { .. })));
    armed.store(false, Ordering::Relaxed);
    put(&store, "b", "1").unwrap_err();
}

#[test]
fn a_directory_that_could_not_be_synced_is_synced_the_next_time() {
    let scratch = Scratch::new();
    let (disk, armed) = breaking(Operation::SyncDirectory, 0);
    let store = scratch.try_open(disk).unwrap();
    put(&store, "a", "1").unwrap();
    armed.store(true, Ordering::Relaxed);
    store.sync().unwrap_err();
    store.sync().unwrap_err();
    armed.store(false, Ordering::Relaxed);
    store.sync().unwrap();
    put(&store, "b", "1").unwrap();
}

#[test]
fn a_record_that_could_not_be_read_again_is_not_written() {
    let scratch = Scratch::new();
    let store = scratch.open();
    put(&store, "a", "1").unwrap();
    let fields = vec![("spec.text".into(), "x".repeat(65 << 20))];
    let change = Change::Put { object: json!({"metadata": {"name": "b"}}), fields };
    let refused = store.write(&maps(), &Key::new("ns", "b"), None, change);
    assert!(matches!(refused, Err(WriteError::Journal(JournalError::Io { .. }))));
    let before = state(&store);
    drop(store);
    assert_eq!(state(&scratch.open()), before);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_files_even_if_others_could_before() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let scratch = Scratch::new();
    put(&scratch.open(), "a", "1").unwrap();
    assert_eq!((mode(&scratch.0), mode(&scratch.file())), (0o700, 0o600));
    for path in [scratch.file(), scratch.0.join("lock")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let store = scratch.open();
    assert_eq!((mode(&scratch.file()), mode(&scratch.0.join("lock"))), (0o600, 0o600));
    for _ in 0..3 {
        put(&store, "a", &"x".repeat(1 << 20)).unwrap();
    }
    settle(&store);
    assert_eq!(mode(&scratch.file()), 0o600);
}

#[test]
fn a_compaction_that_a_crash_ended_leaves_nothing_behind() {
    let scratch = Scratch::new();
    put(&scratch.open(), "a", "1").unwrap();
    let draft = scratch.file().with_extension("next");
    std::fs::write(&draft, "half a journal").unwrap();
    assert_eq!(state(&scratch.open()).0, 1);
    assert!(!draft.exists());
}

#[test]
fn a_directory_of_the_first_format_opens() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(&scratch.0).unwrap();
    let body = r#"{"metadata":{"labels":{"name":"a"},"name":"a","resourceVersion":"7"}}"#;
    let head = r#"{"group":"","plural":"configmaps","namespace":"ns","name":"a","revision":7,"deleted":false,"fields":[]}"#;
    let payload = format!("{head}\n{body}");
    let mut crc = flate2::Crc::new();
    crc.update(payload.as_bytes());
    let mut bytes = b"windlass journal 1\n".to_vec();
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(&crc.sum().to_le_bytes());
    bytes.extend_from_slice(payload.as_bytes());
    std::fs::write(scratch.file(), &bytes).unwrap();
    let (revision, bodies) = state(&scratch.open());
    assert_eq!((revision, bodies["a"].as_str()), (7, body));
    assert_eq!(std::fs::read(scratch.file()).unwrap(), bytes);
}

/// The journal after some of the writes.
struct Prefix {
    end: u64,
    state: (u64, BTreeMap<String, String>),
}

/// A journal of a few writes: the directory, the bytes, and all prefixes of whole records.
fn written() -> (Scratch, Vec<u8>, Vec<Prefix>) {
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut prefixes = vec![Prefix { end: scratch.length(), state: state(&store) }];
    for step in 0..6 {
        if step == 4 {
            delete(&store, "n1");
        } else {
            put(&store, &format!("n{}", step % 3), &format!("value {step}")).unwrap();
        }
        prefixes.push(Prefix { end: scratch.length(), state: state(&store) });
    }
    drop(store);
    let bytes = std::fs::read(scratch.file()).unwrap();
    (scratch, bytes, prefixes)
}

#[test]
fn a_journal_cut_at_any_byte_has_all_writes_that_are_whole() {
    let (scratch, bytes, prefixes) = written();
    let last_records = usize::try_from(prefixes[prefixes.len() - 4].end).unwrap();
    for cut in last_records..=bytes.len() {
        for padding in [0, 40] {
            let mut torn = bytes[..cut].to_vec();
            torn.resize(cut + padding, 0);
            std::fs::write(scratch.file(), torn).unwrap();
            let whole = prefixes.iter().rev().find(|prefix| prefix.end <= cut as u64).unwrap();
            let store = scratch.open();
            assert_eq!(state(&store), whole.state, "cut at {cut}, then {padding} zeros");
            put(&store, "next", "1").unwrap();
            let before = state(&store);
            drop(store);
            assert_eq!(state(&scratch.open()), before, "cut at {cut}");
        }
    }
}

#[test]
fn a_byte_that_changed_anywhere_is_reported_and_the_file_is_left_alone() {
    let (scratch, bytes, prefixes) = written();
    let last_records = usize::try_from(prefixes[prefixes.len() - 4].end).unwrap();
    for at in last_records..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(scratch.file(), &damaged).unwrap();
        let Err(error) = scratch.try_open(Disk::default()) else {
            panic!("damage at byte {at} was not seen");
        };
        let start = prefixes.iter().rev().find(|prefix| prefix.end <= at as u64).unwrap().end;
        let text = error.to_string();
        assert!(text.contains(&format!("damaged at byte {start} of {}", bytes.len())), "{text}");
        assert!(text.contains(&format!("truncate --size={start} ")), "{text}");
        assert_eq!(std::fs::read(scratch.file()).unwrap(), damaged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever fails and whenever the server is restarted, what was acknowledged is there.
    #[test]
    fn every_acknowledged_write_is_found_whatever_fails(
        steps in prop::collection::vec((0u8..4, 0u8..12, any::<u16>()), 1..60)
    ) {
        let scratch = Scratch::new();
        let countdown = Arc::new(AtomicU32::new(u32::MAX));
        let shared = countdown.clone();
        let disk = Disk::failing(move |_| {
            match shared.fetch_sub(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("injected")),
                _ => Ok(()),
            }
        });
        let mut store = scratch.try_open(disk.clone()).unwrap();
        for (name, what, size) in steps {
            match what {
                0 => countdown.store(u32::from(size % 6), Ordering::Relaxed),
                1 => {
                    countdown.store(u32::MAX, Ordering::Relaxed);
                    let before = state(&store);
                    drop(store);
                    store = scratch.try_open(disk.clone()).unwrap();
                    prop_assert_eq!(state(&store), before);
                }
                2 => drop(store.sync()),
                _ => drop(put(&store, &format!("n{name}"), &"x".repeat(usize::from(size) * 8))),
            }
        }
        countdown.store(u32::MAX, Ordering::Relaxed);
        let before = state(&store);
        drop(store);
        prop_assert_eq!(state(&scratch.open()), before);
    }
}
