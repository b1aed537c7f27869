//! The parts of an answer that the client itself needs.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::cache::Key;

/// A page of a list. Its items are decoded one by one, so that a bad one does not spoil the others.
#[derive(Deserialize, Default)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: PageMeta,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) items: Vec<&'a RawValue>,
}

fn items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PageMeta {
    #[serde(rename = "continue")]
    pub(crate) next: Option<String>,
    pub(crate) resource_version: String,
}

/// The parts of an answer that show whether an object was deleted.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Head {
    pub(super) kind: String,
    pub(super) metadata: HeadMeta,
    pub(super) details: HeadDetails,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct HeadMeta {
    name: String,
    namespace: Option<String>,
    pub(super) uid: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    pub(super) finalizers: Vec<String>,
}

/// The name of an object, for the log.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Named {
    metadata: NamedMeta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedMeta {
    name: String,
    namespace: Option<String>,
}

impl Named {
    pub(super) fn of(json: &str) -> Key {
        let named: Named = serde_json::from_str(json).unwrap_or_default();
        Key::new(named.metadata.namespace.as_deref(), &named.metadata.name)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct HeadDetails {
    pub(super) uid: String,
}

impl Head {
    pub(super) fn key(&self) -> Key {
        Key::new(self.metadata.namespace.as_deref(), &self.metadata.name)
    }

    /// Returns `true` if the write removed the last finalizer of an object that is being deleted.
    pub(super) fn finalized(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
            && self.metadata.deletion_grace_period_seconds == Some(0)
            && self.metadata.finalizers.is_empty()
    }

    /// Returns `true` if the object is being deleted and still exists.
    pub(super) fn pending(&self) -> bool {
        // A namespace has its finalizers in its spec, and no grace period.
        let waits = !self.metadata.finalizers.is_empty()
            || self.metadata.deletion_grace_period_seconds != Some(0);
        self.metadata.deletion_timestamp.is_some() && waits
    }
}
