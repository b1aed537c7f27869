//! Metadata of stored objects (`PartialObjectMetadata`), cut out of their bytes.
//!
//! The stored body of an object contains its metadata as it is served, so lists and watches of
//! metadata copy it from there. Objects that are not served as they are stored are decoded.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_protobuf::Envelope;

use super::list::streamed;
use super::{Answer, Call};
use crate::response::{AnswerShape, Encoding};
use crate::store::{Entry, EventKind};

const KIND: &str = "PartialObjectMetadata";
const LIST_KIND: &str = "PartialObjectMetadataList";

impl Call {
    /// A list of the metadata of objects; `None` if it has to be made of the objects themselves.
    pub(super) fn metadata_list(
        &self,
        metadata: &Map<String, Value>,
        entries: &[Arc<Entry>],
    ) -> Option<Answer> {
        let form = self.form;
        if form.shape != AnswerShape::Metadata {
            return None;
        }
        match form.encoding {
            Encoding::Json if !form.pretty => self.metadata_json(metadata, entries),
            Encoding::Protobuf => self.metadata_protobuf(metadata, entries),
            _ => None,
        }
    }

    fn metadata_json(
        &self,
        metadata: &Map<String, Value>,
        entries: &[Arc<Entry>],
    ) -> Option<Answer> {
        let places: Option<Vec<_>> = entries.iter().map(|entry| self.metadata_at(entry)).collect();
        let items: Vec<_> =
            entries.iter().zip(places?).map(|(entry, at)| entry.body.slice(at)).collect();
        let version = self.form.meta_version();
        let head = format!("{{\"kind\":\"{LIST_KIND}\",\"apiVersion\":\"{version}\",\"items\":[");
        let tail = format!("],\"metadata\":{}}}", serde_json::to_string(metadata).ok()?);
        let first = Bytes::from(self.metadata_prefix());
        let next = Bytes::from(format!(",{}", self.metadata_prefix()));
        let items = items.into_iter().enumerate().flat_map(move |(index, item)| {
            let before = if index == 0 { &first } else { &next };
            [before.clone(), item, Bytes::from_static(b"}")]
        });
        let pieces = std::iter::once(Bytes::from(head)).chain(items).chain([Bytes::from(tail)]);
        Some(streamed("application/json", pieces))
    }

    fn metadata_protobuf(
        &self,
        metadata: &Map<String, Value>,
        entries: &[Arc<Entry>],
    ) -> Option<Answer> {
        let version = self.form.meta_version();
        let message = windlass_protobuf::message_of(version, KIND)?;
        let item = |entry: &Arc<Entry>| {
            if let Some(bytes) = self.metadata_part(entry) {
                return Some(bytes);
            }
            let object = self.metadata_value(entry)?;
            let mut bytes = Vec::new();
            message.encode(&object, &mut bytes).ok()?;
            Some(Bytes::from(bytes))
        };
        let items = entries.iter().map(item).collect::<Option<Vec<_>>>()?;
        let metadata = Value::Object(metadata.clone());
        let pieces = windlass_protobuf::list_pieces(version, LIST_KIND, &metadata, items).ok()?;
        Some(streamed(windlass_protobuf::MEDIA_TYPE, pieces))
    }

    /// An event with an object's metadata; `None` if it has to be computed from the object itself.
    pub(super) fn metadata_line(&self, kind: EventKind, entry: &Entry) -> Option<Bytes> {
        if self.form.shape != AnswerShape::Metadata {
            return None;
        }
        if self.form.encoding == Encoding::Protobuf {
            if let Some(bytes) = self.metadata_part(entry) {
                let object = Envelope::wrap(self.form.meta_version(), KIND, &bytes);
                return Some(windlass_protobuf::watch_frame(kind.as_str(), &object).into());
            }
            return Some(self.line_of(kind.as_str(), &self.metadata_value(entry)?));
        }
        let at = self.metadata_at(entry)?;
        let head = format!("{{\"type\":\"{}\",\"object\":", kind.as_str());
        let prefix = self.metadata_prefix();
        let parts = [head.as_bytes(), prefix.as_bytes(), &entry.body[at], b"}}\n"];
        Some(parts.concat().into())
    }

    /// The metadata of an object of a built-in kind in protobuf, cut out of the whole, which is
    /// encoded once for everybody.
    fn metadata_part(&self, entry: &Entry) -> Option<Bytes> {
        if self.resource.custom.is_some() || !self.server.is_raw(&self.resource, entry) {
            return None;
        }
        let gvk = &self.resource.gvk;
        let message = windlass_protobuf::message_of(&gvk.api_version(), &gvk.kind)?;
        let object = entry.protobuf(message)?;
        Some(object.slice(message.metadata_in(&object)?))
    }

    /// The document of an object's metadata.
    fn metadata_value(&self, entry: &Entry) -> Option<Value> {
        let metadata: Value = serde_json::from_slice(&entry.body[self.metadata_at(entry)?]).ok()?;
        let mut object = Map::new();
        object.insert("apiVersion".into(), self.form.meta_version().into());
        object.insert("kind".into(), KIND.into());
        object.insert("metadata".into(), metadata);
        Some(Value::Object(object))
    }

    /// The position of the metadata of an entry in its body, if it is served as it is stored.
    fn metadata_at(&self, entry: &Entry) -> Option<Range<usize>> {
        let raw = self.server.is_raw(&self.resource, entry);
        raw.then(|| crate::skim::member(&entry.body, "metadata")).flatten()
    }

    /// What precedes the metadata, in the order of a document's fields.
    fn metadata_prefix(&self) -> String {
        let version = self.form.meta_version();
        format!("{{\"apiVersion\":\"{version}\",\"kind\":\"{KIND}\",\"metadata\":")
    }
}
