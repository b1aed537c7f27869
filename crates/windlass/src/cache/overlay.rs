//! Own writes that the watch has not shown yet.
//!
//! A write of this process is laid over the watched state, so that a read right after it shows it.
//! It is taken off again when the watch has caught up.
//!
//! | the overlay stands for | readers see | it ends when the watch |
//! |---|---|---|
//! | a write, in scope | the written object | brings that version or a later one of the object, its deletion, or any later version |
//! | a write that left the scope | nothing | brings any later version, or a bookmark of that version |
//! | a deletion of known version | nothing | brings that version or a later one |
//! | a deletion of unknown version ([`NEVER`]) | nothing | brings the deletion or a later object of that name, or after [`DELETION_HIDES`] |
//!
//! **Invariant:** an own write costs time by the logarithm of the overlays, whatever their number.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::tombstones::DELETION_HIDES;
use super::{Entry, Key};

/// Own writes that are remembered; beyond that the oldest versions give way.
pub(super) const OVERLAYS_MAX: usize = 100_000;

/// A version no watch reaches, for deletions whose version is not known.
pub(super) const NEVER: u64 = u64::MAX;

/// Deleted objects of one name that are remembered.
pub(super) const GONE_MAX: usize = 16;

/// An own write that the watch has not shown yet.
pub(super) struct Overlay {
    pub(super) version: u64,
    pub(super) uid: Box<str>,
    /// What is in the store for readers: the written object or nothing.
    pub(super) written: Option<Arc<Entry>>,
    /// What the watch showed last.
    pub(super) watched: Option<Arc<Entry>>,
    pub(super) since: Instant,
    /// Of a deletion: the last version at which the object is known to have been there, and
    /// [`NEVER`] if no such version is known.
    pub(super) existed: u64,
    /// Up to this version everything of that name is older than this write.
    pub(super) floor: u64,
    /// Earlier objects of that name that were deleted by own requests.
    pub(super) gone: Vec<Box<str>>,
}

/// The overlays of a store, by key, and by source and version.
#[derive(Default)]
pub(super) struct Overlays {
    by_key: BTreeMap<Key, Placed>,
    /// Source, version and a number that tells equal versions apart.
    by_version: BTreeMap<(usize, u64, u64), Key>,
    next: u64,
}

struct Placed {
    overlay: Overlay,
    source: usize,
    number: u64,
}

// === impl Overlay ===

impl Overlay {
    /// Returns `true` if an object is the one of this write, or one that was deleted before it.
    pub(super) fn knows(&self, uid: &str) -> bool {
        *self.uid == *uid || self.gone.iter().any(|gone| **gone == *uid)
    }

    /// Returns `true` if an object of that name was created after the one of this deletion.
    pub(super) fn precedes(&self, entry: &Entry) -> bool {
        self.floor < entry.version() && !self.knows(entry.uid())
    }

    /// Records that the watch or a list has shown an object.
    pub(super) fn saw(&mut self, entry: &Entry) {
        if *self.uid == *entry.uid() {
            let known = Some(self.existed).filter(|existed| *existed != NEVER);
            self.existed = known.unwrap_or_default().max(entry.version());
            self.floor = self.floor.max(entry.version());
        }
    }

    /// Returns `true` if a deletion has hidden its object for longer than a watch lags.
    pub(super) fn outlived(&self) -> bool {
        self.version == NEVER && self.since.elapsed() > DELETION_HIDES
    }
}

// === impl Overlays ===

impl Overlays {
    pub(super) fn get(&self, key: &Key) -> Option<&Overlay> {
        self.by_key.get(key).map(|placed| &placed.overlay)
    }

    /// Returns the overlay of a key; its version must stay as it is.
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Overlay> {
        self.by_key.get_mut(key).map(|placed| &mut placed.overlay)
    }

    pub(super) fn contains_key(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Overlay> {
        self.by_key.values().map(|placed| &placed.overlay)
    }

    pub(super) fn insert(&mut self, source: usize, key: Key, overlay: Overlay) {
        self.remove(&key);
        self.next += 1;
        let (version, number) = (overlay.version, self.next);
        self.by_version.insert((source, version, number), key.clone());
        self.by_key.insert(key, Placed { overlay, source, number });
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Overlay> {
        let Placed { overlay, source, number } = self.by_key.remove(key)?;
        self.by_version.remove(&(source, overlay.version, number));
        Some(overlay)
    }

    /// Returns the key of the overlay with the oldest version, over all sources.
    pub(super) fn oldest(&self, sources: usize) -> Option<Key> {
        let first = |source| self.by_version.range((source, 0, 0)..(source + 1, 0, 0)).next();
        let oldest = (0..sources).filter_map(first).min_by_key(|((_, version, _), _)| *version);
        oldest.map(|(_, key)| key.clone())
    }

    /// Returns the keys of all overlays of a source.
    pub(super) fn of(&self, source: usize) -> Vec<Key> {
        self.by_version.range((source, 0, 0)..(source + 1, 0, 0)).map(|(_, k)| k.clone()).collect()
    }

    /// Returns the key of an overlay that is older than what its source has shown.
    pub(super) fn passed(&self, source: usize, version: u64) -> Option<Key> {
        let mut passed = self.by_version.range((source, 0, 0)..(source, version, 0));
        passed.next().map(|(_, key)| key.clone())
    }

    /// Returns the keys of overlays up to a version, and of deletions that have lasted too long.
    pub(super) fn settled(&self, source: usize, version: u64) -> Vec<Key> {
        let reached = self.by_version.range((source, 0, 0)..=(source, version, u64::MAX));
        let deleted = self.by_version.range((source, NEVER, 0)..(source + 1, 0, 0));
        let outlived = |(_, key): &(_, &Key)| self.get(key).is_some_and(Overlay::outlived);
        reached.chain(deleted.filter(outlived)).map(|(_, key)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(version: u64) -> Overlay {
        Overlay {
            version,
            uid: "u".into(),
            written: None,
            watched: None,
            since: Instant::now(),
            existed: NEVER,
            floor: 0,
            gone: Vec::new(),
        }
    }

    #[test]
    fn overlays_are_found_by_source_and_version() {
        let mut overlays = Overlays::default();
        for (source, name, version) in [(0, "a", 5), (0, "b", 7), (1, "c", 3), (1, "d", NEVER)] {
            overlays.insert(source, Key::cluster(name), overlay(version));
        }
        let key = |name: &str| Some(Key::cluster(name));
        assert_eq!(overlays.oldest(2), key("c"));
        assert_eq!((overlays.passed(0, 6), overlays.passed(0, 5)), (key("a"), None));
        assert_eq!(overlays.passed(1, 9), key("c"));
        assert_eq!(overlays.settled(0, 7), [Key::cluster("a"), Key::cluster("b")]);
        assert_eq!(overlays.settled(1, 2), [], "a deletion hides its object for a while");
        // A later write of the same object takes the place of the one before.
        overlays.insert(1, Key::cluster("c"), overlay(9));
        assert_eq!((overlays.len(), overlays.passed(1, 9)), (4, None));
        assert_eq!(overlays.remove(&Key::cluster("c")).map(|overlay| overlay.version), Some(9));
        assert_eq!(overlays.of(1), [Key::cluster("d")]);
    }
}
