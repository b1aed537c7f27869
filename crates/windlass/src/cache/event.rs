//! What handlers are told.

use super::mailbox::{Change, Notice};
use super::{Key, Object, Reader};

/// A change of an object, or a reminder of it.
///
/// What happens to an object while its handler is busy is told as one event.
#[derive(Debug)]
pub enum Event<K> {
    /// The object is new to the handler.
    Added {
        /// The object.
        object: Object<K>,
        /// Whether it was there before the handler was, or before the first sync.
        initial: bool,
    },
    /// The object changed. If the UIDs differ it was deleted and created again meanwhile.
    Updated {
        /// What the handler was told last.
        old: Object<K>,
        /// What it is now.
        new: Object<K>,
    },
    /// The object is gone.
    Deleted {
        /// The last state that is known.
        last: Object<K>,
        /// What the handler was told last, if the object changed between that and its deletion:
        /// this event stands for the change as well. `None` if nothing was left out.
        old: Option<Object<K>>,
        /// Whether the object was found missing by a new list, so that its last changes and
        /// the deletion itself were not seen, or whether its last state could not be read.
        final_state_unknown: bool,
    },
    /// Nothing changed; the time asked for has passed.
    Resync {
        /// The object.
        object: Object<K>,
    },
}

// === impl Event ===

impl<K> Event<K> {
    /// Returns the key of the object.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Returns the object as it is now, or was last.
    pub fn object(&self) -> &Object<K> {
        match self {
            Self::Added { object, .. } | Self::Resync { object } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }
}

impl<K: serde::de::DeserializeOwned + Send + Sync + 'static> Event<K> {
    pub(super) fn new(notice: Notice, reader: &Reader<K>) -> Self {
        let change = match notice {
            Notice::Resync(entry) => return Self::Resync { object: reader.object_of(entry) },
            Notice::Change(change) => change,
        };
        let Change { old, new, gone, initial, final_state_unknown, merged, .. } = change;
        let new = reader.object_of(new);
        match old.map(|old| reader.object_of(old)) {
            old if gone => {
                Self::Deleted { last: new, old: old.filter(|_| merged), final_state_unknown }
            }
            Some(old) => Self::Updated { old, new },
            None => Self::Added { object: new, initial },
        }
    }
}
