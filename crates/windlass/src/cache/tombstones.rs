//! Objects that own requests have deleted and that the watch may still show.
//!
//! An own deletion hides its object until the watch reports the deletion. Meanwhile the name may be
//! given to other objects, which the watch reports in its own time; what is hidden for one of them
//! must not show another that is deleted as well. A UID is never used again, so it is all that has
//! to be remembered.
//!
//! **Invariant:** nothing is remembered for longer than a watch may lag, and no more than a fixed
//! number of objects.

use std::time::Duration;

use tokio::time::Instant;

use super::{ExpiringStore, Key};

/// How long an own deletion of unknown version hides its object from a watch that is behind.
pub(super) const DELETION_HIDES: Duration = Duration::from_secs(60);

/// Deleted objects that are remembered; beyond that the oldest are forgotten.
const TOMBSTONES_MAX: usize = 10_000;

/// The UIDs of deleted objects.
pub(super) struct Tombstones {
    by_uid: ExpiringStore<Box<str>, (Key, Instant)>,
    /// Nothing has to be looked up before the first deletion.
    used: bool,
}

// === impl Tombstones ===

impl Tombstones {
    pub(super) fn new() -> Self {
        Self { by_uid: ExpiringStore::new(DELETION_HIDES, TOMBSTONES_MAX), used: false }
    }

    /// Remembers an object that was deleted at that time.
    pub(super) fn add(&mut self, uid: &str, key: &Key, since: Instant) {
        self.used = true;
        let left = DELETION_HIDES.saturating_sub(since.elapsed());
        self.by_uid.insert_for(uid.into(), (key.clone(), since), left);
    }

    /// Forgets an object whose deletion the watch has reported.
    pub(super) fn remove(&self, uid: &str) {
        if self.used {
            self.by_uid.remove(uid);
        }
    }

    /// Returns the time at which an object was deleted, if it is remembered.
    pub(super) fn since(&self, key: &Key, uid: &str) -> Option<Instant> {
        let (known, since) = self.used.then(|| self.by_uid.get(uid)).flatten()?;
        (known == *key).then_some(since)
    }

    /// Returns all UIDs and keys.
    pub(super) fn list(&self) -> Vec<(Box<str>, Key)> {
        if !self.used {
            return Vec::new();
        }
        self.by_uid.list().into_iter().map(|(uid, (key, _))| (uid, key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_deleted_is_known_for_a_minute_and_the_oldest_are_forgotten() {
        let (mut tombstones, key) = (Tombstones::new(), Key::cluster("a"));
        for uid in 0..=TOMBSTONES_MAX {
            tokio::time::advance(Duration::from_micros(1)).await;
            tombstones.add(&uid.to_string(), &key, Instant::now());
        }
        assert!(tombstones.since(&key, "0").is_none() && tombstones.since(&key, "1").is_some());
        assert_eq!(tombstones.list().len(), TOMBSTONES_MAX);
        tokio::time::advance(DELETION_HIDES + Duration::from_secs(1)).await;
        assert!(tombstones.since(&key, "1").is_none());
        tombstones.add("late", &key, Instant::now());
        assert_eq!(tombstones.list().len(), 1);
    }
}
