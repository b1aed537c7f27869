//! When a key is reconciled again after a write conflict.
//!
//! A conflict says that the reconcile began with an old state, and the newest one is about to arrive:
//! it is neither an error nor a reason to wait for long. But a conflict that never ends, such as
//! fields that another owner keeps, must neither stay hidden nor keep a worker busy.
//!
//! **Invariant:** only keys whose last reconcile ended with a conflict are kept.

use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::cache::Key;

/// The wait after the first conflict; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// Conflicts in a row of one key, after which a conflict counts as an error.
const CONFLICTS_MAX: u32 = 10;

/// How many conflicts in a row each key has had.
#[derive(Debug, Default)]
pub(super) struct Conflicts(Mutex<HashMap<Key, u32>>);

// === impl Conflicts ===

impl Conflicts {
    /// Records a conflict, and returns when to try again; `None` if there were too many in a row.
    pub(super) fn wait(&self, key: &Key) -> Option<Duration> {
        let mut keys = self.0.lock();
        let count = keys.entry(key.clone()).or_default();
        if *count >= CONFLICTS_MAX {
            return None;
        }
        *count += 1;
        Some(FIRST_WAIT * 2_u32.pow(*count - 1))
    }

    /// Records a reconcile that did not end with a conflict.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_in_an_error() {
        let (conflicts, key) = (Conflicts::default(), Key::cluster("a"));
        let waits: Vec<_> = std::iter::from_fn(|| conflicts.wait(&key)).collect();
        assert_eq!(waits.first(), Some(&Duration::from_millis(5)));
        assert_eq!(waits.last(), Some(&Duration::from_millis(2560)));
        assert_eq!(waits.len(), 10);
        assert_eq!(conflicts.wait(&key), None);
        conflicts.forget(&key);
        assert_eq!(conflicts.wait(&key), Some(FIRST_WAIT));
    }
}
