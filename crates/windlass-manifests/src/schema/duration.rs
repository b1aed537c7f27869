//! Durations as the text of Go: `1h30m`, `250ms`.
//!
//! A field of type `std::time::Duration` is written as text by itself. Inside of a list or a map it
//! would be an object of seconds and nanoseconds, which does not compile; use `kube::core::Duration`
//! there.
//!
//! ```
//! # extern crate windlass_manifests as windlass;
//! #[windlass::k8s]
//! pub struct Retries {
//!     pub timeout: std::time::Duration,
//!     pub delays: Vec<kube::core::Duration>,
//! }
//! ```
//!
//! ```compile_fail,E0277
//! # extern crate windlass_manifests as windlass;
//! #[windlass::k8s]
//! pub struct Retries {
//!     pub delays: Vec<std::time::Duration>,
//! }
//! ```

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A field that holds a duration: that of `std`, of [`kube::core`], or an option of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a duration that windlass can write as text",
    label = "use `std::time::Duration` or `kube::core::Duration`"
)]
pub trait DurationField: Sized {
    /// Returns the duration, if there is one.
    fn duration(&self) -> Option<kube::core::Duration>;
    /// Makes a value of a duration, if it can hold it.
    fn from_duration(duration: Option<kube::core::Duration>) -> Option<Self>;
}

/// A duration that is written as text wherever it is: inside of lists and maps, too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not written as text here",
    label = "use `kube::core::Duration` inside of lists, maps and types that serde converts"
)]
pub trait Text {}

impl Text for kube::core::Duration {}

/// Compiles for a duration that is written as text wherever it is.
pub fn is_text<T: Text>() {}

/// The schema of a duration.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// Writes a duration.
///
/// # Errors
/// Fails if the serializer does.
pub fn serialize<S: Serializer>(
    value: &impl DurationField,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.duration().serialize(serializer)
}

/// Reads a duration.
///
/// # Errors
/// Fails for text that is not a duration, and for a negative one if the field cannot hold it.
pub fn deserialize<'de, D: Deserializer<'de>, T: DurationField>(
    deserializer: D,
) -> Result<T, D::Error> {
    let duration = Option::<kube::core::Duration>::deserialize(deserializer)?;
    let refused = || serde::de::Error::custom("a duration is missing or negative");
    T::from_duration(duration).ok_or_else(refused)
}

// === impl DurationField ===

impl DurationField for std::time::Duration {
    fn duration(&self) -> Option<kube::core::Duration> {
        Some((*self).into())
    }

    fn from_duration(duration: Option<kube::core::Duration>) -> Option<Self> {
        duration.filter(|duration| !duration.is_negative()).map(Into::into)
    }
}

impl DurationField for kube::core::Duration {
    fn duration(&self) -> Option<kube::core::Duration> {
        Some(*self)
    }

    fn from_duration(duration: Option<kube::core::Duration>) -> Option<Self> {
        duration
    }
}

impl<T: DurationField> DurationField for Option<T> {
    fn duration(&self) -> Option<kube::core::Duration> {
        self.as_ref().and_then(T::duration)
    }

    fn from_duration(duration: Option<kube::core::Duration>) -> Option<Self> {
        match duration {
            None => Some(None),
            Some(duration) => T::from_duration(Some(duration)).map(Some),
        }
    }
}
