//! The store and its mailboxes against a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use proptest::prelude::*;

use crate::cache::batch::Delta;
use crate::cache::mailbox::Mailbox;
use crate::cache::{Entry, Index, Key, Reader, Store};

#[derive(Clone, Debug)]
enum Step {
    Upsert(u8),
    Delete(u8),
    /// A list of these objects, some as they were, some changed.
    Relist(Vec<(u8, bool)>),
    OwnWrite(u8),
    OwnDelete(u8),
    /// Own deletion and creation: another object of that name.
    OwnReplace(u8),
    /// A list that is no newer than the watch.
    StaleRelist,
    Bookmark,
    /// The handler takes so many notices.
    Take(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8).prop_map(Step::Upsert),
        3 => (0..6_u8).prop_map(Step::Delete),
        2 => prop::collection::vec((0..6_u8, any::<bool>()), 0..6).prop_map(Step::Relist),
        2 => (0..6_u8).prop_map(Step::OwnWrite),
        3 => (0..6_u8).prop_map(Step::OwnDelete),
        2 => (0..6_u8).prop_map(Step::OwnReplace),
        1 => Just(Step::StaleRelist),
        1 => Just(Step::Bookmark),
        3 => (0..4_u8).prop_map(Step::Take),
    ]
}

/// The server, the watch and the handler as plain maps from name to UID and version.
struct World {
    store: Store,
    mailbox: Arc<Mailbox>,
    /// What the server holds; own writes go there without an event so far.
    server: BTreeMap<u8, (u64, u64)>,
    watched: BTreeMap<u8, (u64, u64)>,
    handled: BTreeMap<u8, (u64, u64)>,
    version: u64,
    /// What the watch has reached.
    reached: u64,
}

impl World {
    fn new() -> Self {
        let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
        let mailbox = Arc::new(Mailbox::new());
        store.subscribe(mailbox.clone());
        let maps = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (server, watched, handled) = maps;
        Self { store, mailbox, server, watched, handled, version: 1, reached: 0 }
    }

    fn json(name: u8, (uid, version): (u64, u64)) -> String {
        format!(
            r#"{{"metadata":{{"name":"o{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        )
    }

    fn apply(&self, deltas: impl IntoIterator<Item = Delta>) {
        self.store.apply(deltas);
    }

    /// The object as it would be after a write at `version`.
    fn written(&self, name: u8, version: u64) -> (u64, u64) {
        (self.server.get(&name).map_or_else(|| new_uid(name, version), |(uid, _)| *uid), version)
    }

    fn read(&self, name: u8, version: (u64, u64)) -> Arc<Entry> {
        self.store.read(Self::json(name, version).as_bytes()).unwrap()
    }

    /// Brings the watch up to the server, as events would.
    fn catch_up(&mut self) {
        for (name, (uid, _)) in self.watched.clone() {
            if self.server.get(&name).is_none_or(|now| now.0 != uid) {
                self.watched.remove(&name);
                // The deletion came before whatever the server holds under that name.
                let at = self.server.get(&name).map_or(self.version, |now| now.1 - 1);
                self.apply([Delta::Delete(self.read(name, (uid, at)))]);
            }
        }
        for (name, version) in self.server.clone() {
            if self.watched.insert(name, version) != Some(version) {
                self.apply([Delta::Upsert(self.read(name, version))]);
            }
        }
        self.reached = self.version;
    }

    fn step(&mut self, step: Step) {
        // Deletions have versions of their own, in between.
        self.version += 2;
        let version = self.version;
        match step {
            Step::Upsert(name) => {
                self.catch_up();
                self.server.insert(name, self.written(name, version));
                self.catch_up();
            }
            Step::Delete(name) => {
                self.catch_up();
                self.server.remove(&name);
                self.catch_up();
            }
            Step::StaleRelist => {
                let listed: Vec<_> =
                    self.watched.iter().map(|(n, v)| Delta::Listed(self.read(*n, *v))).collect();
                self.apply([Delta::Begin]);
                self.apply(listed);
                self.apply([Delta::Replace { version: self.reached }]);
            }
            Step::Relist(names) => {
                let mut next = BTreeMap::new();
                for (name, changed) in names {
                    let known = self.server.get(&name).copied().filter(|_| !changed);
                    next.insert(name, known.unwrap_or_else(|| self.written(name, version)));
                }
                let listed: Vec<_> =
                    next.iter().map(|(n, v)| Delta::Listed(self.read(*n, *v))).collect();
                self.apply([Delta::Begin]);
                self.apply(listed);
                self.apply([Delta::Replace { version }]);
                self.server = next.clone();
                self.watched = next;
                self.reached = version;
            }
            Step::OwnWrite(name) => {
                let written = self.written(name, version);
                self.own_write(name, written);
            }
            Step::OwnDelete(name) => self.own_delete(name),
            Step::OwnReplace(name) => {
                self.own_delete(name);
                self.own_write(name, (new_uid(name, version), version));
            }
            Step::Bookmark => {
                self.catch_up();
                self.apply([Delta::Bookmark { version: self.version }]);
            }
            Step::Take(count) => {
                for _ in 0..count {
                    self.take();
                }
            }
        }
    }

    fn own_write(&mut self, name: u8, written: (u64, u64)) {
        self.server.insert(name, written);
        self.store.observe_write(Self::json(name, written).as_bytes()).unwrap();
    }

    fn own_delete(&mut self, name: u8) {
        if let Some((uid, _)) = self.server.remove(&name) {
            let key = Key::cluster(&format!("o{name}"));
            self.store.observe_delete(&key, &uid.to_string());
        }
    }

    fn take(&mut self) -> bool {
        let Some(change) = self.mailbox.take() else { return false };
        let object = change.object::<serde_json::Value>().unwrap();
        assert_eq!(version(&object), change.entry().version());
        let name: u8 = change.key().name()[1..].parse().unwrap();
        let known = self.handled.get(&name).copied();
        let pair = |entry: &Entry| (entry.uid().parse().unwrap(), entry.version());
        match &change.new {
            Some(new) => {
                assert_eq!(known, change.old.as_deref().map(pair), "what the handler knew");
                self.handled.insert(name, pair(new));
            }
            None => {
                let uid = pair(change.entry()).0;
                assert!(known.is_none_or(|known| known.0 == uid), "another object is deleted");
                self.handled.remove(&name);
            }
        }
        true
    }

    fn check_reads(&self) {
        let read: BTreeMap<u8, (u64, u64)> = self
            .store
            .entries()
            .iter()
            .map(|entry| {
                let pair = (entry.uid().parse().unwrap(), entry.version());
                (entry.key().name()[1..].parse().unwrap(), pair)
            })
            .collect();
        assert_eq!(read, self.server, "readers see what the server holds, own writes included");
        // What is kept decoded is found by another way, and is the same; twice, to be kept.
        let reader = self.store.reader::<serde_json::Value>();
        for name in (0..8_u8).chain(0..8) {
            let key = Key::cluster(&format!("o{name}"));
            let wanted = self.server.get(&name).map(|(_, version)| *version);
            assert_eq!(reader.get(&key).map(|object| version(&object)), wanted);
            assert_eq!(reader.object(&key).map(|object| object.version()), wanted);
        }
    }
}

/// The UID of an object that is created at `version`; two objects of one list have different ones.
fn new_uid(name: u8, version: u64) -> u64 {
    version * 8 + u64::from(name)
}

fn version(object: &serde_json::Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

proptest! {
    #[test]
    fn readers_see_the_newest_and_handlers_end_at_the_watched_state(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check_reads();
        }
        while world.take() {}
        prop_assert_eq!(&world.handled, &world.watched);
        world.catch_up();
        while world.take() {}
        prop_assert_eq!(&world.handled, &world.server);
    }
}

pub(super) fn by_version() -> Index<serde_json::Value, u64> {
    Index::new("version", |object: &serde_json::Value| {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        vec![version.parse().unwrap_or(0)]
    })
}

#[test]
fn readers_on_other_threads_see_whole_snapshots_during_writes() {
    let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
    let index = by_version();
    let _guard = store.declare(&index).unwrap();
    let read =
        |name: u8, version: u64| store.read(World::json(name, (1, version)).as_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while last < 300 {
                    let entries = store.entries();
                    let versions: Vec<u64> = entries.iter().map(|e| e.version()).collect();
                    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]), "{versions:?}");
                    let first = versions.first().copied().unwrap_or(0);
                    assert!(first >= last, "a reader went back");
                    last = first;
                    let filed = index.filed(&store.state());
                    assert!(filed.iter().all(|(version, entry)| *version == entry.version()));
                }
            });
        }
        for version in 1..=300 {
            let listed: Vec<_> = (0..8).map(|name| Delta::Listed(read(name, version))).collect();
            store.apply([Delta::Begin]);
            store.apply(listed);
            store.apply([Delta::Replace { version }]);
        }
    });
}

/// Reads an object that was found, and fails if it is older than what was read before.
fn read_on(reader: &Reader<serde_json::Value>, entry: &Entry, seen: &mut BTreeMap<Key, u64>) {
    let last = seen.insert(entry.key.clone(), entry.version);
    assert!(last.unwrap_or(0) <= entry.version, "{} went back", entry.key);
    let read = reader.get(&entry.key).map(|object| version(&object)).unwrap();
    assert!(entry.version <= read, "{} went back", entry.key);
    seen.insert(entry.key.clone(), read);
}

#[test]
fn no_read_returns_an_older_version_while_watch_and_own_writes_race() {
    const KEYS: u8 = 8;
    const ROUNDS: u64 = 400;
    let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
    let reader = store.reader::<serde_json::Value>();
    let mailbox = Arc::new(Mailbox::new());
    store.subscribe(mailbox.clone());
    // The server assigns versions; the watch receives them in order, and late.
    let (events, watch) = std::sync::mpsc::sync_channel::<(u8, u64)>(64);
    let done = std::sync::atomic::AtomicBool::new(false);
    let ended = || done.load(std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = BTreeMap::new();
                while !ended() {
                    store.entries().iter().for_each(|entry| read_on(&reader, entry, &mut seen));
                }
            });
        }
        scope.spawn(|| {
            let mut handled = BTreeMap::new();
            while !ended() {
                let Some(change) = mailbox.take() else { continue };
                assert!(!change.is_delete(), "nothing was deleted");
                assert!(change.object::<serde_json::Value>().is_some());
                let known = change.old.as_ref().map(|old| old.version());
                let new = change.entry().version();
                assert_eq!(handled.insert(change.key().clone(), new), known);
            }
        });
        let feeder = scope.spawn(|| {
            let mut behind = Vec::new();
            let mut relisted = 0;
            for (name, version) in watch {
                behind.push(Delta::Upsert(
                    store.read(World::json(name, (1, version)).as_bytes()).unwrap(),
                ));
                if behind.len() < 20 {
                    continue;
                }
                store.apply(behind.drain(..));
                // Every now and then the watch breaks and begins with a list of what it knew.
                relisted += 1;
                if relisted % 5 == 0 {
                    store.apply([Delta::Bookmark { version }]);
                }
            }
            store.apply(behind);
        });
        // The server's answer to a write is shown before anybody can read it elsewhere.
        for version in 1..=ROUNDS {
            let name = (version % u64::from(KEYS)) as u8;
            let json = World::json(name, (1, version));
            store.observe_write(json.as_bytes()).unwrap();
            let read = store.entry(&Key::cluster(&format!("o{name}"))).unwrap();
            assert!(read.version() >= version, "an own write is not read");
            let read = reader.get(&Key::cluster(&format!("o{name}"))).unwrap();
            assert!(self::version(&read) >= version, "an own write is not read decoded");
            events.send((name, version)).unwrap();
        }
        drop(events);
        // Readers look on until the watch has brought everything.
        feeder.join().unwrap();
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert_eq!(store.entries().iter().map(|entry| entry.version()).max(), Some(ROUNDS));
}

#[test]
fn handlers_added_during_changes_miss_nothing_and_receive_nothing_twice() {
    let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
    let read =
        |name: u8, version: u64| store.read(World::json(name, (1, version)).as_bytes()).unwrap();
    let mailboxes = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=2000_u64 {
                let name = (version % 7) as u8;
                match version % 11 {
                    0 => store.apply([Delta::Delete(read(name, version))]),
                    _ => store.apply([Delta::Upsert(read(name, version))]),
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let mailbox = Arc::new(Mailbox::new());
                    store.subscribe(mailbox.clone());
                    mailboxes.lock().push(mailbox);
                    std::thread::yield_now();
                }
            });
        }
    });
    let held: BTreeMap<Key, u64> =
        store.entries().iter().map(|entry| (entry.key().clone(), entry.version())).collect();
    for mailbox in mailboxes.into_inner() {
        let mut handled = BTreeMap::new();
        while let Some(change) = mailbox.take() {
            let (key, known) = (change.key(), change.old.as_ref().map(|old| old.version()));
            match &change.new {
                Some(new) => {
                    let before = handled.insert(key.clone(), new.version());
                    assert_eq!(before, known, "{key}");
                }
                None => drop(handled.remove(key)),
            }
        }
        assert_eq!(handled, held);
    }
}
