//! A variant without fields, in an enum whose other variants have some: `{"name": {}}`.

use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes an empty object.
///
/// # Errors
/// Fails if the serializer does.
pub fn serialize<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_map(Some(0))?.end()
}

/// Reads and drops any value.
///
/// # Errors
/// Fails if the deserializer does.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| ())
}
