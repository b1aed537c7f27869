//! The two rounds of mutating admission: what was called, and what is called again.
//!
//! **Invariant:** what was not called in the first round is not called in the second.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Review;

/// One mutating plugin's memory between the rounds; `K` names what it calls.
pub(super) struct Round<K> {
    second: bool,
    /// Called, and to be called again if something changes.
    called: BTreeSet<K>,
    /// To be called in the second round.
    due: BTreeSet<K>,
    /// The object as the plugin left it.
    left: Option<Value>,
}

// === impl Round ===

impl<K> Default for Round<K> {
    fn default() -> Self {
        Self { second: false, called: BTreeSet::new(), due: BTreeSet::new(), left: None }
    }
}

impl<K: Ord> Round<K> {
    /// Begins the second round.
    pub fn again(&mut self) {
        self.second = true;
    }

    /// The plugin starts: if others changed the object since, what it called is called again.
    pub fn begin(&mut self, review: &Review<'_>) {
        if self.second && self.left != review.object {
            self.changed();
        }
    }

    /// Returns `true` if a call has no place in this round.
    pub fn skips(&self, key: &K) -> bool {
        self.second && !self.due.contains(key)
    }

    /// The object was changed: whatever was called before is called again.
    pub fn changed(&mut self) {
        self.due.append(&mut self.called);
    }

    /// Records that something was called that may be called again.
    pub fn called(&mut self, key: K) {
        self.called.insert(key);
    }

    /// The plugin ends.
    pub fn end(&mut self, review: &Review<'_>) {
        if !self.second {
            self.left.clone_from(&review.object);
        }
    }
}
