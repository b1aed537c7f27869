//! One object as the store keeps it: compact bytes, with what selections need beside them.
//!
//! An object is read once: names, labels and owners are taken out, `managedFields` is cut out
//! of the bytes without being decoded, and the rest is kept as it came, packed when that pays.
//! A Rust value is made only when somebody asks for one.
//!
//! **Invariant:** an entry never changes, except for the mark a relist leaves on it and whether it
//! is what readers see now.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use serde::de::DeserializeOwned;

use super::body::Body;
use super::field_manager::FieldManager;
use super::labels::Labels;
use super::malformed::redacted;
use super::{Key, Malformed};
use crate::error::Result;

/// One object of a [`Store`](super::Store), in compact form.
///
/// Its fields are read without decoding it; [`decode`](Self::decode) returns the whole object.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::cache::{Change, Entry, Owner};
///
/// let map: ConfigMap = serde_json::from_value(serde_json::json!({
///     "metadata": {
///         "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
///         "labels": {"app": "web"},
///         "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "o-1"}],
///     },
///     "data": {"k": "v"},
/// }))?;
/// let created = Change::between(None, Some(&map))?;
/// // The metadata that most decisions need is at hand; the rest is decoded when asked for.
/// let entry: &Entry = created.entry();
/// assert_eq!(entry.version, 7);
/// assert!(entry.labels().eq([("app", "web")]));
/// let owner: &Owner = &entry.owners[0];
/// assert!(&*owner.uid == "o-1" && !owner.controller);
/// assert_eq!(entry.decode::<ConfigMap>()?.data, map.data);
/// # Ok::<(), windlass::Error>(())
/// ```
#[non_exhaustive]
pub struct Entry {
    /// The namespace and name.
    pub key: Key,
    /// The resource version; 0 if it is not a number.
    pub version: u64,
    /// The generation of the desired state; 0 for kinds that have none.
    pub generation: i64,
    /// `true` if the object is being deleted.
    pub deleting: bool,
    /// Only metadata was requested.
    pub(super) partial: bool,
    /// It may have annotations that switch something for this object.
    pub(super) switched: bool,
    /// Who changed it last, if an event of a watch said so.
    pub(super) manager: FieldManager,
    pub(super) labels: Labels,
    /// The owners.
    pub owners: Box<[Owner]>,
    pub(super) body: Body,
    /// The relist that saw this entry last.
    pub(super) mark: AtomicU32,
    /// The types, as bits, it was found not to decode into.
    pub(super) failed: AtomicU8,
    /// The types, as bits, it was decoded into.
    pub(super) decoded: AtomicU8,
    /// The store whose readers find this entry under its key, if that is sure.
    pub(super) shown: AtomicU32,
}

/// A reference of an object to one of its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// Group and version of the owner.
    pub api_version: Arc<str>,
    /// Kind of the owner.
    pub kind: Arc<str>,
    /// Name of the owner.
    pub name: Arc<str>,
    /// UID of the owner.
    pub uid: Arc<str>,
    /// Whether the owner is the managing controller.
    pub controller: bool,
}

// === impl Entry ===

impl Entry {
    /// Returns the key of the object.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the UID of the object.
    pub fn uid(&self) -> &str {
        self.labels.uid()
    }

    /// Returns the resource version; 0 if the server sent none that is a number.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the generation of the desired state; 0 for kinds that have none.
    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns `true` if the object is being deleted.
    pub(crate) fn deleting(&self) -> bool {
        self.deleting
    }

    /// Returns the field manager that changed the object last, if that is known.
    pub(crate) fn manager(&self) -> Option<Arc<str>> {
        self.manager.name()
    }

    /// Returns the value of a label.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }

    /// Walks over the names and values of the labels, in the order that the server sent.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.labels.iter()
    }

    pub(crate) fn label_set(&self) -> &Labels {
        &self.labels
    }

    /// Returns the owners.
    pub(crate) fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Returns the object as JSON.
    pub(crate) fn json(&self) -> Cow<'_, [u8]> {
        self.body.bytes()
    }

    /// Decodes the object into a Rust value, each time anew. [`Reader`](super::Reader) and
    /// [`Change::object`](super::Change::object) keep what they decode.
    ///
    /// # Errors
    ///
    /// Fails if the object does not have the shape of the type.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K> {
        Ok(self.read()?)
    }

    pub(super) fn read<K: DeserializeOwned>(&self) -> Result<K, Malformed> {
        let decoded = self.body.read(from_json);
        decoded.map_err(|err| Malformed { name: self.key.to_string(), message: redacted(&err) })
    }

    /// Returns the bytes this entry keeps.
    pub(crate) fn size(&self) -> usize {
        self.body.size() + self.labels.len() + size_of::<Self>()
    }

    /// Returns `true` if both are the same version of the same object.
    pub(super) fn same(&self, other: &Entry) -> bool {
        self.version != 0 && self.version == other.version && self.uid() == other.uid()
    }

    /// Returns `true` if this entry holds metadata only and the other one a whole object.
    pub(super) fn poorer(&self, other: &Entry) -> bool {
        self.partial && !other.partial
    }

    /// Records that it does not decode into a type; returns `true` the first time.
    pub(super) fn fails(&self, bit: u8) -> bool {
        self.failed.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Notes that it decodes into a type.
    pub(super) fn set_decodes(&self, bit: u8) {
        self.decoded.fetch_or(bit, Ordering::Relaxed);
    }

    /// Returns `true` if it has been decoded into a type before.
    pub(super) fn decodes(&self, bit: u8) -> bool {
        self.decoded.load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn mark(&self, relist: u32) {
        self.mark.store(relist, Ordering::Relaxed);
    }

    pub(super) fn marked(&self, relist: u32) -> bool {
        self.mark.load(Ordering::Relaxed) == relist
    }

    /// Notes that readers of a store find this entry from its next snapshot on; nobody may have
    /// seen the entry before.
    pub(super) fn show(&self, store: u32) {
        self.shown.store(store, Ordering::Release);
    }

    /// Notes that the next snapshot is without this entry.
    pub(super) fn hide(&self) {
        self.shown.store(0, Ordering::Release);
    }

    /// Returns `true` if this is what a look-up in the store finds; `false` if that is not certain.
    pub(super) fn is_shown(&self, store: u32) -> bool {
        store != 0 && self.shown.load(Ordering::Acquire) == store
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({}@{})", self.key, self.version)
    }
}

/// Reads JSON. That it is UTF-8 is checked once, and not for every string in it.
fn from_json<K: DeserializeOwned>(json: &[u8]) -> serde_json::Result<K> {
    match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    }
}
