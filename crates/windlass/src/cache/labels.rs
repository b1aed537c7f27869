//! The UID and the labels of an object.

use std::borrow::Cow;
use std::fmt;

/// The labels of an object behind its UID, packed into one allocation.
#[derive(Clone, Default)]
pub(crate) struct Labels(Box<str>);

// === impl Labels ===

impl Labels {
    /// Returns the value of a label.
    pub(crate) fn get(&self, label: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == label).map(|(_, value)| value)
    }

    /// Returns the UID of the object.
    pub(super) fn uid(&self) -> &str {
        self.0.split_once('\0').map_or("", |(uid, _)| uid)
    }

    /// Returns the bytes that the UID and the labels take.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Walks over names and values in the order the server sent them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let mut parts = self.0.split_terminator('\0').skip(1);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Packs the UID, and the names and values of labels.
    pub(super) fn pack(uid: &str, labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> Self {
        let valid = labels.iter().filter(|(k, v)| !k.contains('\0') && !v.contains('\0'));
        // No server sends a UID with this character; what is left of it equals no other UID.
        let mut packed = uid.replace('\0', "?");
        packed.push('\0');
        for (name, value) in valid {
            packed.push_str(name);
            packed.push('\0');
            packed.push_str(value);
            packed.push('\0');
        }
        Self(packed.into_boxed_str())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
