//! What a map function may return. Nobody has to name the trait.

use crate::cache::Key;

/// The error of a map function, of any type.
pub(crate) type MapError = Box<dyn std::error::Error + Send + Sync>;

/// What a map function may return: keys, one key or none, or a result with keys.
pub trait MapOutput {
    /// Converts into a result.
    fn into_keys(self) -> Result<Vec<Key>, Box<dyn std::error::Error + Send + Sync>>;
}

impl MapOutput for Vec<Key> {
    fn into_keys(self) -> Result<Vec<Key>, MapError> {
        Ok(self)
    }
}

impl MapOutput for Option<Key> {
    fn into_keys(self) -> Result<Vec<Key>, MapError> {
        Ok(self.into_iter().collect())
    }
}

impl<E: Into<MapError>> MapOutput for Result<Vec<Key>, E> {
    fn into_keys(self) -> Result<Vec<Key>, MapError> {
        self.map_err(Into::into)
    }
}
