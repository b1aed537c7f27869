//! The writing side of a store: deltas in, snapshots and changes out.
//!
//! Three things happen here. Deltas of the watch are applied. A relist is done by mark and
//! sweep: objects that did not change are only marked, so there is never a second copy. And own
//! writes lie over the watched state until the watch has caught up with them.
//!
//! **Invariant:** handlers receive the watched state only, in its order; own writes change
//! what readers see and nothing else.
//! **Invariant:** a relist becomes visible at once and as a whole.

mod indexing;
mod own_writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::fifo::Delta;
use super::mailbox::{Change, Mailbox};
use super::overlay::{NEVER, Overlay, Overlays};
use super::store::{State, StoreScope};
use super::tombstones::Tombstones;
use super::{Entry, Key};
use indexing::{Missed, UsedIndexer};

pub(super) struct Writer {
    /// The number of the store.
    store: u32,
    objects: OrdMap<Key, Arc<Entry>>,
    indexers: Vec<UsedIndexer>,
    /// Indexes that are being built, each with the changes it has missed.
    building: Vec<(u64, Vec<Missed>)>,
    tickets: u64,
    mailboxes: Vec<Arc<Mailbox>>,
    scope: StoreScope,
    sources: Vec<Source>,
    overlays: Overlays,
    /// Own deletions that have no overlay any more.
    tombstones: Tombstones,
    relists: u32,
    changes: Vec<Change>,
    sync_point: bool,
    dirty: bool,
    /// The bytes that the objects keep.
    bytes: usize,
}

/// One watch that feeds the store.
#[derive(Default)]
struct Source {
    version: u64,
    synced: bool,
    relist: Option<Relist>,
}

/// A relist under way.
struct Relist {
    mark: u32,
    changed: BTreeMap<Key, Arc<Entry>>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn new(scope: StoreScope, store: u32) -> Self {
        let sources = scope.namespaces.iter().map(|_| Source::default()).collect();
        Self {
            store,
            objects: OrdMap::new(),
            indexers: Vec::new(),
            building: Vec::new(),
            tickets: 0,
            mailboxes: Vec::new(),
            scope,
            sources,
            overlays: Overlays::default(),
            tombstones: Tombstones::new(),
            relists: 0,
            changes: Vec::new(),
            sync_point: false,
            dirty: false,
            bytes: 0,
        }
    }

    pub(super) fn apply(&mut self, source: usize, delta: Delta) {
        if source >= self.sources.len() {
            return;
        }
        match delta {
            Delta::Begin => {
                self.relists = self.relists.wrapping_add(1).max(1);
                let relist = Relist { mark: self.relists, changed: BTreeMap::new() };
                self.sources[source].relist = Some(relist);
            }
            Delta::Listed(entry) => self.listed(source, entry),
            Delta::Kept(key) => self.remark(source, &key, |relist| relist.mark),
            Delta::Unlisted(key) => {
                self.remark(source, &key, |relist| {
                    relist.changed.remove(&key);
                    0
                });
            }
            Delta::Replace { version } => self.replace(source, version),
            Delta::Upsert(entry) => {
                self.passed(source, entry.version());
                self.upsert(entry);
            }
            Delta::Delete(entry) => {
                self.passed(source, entry.version());
                let (key, uid, version) = (entry.key().clone(), entry.uid(), entry.version());
                self.delete(key, uid, version, Some(entry.clone()));
            }
            Delta::Gone { key, uid, version } => {
                self.passed(source, version);
                self.delete(key, &uid, version, None);
            }
            Delta::Bookmark { version } => {
                self.progress(source, version);
                self.settle(source, version);
            }
            Delta::Broken(_) | Delta::Resumed => {}
        }
    }

    /// Returns the version all sources have reached.
    pub(super) fn version(&self) -> u64 {
        let synced = self.sources.iter().all(|source| source.synced);
        let versions = self.sources.iter().map(|source| source.version);
        versions.min().filter(|_| synced).unwrap_or(0)
    }

    /// Returns the next snapshot if anything changed.
    pub(super) fn publish(&mut self) -> Option<State> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let indexes = self.indexers.iter_mut().map(|used| used.indexer.publish()).collect();
        Some(State { objects: self.objects.clone(), indexes, bytes: self.bytes })
    }

    /// Notifies the handlers, and returns the keys of objects that are deleted.
    pub(super) fn deliver(&mut self) -> Vec<Key> {
        let changes = std::mem::take(&mut self.changes);
        for mailbox in &self.mailboxes {
            for change in &changes {
                mailbox.deliver(change);
            }
            if self.sync_point {
                mailbox.sync_point();
            }
        }
        self.sync_point = false;
        changes.into_iter().filter(|change| change.gone).map(|change| change.key).collect()
    }

    pub(super) fn subscribe(&mut self, mailbox: Arc<Mailbox>) {
        for entry in self.watched() {
            mailbox.deliver(&Change {
                key: entry.key().clone(),
                old: None,
                new: entry,
                gone: false,
                initial: true,
                final_state_unknown: false,
                merged: false,
            });
        }
        if self.sources.iter().all(|source| source.synced) {
            mailbox.sync_point();
        }
        self.mailboxes.push(mailbox);
    }

    #[cfg(test)]
    pub(super) fn overlays(&self) -> usize {
        self.overlays.len()
    }

    pub(super) fn unsubscribe(&mut self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.retain(|known| !Arc::ptr_eq(known, mailbox));
    }

    pub(super) fn resync(&self, mailbox: &Mailbox) {
        self.watched().for_each(|entry| mailbox.resync(&entry));
    }

    fn upsert(&mut self, entry: Arc<Entry>) {
        let key = entry.key().clone();
        self.hide_deleted(&key, entry.uid());
        let old = match self.overlays.get_mut(&key) {
            Some(overlay) => {
                let other = overlay.written.is_none() && overlay.precedes(&entry);
                let caught_up = entry.version() >= overlay.version || other || overlay.outlived();
                overlay.saw(&entry);
                let old = overlay.watched.replace(entry.clone());
                if caught_up {
                    self.lift(&key);
                    entry.show(self.store);
                }
                old
            }
            None => {
                let old = self.set(&key, Some(entry.clone()));
                entry.show(self.store);
                old
            }
        };
        if !old.as_ref().is_some_and(|old| old.same(&entry)) {
            self.change(key, old, entry, false);
        }
    }

    /// Removes an object; `last` is its last state if that could be read.
    fn delete(&mut self, key: Key, uid: &str, version: u64, last: Option<Arc<Entry>>) {
        let old = match self.overlays.get_mut(&key) {
            Some(overlay) => {
                let old = overlay.watched.take();
                // A later own write stays: of another object with the same name, or of one that
                // has left the selection, which looks like a deletion, and is back in it.
                let whole = self.scope.labels.is_none() && !self.scope.by_fields;
                let real = overlay.version == NEVER || whole;
                if real && *overlay.uid == *uid || overlay.version <= version {
                    self.lift(&key);
                }
                old
            }
            None => {
                let old = self.objects.get(&key).cloned();
                self.set(&key, None);
                old
            }
        };
        self.tombstones.remove(uid);
        if let Some(old) = old {
            let unread = last.is_none();
            let last = last.unwrap_or_else(|| old.clone());
            self.gone(key, Some(old), last, unread);
        }
    }

    fn listed(&mut self, source: usize, entry: Arc<Entry>) {
        let Some(relist) = &mut self.sources[source].relist else { return };
        let key = entry.key();
        if !self.overlays.contains_key(key)
            && let Some(known) = self.objects.get(key)
            && known.same(&entry)
            && !known.poorer(&entry)
        {
            known.mark(relist.mark);
            relist.changed.remove(key);
        } else {
            entry.mark(relist.mark);
            relist.changed.insert(key.clone(), entry);
        }
    }

    /// Marks what is known of an object as a relist under way wants it.
    fn remark(&mut self, source: usize, key: &Key, mark: impl FnOnce(&mut Relist) -> u32) {
        let Some(relist) = &mut self.sources[source].relist else { return };
        let mark = mark(relist);
        let hidden = self.overlays.get(key).and_then(|overlay| overlay.watched.as_ref());
        for known in self.objects.get(key).into_iter().chain(hidden) {
            known.mark(mark);
        }
    }

    /// Ends a relist: what was not listed is gone, what changed is changed.
    fn replace(&mut self, source: usize, version: u64) {
        let Some(relist) = self.sources[source].relist.take() else { return };
        let own = self.overlays.of(source);
        let own: Vec<_> = own.iter().filter_map(|key| Some((key, self.lift(key)?))).collect();
        let held = self.objects.values().filter(|entry| self.fed_by(source, entry.key()));
        let swept: Vec<_> = held
            .filter(|entry| !entry.marked(relist.mark) && !relist.changed.contains_key(entry.key()))
            .cloned()
            .collect();
        for entry in swept {
            self.set(&entry.key().clone(), None);
            self.gone(entry.key().clone(), Some(entry.clone()), entry, true);
        }
        let initial = !self.sources[source].synced;
        for (key, entry) in relist.changed {
            let old = self.objects.get(&key).cloned();
            self.set(&key, Some(entry.clone()));
            entry.show(self.store);
            if !old.as_ref().is_some_and(|old| old.same(&entry)) {
                self.change(key, old, entry, initial);
            }
        }
        for (key, mut overlay) in own {
            // A list that still names what was deleted here is from before that, and so is one
            // from before the object was there.
            let listed = self.objects.get(key);
            let named = listed.is_some_and(|entry| overlay.knows(entry.uid()));
            let other = listed.is_some_and(|entry| overlay.precedes(entry));
            if let Some(entry) = listed {
                overlay.saw(entry);
            }
            let stays = match overlay.version {
                NEVER => !other && !overlay.outlived() && (named || version < overlay.existed),
                own => own > version,
            };
            if stays {
                let Overlay { version, uid, written, since, existed, floor, gone, .. } = overlay;
                self.lay(key, uid, version, written);
                if let Some(again) = self.overlays.get_mut(key) {
                    again.floor = again.floor.max(floor);
                    (again.since, again.existed, again.gone) = (since, existed, gone);
                }
            } else if !other && overlay.existed <= version {
                // It was there before this list and is not in it.
                self.tombstones.remove(&overlay.uid);
            }
        }
        for (uid, key) in self.tombstones.list() {
            if self.objects.get(&key).is_some_and(|entry| *entry.uid() == *uid) {
                self.hide_deleted(&key, &uid);
            }
        }
        let was_synced = self.sources.iter().all(|source| source.synced);
        self.sources[source].synced = true;
        self.sources[source].version = version;
        self.sync_point |= !was_synced && self.sources.iter().all(|source| source.synced);
    }

    fn progress(&mut self, source: usize, version: u64) {
        let source = &mut self.sources[source];
        source.version = source.version.max(version);
    }

    fn fed_by(&self, source: usize, key: &Key) -> bool {
        match &self.scope.namespaces[source] {
            None => true,
            Some(namespace) => key.namespace() == Some(namespace),
        }
    }

    fn source_version(&self, key: &Key) -> u64 {
        let fed = (0..self.sources.len()).filter(|source| self.fed_by(*source, key));
        fed.map(|source| self.sources[source].version).max().unwrap_or(0)
    }

    /// Walks over the watched state, which is what handlers know.
    fn watched(&self) -> impl Iterator<Item = Arc<Entry>> {
        let plain = self.objects.values().filter(|e| !self.overlays.contains_key(e.key()));
        let hidden = self.overlays.values().filter_map(|overlay| overlay.watched.as_ref());
        plain.chain(hidden).cloned()
    }

    /// Inserts, replaces or removes an object and returns the one before.
    fn set(&mut self, key: &Key, entry: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        self.bytes += entry.as_ref().map_or(0, |entry| entry.size());
        let old = match &entry {
            Some(entry) => self.objects.insert(key.clone(), entry.clone()),
            None => self.objects.remove(key),
        };
        self.bytes -= old.as_ref().map_or(0, |old| old.size());
        let known = match (&old, &entry) {
            // An own write that the watch has shown: its values are known.
            (Some(old), Some(new)) => old.same(new) && !old.poorer(new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if !known {
            self.file(key, entry.as_ref());
        }
        // Before the snapshot is published: no reader may go back to it once that is.
        if let Some(old) = &old {
            old.hide();
        }
        self.dirty = true;
        old
    }

    fn change(&mut self, key: Key, old: Option<Arc<Entry>>, new: Arc<Entry>, initial: bool) {
        let initial = initial && old.is_none();
        self.changes.push(Change {
            key,
            old,
            new,
            gone: false,
            initial,
            final_state_unknown: false,
            merged: false,
        });
    }

    fn gone(&mut self, key: Key, old: Option<Arc<Entry>>, last: Arc<Entry>, unknown: bool) {
        self.changes.push(Change {
            key,
            old,
            new: last,
            gone: true,
            initial: false,
            final_state_unknown: unknown,
            merged: false,
        });
    }
}
