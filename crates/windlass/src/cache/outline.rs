//! Reads only those parts of an object that the cache itself needs, in one pass over the bytes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Key;
use super::Malformed;
use super::malformed::redacted;
use super::switched::Switched;

/// The outline of an object.
#[derive(Deserialize)]
pub(super) struct Outline<'a> {
    #[serde(borrow, default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default, rename = "apiVersion")]
    pub(super) api_version: Text<'a>,
    #[serde(borrow, default)]
    pub(super) metadata: OutlineMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OutlineMeta<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(borrow)]
    pub(super) resource_version: Text<'a>,
    pub(super) generation: Option<i64>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) labels: Pairs<'a>,
    pub(super) annotations: Switched,
    #[serde(borrow)]
    pub(super) owner_references: Many<OutlineOwner<'a>>,
    #[serde(borrow)]
    pub(super) managed_fields: Option<&'a RawValue>,
    /// The newest field manager, if that is known without `managed_fields`.
    #[serde(skip)]
    pub(super) manager: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutlineOwner<'a> {
    #[serde(borrow, default)]
    pub(super) api_version: Text<'a>,
    #[serde(borrow, default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) uid: Text<'a>,
    #[serde(default)]
    pub(super) controller: Option<bool>,
}

/// A string that is borrowed unless it has escapes; null reads as empty.
#[derive(Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

/// A map of strings in wire order; null reads as empty.
#[derive(Default)]
pub(super) struct Pairs<'a>(pub(super) Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// A list; null reads as empty.
pub(super) struct Many<T>(pub(super) Vec<T>);

/// What identifies an object, and its version.
pub(super) struct Identity {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) version: String,
}

/// Skims an object.
pub(super) fn read(json: &[u8]) -> Result<Outline<'_>, Malformed> {
    serde_json::from_slice(json)
        .map_err(|err| Malformed { name: guess_name(json), message: redacted(&err) })
}

/// Reads which object this is, also of one whose outline does not read; `None` if it has no name.
pub(super) fn identity(json: &[u8]) -> Option<Identity> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &value["metadata"];
    let name = meta["name"].as_str().filter(|name| !name.is_empty())?;
    Some(Identity {
        api_version: text(&value["apiVersion"]),
        kind: text(&value["kind"]),
        key: Key::new(Some(&text(&meta["namespace"])), name),
        uid: text(&meta["uid"]),
        version: text(&meta["resourceVersion"]),
    })
}

/// Writes the object without its `managedFields`, whose raw value is `raw`, to `out`.
pub(super) fn without_managed_fields(json: &[u8], raw: &str, out: &mut Vec<u8>) {
    match field_range(json, raw) {
        Some((from, to)) => {
            out.extend_from_slice(&json[..from]);
            out.extend_from_slice(&json[to..]);
        }
        // A key written with escapes cannot be cut out; such an object takes the long way.
        None => match serde_json::from_slice::<serde_json::Value>(json) {
            Ok(mut value) => {
                if let Some(meta) = value.get_mut("metadata").and_then(|m| m.as_object_mut()) {
                    meta.remove("managedFields");
                }
                out.extend_from_slice(value.to_string().as_bytes());
            }
            Err(_) => out.extend_from_slice(json),
        },
    }
}

/// Finds the range of the whole field, including one comma.
fn field_range(json: &[u8], raw: &str) -> Option<(usize, usize)> {
    const NAME: &[u8] = b"\"managedFields\"";
    let start = (raw.as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
    let end = start.checked_add(raw.len()).filter(|end| *end <= json.len())?;
    let before = json[..start].trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = before.strip_suffix(NAME)?.trim_ascii_end();
    let after = json[end..].trim_ascii_start();
    if let Some(rest) = after.strip_prefix(b",") {
        return Some((before.len(), json.len() - rest.len()));
    }
    let before = before.strip_suffix(b",").unwrap_or(before);
    Some((before.len(), json.len() - after.len()))
}

/// Finds a name to report for an object whose outline does not read.
fn guess_name(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    let part = |name: &str| match &value["metadata"][name] {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Null => None,
        other => Some(other.to_string()),
    };
    match (part("namespace"), part("name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (_, Some(name)) => name,
        _ => String::new(),
    }
}

/// Finds the key of an object of which only the beginning is there.
pub(super) fn key_of_part(head: &[u8]) -> Option<Key> {
    let mut found = Names::default();
    let mut json = serde_json::Deserializer::from_slice(head);
    // It fails where the part ends; what was found before counts.
    let _ = Level { found: &mut found, metadata: false }.deserialize(&mut json);
    Some(Key::new(Some(&found.namespace), &found.name)).filter(|_| !found.name.is_empty())
}

#[derive(Default)]
struct Names {
    namespace: String,
    name: String,
}

/// An object, or the metadata within it, that may end anywhere.
struct Level<'a> {
    found: &'a mut Names,
    metadata: bool,
}

// === impl Level ===

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<String>()? {
            match (self.metadata, field.as_str()) {
                (false, "metadata") => {
                    map.next_value_seed(Level { found: &mut *self.found, metadata: true })?;
                }
                (true, "name") => self.found.name = map.next_value()?,
                (true, "namespace") => self.found.namespace = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

// === impl Text ===

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

// === impl Pairs ===

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Text(name), Text(value))) = map.next_entry()? {
            pairs.push((name, value));
        }
        Ok(Pairs(pairs))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Pairs::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor)
    }
}

// === impl Many ===

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct ManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Many(items))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Many::default())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn cut(json: &str) -> Value {
        let outline = read(json.as_bytes()).unwrap();
        let mut out = Vec::new();
        let raw = outline.metadata.managed_fields.expect("has managedFields").get();
        without_managed_fields(json.as_bytes(), raw, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn managed_fields_are_cut_at_every_place() {
        for json in [
            r#"{"metadata":{"managedFields":[{"a":1}],"name":"a"},"x":1}"#,
            r#"{"metadata":{"name":"a","managedFields":[{"a":1}]},"x":1}"#,
            r#"{"metadata": { "name" : "a" , "managedFields" : [ ] } , "x":1}"#,
            r#"{"metadata":{"name":"a","managed\u0046ields":[]},"x":1}"#,
        ] {
            assert_eq!(cut(json), json!({"metadata": {"name": "a"}, "x": 1}), "{json}");
        }
        let alone = r#"{"metadata":{"managedFields":[]}}"#;
        assert_eq!(cut(alone), json!({"metadata": {}}));
    }

    #[test]
    fn a_part_of_an_object_may_tell_its_name() {
        let head = br#"{"metadata": {"namespace" : "n", "name":"a", "labels": {"x": "yyyyy"#;
        assert_eq!(key_of_part(head), Some(Key::namespaced("n", "a")));
        let head = br#"{"spec":{"name":"x"},"metadata":{"labels":{"name":"y"},"name":"a"}"#;
        assert_eq!(key_of_part(head), Some(Key::cluster("a")), "no name of anything else");
        assert_eq!(key_of_part(br#"{"metadata":{"name":"a"#), None);
        assert_eq!(key_of_part(b"\xff\xff"), None);
    }

    #[test]
    fn an_object_that_does_not_read_is_named() {
        let err = read(br#"{"metadata":{"namespace":"n","name":"a","labels":[]}}"#).err().unwrap();
        assert_eq!(err.name, "n/a");
        assert!(err.message.contains("a map of strings"), "{err}");
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
