//! The writing side of a store: deltas in, snapshots and changes out.
//!
//! Deltas of the watch are applied one by one. A relist is done by mark and sweep: objects that did
//! not change are only marked, so there is never a second copy. Own writes cover the watched state
//! until the watch has caught up with them; [`Overlays`] decides when.
//!
//! **Invariant:** handlers receive the watched state only, in its order. Own writes change what
//! readers see and nothing else.
//! **Invariant:** a relist becomes visible at once and as a whole.

mod indexing;
mod sources;

use std::sync::{Arc, Weak};

use imbl::OrdMap;

use super::batch::Delta;
use super::mailbox::Mailbox;
use super::overlay::{Overlays, Target};
use super::store::{Shared, State, StoreScope};
use super::{Change, Entry, Key, Origin, select};
use indexing::{Missed, UsedIndexer};

pub(super) struct Writer {
    /// The number of the store.
    store: u32,
    /// The store itself, for changes.
    shared: Weak<Shared>,
    objects: OrdMap<Key, Arc<Entry>>,
    indexers: Vec<UsedIndexer>,
    /// Indexes that are being built, each with the changes it has missed.
    building: Vec<(u64, Vec<Missed>)>,
    tickets: u64,
    mailboxes: Vec<Arc<Mailbox>>,
    scope: StoreScope,
    sources: Vec<Source>,
    /// All sources of now were added.
    sources_known: bool,
    overlays: Overlays,
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
    synced: bool,
    relist: Option<Relist>,
    /// Its namespace is not cached any more.
    ended: bool,
}

/// A relist under way.
struct Relist {
    mark: u32,
    /// What differs from what is known, as it arrives; of an object that comes again, the last one
    /// counts. `None` is an object that is not listed after all, or is known already.
    changed: Vec<(Key, Option<Arc<Entry>>)>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn new(scope: StoreScope, store: u32, shared: Weak<Shared>) -> Self {
        let sources: Vec<_> = scope.namespaces.iter().map(|_| Source::default()).collect();
        let selective = scope.labels.is_some() || scope.by_fields;
        let overlays = Overlays::new(sources.len(), selective);
        let sources_known = !scope.chosen;
        Self {
            store,
            shared,
            objects: OrdMap::new(),
            indexers: Vec::new(),
            building: Vec::new(),
            tickets: 0,
            mailboxes: Vec::new(),
            scope,
            sources,
            sources_known,
            overlays,
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
                let relist = Relist { mark: self.relists, changed: Vec::new() };
                self.sources[source].relist = Some(relist);
            }
            Delta::Listed(entry) => self.listed(source, entry),
            Delta::Kept(key) => self.remark(source, &key, |relist| relist.mark),
            Delta::Unlisted(key) => {
                self.remark(source, &key, |relist| {
                    relist.changed.push((key.clone(), None));
                    0
                });
            }
            Delta::Replace { version } => self.replace(source, version),
            Delta::Upsert(entry) => self.upsert(source, entry),
            Delta::Delete(entry) => {
                let (uid, version) = (entry.uid(), entry.version());
                self.delete(source, entry.key(), uid, version, Some(entry.clone()));
            }
            Delta::Gone { key, uid, version } => self.delete(source, &key, &uid, version, None),
            Delta::Bookmark { version } => {
                self.overlays.bookmark(source, version);
                self.show_views();
            }
            Delta::Broken(_) | Delta::Resumed => {}
        }
    }

    /// Returns the version all sources have reached.
    pub(super) fn version(&self) -> u64 {
        // A namespace that was chosen just now has nothing to say about the others.
        let known = |source: &usize| match self.scope.chosen {
            true => self.sources[*source].synced,
            false => true,
        };
        let synced = self.scope.chosen || self.all_synced();
        let sources = (0..self.sources.len()).filter(known);
        let versions = sources.map(|source| self.overlays.reached(source));
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
        let deleted = changes.iter().filter(|change| change.is_delete());
        deleted.map(|change| change.key().clone()).collect()
    }

    pub(super) fn subscribe(&mut self, mailbox: Arc<Mailbox>) {
        for entry in self.all_watched() {
            let (entry, origin) = (entry.clone(), Origin::Initial);
            mailbox.deliver(&Change::upsert(None, entry, origin, &self.shared));
        }
        if self.all_synced() {
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
        for entry in self.all_watched() {
            let (old, origin) = (Some(entry.clone()), Origin::Resync);
            mailbox.resync(Change::upsert(old, entry.clone(), origin, &self.shared));
        }
    }

    /// Shows the answer to an own write to readers.
    pub(super) fn observe_write(&mut self, entry: &Arc<Entry>) {
        let key = entry.key();
        let shown = self.objects.get(key);
        let Some(source) = self.source_of(key) else { return };
        // Fields cannot be judged here: a new object is left to the watch.
        if self.scope.by_fields && shown.is_none() {
            return;
        }
        let selected = self.scope.labels.as_ref();
        let selected = selected.is_none_or(|wanted| select::matches(wanted, entry.label_set()));
        self.overlays.observe_write(source, entry, selected, shown);
        self.show_views();
        self.show_fresh(entry);
    }

    /// Hides an object that an own request has deleted from readers.
    pub(super) fn observe_delete(&mut self, key: &Key, uid: &str) {
        if let Some(source) = self.source_of(key).filter(|_| !uid.is_empty()) {
            self.overlays.observe_delete(source, key, uid, self.objects.get(key));
            self.show_views();
        }
    }

    fn upsert(&mut self, source: usize, entry: Arc<Entry>) {
        let old = self.watched(source, &entry);
        self.overlays.advance(source, entry.version());
        self.show_views();
        if !old.as_ref().is_some_and(|old| old.same(&entry)) {
            self.change(old, entry, false);
        }
    }

    /// Removes an object; `last` is its last state if that could be read.
    fn delete(
        &mut self,
        source: usize,
        key: &Key,
        uid: &str,
        version: u64,
        last: Option<Arc<Entry>>,
    ) {
        let old = match self.overlays.watched_deleted(key, uid, version) {
            Target::Readers => self.set(key, None),
            Target::Overlay(old) => old,
        };
        self.overlays.advance(source, version);
        self.show_views();
        if let Some(old) = old {
            let unread = last.is_none();
            let last = last.unwrap_or_else(|| old.clone());
            self.gone(old, last, unread);
        }
    }

    fn listed(&mut self, source: usize, entry: Arc<Entry>) {
        let Some(relist) = &mut self.sources[source].relist else { return };
        let key = entry.key();
        let known = self.overlays.watched_of(key, self.objects.get(key));
        let again = known.is_some_and(|known| known.marked(relist.mark));
        if let Some(known) = known {
            known.mark(relist.mark);
        }
        if !known.is_some_and(|known| known.same(&entry) && !known.poorer(&entry)) {
            entry.mark(relist.mark);
            relist.changed.push((key.clone(), Some(entry)));
        } else if again {
            relist.changed.push((key.clone(), None));
        }
    }

    /// Marks what is known of an object as a relist in progress requires.
    fn remark(&mut self, source: usize, key: &Key, mark: impl FnOnce(&mut Relist) -> u32) {
        let Some(relist) = &mut self.sources[source].relist else { return };
        let mark = mark(relist);
        if let Some(known) = self.overlays.watched_of(key, self.objects.get(key)) {
            known.mark(mark);
        }
    }

    /// Ends a relist: what was not listed is deleted, then what differs is changed, each by key.
    fn replace(&mut self, source: usize, version: u64) {
        let Some(relist) = self.sources[source].relist.take() else { return };
        let mark = relist.mark;
        let changed = relist.in_order();
        let listed = |entry: &&Arc<Entry>| {
            let at = |other: &Arc<Entry>| other.key().cmp(entry.key());
            entry.marked(mark) || changed.binary_search_by(at).is_ok()
        };
        let watched = self.all_watched().filter(|entry| self.fed_by(source, entry.key()));
        let mut swept: Vec<_> = watched.filter(|entry| !listed(entry)).cloned().collect();
        swept.sort_by(|a, b| a.key().cmp(b.key())); // those under overlays came last
        for entry in swept {
            if let Target::Readers = self.overlays.swept(&entry, version) {
                self.set(entry.key(), None);
            }
            self.gone(entry.clone(), entry, true);
        }
        let initial = !self.sources[source].synced;
        // Every second one first: the nodes of a tree that is filled in order stay half empty.
        let mut olds = vec![None; changed.len()];
        for first in [0, 1] {
            for (entry, old) in changed.iter().zip(&mut olds).skip(first).step_by(2) {
                *old = self.watched(source, entry);
            }
        }
        for (entry, old) in changed.into_iter().zip(olds) {
            if !old.as_ref().is_some_and(|old| old.same(&entry)) {
                self.change(old, entry, initial);
            }
        }
        self.overlays.listed(source, version);
        self.show_views();
        let was_synced = self.all_synced();
        self.sources[source].synced = true;
        self.sync_point |= !was_synced && self.all_synced();
    }

    /// Stores an object that a source has sent, and returns the watched state before.
    fn watched(&mut self, source: usize, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        let key = entry.key();
        match self.overlays.watched(source, entry, self.objects.get(key)) {
            Target::Readers => {
                let old = self.set(key, Some(entry.clone()));
                entry.show(self.store);
                old
            }
            Target::Overlay(old) => {
                self.show_views();
                self.show_fresh(entry);
                old
            }
        }
    }

    /// Shows readers what has changed under overlays.
    fn show_views(&mut self) {
        for (key, entry) in self.overlays.take_views() {
            self.set(&key, entry);
        }
    }

    /// Marks an entry that nobody has seen before, if readers see it now.
    fn show_fresh(&self, entry: &Arc<Entry>) {
        if self.objects.get(entry.key()).is_some_and(|shown| Arc::ptr_eq(shown, entry)) {
            entry.show(self.store);
        }
    }

    fn fed_by(&self, source: usize, key: &Key) -> bool {
        match &self.scope.namespaces[source] {
            _ if self.sources[source].ended => false,
            None => true,
            Some(namespace) => key.namespace() == Some(namespace),
        }
    }

    /// Returns the source that sends an object; `None` if it is outside the scope.
    fn source_of(&self, key: &Key) -> Option<usize> {
        (0..self.sources.len()).find(|source| self.fed_by(*source, key))
    }

    /// Walks over the watched state, which is what handlers know.
    fn all_watched(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let plain = self.objects.values().filter(|entry| self.overlays.is_plain(entry.key()));
        plain.chain(self.overlays.covered())
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
            self.file(key, old.as_ref(), entry.as_ref());
        }
        // Before the snapshot is published: no reader may go back to it once that is.
        if let Some(old) = &old {
            old.hide();
        }
        self.dirty = true;
        old
    }

    fn change(&mut self, old: Option<Arc<Entry>>, new: Arc<Entry>, initial: bool) {
        let origin = if initial && old.is_none() { Origin::Initial } else { Origin::Watch };
        self.changes.push(Change::upsert(old, new, origin, &self.shared));
    }

    fn gone(&mut self, old: Arc<Entry>, last: Arc<Entry>, unknown: bool) {
        self.changes.push(Change::delete(old, last, unknown, &self.shared));
    }
}

// === impl Relist ===

impl Relist {
    /// Returns the objects that differ from what is known, by key.
    fn in_order(mut self) -> Vec<Arc<Entry>> {
        if !self.changed.is_sorted_by(|(a, _), (b, _)| a < b) {
            // The last one first, which is the one that is kept.
            self.changed.reverse();
            self.changed.sort_by(|(a, _), (b, _)| a.cmp(b));
            self.changed.dedup_by(|(a, _), (b, _)| a == b);
        }
        self.changed.into_iter().filter_map(|(_, entry)| entry).collect()
    }
}
