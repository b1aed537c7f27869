//! What this process knows of its own writes before the watch has shown them.
//!
//! The answer to a write is shown to readers at once, and what an own request has deleted is hidden
//! at once. An overlay of a key remembers the newest version that this process knows of (`version`),
//! what readers see because of it (`written`: an object, or nothing), and what the watch has shown
//! last (`watched`). The UIDs of deleted objects are remembered in [`Tombstones`].
//!
//! | state | when | readers see |
//! |---|---|---|
//! | plain | there is no overlay | the watched object |
//! | ahead | the source has not reached `version` | `written` |
//! | held | the source has reached `version`, but the watched object is older than it, or has a tombstone | `written`, or nothing |
//!
//! | transition | from | to |
//! |---|---|---|
//! | [`observe_write`](Overlays::observe_write): a version that neither the watch nor an overlay has reached | any | ahead; `written` is the object, or nothing if it is outside the selection or has a tombstone |
//! | `observe_write`: an older version | any | no change |
//! | [`observe_delete`](Overlays::observe_delete): the object that readers see | any | ahead or held; `written` is nothing; the UID gets a tombstone |
//! | `observe_delete`: any other object | any | no change; the UID gets a tombstone |
//! | [`watched`](Overlays::watched): an object with a tombstone | plain | held |
//! | `watched`: at least `version` | ahead, held | plain, or held if the object has a tombstone |
//! | `watched`: less than `version` | ahead, held | no change |
//! | [`watched_deleted`](Overlays::watched_deleted): at least `version`, or the written object itself | ahead | plain; the tombstone ends |
//! | `watched_deleted` | held | plain; the tombstone ends |
//! | [`advance`](Overlays::advance), [`bookmark`](Overlays::bookmark), [`listed`](Overlays::listed): the source reaches `version` | ahead | plain, or held |
//! | `bookmark`, `listed`: the tombstone has expired | held | plain |
//!
//! Own requests may be observed late and in any order, also after the watch has shown them. Two
//! rules make that safe: `version` never decreases, and a UID is never used for another object.
//!
//! **Invariant:** a read never returns an older version of a name than an earlier read did.
//! **Invariant:** an own write costs time by the logarithm of the number of overlays.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tombstones::Tombstones;
use super::{Entry, Key};

/// Own writes that are remembered; beyond that the oldest versions give way.
const OVERLAYS_MAX: usize = 100_000;

/// The place of overlays that are held: after all versions.
const HELD: u64 = u64::MAX;

/// The overlays of a store, by key, and by source and version.
pub(super) struct Overlays {
    by_key: BTreeMap<Key, Overlay>,
    by_version: BTreeMap<Place, Key>,
    /// Distinguishes equal versions.
    next: u64,
    /// For each source, the version up to which it has sent everything.
    reached: Vec<u64>,
    tombstones: Tombstones,
    /// Objects are selected by labels or fields, so that one that leaves the selection looks
    /// deleted.
    selective: bool,
    views: Vec<View>,
}

struct Overlay {
    version: u64,
    written: Option<Arc<Entry>>,
    watched: Option<Arc<Entry>>,
    place: Place,
}

/// Source, version and number.
type Place = (usize, u64, u64);

/// A key and what readers see there from now on.
pub(super) type View = (Key, Option<Arc<Entry>>);

/// Where a change of the watched state belongs.
#[derive(Debug)]
pub(super) enum Target {
    /// There is no overlay: readers see the change.
    Readers,
    /// The overlay holds it now; this is the watched state before.
    Overlay(Option<Arc<Entry>>),
}

// === impl Overlays ===

impl Overlays {
    pub(super) fn new(sources: usize, selective: bool) -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_version: BTreeMap::new(),
            next: 0,
            reached: vec![0; sources],
            tombstones: Tombstones::new(),
            selective,
            views: Vec::new(),
        }
    }

    /// Adds a source.
    pub(super) fn add_source(&mut self) {
        self.reached.push(0);
    }

    /// Forgets what a source has sent, because another one takes its place.
    pub(super) fn restart(&mut self, source: usize) {
        self.reached[source] = 0;
    }

    /// Returns the version up to which a source has sent everything.
    pub(super) fn reached(&self, source: usize) -> u64 {
        self.reached[source]
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns `true` if readers see the watched state of a key.
    pub(super) fn is_plain(&self, key: &Key) -> bool {
        self.by_key.is_empty() || !self.by_key.contains_key(key)
    }

    /// Returns the watched state of a key; `shown` is what readers see of it.
    pub(super) fn watched_of<'a>(
        &'a self,
        key: &Key,
        shown: Option<&'a Arc<Entry>>,
    ) -> Option<&'a Arc<Entry>> {
        match self.by_key.get(key) {
            Some(overlay) => overlay.watched.as_ref(),
            None => shown,
        }
    }

    /// Walks over the watched objects that are under overlays.
    pub(super) fn covered(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_key.values().filter_map(|overlay| overlay.watched.as_ref())
    }

    /// Takes what readers see differently since the last call, in order.
    pub(super) fn take_views(&mut self) -> Vec<View> {
        std::mem::take(&mut self.views)
    }

    /// Observes the answer to an own write. `selected` says whether the object belongs to the
    /// store, `shown` is what readers see under its name.
    pub(super) fn observe_write(
        &mut self,
        source: usize,
        entry: &Arc<Entry>,
        selected: bool,
        shown: Option<&Arc<Entry>>,
    ) {
        let (key, version) = (entry.key(), entry.version());
        let known = self.by_key.get(key).map(|overlay| overlay.version);
        let known = known.max(shown.map(|shown| shown.version())).unwrap_or(0);
        // What the watch has passed and does not show is deleted, or outside the selection.
        let passed = version <= self.reached[source] && self.watched_of(key, shown).is_none();
        if version <= known || passed {
            return;
        }
        let deleted = self.tombstones.contains(key, entry.uid());
        let written = (selected && !deleted).then(|| entry.clone());
        self.cover(source, key, version, written, shown);
    }

    /// Observes that an own request has deleted an object.
    pub(super) fn observe_delete(
        &mut self,
        source: usize,
        key: &Key,
        uid: &str,
        shown: Option<&Arc<Entry>>,
    ) {
        let seen = shown.filter(|entry| entry.uid() == uid).map(|entry| entry.version());
        self.tombstones.add(uid, source, key, seen);
        if let Some(seen) = seen {
            let known = self.by_key.get(key).map_or(0, |overlay| overlay.version);
            self.cover(source, key, seen.max(known), None, shown);
        }
    }

    /// Shows an object that a source has sent. Call [`advance`](Self::advance) after it.
    pub(super) fn watched(
        &mut self,
        source: usize,
        entry: &Arc<Entry>,
        shown: Option<&Arc<Entry>>,
    ) -> Target {
        let (key, version) = (entry.key(), entry.version());
        if let Some(overlay) = self.by_key.get_mut(key) {
            let old = overlay.watched.replace(entry.clone());
            if overlay.version <= version || overlay.is_held() {
                self.settle(key);
            }
            return Target::Overlay(old);
        }
        if !self.tombstones.contains(key, entry.uid()) {
            return Target::Readers;
        }
        self.cover(source, key, version, None, shown);
        let overlay = self.by_key.get_mut(key).expect("an overlay was just added");
        let old = overlay.watched.replace(entry.clone());
        self.settle(key);
        Target::Overlay(old)
    }

    /// Shows a deletion that a source has sent. Call [`advance`](Self::advance) after it.
    pub(super) fn watched_deleted(&mut self, key: &Key, uid: &str, version: u64) -> Target {
        if !self.selective {
            self.tombstones.remove(uid);
        }
        let Some(overlay) = self.by_key.get_mut(key) else { return Target::Readers };
        let old = overlay.watched.take();
        let written = overlay.written.as_ref().is_some_and(|written| written.uid() == uid);
        // A later own write stays: of another object with the same name, or of one that has left
        // the selection, which looks like a deletion, and is back in it.
        if overlay.version <= version || overlay.is_held() || (written && !self.selective) {
            self.settle(key);
        }
        Target::Overlay(old)
    }

    /// Removes a watched object that a list of a version does not contain.
    pub(super) fn swept(&mut self, entry: &Entry, version: u64) -> Target {
        if !self.selective && entry.version() <= version {
            self.tombstones.remove(entry.uid());
        }
        match self.by_key.get_mut(entry.key()) {
            Some(overlay) => Target::Overlay(overlay.watched.take()),
            None => Target::Readers,
        }
    }

    /// Ends overlays before a version that a source has sent: it sends versions in order, so it
    /// would have shown them by now had they been in its scope.
    pub(super) fn advance(&mut self, source: usize, version: u64) {
        self.reached[source] = self.reached[source].max(version);
        self.settle_before((source, version, 0));
    }

    /// Ends overlays up to a version that a source has reached.
    pub(super) fn bookmark(&mut self, source: usize, version: u64) {
        self.reached[source] = self.reached[source].max(version);
        self.settle_before((source, version.saturating_add(1), 0));
        let held = self.by_version.range((source, HELD, 0)..(source + 1, 0, 0));
        let held: Vec<Key> = held.map(|(_, key)| key.clone()).collect();
        held.iter().for_each(|key| self.settle(key));
    }

    /// Compares all overlays of a source with a list of that version, whose objects were shown by
    /// [`watched`](Self::watched) and [`swept`](Self::swept).
    pub(super) fn listed(&mut self, source: usize, version: u64) {
        self.reached[source] = version;
        let all = self.by_version.range((source, 0, 0)..(source + 1, 0, 0));
        let all: Vec<Key> = all.map(|(_, key)| key.clone()).collect();
        for key in all {
            match self.by_key[&key].version {
                reached if reached <= version => self.settle(&key),
                ahead => self.place(&key, ahead),
            }
        }
        // An object that was there before this list and is not in it is deleted.
        let by_key = &self.by_key;
        self.tombstones.retain_unlisted(source, version, |key, uid| {
            let watched = by_key.get(key).and_then(|overlay| overlay.watched.as_ref());
            watched.is_some_and(|watched| watched.uid() == uid)
        });
    }

    /// Puts an overlay over a key, or replaces the one that is there.
    fn cover(
        &mut self,
        source: usize,
        key: &Key,
        version: u64,
        written: Option<Arc<Entry>>,
        shown: Option<&Arc<Entry>>,
    ) {
        let watched = match self.by_key.remove(key) {
            Some(earlier) => {
                self.by_version.remove(&earlier.place);
                earlier.watched
            }
            None => {
                self.make_room();
                shown.cloned()
            }
        };
        self.next += 1;
        let at = if version <= self.reached[source] { HELD } else { version };
        let place = (source, at, self.next);
        self.by_version.insert(place, key.clone());
        self.views.push((key.clone(), written.clone()));
        self.by_key.insert(key.clone(), Overlay { version, written, watched, place });
    }

    fn make_room(&mut self) {
        if self.by_key.len() < OVERLAYS_MAX {
            return;
        }
        let first = |source| self.by_version.range((source, 0, 0)..(source + 1, 0, 0)).next();
        let oldest = (0..self.reached.len()).filter_map(first);
        let oldest = oldest.min_by_key(|((_, version, _), _)| *version);
        if let Some(key) = oldest.map(|(_, key)| key.clone())
            && let Some(overlay) = self.by_key.get_mut(&key)
        {
            overlay.version = 0;
            self.settle(&key);
        }
    }

    fn settle_before(&mut self, end: Place) {
        while let Some((_, key)) = self.by_version.range((end.0, 0, 0)..end).next() {
            let key = key.clone();
            self.settle(&key);
        }
    }

    /// Ends an overlay whose version is reached, or holds it if readers must not see what is
    /// watched.
    fn settle(&mut self, key: &Key) {
        let Some(overlay) = self.by_key.get_mut(key) else { return };
        let deleted = |watched: &Arc<Entry>| self.tombstones.contains(key, watched.uid());
        // It was written, but what was sent of it could not be read.
        let older = |watched: &Arc<Entry>| (1..overlay.version).contains(&watched.version());
        if overlay.watched.as_ref().is_some_and(deleted) {
            if overlay.written.take().is_some() {
                self.views.push((key.clone(), None));
            }
            self.place(key, HELD);
        } else if overlay.watched.as_ref().is_some_and(older) {
            self.place(key, HELD);
        } else if let Some(ended) = self.by_key.remove(key) {
            self.by_version.remove(&ended.place);
            self.views.push((key.clone(), ended.watched));
        }
    }

    /// Files an overlay under another version.
    fn place(&mut self, key: &Key, version: u64) {
        let Some(overlay) = self.by_key.get_mut(key) else { return };
        self.by_version.remove(&overlay.place);
        overlay.place.1 = version;
        self.by_version.insert(overlay.place, key.clone());
    }
}

// === impl Overlay ===

impl Overlay {
    fn is_held(&self) -> bool {
        self.place.1 == HELD
    }
}

#[cfg(test)]
mod tests;
