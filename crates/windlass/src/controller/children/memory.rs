//! What a controller remembers of the children it has applied.
//!
//! **Invariant:** the memory is bounded; forgetting costs requests, never a wrong state.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::cache::Key;
use crate::kind::Kind;
use crate::readiness::Readiness;

/// How many objects are remembered at most.
const REMEMBERED_MAX: usize = 100_000;

/// The memory that all reconciles of a controller share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    applied: HashMap<(Kind, Key), Applied>,
    inventories: HashMap<(String, Key), Recorded>,
    in_flight: HashSet<(Kind, Key)>,
}

/// The last apply of a child.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    /// Hash of the child as the author wrote it, together with its mark.
    pub(super) wanted: u64,
    /// Hash of the body that was sent; equal for equal bodies, whatever the order of their fields.
    pub(super) sent: u64,
    /// Hash of the values that the server stored for that body.
    pub(super) stored: Option<u64>,
    /// The UID and the version of the object when it was compared last.
    pub(super) uid: Box<str>,
    pub(super) version: u64,
    pub(super) readiness: Readiness,
}

/// The inventory that was last read or written.
#[derive(Debug, Clone)]
struct Recorded {
    uid: String,
    text: String,
}

/// Holds a child for as long as a reconcile applies it.
pub(super) struct InFlight {
    memory: Memory,
    slot: (Kind, Key),
}

// === impl Memory ===

impl Memory {
    pub(super) fn applied(&self, kind: &Kind, key: &Key) -> Option<Applied> {
        self.0.lock().applied.get(&(kind.clone(), key.clone())).cloned()
    }

    pub(super) fn remember(&self, kind: &Kind, key: &Key, applied: Applied) {
        let mut tables = self.0.lock();
        if tables.applied.len() >= REMEMBERED_MAX {
            tables.applied.clear();
        }
        tables.applied.insert((kind.clone(), key.clone()), applied);
    }

    pub(super) fn forget(&self, kind: &Kind, key: &Key) {
        self.0.lock().applied.remove(&(kind.clone(), key.clone()));
    }

    /// Remembers the inventory of an owner: somebody may remove the annotation that holds it.
    pub(super) fn record(&self, set: &str, owner: &Key, uid: &str, text: &str) {
        let mut tables = self.0.lock();
        let slot = (set.to_string(), owner.clone());
        match tables.inventories.get_mut(&slot) {
            Some(known) if known.uid == uid && known.text == text => {}
            Some(known) => *known = Recorded { uid: uid.into(), text: text.into() },
            None => {
                if tables.inventories.len() >= REMEMBERED_MAX {
                    tables.inventories.clear();
                }
                tables.inventories.insert(slot, Recorded { uid: uid.into(), text: text.into() });
            }
        }
    }

    /// Returns the inventory that was remembered last for this very owner.
    pub(super) fn recorded(&self, set: &str, owner: &Key, uid: &str) -> Option<String> {
        let tables = self.0.lock();
        let known = tables.inventories.get(&(set.to_string(), owner.clone()));
        known.filter(|known| known.uid == uid).map(|known| known.text.clone())
    }

    pub(super) fn forget_owner(&self, set: &str, owner: &Key) {
        self.0.lock().inventories.remove(&(set.to_string(), owner.clone()));
    }

    /// Reserves a child for one reconcile; `None` if another reconcile applies it right now.
    pub(super) fn enter(&self, kind: &Kind, key: &Key) -> Option<InFlight> {
        let slot = (kind.clone(), key.clone());
        let free = self.0.lock().in_flight.insert(slot.clone());
        free.then(|| InFlight { memory: self.clone(), slot })
    }
}

// === impl InFlight ===

impl Drop for InFlight {
    fn drop(&mut self) {
        self.memory.0.lock().in_flight.remove(&self.slot);
    }
}

/// Returns the hash of the JSON of an object.
pub(super) fn hash_of(json: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(json);
    hasher.finish()
}
