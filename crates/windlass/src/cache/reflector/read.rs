//! How a reflector reads objects, in JSON or protobuf.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Delta, Failure, Reflector};
use crate::cache::outline::{self, Identity, Outline};
use crate::cache::protobuf::{self, Unread};
use crate::cache::stream::whole;
use crate::cache::{Entry, Key, Malformed};

impl Reflector {
    /// Reads an object of a list. If it cannot be read, the known state of it is kept.
    pub(super) fn listed(&mut self, item: &[u8]) -> Option<Delta> {
        match self.read(item) {
            Some((entry, _)) => Some(Delta::Listed(entry)),
            None => self.kept(self.identity(item)?.key),
        }
    }

    /// Reads an object of a list in protobuf, where items have no envelope.
    pub(super) fn listed_message(&mut self, message: &[u8]) -> Option<Delta> {
        match self.read_message(message) {
            Some((entry, _)) => Some(Delta::Listed(entry)),
            None => self.kept(self.identity(&self.json)?.key),
        }
    }

    /// Keeps the known state of an object, unless it has another form than what is requested now.
    pub(super) fn kept(&self, key: Key) -> Option<Delta> {
        self.synced.then_some(Delta::Kept(key))
    }

    /// Reads an object. One that cannot be read is skipped, counted and logged.
    fn read(&mut self, bytes: &[u8]) -> Option<(Arc<Entry>, String)> {
        let read = self.try_read(bytes);
        self.known(read)
    }

    /// Reads an item of a list in protobuf, which has no envelope.
    fn read_message(&mut self, message: &[u8]) -> Option<(Arc<Entry>, String)> {
        let read = self.try_read_message(message);
        self.known(read)
    }

    fn known(
        &mut self,
        read: Result<(Arc<Entry>, String), Unread>,
    ) -> Option<(Arc<Entry>, String)> {
        match read {
            Ok(read) => Some(read),
            Err(Unread::Unknown) => {
                self.protobuf = None;
                None
            }
            Err(Unread::Malformed(err)) => {
                self.stats.skipped.fetch_add(1, Ordering::Relaxed);
                let kind = &self.target.kind.kind;
                tracing::warn!(%kind, object = err.name, %err, "object skipped");
                None
            }
        }
    }

    /// Reads the object of an event. Bytes that are not even JSON end the watch.
    pub(super) fn read_event(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(Arc<Entry>, String)>, Failure> {
        self.stats.events.fetch_add(1, Ordering::Relaxed);
        let asked = self.protobuf.is_some();
        self.entries.by_whom = true;
        let read = self.read(bytes);
        self.entries.by_whom = false;
        if asked {
            self.check_known()?;
        }
        if read.is_none() && !whole(&protobuf::as_json(bytes)) {
            return Err(Failure::new("server sent an object that is not JSON"));
        }
        Ok(read)
    }

    /// Reads which object of the target's kind this is, if the rest cannot be read.
    pub(super) fn identity(&self, bytes: &[u8]) -> Option<Identity> {
        let identity = outline::identity(&protobuf::as_json(bytes))?;
        Some(identity).filter(|it| !self.target.is_other(&it.api_version, &it.kind))
    }

    /// Fails if protobuf turned out to be insufficient: JSON is requested from then on.
    pub(super) fn check_known(&self) -> Result<(), Failure> {
        match self.protobuf {
            Some(_) => Ok(()),
            None => Err(Failure::new("server sends fields that can only be read in JSON")),
        }
    }

    fn try_read(&mut self, bytes: &[u8]) -> Result<(Arc<Entry>, String), Unread> {
        let Some(envelope) = protobuf::envelope(bytes) else {
            let outline = outline::read(bytes)?;
            return Ok(self.try_entry(bytes, &outline)?);
        };
        let envelope = envelope?;
        if self.target.is_other(envelope.api_version, envelope.kind) {
            return Err(other(envelope.kind, envelope.api_version, "").into());
        }
        self.try_read_message(envelope.raw)
    }

    fn try_read_message(&mut self, message: &[u8]) -> Result<(Arc<Entry>, String), Unread> {
        let reader = self.protobuf.as_ref().ok_or(Unread::Unknown)?;
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        let read = reader.read(message, &mut json);
        let read = read.and_then(|outline| Ok(self.try_entry(&json, &outline)?));
        self.json = json;
        read
    }

    fn try_entry(
        &mut self,
        json: &[u8],
        outline: &Outline<'_>,
    ) -> Result<(Arc<Entry>, String), Malformed> {
        let (api_version, kind) = (&*outline.api_version.0, &*outline.kind.0);
        if self.target.is_other(api_version, kind) {
            return Err(other(kind, api_version, &outline.metadata.name.0));
        }
        let version = outline.metadata.resource_version.0.clone().into_owned();
        let Some(transform) = &self.rules.transform else {
            return Ok((Arc::new(self.entries.entry(json, outline)?), version));
        };
        let json = transform.apply(json, &outline.metadata.name.0)?;
        Ok((Arc::new(self.entries.read(&json)?), version))
    }
}

fn other(kind: &str, api_version: &str, name: &str) -> Malformed {
    Malformed {
        name: name.to_owned(),
        message: format!("object is a {kind} of {api_version}, which was not requested"),
    }
}
