//! The parts of an answer that the client itself looks at.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::cache::Key;

/// A page of a list whose items are not read yet: one that does not read must not cost the rest.
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
pub(super) struct PageMeta {
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// The parts of an answer to a delete that say what happened.
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

    /// Gone with this write: it was to be deleted, and its last finalizer went.
    pub(super) fn finalized(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
            && self.metadata.deletion_grace_period_seconds == Some(0)
            && self.metadata.finalizers.is_empty()
    }

    /// Marked for deletion and not gone yet.
    pub(super) fn pending(&self) -> bool {
        // A namespace has its finalizers elsewhere, and no grace period that could be over.
        let waits = !self.metadata.finalizers.is_empty()
            || self.metadata.deletion_grace_period_seconds != Some(0);
        self.metadata.deletion_timestamp.is_some() && waits
    }
}
