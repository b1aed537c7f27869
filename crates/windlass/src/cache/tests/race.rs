//! The store under concurrent use: own writes, a watch that is behind, readers, a handler.
//!
//! The model is the server: a plain map from name to UID and version behind a lock, and a log of
//! its operations. Writers change it and let the store observe that at any later moment; the watch
//! applies the log with a delay. Whatever happens at the same time, no reader sees an older version
//! than before, everybody sees the own writes, and in the end all agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::fake::{Fake, list};
use crate::cache::batch::Delta;
use crate::cache::mailbox::Mailbox;
use crate::cache::{Entry, Key, Scope, Store};

#[derive(Clone, Copy, Debug)]
enum Order {
    /// Creates or changes an object.
    Write(u8),
    Delete(u8),
}

/// What the watch does next.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Brings so many events.
    Events(usize),
    Bookmark,
    Relist,
}

type Uid = u64;
type Version = u64;

#[derive(Default)]
struct Server {
    objects: BTreeMap<u8, (Uid, Version)>,
    version: Version,
    /// Name, UID, version, and whether the object is gone.
    log: Vec<(u8, Uid, Version, bool)>,
}

struct World {
    store: Store,
    server: Mutex<Server>,
    ended: AtomicBool,
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        3 => (0..3_u8).prop_map(Order::Write),
        2 => (0..3_u8).prop_map(Order::Delete),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (1..4_usize).prop_map(Turn::Events),
        1 => Just(Turn::Bookmark),
        1 => Just(Turn::Relist),
    ]
}

fn key(name: u8) -> Key {
    Key::cluster(&format!("o{name}"))
}

fn name(key: &Key) -> u8 {
    key.name()[1..].parse().unwrap()
}

fn json(name: u8, uid: Uid, version: Version) -> String {
    format!(r#"{{"metadata":{{"name":"o{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#)
}

fn pair(entry: &Entry) -> (Uid, Version) {
    (entry.uid().parse().unwrap(), entry.version())
}

// === impl Server ===

impl Server {
    fn write(&mut self, name: u8) -> (Uid, Version) {
        self.version += 1;
        let uid = self.objects.get(&name).map_or(self.version, |(uid, _)| *uid);
        self.objects.insert(name, (uid, self.version));
        self.log.push((name, uid, self.version, false));
        (uid, self.version)
    }

    fn delete(&mut self, name: u8) -> Option<Uid> {
        let (uid, _) = self.objects.remove(&name)?;
        self.version += 1;
        self.log.push((name, uid, self.version, true));
        Some(uid)
    }
}

// === impl World ===

impl World {
    fn new() -> Self {
        Self {
            store: Store::detached(&ApiResource::erase::<ConfigMap>(&())),
            server: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    fn entry(&self, name: u8, uid: Uid, version: Version) -> Arc<Entry> {
        self.store.read(json(name, uid, version).as_bytes()).unwrap()
    }

    /// A write of this process: done on the server first, shown to the store after that.
    fn own(&self, order: Order) {
        match order {
            Order::Write(name) => {
                let (uid, version) = self.server.lock().write(name);
                std::thread::yield_now();
                self.store.observe_write(json(name, uid, version).as_bytes()).unwrap();
                let read = self.store.entry(&key(name)).map(|entry| pair(&entry));
                // Unless somebody has changed it since, it is there as it was written.
                if read.is_none_or(|read| read.1 < version) {
                    let now = self.server.lock().objects.get(&name).copied();
                    assert_ne!(now, Some((uid, version)), "read as {read:?}");
                    assert!(read.is_none(), "{read:?} is older than the own {version}");
                }
            }
            Order::Delete(name) => {
                let Some(uid) = self.server.lock().delete(name) else { return };
                std::thread::yield_now();
                self.store.observe_delete(&key(name), &uid.to_string());
                let read = self.store.entry(&key(name)).map(|entry| pair(&entry));
                assert!(read.is_none_or(|read| read.0 != uid), "an own deletion is not seen");
            }
        }
    }

    /// A write of somebody else, which only the watch brings.
    fn foreign(&self, order: Order) {
        let mut server = self.server.lock();
        match order {
            Order::Write(name) => drop(server.write(name)),
            Order::Delete(name) => drop(server.delete(name)),
        }
    }

    /// One turn of the watch, which has brought the log up to `cursor`.
    fn watch(&self, cursor: &mut usize, turn: Turn) {
        match turn {
            Turn::Events(count) => {
                let events: Vec<_> = {
                    let server = self.server.lock();
                    server.log.iter().skip(*cursor).take(count).copied().collect()
                };
                *cursor += events.len();
                let delta = |(name, uid, version, gone)| match gone {
                    true => Delta::Delete(self.entry(name, uid, version)),
                    false => Delta::Upsert(self.entry(name, uid, version)),
                };
                self.store.apply(events.into_iter().map(delta));
            }
            Turn::Bookmark => {
                let reached = cursor.checked_sub(1).map(|last| self.server.lock().log[last].2);
                if let Some(version) = reached {
                    self.store.apply([Delta::Bookmark { version }]);
                }
            }
            Turn::Relist => {
                let (objects, version) = {
                    let server = self.server.lock();
                    *cursor = server.log.len();
                    (server.objects.clone(), server.version)
                };
                self.store.apply([Delta::Begin]);
                for (name, (uid, at)) in objects {
                    self.store.apply([Delta::Listed(self.entry(name, uid, at))]);
                }
                self.store.apply([Delta::Replace { version }]);
            }
        }
    }

    /// Looks on until the end; nothing may go back.
    fn read(&self) {
        // Each reader declares the index, in the middle of everything, and drops it in the end.
        let index = super::model::by_version();
        let _guard = self.store.declare(&index).unwrap();
        let mut seen: BTreeMap<u8, (Uid, Version)> = BTreeMap::new();
        let mut gone: BTreeSet<Uid> = BTreeSet::new();
        loop {
            let ended = self.ended.load(Ordering::SeqCst);
            let now: BTreeMap<u8, (Uid, Version)> =
                self.store.entries().iter().map(|e| (name(e.key()), pair(e))).collect();
            for (name, (uid, version)) in &now {
                let last = seen.get(name).copied().unwrap_or_default();
                assert!(last.1 <= *version, "o{name} went from {last:?} to {:?}", (uid, version));
                assert!(!gone.contains(uid), "o{name} with UID {uid} came back");
            }
            let missing =
                seen.iter().filter(|(name, was)| now.get(name).map(|n| n.0) != Some(was.0));
            gone.extend(missing.map(|(_, was)| was.0));
            seen.extend(now);
            let state = self.store.state();
            let filed = index.filed(&state);
            assert!(filed.iter().all(|(version, entry)| *version == entry.version()));
            assert_eq!(filed.len(), state.objects.len());
            if ended {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Takes what is in a mailbox; every change has to follow from the one before.
fn take(mailbox: &Mailbox, handled: &mut BTreeMap<u8, (Uid, Version)>) {
    while let Some(change) = mailbox.take() {
        let (name, known) = (name(change.key()), handled.get(&name(change.key())).copied());
        match change.new.as_deref().map(pair) {
            Some(new) => {
                assert_eq!(known, change.old.as_deref().map(pair), "o{name}");
                assert_ne!(known, Some(new), "o{name} has not changed");
                handled.insert(name, new);
            }
            None => {
                let uid = pair(change.entry()).0;
                assert!(known.is_none_or(|known| known.0 == uid), "o{name} is another object");
                handled.remove(&name);
            }
        }
    }
}

proptest! {
    #[test]
    fn concurrent_own_writes_and_events_end_at_the_state_of_the_server_and_no_read_goes_back(
        own in prop::collection::vec(prop::collection::vec(order(), 0..12), 2),
        foreign in prop::collection::vec(order(), 0..8),
        turns in prop::collection::vec(turn(), 0..16),
    ) {
        let world = World::new();
        let mailbox = Arc::new(Mailbox::new());
        world.store.subscribe(mailbox.clone());
        let mut handled = BTreeMap::new();
        std::thread::scope(|scope| {
            let world = &world;
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| world.read())).collect();
            let handler = scope.spawn(|| {
                let mut handled = BTreeMap::new();
                while !world.ended.load(Ordering::SeqCst) {
                    take(&mailbox, &mut handled);
                    std::thread::yield_now();
                }
                handled
            });
            let mut writers: Vec<_> = own
                .iter()
                .map(|orders| scope.spawn(|| orders.iter().for_each(|order| world.own(*order))))
                .collect();
            writers.push(scope.spawn(|| foreign.iter().for_each(|order| world.foreign(*order))));
            let watch = scope.spawn(|| {
                let mut cursor = 0;
                for turn in &turns {
                    world.watch(&mut cursor, *turn);
                    std::thread::yield_now();
                }
                cursor
            });
            let failed = writers.into_iter().filter_map(|writer| writer.join().err()).next();
            let cursor = watch.join();
            // The watch catches up, and the readers look once more.
            if let Ok(mut cursor) = cursor {
                world.watch(&mut cursor, Turn::Events(usize::MAX));
            }
            world.ended.store(true, Ordering::SeqCst);
            for reader in readers {
                reader.join().unwrap();
            }
            handled = handler.join().unwrap();
            if let Some(failed) = failed {
                std::panic::resume_unwind(failed);
            }
        });
        take(&mailbox, &mut handled);
        let read: BTreeMap<_, _> =
            world.store.entries().iter().map(|e| (name(e.key()), pair(e))).collect();
        let server = world.server.lock();
        prop_assert_eq!(&read, &server.objects);
        prop_assert_eq!(&handled, &server.objects);
    }
}

/// An object that version by version has another owner.
fn passed_around(name: u8, version: Version) -> String {
    let owner = if version.is_multiple_of(2) { "mine" } else { "other" };
    format!(
        r#"{{"metadata":{{"name":"o{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}",
        "ownerReferences":[{{"apiVersion":"v1","kind":"Secret","name":"s","uid":"{owner}",
        "controller":true}}]}}}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn a_list_returns_the_objects_that_it_found_and_not_what_has_become_of_them() {
    const NAMES: u8 = 64;
    let cache = Fake::new([list("1", &[])]).cache(false);
    let informer = cache.informer::<ConfigMap>(&Scope::default());
    informer.synced(Duration::from_secs(30)).await.unwrap();
    let (store, ended) = (informer.store(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 2..300 {
                for name in 0..NAMES {
                    let json = passed_around(name, version);
                    store.apply([Delta::Upsert(store.read(json.as_bytes()).unwrap())]);
                }
            }
            ended.store(true, Ordering::SeqCst);
        });
        let mut found = 0;
        while !ended.load(Ordering::SeqCst) {
            for map in cache.list::<ConfigMap>().owned_by("mine").items().unwrap() {
                let owner = &map.metadata.owner_references.as_ref().unwrap()[0].uid;
                assert_eq!(owner, "mine", "a list of what is owned returned another's");
                found += 1;
            }
        }
        assert!(found > 0, "the list has to be read while the objects change");
    });
}
