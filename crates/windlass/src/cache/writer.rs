//! The writing side of a store: deltas in, snapshots and changes out.
//!
//! Three things happen here. Deltas of the watch are applied. A relist is done by mark and
//! sweep: objects that did not change are only marked, so there is never a second copy. And own
//! writes lie over the watched state until the watch has caught up with them.
//!
//! **Invariant:** handlers are told of the watched state only, in its order; own writes change
//! what readers see and nothing else.
//! **Invariant:** a relist becomes visible at once and as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use tokio::time::Instant;

use super::buried::Buried;
use super::fifo::Delta;
use super::index::Indexer;
use super::mailbox::{Change, Mailbox};
use super::overlay::{GONE_MAX, NEVER, OVERLAYS_MAX, Overlay, Overlays};
use super::select;
use super::store::{Scope, State};
use super::{Entry, Key};

pub(super) struct Writer {
    /// The number of the store.
    store: u32,
    objects: OrdMap<Key, Arc<Entry>>,
    indexers: Vec<Box<dyn Indexer>>,
    mailboxes: Vec<Arc<Mailbox>>,
    scope: Scope,
    sources: Vec<Source>,
    overlays: Overlays,
    /// Own deletions that no overlay stands for any more.
    buried: Buried,
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
    pub(super) fn new(scope: Scope, store: u32) -> Self {
        let sources = scope.namespaces.iter().map(|_| Source::default()).collect();
        Self {
            store,
            objects: OrdMap::new(),
            indexers: Vec::new(),
            mailboxes: Vec::new(),
            scope,
            sources,
            overlays: Overlays::default(),
            buried: Buried::default(),
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
        let indexes = self.indexers.iter_mut().map(|indexer| indexer.publish()).collect();
        Some(State { objects: self.objects.clone(), indexes, bytes: self.bytes })
    }

    /// Tells the handlers, and returns the keys of objects that are gone.
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

    pub(super) fn add_index(&mut self, mut indexer: Box<dyn Indexer>) -> usize {
        for (key, entry) in &self.objects {
            indexer.update(key, Some(entry));
        }
        tracing::debug!(index = indexer.name(), objects = self.objects.len(), "index added");
        self.indexers.push(indexer);
        self.dirty = true;
        self.indexers.len() - 1
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

    pub(super) fn indexes(&self) -> Vec<(String, usize)> {
        self.indexers.iter().map(|indexer| (indexer.name().to_owned(), indexer.len())).collect()
    }

    /// Returns how often functions of indexes panicked.
    pub(super) fn index_panics(&self) -> u64 {
        self.indexers.iter().map(|indexer| indexer.panics()).sum()
    }

    /// Returns the most objects that wait for one handler.
    pub(super) fn lag(&self) -> usize {
        self.mailboxes.iter().map(|mailbox| mailbox.figures().0).max().unwrap_or(0)
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

    pub(super) fn observe_write(&mut self, entry: Arc<Entry>) {
        let key = entry.key().clone();
        let current = self.objects.get(&key);
        let newer = current.is_none_or(|current| current.version() < entry.version());
        let known_later = self.overlays.get(&key).is_some_and(|known| {
            match known.written.is_some() || *known.uid == *entry.uid() {
                true => entry.version() <= known.version,
                false => !known.precedes(&entry),
            }
        });
        let in_scope = self.scope.holds_namespace(key.namespace());
        if entry.version() == 0 || !newer || known_later || !in_scope {
            return;
        }
        // It is gone already, and what is there under its name was there before it.
        if let Some(since) = self.buried.since(&key, entry.uid()) {
            self.lay(&key, entry.uid().into(), NEVER, None);
            if let Some(overlay) = self.overlays.get_mut(&key) {
                overlay.saw(&entry);
                overlay.since = since;
            }
            return;
        }
        if self.scope.by_fields && current.is_none() {
            return;
        }
        // The watch may have shown this version or a later one, and the object gone since.
        if entry.version() <= self.source_version(&key) && current.is_none() {
            return;
        }
        let selected = self.scope.labels.as_ref();
        let selected = selected.is_none_or(|wanted| select::matches(wanted, entry.labels()));
        let (uid, version) = (entry.uid().into(), entry.version());
        self.lay(&key, uid, version, selected.then_some(entry));
    }

    pub(super) fn observe_delete(&mut self, key: &Key, uid: &str, version: Option<u64>) {
        // An object the watch has not shown yet must not appear when it does.
        let same = self.objects.get(key).is_none_or(|entry| entry.uid() == uid);
        // A later own write of another object stays; an own deletion of another one is kept beside.
        let written = |overlay: &Overlay| overlay.written.is_some() && *overlay.uid != *uid;
        let known = self.overlays.get(key).is_some_and(written);
        let in_scope = self.scope.holds_namespace(key.namespace());
        if same && !known && in_scope && !uid.is_empty() {
            self.lay(key, uid.into(), version.unwrap_or(NEVER), None);
        }
    }

    fn lay(&mut self, key: &Key, uid: Box<str>, version: u64, written: Option<Arc<Entry>>) {
        let there = self.objects.get(key).cloned();
        let mut floor = there.as_ref().map_or(0, |entry| entry.version());
        let mine = there.as_ref().filter(|entry| *entry.uid() == *uid);
        let mut existed = mine.map_or(NEVER, |entry| entry.version());
        let (watched, gone) = match self.overlays.remove(key) {
            Some(mut earlier) => {
                floor = floor.max(earlier.floor);
                if earlier.version != NEVER {
                    floor = floor.max(earlier.version);
                    existed = if earlier.uid == uid { earlier.version } else { existed };
                }
                if earlier.written.is_none() && earlier.uid != uid && earlier.gone.len() < GONE_MAX
                {
                    earlier.gone.push(earlier.uid);
                }
                (earlier.watched, earlier.gone)
            }
            None => (there, Vec::new()),
        };
        if self.overlays.len() >= OVERLAYS_MAX
            && let Some(oldest) = self.overlays.oldest(self.sources.len())
        {
            self.lift(&oldest);
        }
        self.set(key, written.clone());
        if let Some(written) = &written {
            written.show(self.store);
        }
        let since = Instant::now();
        let overlay = Overlay { version, uid, written, watched, since, existed, floor, gone };
        let source = (0..self.sources.len()).find(|source| self.fed_by(*source, key));
        self.overlays.insert(source.unwrap_or_default(), key.clone(), overlay);
    }

    /// Takes an own write away and shows the watched state again.
    fn lift(&mut self, key: &Key) -> Option<Overlay> {
        let mut overlay = self.overlays.remove(key)?;
        self.set(key, overlay.watched.take());
        if overlay.version == NEVER {
            for uid in overlay.gone.iter().chain([&overlay.uid]) {
                self.buried.add(uid, key, overlay.since);
            }
        }
        Some(overlay)
    }

    /// Hides an object that an own request has deleted, if it is one.
    fn hide_buried(&mut self, key: &Key, uid: &str) {
        let Some(since) = self.buried.since(key, uid) else { return };
        match self.overlays.get_mut(key) {
            None => {
                self.lay(key, uid.into(), NEVER, None);
                if let Some(overlay) = self.overlays.get_mut(key) {
                    overlay.since = since;
                }
            }
            Some(overlay) if overlay.version == NEVER && !overlay.knows(uid) => {
                overlay.gone.push(uid.into());
            }
            Some(_) => {}
        }
    }

    fn upsert(&mut self, entry: Arc<Entry>) {
        let key = entry.key().clone();
        self.hide_buried(&key, entry.uid());
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

    /// Takes an object away; `last` is its last state if that could be read.
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
        self.buried.remove(uid);
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
                self.buried.remove(&overlay.uid);
            }
        }
        let shown = |(uid, key): (&str, &Key)| {
            let shown = self.objects.get(key).is_some_and(|entry| entry.uid() == uid);
            shown.then(|| (key.clone(), uid.to_owned()))
        };
        let shown: Vec<_> = self.buried.iter().filter_map(shown).collect();
        shown.iter().for_each(|(key, uid)| self.hide_buried(key, uid));
        let was_synced = self.sources.iter().all(|source| source.synced);
        self.sources[source].synced = true;
        self.sources[source].version = version;
        self.sync_point |= !was_synced && self.sources.iter().all(|source| source.synced);
    }

    fn progress(&mut self, source: usize, version: u64) {
        let source = &mut self.sources[source];
        source.version = source.version.max(version);
    }

    /// Ends own writes before a version that a source has sent: it sends versions in order, so it
    /// would have shown them by now had they been in its scope.
    fn passed(&mut self, source: usize, version: u64) {
        self.progress(source, version);
        while let Some(key) = self.overlays.passed(source, version) {
            self.lift(&key);
        }
    }

    /// Ends own writes that the watch must have shown by now, had they been in its scope.
    fn settle(&mut self, source: usize, version: u64) {
        for key in self.overlays.settled(source, version) {
            self.lift(&key);
        }
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

    /// Puts an object in the place of another, which it returns, or takes it away.
    fn set(&mut self, key: &Key, entry: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        for indexer in &mut self.indexers {
            indexer.update(key, entry.as_ref());
        }
        self.bytes += entry.as_ref().map_or(0, |entry| entry.size());
        let old = match entry {
            Some(entry) => self.objects.insert(key.clone(), entry),
            None => self.objects.remove(key),
        };
        self.bytes -= old.as_ref().map_or(0, |old| old.size());
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
