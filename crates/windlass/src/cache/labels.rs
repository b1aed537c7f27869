//! The labels of an object.

use std::borrow::Cow;
use std::fmt;

/// The labels of an object, packed into one allocation.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels(Box<str>);

// === impl Labels ===

impl Labels {
    /// Returns the value of a label.
    pub(crate) fn get(&self, label: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == label).map(|(_, value)| value)
    }

    /// Returns the bytes that the labels take.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Walks over names and values in the order the server sent them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Packs names and values.
    pub(super) fn pack(labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> Self {
        let valid = labels.iter().filter(|(k, v)| !k.contains('\0') && !v.contains('\0'));
        let mut packed = String::new();
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
