//! The inventory of a set: which children may exist, and in which order they are deleted.
//!
//! It is stored in an annotation of the owner, as a list of waves:
//!
//! ```json
//! [[{"apiVersion": "v1", "kind": "Secret", "plural": "secrets", "namespace": "a", "names": ["x"]}]]
//! ```
//!
//! A child is listed by group, kind and name. The version and the plural say how it is addressed, so
//! that it can be deleted by a build that no longer knows its kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cache::Key;
use crate::error::{Error, Result};
use crate::kind::Kind;

/// Most bytes of an inventory. All annotations of an object may have 256 KiB together.
const BYTES_MAX: usize = 192 << 10;

/// Most waves of an inventory that is read.
const WAVES_MAX: usize = 1000;

/// The children that may exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    members: BTreeMap<Identity, Place>,
}

/// What makes a child the same one: group, kind, namespace and name.
type Identity = (String, String, Key);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    wave: usize,
    kind: Kind,
}

/// One child that may exist.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) kind: Kind,
    pub(super) key: Key,
}

/// Children of one kind and namespace in one wave, as they are stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    api_version: String,
    kind: String,
    plural: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    names: Vec<String>,
}

// === impl Inventory ===

impl Inventory {
    /// Reads an inventory.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let waves: Vec<Vec<Stored>> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if waves.len() > WAVES_MAX {
            return Err(format!("it has more than {WAVES_MAX} waves"));
        }
        let mut all = Self::default();
        for (wave, stored) in waves.into_iter().enumerate() {
            for group in stored {
                let kind = group.kind();
                for name in &group.names {
                    all.add(wave, &kind, &Key::new(group.namespace.as_deref(), name));
                }
            }
        }
        Ok(all)
    }

    /// Returns the text to store.
    pub(super) fn text(&self) -> Result<String> {
        let mut waves: Vec<Vec<Stored>> = Vec::new();
        for ((_, _, key), place) in &self.members {
            waves.resize_with(waves.len().max(place.wave + 1), Vec::new);
            let wave = &mut waves[place.wave];
            match wave.last_mut().filter(|last| last.holds(&place.kind, key)) {
                Some(last) => last.names.push(key.name().into()),
                None => wave.push(Stored::new(&place.kind, key)),
            }
        }
        let text = serde_json::to_string(&waves)
            .map_err(|source| Error::Decode { what: "inventory of children".into(), source })?;
        if text.len() > BYTES_MAX {
            return Err(Error::Invalid(format!(
                "the list of {} children needs {} bytes, and an annotation has room for {BYTES_MAX}: \
                 divide them among several owners",
                self.members.len(),
                text.len()
            )));
        }
        Ok(text)
    }

    /// Adds a child, or moves it to another wave. Returns `false` if it was there already.
    pub(super) fn add(&mut self, wave: usize, kind: &Kind, key: &Key) -> bool {
        let place = Place { wave, kind: kind.clone() };
        self.members.insert(identity(kind, key), place).is_none()
    }

    /// Returns the children of both; those of `other` keep the waves they have there.
    pub(super) fn union(mut self, other: &Self) -> Self {
        self.members.extend(other.members.iter().map(|(id, place)| (id.clone(), place.clone())));
        self
    }

    /// Returns `true` if a child is listed.
    pub(super) fn contains(&self, member: &Member) -> bool {
        self.members.contains_key(&identity(&member.kind, &member.key))
    }

    /// Forgets a child.
    pub(super) fn remove(&mut self, member: &Member) {
        self.members.remove(&identity(&member.kind, &member.key));
    }

    /// Returns the children that `wanted` does not have, those of the last wave only.
    pub(super) fn last_unwanted(&self, wanted: &Self) -> Vec<Member> {
        let unwanted = || self.members.iter().filter(|(id, _)| !wanted.members.contains_key(*id));
        let Some(last) = unwanted().map(|(_, place)| place.wave).max() else { return Vec::new() };
        unwanted()
            .filter(|(_, place)| place.wave == last)
            .map(|((_, _, key), place)| Member { kind: place.kind.clone(), key: key.clone() })
            .collect()
    }
}

fn identity(kind: &Kind, key: &Key) -> Identity {
    (kind.group().into(), kind.kind().into(), key.clone())
}

// === impl Stored ===

impl Stored {
    fn new(kind: &Kind, key: &Key) -> Self {
        Self {
            api_version: kind.api_version(),
            kind: kind.kind().into(),
            plural: kind.plural().into(),
            namespace: key.namespace().map(str::to_string),
            names: vec![key.name().into()],
        }
    }

    fn holds(&self, kind: &Kind, key: &Key) -> bool {
        self.kind == kind.kind()
            && self.plural == kind.plural()
            && self.namespace.as_deref() == key.namespace()
            && self.api_version == kind.api_version()
    }

    fn kind(&self) -> Kind {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let kind = Kind::new(group, version, &self.kind, &self.plural);
        if self.namespace.is_some() { kind } else { kind.cluster_scoped() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use k8s_openapi::api::rbac::v1::ClusterRole;

    use super::*;

    fn inventory(members: &[(usize, &str)]) -> Inventory {
        let mut all = Inventory::default();
        for (wave, name) in members {
            all.add(*wave, &Kind::of::<Secret>(), &Key::namespaced("a", name));
        }
        all
    }

    fn names(members: &[Member]) -> Vec<&str> {
        members.iter().map(|member| member.key.name()).collect()
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let mut all = inventory(&[(0, "x"), (0, "y"), (2, "z")]);
        all.add(1, &Kind::of::<ClusterRole>(), &Key::cluster("role"));
        all.add(0, &Kind::of::<ConfigMap>(), &Key::namespaced("b", "x"));
        let text = all.text().expect("fits");
        let read = Inventory::parse(&text).expect("reads");
        assert_eq!(read, all);
        assert_eq!(read.text().expect("fits"), text, "the same set has the same text");
        assert!(text.contains(r#""names":["x","y"]"#), "{text}");
        let role = read.last_unwanted(&inventory(&[(2, "z")]));
        assert!(!role[0].kind.namespaced() && role[0].kind.plural() == "clusterroles");
        assert_eq!(Inventory::parse("[]").expect("reads"), Inventory::default());
    }

    #[test]
    fn the_last_wave_is_deleted_first() {
        let recorded = inventory(&[(0, "a"), (1, "b"), (1, "c"), (2, "d")]);
        assert_eq!(names(&recorded.last_unwanted(&inventory(&[(0, "d")]))), ["b", "c"]);
        assert_eq!(names(&recorded.last_unwanted(&Inventory::default())), ["d"]);
        assert!(recorded.last_unwanted(&recorded).is_empty());
    }

    #[test]
    fn a_child_that_moves_to_another_wave_is_listed_once() {
        let moved = inventory(&[(0, "a"), (0, "b")]).union(&inventory(&[(1, "a")]));
        assert_eq!(names(&moved.last_unwanted(&Inventory::default())), ["a"]);
        assert_eq!(moved.members.len(), 2);
    }

    #[test]
    fn a_text_that_is_no_inventory_is_refused_with_the_reason() {
        for text in ["", "no", "{}", "[[{}]]", "[1]", r#"[[{"kind": "A"}]]"#] {
            assert!(Inventory::parse(text).is_err(), "{text}");
        }
        let waves = format!("[{}]", vec!["[]"; WAVES_MAX + 1].join(","));
        assert_eq!(Inventory::parse(&waves).unwrap_err(), "it has more than 1000 waves");
    }

    #[test]
    fn a_set_that_does_not_fit_is_refused_before_anything_is_created() {
        let mut all = Inventory::default();
        for n in 0..5_000 {
            let name = format!("a-name-of-some-forty-characters-{n:08}");
            all.add(0, &Kind::of::<Secret>(), &Key::namespaced("a", &name));
        }
        let error = all.text().expect_err("too large").to_string();
        assert!(error.starts_with("the list of 5000 children needs "), "{error}");
    }
}
