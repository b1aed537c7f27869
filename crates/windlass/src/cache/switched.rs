//! Whether an object has annotations that switch something for it alone, such as a pause.
//!
//! Annotations are not kept beside an entry, because few objects have any that matter. So each object
//! is looked at once, while it is read, and only those that may have a switch are decoded later.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::Entry;
use super::outline::Text;

/// The names of the annotations, after their prefix.
pub(crate) const NAMES: [&str; 3] = ["paused", "reconcile", "log-level"];

/// Whether annotations contain one of [`NAMES`], with any prefix.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Switched(pub(super) bool);

// === impl Entry ===

impl Entry {
    /// Returns the values of the annotations `prefix/NAME`, in the order of [`NAMES`]; `None` if the
    /// object has none of them.
    pub(crate) fn switches(&self, prefix: &str) -> Option<[Option<String>; NAMES.len()]> {
        #[derive(Deserialize)]
        struct Head {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            annotations: BTreeMap<String, Value>,
        }
        if !self.switched {
            return None;
        }
        let mut all = self.read::<Head>().ok()?.metadata.annotations;
        let found = NAMES.map(|name| match all.remove(&format!("{prefix}/{name}"))? {
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        });
        found.iter().any(Option::is_some).then_some(found)
    }
}

// === impl Switched ===

impl Switched {
    /// Looks for one of [`NAMES`] among the names of annotations.
    pub(super) fn among<'a>(mut names: impl Iterator<Item = &'a str>) -> Self {
        Self(names.any(is_switch))
    }
}

/// Returns `true` if a name is one of [`NAMES`] with a prefix.
fn is_switch(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(_, name)| NAMES.contains(&name))
}

impl<'de> Deserialize<'de> for Switched {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchedVisitor)
    }
}

struct SwitchedVisitor;

/// Anything but a map has no switches; decoding the object reports that it is not a map.
impl<'de> Visitor<'de> for SwitchedVisitor {
    type Value = Switched;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("annotations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Switched, A::Error> {
        let mut found = false;
        while let Some((Text(name), IgnoredAny)) = map.next_entry()? {
            found |= is_switch(&name);
        }
        Ok(Switched(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Switched, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Switched::default())
    }

    fn visit_unit<E>(self) -> Result<Switched, E> {
        Ok(Switched::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Switched, E> {
        Ok(Switched::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Switched, E> {
        Ok(Switched::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Switched, E> {
        Ok(Switched::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Switched, E> {
        Ok(Switched::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Switched, E> {
        Ok(Switched::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cache::entry_reader::EntryReader;

    fn entry(annotations: &Value) -> Entry {
        let object = json!({"metadata": {"name": "a", "annotations": annotations}});
        let bytes = serde_json::to_vec(&object).expect("serializes");
        EntryReader::new(false, true).read(&bytes).expect("reads")
    }

    #[test]
    fn only_annotations_with_the_prefix_switch_something() {
        let found =
            entry(&json!({"x": "y", "example.com/paused": "true", "example.com/log-level": 3}));
        let text = |text: &str| Some(text.to_string());
        assert_eq!(found.switches("example.com"), Some([text("true"), None, text("3")]));
        assert_eq!(found.switches("windlass.dev"), None);
    }

    #[test]
    fn annotations_of_any_form_are_read() {
        for other in [
            json!(null),
            json!(true),
            json!(-1),
            json!(1.5),
            json!("paused"),
            json!([{"a/paused": 1}]),
        ] {
            assert!(!entry(&other).switched, "{other}");
        }
        assert!(!entry(&json!({"paused": "true", "a/b": "c"})).switched, "there is no prefix");
    }
}
