//! Objects that own requests have deleted and that the watch may still show.
//!
//! An own deletion hides its object until the watch reports the deletion. Meanwhile the name may be
//! given to other objects, which the watch reports in its own time. A UID is never used again, so
//! it is all that has to be remembered.
//!
//! **Invariant:** nothing is remembered for longer than a watch may lag, and no more than a fixed
//! number of objects.

use std::time::Duration;

use super::{ExpiringStore, Key};

/// How long an own deletion hides its object from a watch that is behind.
const DELETION_HIDES: Duration = Duration::from_secs(60);

/// Deleted objects that are remembered; beyond that the oldest are forgotten.
const TOMBSTONES_MAX: usize = 10_000;

/// The UIDs of deleted objects.
pub(super) struct Tombstones {
    by_uid: ExpiringStore<Box<str>, Tombstone>,
    /// Nothing has to be looked up before the first deletion.
    used: bool,
}

#[derive(Clone)]
struct Tombstone {
    key: Key,
    source: usize,
    /// A version in which the object was seen.
    seen: Option<u64>,
}

// === impl Tombstones ===

impl Tombstones {
    pub(super) fn new() -> Self {
        Self { by_uid: ExpiringStore::new(DELETION_HIDES, TOMBSTONES_MAX), used: false }
    }

    /// Remembers an object that was deleted now.
    pub(super) fn add(&mut self, uid: &str, source: usize, key: &Key, seen: Option<u64>) {
        self.used = true;
        self.by_uid.insert(uid.into(), Tombstone { key: key.clone(), source, seen });
    }

    /// Forgets an object whose deletion the watch has reported.
    pub(super) fn remove(&self, uid: &str) {
        if self.used {
            self.by_uid.remove(uid);
        }
    }

    /// Returns `true` if an object was deleted.
    pub(super) fn contains(&self, key: &Key, uid: &str) -> bool {
        self.used && self.by_uid.get(uid).is_some_and(|tombstone| tombstone.key == *key)
    }

    /// Forgets objects of a source that were seen before a list of a version and are not in it.
    pub(super) fn retain_unlisted(
        &self,
        source: usize,
        version: u64,
        listed: impl Fn(&Key, &str) -> bool,
    ) {
        if !self.used {
            return;
        }
        for (uid, Tombstone { key, source: of, seen }) in self.by_uid.list() {
            let expected = of == source && seen.is_some_and(|seen| seen <= version);
            if expected && !listed(&key, &uid) {
                self.by_uid.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deleted_object_is_remembered_for_a_minute_and_the_oldest_are_forgotten() {
        let (mut tombstones, key) = (Tombstones::new(), Key::cluster("a"));
        for uid in 0..=TOMBSTONES_MAX {
            tokio::time::advance(Duration::from_micros(1)).await;
            tombstones.add(&uid.to_string(), 0, &key, None);
        }
        assert!(!tombstones.contains(&key, "0") && tombstones.contains(&key, "1"));
        assert!(!tombstones.contains(&Key::cluster("b"), "1"));
        tokio::time::advance(DELETION_HIDES + Duration::from_secs(1)).await;
        assert!(!tombstones.contains(&key, "1"));
    }

    #[test]
    fn a_list_ends_tombstones_of_objects_that_it_should_contain() {
        let (mut tombstones, key) = (Tombstones::new(), Key::cluster("a"));
        let all = [("early", 0, Some(3)), ("late", 0, Some(9)), ("unseen", 0, None)];
        for (uid, source, seen) in all.into_iter().chain([("elsewhere", 1, Some(3))]) {
            tombstones.add(uid, source, &key, seen);
        }
        tombstones.add("listed", 0, &key, Some(3));
        tombstones.retain_unlisted(0, 5, |_, uid| uid == "listed");
        let left = ["early", "late", "unseen", "elsewhere", "listed"];
        let left = left.map(|uid| tombstones.contains(&key, uid));
        assert_eq!(left, [false, true, true, true, true]);
    }
}
