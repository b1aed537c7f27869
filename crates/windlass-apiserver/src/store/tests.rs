#![allow(
    clippy::disallowed_methods,
    reason = "certificates and files of real servers belong to real time"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pods() -> ResourceKey {
    ResourceKey::new("", "pods")
}

fn object(name: &str, value: u32) -> Value {
    json!({"metadata": {"name": name, "labels": {"v": value.to_string()}}, "v": value})
}

fn put(store: &Store, name: &str, value: u32) -> Arc<Entry> {
    let key = Key::new("ns", name);
    let expected = store.world().get(&pods(), &key).map(|e| e.revision);
    let change = Change::Put { object: object(name, value), fields: Vec::new() };
    store.write(&pods(), &key, expected, change).unwrap()
}

fn delete(store: &Store, name: &str) -> Option<Arc<Entry>> {
    let key = Key::new("ns", name);
    let expected = store.world().get(&pods(), &key)?.revision;
    Some(store.write(&pods(), &key, Some(expected), Change::Delete).unwrap())
}

fn names(table: &Table) -> Vec<String> {
    table.items.keys().map(|k| k.name.to_string()).collect()
}

#[test]
fn a_write_that_saw_another_state_is_refused_and_changes_nothing() {
    let store = Store::default();
    put(&store, "a", 1);
    let change = Change::Put { object: object("a", 2), fields: Vec::new() };
    let refused = store.write(&pods(), &Key::new("ns", "a"), Some(7), change);
    assert!(matches!(refused, Err(WriteError::Conflict)));
    assert_eq!(store.revision(), 1);
}

#[test]
fn a_deletion_takes_a_revision_and_its_event_carries_it() {
    let store = Store::default();
    put(&store, "a", 1);
    let last = delete(&store, "a").unwrap();
    assert_eq!(last.revision, 2);
    assert_eq!(last.object()["metadata"]["resourceVersion"], "2");
    let events = store.log(&pods()).since(1).unwrap();
    assert_eq!((events.len(), events[0].kind), (1, EventKind::Deleted));
}

#[test]
fn an_exact_list_shows_the_past_until_it_is_compacted() {
    let store = Store::default();
    put(&store, "a", 1);
    put(&store, "b", 1);
    delete(&store, "a");
    put(&store, "c", 1);
    assert_eq!(names(&store.at(&pods(), 2).unwrap()), ["a", "b"]);
    assert_eq!(names(&store.at(&pods(), 3).unwrap()), ["b"]);
    store.compact();
    assert!(store.at(&pods(), 2).is_err());
    assert_eq!(names(&store.at(&pods(), 4).unwrap()), ["b", "c"]);
}

#[test]
fn a_revision_is_never_visible_before_its_event() {
    const WRITES: u32 = 30_000;
    let store = Store::default();
    put(&store, "a", 0);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = |_| {
            let mut looks = 0u64;
            let log = store.log(&pods());
            let key = Key::new("ns", "a");
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let revision = store.revision();
                let events = log.since(revision - 1).unwrap();
                assert_eq!(events.first().map(|e| e.revision), Some(revision), "no event");
                let before = store.at(&pods(), revision - 1).unwrap();
                let entry = before.items.get(&key);
                assert!(entry.is_none_or(|e| e.revision < revision), "a newer object");
                let newest = log.since(revision).unwrap().last().map(|e| e.revision);
                assert!(newest.is_none_or(|newest| newest <= store.revision()), "an early event");
                looks += 1;
            }
            looks
        };
        let readers: Vec<_> = (0..3).map(|n| scope.spawn(move || reader(n))).collect();
        for value in 0..WRITES {
            put(&store, "a", value);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
}

#[test]
fn earlier_states_and_encodings_count_for_the_size_of_the_log() {
    let store = Store::new(LogLimits { events_max: 1_000, bytes_max: 100_000 });
    let big = |value: u32| {
        let mut object = object("a", value);
        object["text"] = "x".repeat(1_000).into();
        Change::Put { object, fields: Vec::new() }
    };
    let key = Key::new("ns", "a");
    let mut expected = None;
    let log = store.log(&pods());
    for value in 0..200 {
        let entry = store.write(&pods(), &key, expected, big(value)).unwrap();
        expected = Some(entry.revision);
        for event in log.follow(entry.revision - 1, 1).unwrap() {
            for kind in [EventKind::Added, EventKind::Modified, EventKind::Deleted] {
                event.line(kind, || vec![b'x'; 1_000].into());
            }
        }
    }
    let kept = (0..200).find_map(|from| log.batch(from, 1_000).ok()).unwrap();
    let bytes: usize = kept.len() * 4_000;
    assert!((60_000..130_000).contains(&bytes), "{bytes}");
}

#[test]
fn the_history_of_a_resource_without_objects_can_be_dropped() {
    let store = Store::default();
    put(&store, "a", 1);
    store.forget(&pods());
    assert_eq!(store.log(&pods()).since(0).unwrap().len(), 1);
    delete(&store, "a");
    store.forget(&pods());
    let log = store.log(&pods());
    assert!(log.since(1).is_err());
    assert!(log.since(2).unwrap().is_empty());
    assert!(store.at(&pods(), 1).is_err());
    put(&store, "b", 1);
    assert_eq!(log.since(2).unwrap().len(), 1);
}

#[test]
fn a_fork_is_independent_of_its_origin() {
    let store = Store::default();
    put(&store, "a", 1);
    let fork = store.fork();
    put(&fork, "b", 1);
    assert_eq!(names(&store.world().table(&pods())), ["a"]);
    assert_eq!(names(&fork.world().table(&pods())), ["a", "b"]);
}

#[test]
fn a_full_log_forgets_its_oldest_events_and_says_so() {
    let store = Store::new(LogLimits { events_max: 2, bytes_max: 1 << 20 });
    for name in ["a", "b", "c"] {
        put(&store, name, 1);
    }
    let log = store.log(&pods());
    assert_eq!(log.since(0).unwrap_err(), Gone { oldest: 1 });
    assert_eq!(log.since(1).unwrap().len(), 2);
}

fn scratch() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("windlass-store-{}", uuid::Uuid::new_v4()))
}

fn reopen(dir: &std::path::Path) -> Store {
    Store::open(LogLimits::default(), Journal::open(dir).unwrap()).unwrap()
}

#[test]
fn what_was_written_is_there_after_a_restart_and_revisions_continue() {
    let dir = scratch();
    let store = reopen(&dir);
    put(&store, "a", 1);
    put(&store, "b", 1);
    delete(&store, "a");
    drop(store);
    let store = reopen(&dir);
    assert_eq!(names(&store.world().table(&pods())), ["b"]);
    assert_eq!(put(&store, "c", 1).revision, 4);
    drop(store);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let dir = scratch();
    let store = reopen(&dir);
    assert!(matches!(Journal::open(&dir), Err(JournalError::Locked { .. })));
    drop(store);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_foreign_file_is_left_alone() {
    let dir = scratch();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("journal"), "something of somebody else's").unwrap();
    assert!(matches!(Journal::open(&dir), Err(JournalError::Foreign { .. })));
    assert_eq!(
        std::fs::read_to_string(dir.join("journal")).unwrap(),
        "something of somebody else's"
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn damage_before_the_last_record_is_reported_and_nothing_is_cut_off() {
    let dir = scratch();
    let store = reopen(&dir);
    for name in ["first", "second", "third"] {
        put(&store, name, 1);
    }
    drop(store);
    let path = dir.join("journal");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|text| text == b"second").unwrap();
    bytes[at] = b'X';
    std::fs::write(&path, &bytes).unwrap();
    let opened = Store::open(LogLimits::default(), Journal::open(&dir).unwrap());
    let Err(JournalError::Damaged { offset, .. }) = opened else { panic!("damage was not seen") };
    assert!((offset as usize) < at && offset > 19);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    std::fs::remove_dir_all(dir).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Cut anywhere, the journal gives the state after some prefix of the writes: never a mixture.
    #[test]
    fn a_journal_cut_anywhere_gives_a_prefix_of_the_writes(cut in 0.0f64..1.0) {
        let dir = scratch();
        let store = reopen(&dir);
        let mut states = vec![Vec::new()];
        for step in 0..12u32 {
            if step % 4 == 3 { delete(&store, "n1"); } else { put(&store, &format!("n{}", step % 5), step); }
            states.push(names(&store.world().table(&pods())));
        }
        drop(store);
        let file = std::fs::OpenOptions::new().write(true).open(dir.join("journal")).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len((length as f64 * cut) as u64).unwrap();
        drop(file);
        let store = reopen(&dir);
        let revision = store.revision() as usize;
        prop_assert_eq!(&names(&store.world().table(&pods())), &states[revision]);
        let next = put(&store, "z", 1).revision;
        prop_assert_eq!(next as usize, revision + 1);
        drop(store);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// The state at every revision, and the events between, agree with a plain list of maps.
    #[test]
    fn every_remembered_revision_agrees_with_a_model(
        ops in prop::collection::vec((0u8..6, any::<bool>(), 0u32..9), 1..60)
    ) {
        let store = Store::default();
        let mut model: Vec<BTreeMap<String, u32>> = vec![BTreeMap::new()];
        for (name, put_it, value) in ops {
            let name = format!("n{name}");
            let mut next = model.last().unwrap().clone();
            if put_it {
                put(&store, &name, value);
                next.insert(name, value);
            } else if delete(&store, &name).is_some() {
                next.remove(&name);
            } else {
                continue;
            }
            model.push(next);
        }
        for (revision, want) in model.iter().enumerate() {
            let got: BTreeMap<String, u32> = store
                .at(&pods(), revision as u64)
                .unwrap()
                .items
                .iter()
                .map(|(k, e)| (k.name.to_string(), e.object()["v"].as_u64().unwrap() as u32))
                .collect();
            prop_assert_eq!(want, &got);
        }
    }
}
