//! Resources: what is served under which group, version and name.
//!
//! Built-in resources come from a table of facts (`data/builtin-resources.tsv`) and are shared by
//! all servers of a process; custom ones come from their definitions, per server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::shape::ShapeRef;
use crate::status::GroupResource;

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group; empty for core.
    pub group: Arc<str>,
    /// Version, `v1`.
    pub version: Arc<str>,
    /// Kind, `Deployment`.
    pub kind: Arc<str>,
}

/// One resource in one version, as it is served.
#[derive(Clone)]
pub struct Resource {
    /// Group, version and kind of its objects.
    pub gvk: Gvk,
    /// The plural name in paths.
    pub plural: Arc<str>,
    /// The singular name.
    pub singular: Arc<str>,
    /// The kind of its lists.
    pub list_kind: Arc<str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The verbs it has.
    pub verbs: Vec<String>,
    /// Short names for people.
    pub short_names: Vec<String>,
    /// Categories (`all`).
    pub categories: Vec<String>,
    /// Its subresources, by name.
    pub subresources: BTreeMap<String, Subresource>,
    /// The shape of its objects.
    pub shape: ShapeRef,
    /// The definition behind a custom resource; `None` for built-in ones.
    pub custom: Option<Arc<crate::custom::Version>>,
}

/// A subresource and what it answers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The verbs it has.
    pub verbs: Vec<String>,
    /// Group, version and kind it answers with; an empty version means the parent's.
    pub gvk: Gvk,
}

// === impl Gvk ===

impl Gvk {
    /// Creates a kind from its parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns `apps/v1`, or `v1` for core.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.to_string(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// Splits `apps/v1` into group and version.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

// === impl Resource ===

impl Resource {
    /// Returns group and resource for error texts.
    pub fn gr(&self) -> GroupResource<'_> {
        GroupResource { group: &self.gvk.group, resource: &self.plural }
    }

    /// Returns `true` if it has this verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Returns `true` if its objects are requests that are answered and never stored: reviews and
    /// bindings.
    pub fn is_only_created(&self) -> bool {
        !self.is_custom() && matches!(self.verbs.as_slice(), [one] if one == "create")
    }

    /// Returns `true` if it is a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }
}

// === impl Subresource ===

impl Subresource {
    /// Returns `true` if what is posted to it is answered and never stored.
    pub fn is_only_created(&self) -> bool {
        matches!(self.verbs.as_slice(), [one] if one == "create")
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({}/{})", self.gvk.api_version(), self.plural)
    }
}

/// Returns all built-in resources, in the order of discovery.
pub fn builtins() -> &'static [Arc<Resource>] {
    static ALL: OnceLock<Vec<Arc<Resource>>> = OnceLock::new();
    ALL.get_or_init(|| {
        include_str!("../data/builtin-resources.tsv")
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .map(|line| Arc::new(parse(line)))
            .collect()
    })
}

fn parse(line: &str) -> Resource {
    let mut cells = line.split('\t');
    let mut next = || cells.next().unwrap_or_default();
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect()
    };
    let (group, version, plural, kind) = (next(), next(), next(), next());
    let (scope, singular, verbs) = (next(), next(), list(next()));
    let (short_names, categories) = (list(next()), list(next()));
    let gvk = Gvk::new(group, version, kind);
    let subresources = next().split(',').filter_map(|text| {
        let mut parts = text.splitn(3, ':');
        let (name, verbs, answer) = (parts.next()?, parts.next()?, parts.next()?);
        let mut answer = answer.rsplitn(3, '/');
        let (kind, version, group) = (answer.next()?, answer.next()?, answer.next()?);
        let verbs = verbs.split('/').map(str::to_owned).collect();
        Some((name.to_owned(), Subresource { verbs, gvk: Gvk::new(group, version, kind) }))
    });
    Resource {
        plural: plural.into(),
        singular: singular.into(),
        list_kind: format!("{kind}List").into(),
        namespaced: scope == "Namespaced",
        verbs,
        short_names,
        categories,
        subresources: subresources.collect(),
        shape: crate::schema::shape_of(&gvk),
        custom: None,
        gvk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_gives_pods_with_their_subresources() {
        let pods = builtins().iter().find(|r| &*r.plural == "pods").unwrap();
        assert!(pods.namespaced && pods.has_verb("deletecollection"));
        let eviction = &pods.subresources["eviction"];
        assert_eq!(eviction.gvk, Gvk::new("policy", "v1", "Eviction"));
        assert_eq!(pods.subresources["log"].gvk, Gvk::new("", "", "Pod"));
    }
}
