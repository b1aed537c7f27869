//! Bytes as base64 text.
//!
//! A field of type `Vec<u8>` is written as base64 by itself. [`Bytes`] is for other places: items of
//! lists, values of maps.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that JSON holds as base64 text.
///
/// ```
/// use windlass_manifests::schema::Bytes;
///
/// let text = serde_json::to_string(&Bytes(b"key".to_vec())).unwrap();
/// assert_eq!(text, r#""a2V5""#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

/// A field that holds bytes: `Vec<u8>`, or an option of it.
pub trait BytesField: Sized {
    /// Returns the bytes, if there are any.
    fn bytes(&self) -> Option<&[u8]>;
    /// Makes a value of bytes.
    fn from_bytes(bytes: Option<Vec<u8>>) -> Self;
}

/// The schema of bytes.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}

/// Writes bytes as base64.
///
/// # Errors
/// Fails if the serializer does.
pub fn serialize<S: Serializer>(value: &impl BytesField, serializer: S) -> Result<S::Ok, S::Error> {
    value.bytes().map(|bytes| STANDARD.encode(bytes)).serialize(serializer)
}

/// Reads bytes from base64.
///
/// # Errors
/// Fails for text that is not base64.
pub fn deserialize<'de, D: Deserializer<'de>, T: BytesField>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    let decode =
        |text: Cow<'_, str>| STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom);
    text.map(decode).transpose().map(T::from_bytes)
}

// === impl BytesField ===

impl BytesField for Vec<u8> {
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn from_bytes(bytes: Option<Vec<u8>>) -> Self {
        bytes.unwrap_or_default()
    }
}

impl BytesField for Option<Vec<u8>> {
    fn bytes(&self) -> Option<&[u8]> {
        self.as_deref()
    }

    fn from_bytes(bytes: Option<Vec<u8>>) -> Self {
        bytes
    }
}

// === impl Bytes ===

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Bytes)
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema(generator)
    }
}
