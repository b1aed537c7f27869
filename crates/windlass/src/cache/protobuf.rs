//! Objects in protobuf, converted to the JSON that stores keep.
//!
//! Built-in kinds are requested in protobuf, which is a third smaller and, as `managedFields` is
//! skipped on the way, faster to read than JSON.
//!
//! **Invariant:** no field is lost. If a server sends fields that this table of kinds lacks, JSON
//! is requested from then on.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use windlass_protobuf::{Envelope, JsonOptions, MAGIC, Message, Metadata, Reason, message_of};

use super::Malformed;
use super::outline::{Many, Outline, OutlineMeta, OutlineOwner, Pairs, Text};
use super::switched::Switched;
use super::target::Target;

/// Reads messages of one kind.
pub(super) struct ProtobufReader {
    message: &'static Message,
    api_version: String,
    kind: String,
    head: String,
    options: JsonOptions,
}

/// Why a message was not read.
pub(super) enum Unread {
    Malformed(Malformed),
    /// It has fields that only JSON can represent here.
    Unknown,
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

// === impl ProtobufReader ===

impl ProtobufReader {
    /// Returns a reader for the objects of a target; `None` if the kind is not known in protobuf.
    pub(super) fn of(target: &Target, keep_managed_fields: bool) -> Option<Self> {
        let (api_version, kind) = match target.metadata_only {
            true => ("meta.k8s.io/v1", "PartialObjectMetadata"),
            false => (target.kind.api_version.as_str(), target.kind.kind.as_str()),
        };
        Some(Self {
            message: message_of(api_version, kind)?,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            head: format!(r#""apiVersion":"{api_version}","kind":"{kind}""#),
            options: JsonOptions { managed_fields: keep_managed_fields, known_only: true },
        })
    }

    /// Converts a message to JSON, and returns its outline.
    pub(super) fn read<'a>(
        &self,
        message: &'a [u8],
        json: &mut Vec<u8>,
    ) -> Result<Outline<'a>, Unread> {
        let malformed = |name: &str, error: &windlass_protobuf::Error| Malformed {
            name: name.to_owned(),
            message: error.to_string(),
        };
        let metadata = Metadata::read(message).map_err(|error| malformed("", &error))?;
        json.clear();
        match self.message.write_json(message, &self.head, self.options, json) {
            Ok(()) => Ok(self.outline(metadata)),
            Err(error) if matches!(error.reason(), Reason::UnknownField { .. }) => {
                Err(Unread::Unknown)
            }
            Err(error) => Err(malformed(&metadata.name, &error).into()),
        }
    }

    fn outline<'a>(&self, metadata: Metadata<'a>) -> Outline<'a> {
        let owners = metadata.owners.into_iter().map(|owner| OutlineOwner {
            api_version: Text(owner.api_version),
            kind: Text(owner.kind),
            name: Text(owner.name),
            uid: Text(owner.uid),
            controller: Some(owner.controller),
        });
        Outline {
            kind: Text(Cow::Owned(self.kind.clone())),
            api_version: Text(Cow::Owned(self.api_version.clone())),
            metadata: OutlineMeta {
                name: Text(metadata.name),
                namespace: Text(metadata.namespace),
                uid: Text(metadata.uid),
                resource_version: Text(metadata.resource_version),
                generation: Some(metadata.generation),
                deletion_timestamp: metadata.deleting.then_some(IgnoredAny),
                labels: Pairs(metadata.labels),
                annotations: Switched::among(metadata.annotations.iter().map(|(name, _)| &**name)),
                owner_references: Many(owners.collect()),
                managed_fields: None,
                manager: metadata.manager,
            },
        }
    }
}

/// Returns the envelope of an object in protobuf; `None` for JSON.
pub(super) fn envelope(bytes: &[u8]) -> Option<Result<Envelope<'_>, Malformed>> {
    bytes.starts_with(&MAGIC).then(|| {
        Envelope::read(bytes)
            .map_err(|error| Malformed { name: String::new(), message: error.to_string() })
    })
}

/// Converts small objects, such as failures and bookmarks, to JSON if they are in protobuf.
pub(crate) fn as_json(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes.starts_with(&MAGIC) {
        true => {
            windlass_protobuf::to_json(bytes, JsonOptions::default()).unwrap_or_default().into()
        }
        false => Cow::Borrowed(bytes),
    }
}
