//! Reads objects into entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32};

use kube::core::ApiResource;
use serde_json::json;

use super::body::{Body, Packer};
use super::entry::{Entry, Owner};
use super::field_manager::{self, FieldManager};
use super::labels::Labels;
use super::outline::{self, Outline};
use super::{Key, Malformed};

/// Reads objects; keeps what repeats from one object to the next.
pub(super) struct EntryReader {
    pub(super) keep_managed_fields: bool,
    pub(super) pack: bool,
    /// Only metadata are asked for.
    pub(super) partial: bool,
    /// It is of interest who changed the objects.
    pub(super) by_whom: bool,
    /// The fields that items of a list leave out.
    types: String,
    names: Vec<Arc<str>>,
    cut: Vec<u8>,
    packer: Packer,
}

// === impl EntryReader ===

impl EntryReader {
    pub(super) fn new(keep_managed_fields: bool, pack: bool) -> Self {
        Self {
            keep_managed_fields,
            pack,
            partial: false,
            by_whom: false,
            types: String::new(),
            names: Vec::new(),
            cut: Vec::new(),
            packer: Packer::default(),
        }
    }

    /// Adds group, version and kind to objects that have none.
    pub(super) fn of(mut self, kind: &ApiResource) -> Self {
        let (api_version, kind) = (json!(kind.api_version), json!(kind.kind));
        self.types = format!(r#""apiVersion":{api_version},"kind":{kind},"#);
        self
    }

    /// Reads one object.
    pub(super) fn read(&mut self, json: &[u8]) -> Result<Entry, Malformed> {
        self.entry(json, &outline::read(json)?)
    }

    /// Creates the entry of an object whose outline is read already.
    pub(super) fn entry(&mut self, json: &[u8], outline: &Outline<'_>) -> Result<Entry, Malformed> {
        let meta = &outline.metadata;
        if meta.name.0.is_empty() {
            return Err(Malformed {
                name: String::new(),
                message: "object without metadata.name".to_owned(),
            });
        }
        let owners = meta.owner_references.0.iter().map(|owner| Owner {
            api_version: self.intern(&owner.api_version.0),
            kind: self.intern(&owner.kind.0),
            name: Arc::from(&*owner.name.0),
            uid: Arc::from(&*owner.uid.0),
            controller: owner.controller.unwrap_or(false),
        });
        let owners = owners.collect();
        let raw = meta.managed_fields.filter(|_| !self.keep_managed_fields);
        let untyped = outline.kind.0.is_empty() && outline.api_version.0.is_empty();
        let body = if raw.is_none() && !untyped {
            self.body(json)
        } else {
            self.cut.clear();
            match raw {
                Some(raw) => outline::without_managed_fields(json, raw.get(), &mut self.cut),
                None => self.cut.extend_from_slice(json),
            }
            if untyped && let Some(open) = self.cut.iter().position(|b| *b == b'{') {
                self.cut.splice(open + 1..open + 1, self.types.bytes());
            }
            let cut = std::mem::take(&mut self.cut);
            let body = self.body(&cut);
            self.cut = cut;
            body
        };
        Ok(Entry {
            key: Key::new(Some(&meta.namespace.0), &meta.name.0),
            version: parse_version(&meta.resource_version.0),
            generation: meta.generation.unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            partial: self.partial,
            switched: meta.annotations.0,
            manager: self.manager(outline),
            labels: Labels::pack(&meta.uid.0, &meta.labels.0),
            owners,
            body,
            mark: AtomicU32::new(0),
            failed: AtomicU8::new(0),
            decoded: AtomicU8::new(0),
            shown: AtomicU32::new(0),
        })
    }

    /// Returns who changed an object last, if that is of interest.
    fn manager(&self, outline: &Outline<'_>) -> FieldManager {
        let meta = &outline.metadata;
        let newest = match (&meta.manager, meta.managed_fields) {
            _ if !self.by_whom => None,
            (Some(known), _) => Some(known.clone()),
            (None, raw) => raw.and_then(|raw| field_manager::newest(raw.get())),
        };
        newest.map(|name| FieldManager::named(&name)).unwrap_or_default()
    }

    fn body(&mut self, json: &[u8]) -> Body {
        if self.pack { self.packer.pack(json) } else { Body::plain(json) }
    }

    /// Shares names that come again and again, such as the kinds of owners.
    fn intern(&mut self, name: &str) -> Arc<str> {
        const NAMES_MAX: usize = 64;
        if let Some(at) = self.names.iter().position(|known| &**known == name) {
            let last = at.saturating_sub(1);
            self.names.swap(at, last);
            return self.names[last].clone();
        }
        let shared: Arc<str> = Arc::from(name);
        if self.names.len() == NAMES_MAX {
            self.names.pop();
        }
        self.names.push(shared.clone());
        shared
    }
}

/// Reads a resource version as a number, which the API promises since 1.35; 0 if it is not a number.
pub(super) fn parse_version(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
