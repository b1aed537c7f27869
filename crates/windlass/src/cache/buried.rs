//! Objects that own requests have deleted and that the watch may still bring.
//!
//! An own deletion hides its object until the watch tells of the deletion. Meanwhile the name may
//! go to others, of which the watch tells in its own time; what is hidden for one of them must
//! not show another that is deleted as well. A UID never comes back, so it is all that has to be
//! remembered.
//!
//! **Invariant:** nothing is remembered for longer than a watch may lag, and no more than so many.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Key;

/// How long an own deletion of unknown version hides its object from a watch that is behind.
pub(super) const DELETION_HIDES: Duration = Duration::from_secs(60);

/// Deleted objects that are remembered; beyond that the oldest give way.
const BURIED_MAX: usize = 10_000;

/// UIDs of deleted objects.
#[derive(Default)]
pub(super) struct Buried(BTreeMap<Box<str>, (Key, Instant)>);

// === impl Buried ===

impl Buried {
    /// Remembers an object that was deleted at that time.
    pub(super) fn add(&mut self, uid: &str, key: &Key, since: Instant) {
        if self.0.len() >= BURIED_MAX {
            self.0.retain(|_, (_, since)| since.elapsed() <= DELETION_HIDES);
        }
        if self.0.len() >= BURIED_MAX {
            let oldest = self.0.iter().min_by_key(|(_, (_, since))| *since);
            let oldest = oldest.map(|(uid, _)| uid.clone());
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(uid.into(), (key.clone(), since));
    }

    /// Forgets an object of which the watch has told that it is gone.
    pub(super) fn remove(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Tells since when an object is known to be deleted.
    pub(super) fn since(&self, key: &Key, uid: &str) -> Option<Instant> {
        let (known, since) = self.0.get(uid)?;
        (known == key && since.elapsed() <= DELETION_HIDES).then_some(*since)
    }

    /// Walks over all of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Key)> {
        self.0.iter().map(|(uid, (key, _))| (&**uid, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_deleted_is_known_for_a_minute_and_the_oldest_give_way() {
        let (mut buried, key) = (Buried::default(), Key::cluster("a"));
        for uid in 0..=BURIED_MAX {
            tokio::time::advance(Duration::from_micros(1)).await;
            buried.add(&uid.to_string(), &key, Instant::now());
        }
        assert!(buried.since(&key, "0").is_none() && buried.since(&key, "1").is_some());
        assert_eq!(buried.iter().count(), BURIED_MAX);
        tokio::time::advance(DELETION_HIDES + Duration::from_secs(1)).await;
        assert!(buried.since(&key, "1").is_none());
        buried.add("late", &key, Instant::now());
        assert_eq!(buried.iter().count(), 1, "what is too old to matter goes first");
    }
}
