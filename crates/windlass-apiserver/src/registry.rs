//! Which resource serves a path, and where its objects are kept.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use imbl::OrdMap;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::custom::Version;
use crate::discovery::{VersionOrder, version_order};
use crate::resource::{Resource, builtins};
use crate::store::ResourceKey;

type Path = (Arc<str>, Arc<str>, Arc<str>);
type Index = HashMap<Path, Arc<Resource>>;

/// The resources of one server: the built-in ones and those of its definitions.
#[derive(Default)]
pub struct Registry {
    custom: ArcSwap<CustomSet>,
}

/// The custom resources at one moment; a changed set shares what did not change.
#[derive(Default, Clone)]
pub struct CustomSet {
    resources: OrdMap<Place, Arc<Resource>>,
    index: imbl::HashMap<Path, Arc<Resource>>,
    families: imbl::HashMap<ResourceKey, Arc<Family>>,
}

/// The order of a custom resource among the others: by group, version priority and name.
type Place = (Arc<str>, VersionOrder, Arc<str>);

/// All versions of one custom resource, from one state of its definition.
pub struct Family {
    /// The definition, with apiVersion and kind.
    pub definition: Arc<Value>,
    /// All versions, served or not.
    pub versions: Vec<Arc<Version>>,
    /// The versions that are served.
    pub resources: Vec<Arc<Resource>>,
    /// Ends the watches of the resource when its definition changes or is deleted.
    pub token: CancellationToken,
}

fn builtin_index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| builtins().iter().map(|r| (path_of(r), r.clone())).collect())
}

fn path_of(resource: &Resource) -> Path {
    (resource.gvk.group.clone(), resource.gvk.version.clone(), resource.plural.clone())
}

fn place_of(resource: &Resource) -> Place {
    let version = version_order(&resource.gvk.version);
    (resource.gvk.group.clone(), version, resource.plural.clone())
}

// === impl Registry ===

impl Registry {
    /// Returns the resource under a group, version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let key = (group.into(), version.into(), plural.into());
        builtin_index().get(&key).cloned().or_else(|| self.custom.load().index.get(&key).cloned())
    }

    /// Returns the resource of a kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let custom = self.custom.load();
        let custom = || custom.resources.values().find(|r| is_kind(r, group, version, kind));
        find_builtin(group, version, kind).or_else(|| custom().cloned())
    }

    /// Returns a version of the resource whose objects are kept under a key.
    pub fn find_stored(&self, key: &ResourceKey) -> Option<Arc<Resource>> {
        let same = |r: &&Arc<Resource>| r.gvk.group == key.group && r.plural == key.plural;
        let builtin = builtins().iter().find(same).cloned();
        builtin.or_else(|| self.family(key)?.resources.first().cloned())
    }

    /// Returns `true` if a group is a built-in one.
    pub fn is_builtin_group(&self, group: &str) -> bool {
        builtins().iter().any(|r| &*r.gvk.group == group)
    }

    /// Returns all resources: built-in ones first, then those of definitions by group, version and
    /// name.
    pub fn all(&self) -> Vec<Arc<Resource>> {
        builtins().iter().chain(self.custom.load().resources.values()).cloned().collect()
    }

    /// Returns the versions of the custom resource whose objects are kept under a key.
    pub fn family(&self, key: &ResourceKey) -> Option<Arc<Family>> {
        self.custom.load().families.get(key).cloned()
    }

    /// Changes the set of custom resources; one at a time.
    pub fn change_custom(&self, change: impl FnOnce(&mut CustomSet)) {
        let mut set = CustomSet::clone(&self.custom.load());
        change(&mut set);
        self.custom.store(Arc::new(set));
    }
}

// === impl CustomSet ===

impl CustomSet {
    /// Serves a family, instead of the one that was under the key.
    pub fn put(&mut self, key: ResourceKey, family: Family) {
        self.remove(&key);
        for resource in &family.resources {
            self.resources.insert(place_of(resource), resource.clone());
            self.index.insert(path_of(resource), resource.clone());
        }
        self.families.insert(key, Arc::new(family));
    }

    /// Serves the family under a key no more.
    pub fn remove(&mut self, key: &ResourceKey) {
        let Some(family) = self.families.remove(key) else { return };
        for resource in &family.resources {
            self.resources.remove(&place_of(resource));
            self.index.remove(&path_of(resource));
        }
    }
}

// === impl Family ===

impl Family {
    /// Returns the version objects are stored in.
    pub fn storage(&self) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Returns the version of an `apiVersion`.
    pub fn version(&self, api_version: &str) -> Option<&Arc<Version>> {
        let (group, name) = crate::resource::split_api_version(api_version);
        self.versions.iter().find(|v| &*v.gvk.group == group && &*v.gvk.version == name)
    }
}

/// Returns a built-in resource by group, version and kind.
pub fn find_builtin(group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
    builtins().iter().find(|resource| is_kind(resource, group, version, kind)).cloned()
}

fn is_kind(resource: &Resource, group: &str, version: &str, kind: &str) -> bool {
    let gvk = &resource.gvk;
    &*gvk.kind == kind && &*gvk.group == group && &*gvk.version == version
}

/// Returns where the objects of a resource are kept: both kinds of events share one table.
pub fn storage_of(resource: &Resource) -> ResourceKey {
    match (&*resource.gvk.group, &*resource.plural) {
        ("events.k8s.io", "events") => ResourceKey::new("", "events"),
        _ => ResourceKey { group: resource.gvk.group.clone(), plural: resource.plural.clone() },
    }
}
