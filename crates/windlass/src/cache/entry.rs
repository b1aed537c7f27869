//! One object as the store keeps it: compact bytes, with what selections need beside them.
//!
//! An object is read once: names, labels and owners are taken out, `managedFields` is cut out
//! of the bytes without being decoded, and the rest is kept as it came, packed when that pays.
//! A Rust value is made only when somebody asks for one.
//!
//! **Invariant:** an entry never changes, except for the mark a relist leaves on it and whether it
//! is what readers see now.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use kube::core::ApiResource;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Key;
use super::skim::{self, Skim};

/// Objects smaller than this are not worth packing.
const PACK_ABOVE: usize = 1024;

/// The largest object that leaves its room behind for the next.
const UNPACKED_MAX: usize = 256 << 10;

thread_local! {
    /// Where objects are unpacked to be decoded.
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A stored object.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::ApiResource;
/// use windlass::cache::{Entry, Labels, Owner, Store};
///
/// let store = Store::detached(&ApiResource::erase::<ConfigMap>(&()));
/// let entry: Arc<Entry> = store.read(br#"{"metadata": {
///     "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"app": "web"},
///     "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "o-1"}]
/// }, "data": {"k": "v"}}"#)?;
/// // What most decisions need is at hand; the rest is decoded when asked for.
/// let (labels, owners): (&Labels, &[Owner]) = (entry.labels(), entry.owners());
/// assert_eq!((entry.version(), labels.get("app")), (7, Some("web")));
/// assert!(&*owners[0].uid == "o-1" && !owners[0].controller);
/// assert_eq!(entry.decode::<ConfigMap>()?.data.expect("has data")["k"], "v");
/// # Ok::<(), windlass::cache::Malformed>(())
/// ```
pub struct Entry {
    key: Key,
    uid: Box<str>,
    version: u64,
    generation: i64,
    deleting: bool,
    /// Only metadata were asked for.
    partial: bool,
    labels: Labels,
    owners: Box<[Owner]>,
    body: Body,
    /// The relist that saw this entry last.
    mark: AtomicU32,
    /// The types, as bits, it was found not to decode into.
    failed: AtomicU8,
    /// The types, as bits, it was decoded into.
    decoded: AtomicU8,
    /// The store whose readers find this entry under its key, if that is sure.
    shown: AtomicU32,
}

/// A reference of an object to one of its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The labels of an object, packed into one allocation.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<str>);

/// Why bytes are no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Malformed {
    /// The name of the object as far as it could be read.
    pub name: String,
    /// What is wrong.
    pub message: String,
}

enum Body {
    Plain(Box<[u8]>),
    Packed { bytes: Box<[u8]>, len: usize },
}

/// Reads objects; keeps what repeats from one object to the next.
pub(super) struct EntryReader {
    pub(super) keep_managed_fields: bool,
    pub(super) pack: bool,
    /// Only metadata are asked for.
    pub(super) partial: bool,
    /// The fields that items of a list leave out.
    types: String,
    names: Vec<Arc<str>>,
    cut: Vec<u8>,
    packed: Vec<u8>,
    table: CompressTable,
}

// === impl Entry ===

impl Entry {
    /// Returns the key of the object.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the UID of the object.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the resource version; 0 if the server sent none that is a number.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the generation of the desired state; 0 for kinds that have none.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Tells whether the object is being deleted.
    pub fn deleting(&self) -> bool {
        self.deleting
    }

    /// Returns the labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the owners.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Returns the object as JSON.
    pub fn json(&self) -> Cow<'_, [u8]> {
        match &self.body {
            Body::Plain(bytes) => Cow::Borrowed(bytes),
            Body::Packed { bytes, len } => Cow::Owned(
                lz4_flex::block::decompress(bytes, *len).expect("unpacks what was packed here"),
            ),
        }
    }

    /// Makes a Rust value of the object.
    ///
    /// # Errors
    ///
    /// Fails if the object does not have the shape of the type.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, Malformed> {
        let decoded = match &self.body {
            Body::Plain(bytes) => from_json(bytes),
            Body::Packed { bytes, len } => {
                // Taken out, so that a type which decodes another entry meanwhile finds another.
                let mut room = UNPACKED.take();
                if room.len() < *len {
                    room.resize(*len, 0);
                }
                let unpacked = lz4_flex::block::decompress_into(bytes, &mut room[..*len]);
                let decoded = from_json(&room[..unpacked.expect("unpacks what was packed here")]);
                if room.len() <= UNPACKED_MAX {
                    UNPACKED.set(room);
                }
                decoded
            }
        };
        decoded.map_err(|err| Malformed { name: self.key.to_string(), message: discreet(&err) })
    }

    /// Returns the bytes this entry keeps.
    pub fn size(&self) -> usize {
        let body = match &self.body {
            Body::Plain(bytes) | Body::Packed { bytes, .. } => bytes.len(),
        };
        body + self.labels.0.len() + self.uid.len() + size_of::<Self>()
    }

    /// Tells whether both are the same version of the same object.
    pub(super) fn same(&self, other: &Entry) -> bool {
        self.version != 0 && self.version == other.version && self.uid == other.uid
    }

    /// Tells whether the other one is more than the metadata that this one is.
    pub(super) fn poorer(&self, other: &Entry) -> bool {
        self.partial && !other.partial
    }

    /// Notes that it does not decode into a type; tells whether that is news.
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

    /// Tells whether this is what a look-up in the store finds; false if that is not sure.
    pub(super) fn is_shown(&self, store: u32) -> bool {
        store != 0 && self.shown.load(Ordering::Acquire) == store
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({}@{})", self.key, self.version)
    }
}

// === impl Labels ===

impl Labels {
    /// Returns the value of a label.
    pub fn get(&self, label: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == label).map(|(_, value)| value)
    }

    /// Walks over names and values in the order the server sent them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    fn pack(labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> Self {
        let valid = labels.iter().filter(|(k, v)| !k.contains('\0') && !v.contains('\0'));
        let mut packed = String::new();
        for (name, value) in valid {
            packed.push_str(name);
            packed.push('\0');
            packed.push_str(value);
            packed.push('\0');
        }
        Self(packed.into_boxed_str())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// === impl EntryReader ===

impl EntryReader {
    pub(super) fn new(keep_managed_fields: bool, pack: bool) -> Self {
        Self {
            keep_managed_fields,
            pack,
            partial: false,
            types: String::new(),
            names: Vec::new(),
            cut: Vec::new(),
            packed: Vec::new(),
            table: CompressTable::default(),
        }
    }

    /// Adds group, version and kind to objects that come without.
    pub(super) fn of(mut self, kind: &ApiResource) -> Self {
        let (api_version, kind) = (json!(kind.api_version), json!(kind.kind));
        self.types = format!(r#""apiVersion":{api_version},"kind":{kind},"#);
        self
    }

    /// Reads one object.
    pub(super) fn read(&mut self, json: &[u8]) -> Result<Entry, Malformed> {
        let skim = skim::read(json)?;
        self.entry(json, &skim)
    }

    /// Makes the entry of an object that is skimmed already.
    pub(super) fn entry(&mut self, json: &[u8], skim: &Skim<'_>) -> Result<Entry, Malformed> {
        let meta = &skim.metadata;
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
        let untyped = skim.kind.0.is_empty() && skim.api_version.0.is_empty();
        let body = if raw.is_none() && !untyped {
            self.body(json)
        } else {
            self.cut.clear();
            match raw {
                Some(raw) => skim::without_managed_fields(json, raw.get(), &mut self.cut),
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
            uid: meta.uid.0.as_ref().into(),
            version: parse_version(&meta.resource_version.0),
            generation: meta.generation.unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            partial: self.partial,
            labels: Labels::pack(&meta.labels.0),
            owners,
            body,
            mark: AtomicU32::new(0),
            failed: AtomicU8::new(0),
            decoded: AtomicU8::new(0),
            shown: AtomicU32::new(0),
        })
    }

    fn body(&mut self, json: &[u8]) -> Body {
        if self.pack && json.len() > PACK_ABOVE {
            let room = get_maximum_output_size(json.len());
            if self.packed.len() < room {
                self.packed.resize(room, 0);
            }
            if let Ok(len) = compress_into_with_table(json, &mut self.packed, &mut self.table)
                && len + len / 8 < json.len()
            {
                return Body::Packed { bytes: self.packed[..len].into(), len: json.len() };
            }
        }
        Body::Plain(json.into())
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

/// Reads JSON; that it is text is looked at once, and not for every string in it.
fn from_json<K: DeserializeOwned>(json: &[u8]) -> serde_json::Result<K> {
    match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    }
}

/// Says what is wrong with an object without the text that is wrong: it may be a secret.
pub(crate) fn discreet(err: &serde_json::Error) -> String {
    let text = err.to_string();
    let Some(from) = text.find("string \"") else { return text };
    let Some(to) = text.rfind("\", expected").filter(|to| *to > from) else { return text };
    format!("{}string{}", &text[..from], &text[to + 1..])
}

/// Reads a resource version as a number, which the API promises since 1.35; 0 if it is none.
pub(super) fn parse_version(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Entry, Malformed> {
        EntryReader::new(false, true).read(json.as_bytes())
    }

    #[test]
    fn an_object_is_kept_without_managed_fields_and_with_its_identity_beside() {
        let entry = read(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u",
            "resourceVersion":"7","generation":3,"labels":{"app":"x","tier":"y"},
            "managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}],
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru",
            "controller":true}],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"x":[1,"]}"]}}"#,
        )
        .unwrap();
        assert_eq!(entry.key(), &Key::namespaced("n", "a"));
        assert_eq!((entry.uid(), entry.version(), entry.generation()), ("u", 7, 3));
        assert!(entry.deleting());
        assert_eq!(entry.labels().get("tier"), Some("y"));
        assert_eq!(entry.labels().iter().count(), 2);
        assert!(entry.owners()[0].controller);
        let value: serde_json::Value = entry.decode().unwrap();
        assert_eq!(value["metadata"].get("managedFields"), None);
        assert_eq!(value["spec"]["x"][1], "]}");
        assert_eq!(value["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn an_object_of_a_list_gets_the_kind_it_came_without() {
        let kind = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let mut reader = EntryReader::new(false, true).of(&kind);
        for json in [
            r#" {"metadata":{"managedFields":[],"name":"a"},"spec":{}}"#,
            r#"{"metadata":{"name":"a"},"spec":{}}"#,
            r#"{"metadata":{"name":"a","managed\u0046ields":[]},"spec":{}}"#,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}"#,
        ] {
            let value: serde_json::Value = reader.read(json.as_bytes()).unwrap().decode().unwrap();
            let whole = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {},
            });
            assert_eq!(value, whole, "{json}");
        }
    }

    #[test]
    fn a_large_object_is_packed_and_comes_back_whole() {
        let json = format!(
            r#"{{"metadata":{{"name":"a","managedFields":[]}},"data":"{}"}}"#,
            "word ".repeat(1000)
        );
        let entry = read(&json).unwrap();
        assert!(entry.size() < 1000, "{}", entry.size());
        let value: serde_json::Value = entry.decode().unwrap();
        assert_eq!(value["data"].as_str().unwrap().len(), 5000);
        assert_eq!(value["metadata"], serde_json::json!({"name": "a"}));
    }

    #[test]
    fn an_object_without_name_or_with_names_of_wrong_type_is_refused() {
        assert!(read("{}").is_err());
        assert!(read(r#"{"metadata":{"name":""}}"#).is_err());
        assert!(read(r#"{"metadata":{"name":1}}"#).is_err());
        assert!(read(r#"{"metadata":{"name":"a"}"#).is_err());
        assert!(read(r#"{"metadata":{"name":"a"}} x"#).is_err());
    }

    #[test]
    fn what_does_not_decode_is_told_without_its_text() {
        let entry = read(r#"{"metadata":{"name":"a"},"data":"hunter2\", expected"}"#).unwrap();
        #[derive(Debug, serde::Deserialize)]
        struct Typed {
            #[allow(dead_code)]
            data: u8,
        }
        let err = entry.decode::<Typed>().unwrap_err();
        assert!(err.message.starts_with("invalid type: string, expected u8"), "{err}");
        assert!(!err.message.contains("hunter2"), "{err}");
    }

    #[test]
    fn nulls_count_as_absent() {
        let entry = read(
            r#"{"metadata":{"name":"a","namespace":null,"labels":null,"ownerReferences":null,
            "creationTimestamp":null,"deletionTimestamp":null,"managedFields":null}}"#,
        )
        .unwrap();
        assert_eq!(entry.key(), &Key::cluster("a"));
        assert!(!entry.deleting());
    }
}
