//! Objects that stores begin with, encoded once for all of them.
//!
//! A store's own values are holes in the text, filled by writing the pieces one after the other. A
//! hole is a text of one control character, which no object has: 1 for the time the store begins,
//! 2 for the version, 3 for the uid.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::{Entry, Key, ResourceKey};

/// How a hole begins in the encoded object.
const HOLE: &str = "\"\\u000";

/// An object of a store's beginning.
pub struct Seed {
    /// The resource it is kept under.
    pub resource: ResourceKey,
    /// Its key.
    pub key: Key,
    labels: BTreeMap<String, String>,
    fields: Vec<(Arc<str>, String)>,
    /// Texts, and what comes behind them.
    pieces: Vec<(&'static str, Hole)>,
    rest: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hole {
    Time,
    Version,
    Uid,
}

// === impl Seed ===

impl Seed {
    /// Creates a seed with the labels and the values of field selectors of its body.
    pub fn new(
        resource: ResourceKey,
        key: Key,
        labels: BTreeMap<String, String>,
        fields: Vec<(Arc<str>, String)>,
        body: &'static str,
    ) -> Self {
        let (pieces, rest) = split(body);
        Self { resource, key, labels, fields, pieces, rest }
    }

    /// Returns the object as a store of its own has it.
    pub fn entry(&self, revision: u64, time: &str, uid: &str) -> Entry {
        let version = revision.to_string();
        let filled = self.pieces.iter().map(|(piece, hole)| {
            let value = match hole {
                Hole::Time => time,
                Hole::Version => &version,
                Hole::Uid => uid,
            };
            (piece, value)
        });
        let length = filled.clone().map(|(piece, value)| piece.len() + value.len() + 2);
        let mut body = Vec::with_capacity(length.sum::<usize>() + self.rest.len());
        for (piece, value) in filled {
            body.extend_from_slice(piece.as_bytes());
            body.push(b'"');
            body.extend_from_slice(value.as_bytes());
            body.push(b'"');
        }
        body.extend_from_slice(self.rest.as_bytes());
        Entry {
            key: self.key.clone(),
            revision,
            body: body.into(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            protobuf: OnceLock::new(),
            known: OnceLock::new(),
        }
    }
}

/// The pieces of an encoded object before each of its holes, and what is behind the last.
fn split(body: &'static str) -> (Vec<(&'static str, Hole)>, &'static str) {
    let (mut pieces, mut from) = (Vec::new(), 0);
    for (at, _) in body.match_indices(HOLE) {
        let hole = match body.get(at + HOLE.len()..at + HOLE.len() + 2) {
            Some("1\"") => Hole::Time,
            Some("2\"") => Hole::Version,
            Some("3\"") => Hole::Uid,
            _ => continue,
        };
        pieces.push((&body[from..at], hole));
        from = at + HOLE.len() + 2;
    }
    (pieces, &body[from..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seed(body: &'static str) -> Seed {
        let labels = [("l".to_owned(), "v".to_owned())].into();
        let resource = ResourceKey::new("", "namespaces");
        Seed::new(resource, Key::new("", "a"), labels, Vec::new(), body)
    }

    #[test]
    fn a_seed_becomes_the_object_with_its_holes_filled() {
        let seed = seed(
            r#"{"metadata":{"creationTimestamp":"\u0001","name":"a","resourceVersion":"\u0002","uid":"\u0003"},"status":{"conditions":[{"lastTransitionTime":"\u0001"}]}}"#,
        );
        let entry = seed.entry(17, "2026-01-01T00:00:00Z", "some-uid");
        assert_eq!(
            entry.object(),
            json!({
                "metadata": {
                    "name": "a", "uid": "some-uid", "resourceVersion": "17",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                },
                "status": {"conditions": [{"lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            })
        );
        assert_eq!((entry.revision, entry.labels["l"].as_str()), (17, "v"));
        assert_eq!(entry.body, crate::object::encode(&entry.object()));
    }

    #[test]
    fn two_stores_share_no_values_of_one_seed() {
        let seed = seed(r#"{"metadata":{"name":"a","uid":"\u0003"}}"#);
        let (one, other) = (seed.entry(1, "t", "u"), seed.entry(2, "s", "v"));
        assert_eq!(one.object()["metadata"]["uid"], "u");
        assert_eq!(other.object()["metadata"]["uid"], "v");
    }

    #[test]
    fn text_that_only_looks_like_a_hole_stays() {
        let seed = seed(r#"{"data":{"a":"\u0007"}}"#);
        assert_eq!(seed.entry(1, "t", "u").body, r#"{"data":{"a":"\u0007"}}"#);
    }
}
