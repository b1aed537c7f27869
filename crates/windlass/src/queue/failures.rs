//! The number of failures of each key.

use hashbrown::HashMap;

use super::key::QueueKey;

pub(super) struct Failures<K>(HashMap<K, u32>);

// === impl Failures ===

impl<K: QueueKey> Failures<K> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Returns `true` if no key has failed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a failure of the key and returns their number.
    pub(super) fn count(&mut self, key: &K) -> u32 {
        match self.0.get_mut(key) {
            Some(failures) => {
                *failures = failures.saturating_add(1);
                *failures
            }
            None => {
                self.0.insert(key.clone(), 1);
                1
            }
        }
    }

    /// Returns the number of failures of the key since it was last forgotten.
    pub(super) fn of(&self, key: &K) -> u32 {
        self.0.get(key).copied().unwrap_or(0)
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.0.remove(key);
    }
}
