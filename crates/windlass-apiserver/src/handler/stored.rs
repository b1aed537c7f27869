//! Stored objects as answers: their bytes as they are, where those are what is served.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_protobuf::Envelope;

use super::{Answer, Call};
use crate::response::{AnswerShape, Encoding, bytes_of};
use crate::status::Result;
use crate::store::Entry;

/// What a write leaves behind.
pub(crate) enum Written {
    /// A stored object.
    Stored(Arc<Entry>),
    /// An object that is not stored, with apiVersion and kind: that of a dry run, or one whose
    /// deletion is under way already.
    Shown(Value),
    /// An object that is gone by this write, as it was last, with apiVersion and kind.
    Gone(Value),
}

impl Call {
    /// The answer to a write.
    pub(crate) async fn answer_written(&self, code: u16, written: Written) -> Result<Answer> {
        match written {
            Written::Stored(entry) => self.answer_stored(code, &entry).await,
            Written::Shown(object) | Written::Gone(object) => Ok(Answer::Object(code, object)),
        }
    }

    /// What a write left behind, with apiVersion and kind.
    pub(super) async fn object_written(&self, written: Written) -> Result<Value> {
        match written {
            Written::Stored(entry) => self.object_of(&entry).await,
            Written::Shown(object) | Written::Gone(object) => Ok(object),
        }
    }

    /// The answer with a stored object.
    pub(super) async fn answer_stored(&self, code: u16, entry: &Entry) -> Result<Answer> {
        match self.stored_bytes(entry) {
            Some((content_type, bytes)) => Ok(Answer::Ready(bytes_of(code, content_type, bytes))),
            None => Ok(Answer::Object(code, self.object_of(entry).await?)),
        }
    }

    /// A stored object in the form that was asked for; `None` if it has to be read for that.
    fn stored_bytes(&self, entry: &Entry) -> Option<(&'static str, Bytes)> {
        let raw = self.form.shape == AnswerShape::Object
            && !self.form.pretty
            && self.server.is_raw(&self.resource, entry);
        if !raw {
            return None;
        }
        let gvk = &self.resource.gvk;
        match self.form.encoding {
            Encoding::Json if self.resource.is_custom() => {
                Some(("application/json", self.custom_json(&entry.body)?))
            }
            Encoding::Json => {
                let prefix = self.server.type_prefix(&self.resource);
                Some(("application/json", [&prefix, &entry.body[1..]].concat().into()))
            }
            Encoding::Protobuf => {
                let version = gvk.api_version();
                let bytes = entry.protobuf(windlass_protobuf::message_of(&version, &gvk.kind)?)?;
                let bytes = Envelope::wrap(&version, &gvk.kind, &bytes);
                Some((windlass_protobuf::MEDIA_TYPE, bytes.into()))
            }
            Encoding::Yaml => None,
        }
    }

    /// A custom object with its kind where it sorts; `None` if that is not behind the version.
    fn custom_json(&self, body: &[u8]) -> Option<Bytes> {
        let gvk = &self.resource.gvk;
        let head = format!("{{\"apiVersion\":\"{}\"", gvk.api_version());
        let rest = body.strip_prefix(head.as_bytes())?;
        let next = rest.strip_prefix(b",\"")?;
        let key = next.split(|byte| *byte == b'"').next()?;
        let kind = format!(",\"kind\":\"{}\"", gvk.kind);
        (key > b"kind".as_slice()).then(|| [head.as_bytes(), kind.as_bytes(), rest].concat().into())
    }
}
