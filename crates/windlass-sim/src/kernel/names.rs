//! Canonical names: a generated name becomes `~prefix-#n`, the n-th of its prefix in this run.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Kernel;
use crate::site::Site;
use windlass_apiserver::request::RequestInfo;
use windlass_apiserver::store::{Key, ResourceKey};

/// The generated names that were seen.
#[derive(Clone, Default)]
pub(crate) struct Names {
    /// The canonical name by resource, namespace and real name.
    known: BTreeMap<(String, String, String), String>,
    /// How many names there are of a resource, namespace and prefix.
    counts: BTreeMap<(String, String, String), u32>,
}

/// The part of an object that the simulation reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Head {
    pub kind: String,
    pub metadata: HeadMeta,
    pub items: Vec<Head>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct HeadMeta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generate_name: String,
    pub resource_version: String,
}

// === impl Names ===

impl Names {
    /// The canonical name of an object, which is remembered if its name is generated.
    fn canonical(&mut self, resource: &str, meta: &HeadMeta) -> String {
        let key = (resource.to_owned(), meta.namespace.clone(), meta.name.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let prefix = &meta.generate_name;
        if prefix.is_empty() || !meta.name.starts_with(prefix.as_str()) {
            return meta.name.clone();
        }
        let count = (key.0.clone(), key.1.clone(), prefix.clone());
        let count = self.counts.entry(count).or_default();
        *count += 1;
        let canonical = format!("~{prefix}#{count}");
        self.known.insert(key, canonical.clone());
        canonical
    }
}

// === impl HeadMeta ===

impl HeadMeta {
    pub(crate) fn revision(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }
}

// === impl Kernel ===

impl Kernel {
    /// The canonical name of an object whose metadata is at hand.
    pub(crate) fn canonical(&self, resource: &str, meta: &HeadMeta) -> String {
        self.state.lock().names.canonical(resource, meta)
    }

    /// Names a request; its occurrence is not counted yet.
    pub(crate) fn site(&self, replica: &str, info: &RequestInfo, body: &[u8]) -> Site {
        let resource = crate::site::resource(&info.group, &info.resource);
        let name = match (info.name.as_str(), info.verb.as_str()) {
            ("", "create") => {
                let sent: Head = serde_json::from_slice(body).unwrap_or_default();
                match sent.metadata.name.is_empty() {
                    true => format!("~{}", sent.metadata.generate_name),
                    false => sent.metadata.name,
                }
            }
            ("", _) => String::new(),
            (name, _) => self.canonical_of(&resource, info, name),
        };
        let object = match name.is_empty() && info.namespace.is_empty() {
            true if info.resource.is_empty() => crate::site::object("", &info.path),
            true => String::new(),
            false => crate::site::object(&info.namespace, &name),
        };
        Site {
            replica: replica.to_owned(),
            verb: info.verb.clone(),
            resource: if resource.is_empty() { "paths".into() } else { resource },
            subresource: info.subresource.clone(),
            object,
            occurrence: 0,
        }
    }

    /// The canonical name of an object of which only the real name is at hand.
    fn canonical_of(&self, resource: &str, info: &RequestInfo, name: &str) -> String {
        let key = (resource.to_owned(), info.namespace.clone(), name.to_owned());
        if let Some(known) = self.state.lock().names.known.get(&key) {
            return known.clone();
        }
        let storage = ResourceKey {
            group: info.group.as_str().into(),
            plural: info.resource.as_str().into(),
        };
        let found = self.server.world().get(&storage, &Key::new(&info.namespace, name));
        let Some(entry) = found else { return name.to_owned() };
        let head: Head = serde_json::from_slice(&entry.body).unwrap_or_default();
        self.canonical(resource, &head.metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_counted_by_prefix_and_kept() {
        let mut names = Names::default();
        let meta = |name: &str, prefix: &str| HeadMeta {
            name: name.into(),
            namespace: "default".into(),
            generate_name: prefix.into(),
            ..HeadMeta::default()
        };
        assert_eq!(names.canonical("pods", &meta("web-x7", "web-")), "~web-#1");
        assert_eq!(names.canonical("pods", &meta("web-a1", "web-")), "~web-#2");
        assert_eq!(names.canonical("pods", &meta("web-x7", "web-")), "~web-#1");
        assert_eq!(names.canonical("pods", &meta("db-0", "")), "db-0");
        assert_eq!(names.canonical("services", &meta("web-x7", "web-")), "~web-#1");
    }
}
