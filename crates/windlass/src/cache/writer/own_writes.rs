//! Own writes, laid over the watched state; the states are described in `overlay.rs`.

use std::sync::Arc;

use tokio::time::Instant;

use super::Writer;
use crate::cache::overlay::{GONE_MAX, NEVER, OVERLAYS_MAX, Overlay};
use crate::cache::{Entry, Key, select};

// === impl Writer ===

impl Writer {
    pub(in crate::cache) fn observe_write(&mut self, entry: Arc<Entry>) {
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
        if let Some(since) = self.tombstones.since(&key, entry.uid()) {
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

    pub(in crate::cache) fn observe_delete(&mut self, key: &Key, uid: &str, version: Option<u64>) {
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

    pub(super) fn lay(
        &mut self,
        key: &Key,
        uid: Box<str>,
        version: u64,
        written: Option<Arc<Entry>>,
    ) {
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

    /// Removes an overlay and shows the watched state again.
    pub(super) fn lift(&mut self, key: &Key) -> Option<Overlay> {
        let mut overlay = self.overlays.remove(key)?;
        self.set(key, overlay.watched.take());
        if overlay.version == NEVER {
            for uid in overlay.gone.iter().chain([&overlay.uid]) {
                self.tombstones.add(uid, key, overlay.since);
            }
        }
        Some(overlay)
    }

    /// Hides an object that an own request has deleted, if it is one.
    pub(super) fn hide_deleted(&mut self, key: &Key, uid: &str) {
        let Some(since) = self.tombstones.since(key, uid) else { return };
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

    /// Ends own writes before a version that a source has sent: it sends versions in order, so it
    /// would have shown them by now had they been in its scope.
    pub(super) fn passed(&mut self, source: usize, version: u64) {
        self.progress(source, version);
        while let Some(key) = self.overlays.passed(source, version) {
            self.lift(&key);
        }
    }

    /// Ends own writes that the watch must have shown by now, had they been in its scope.
    pub(super) fn settle(&mut self, source: usize, version: u64) {
        for key in self.overlays.settled(source, version) {
            self.lift(&key);
        }
    }
}
