//! A small store for the tests of this module.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::lookup::Lookup;

type Key = (String, String, String, String);

/// Objects by group, plural, namespace and name; every write is a new revision.
#[derive(Default)]
pub struct Fake {
    objects: Mutex<BTreeMap<Key, Arc<Value>>>,
    revisions: Mutex<BTreeMap<(String, String), u64>>,
}

impl Fake {
    /// Creates a store with the first objects of a server.
    pub fn bootstrapped() -> Self {
        let fake = Self::default();
        for object in super::bootstrap::parts::objects() {
            fake.put(object);
        }
        fake
    }

    /// Stores an object under its own names.
    pub fn put(&self, object: Value) {
        let (group, _) = crate::resource::split_api_version(super::text(&object, &["apiVersion"]));
        let kind = super::text(&object, &["kind"]).to_lowercase();
        let plural = match kind.as_str() {
            "endpoints" => kind.clone(),
            k if k.ends_with('s') => format!("{k}es"),
            k => format!("{k}s"),
        };
        let namespace = super::text(&object, &["metadata", "namespace"]).to_owned();
        let name = super::text(&object, &["metadata", "name"]).to_owned();
        *self.revisions.lock().entry((group.to_owned(), plural.clone())).or_default() += 1;
        self.objects.lock().insert((group.to_owned(), plural, namespace, name), Arc::new(object));
    }

    /// Removes an object.
    pub fn remove(&self, group: &str, plural: &str, namespace: &str, name: &str) {
        *self.revisions.lock().entry((group.into(), plural.into())).or_default() += 1;
        self.objects.lock().remove(&(group.into(), plural.into(), namespace.into(), name.into()));
    }

    /// Stores a role (cluster role when the namespace is empty).
    pub fn role(&self, namespace: &str, name: &str, rules: Value) {
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        self.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "rules": rules,
        }));
    }

    /// Binds a role; `role` is `Role/x` or `ClusterRole/x`, `subject` is `User/x` and the like.
    pub fn bind(&self, namespace: &str, name: &str, role: &str, subject: &str) {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let (role_kind, role_name) = role.split_once('/').unwrap();
        let (subject_kind, subject_name) = subject.split_once('/').unwrap();
        self.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": super::RBAC_GROUP, "kind": role_kind, "name": role_name},
            "subjects": [{"kind": subject_kind, "name": subject_name}],
        }));
    }

    /// Stores a core object with a uid.
    pub fn core(&self, kind: &str, namespace: &str, name: &str, uid: &str) {
        self.put(json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
        }));
    }
}

impl Lookup for Fake {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (group.to_owned(), plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.lock().get(&key).cloned()
    }

    fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let objects = self.objects.lock();
        let wanted = objects.iter().filter(|((g, p, ns, _), _)| {
            g == group && p == plural && namespace.is_none_or(|n| n == ns)
        });
        wanted.map(|(_, object)| object.clone()).collect()
    }

    fn revision(&self, group: &str, plural: &str) -> u64 {
        let key = (group.to_owned(), plural.to_owned());
        self.revisions.lock().get(&key).copied().unwrap_or_default()
    }
}
