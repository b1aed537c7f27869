//! The state of the simulated cluster, and how it came about.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::Kind;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{Entry, EventKind, ResourceKey};

/// Names an object of the world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    /// The plural with its group.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// All objects of the cluster at one moment.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// fn few(world: &windlass_sim::World) -> bool {
///     world.count::<Pod>() <= 6
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct World {
    pub(crate) objects: BTreeMap<ObjectKey, Arc<Value>>,
    pub(crate) revision: u64,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub revision: u64,
    pub key: ObjectKey,
    pub before: Option<Arc<Value>>,
    /// `None` if the object was removed.
    pub after: Option<Arc<Value>>,
}

// === impl ObjectKey ===

impl ObjectKey {
    fn of(resource: &ResourceKey, entry: &Entry) -> Self {
        Self {
            resource: crate::site::resource(&resource.group, &resource.plural),
            namespace: entry.key.namespace.to_string(),
            name: entry.key.name.to_string(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, crate::site::object(&self.namespace, &self.name))
    }
}

// === impl World ===

impl World {
    /// The newest state of a server.
    pub(crate) fn of(server: &ApiServer) -> Self {
        Self::decode(&server.world())
    }

    /// A state of a server.
    pub(crate) fn decode(world: &windlass_apiserver::store::World) -> Self {
        let mut objects = BTreeMap::new();
        for (resource, table) in world.resources() {
            for entry in table.items.values() {
                objects.insert(ObjectKey::of(resource, entry), Arc::new(entry.object()));
            }
        }
        Self { objects, revision: world.revision }
    }

    /// The objects of one kind that a server has now, in the order of their names.
    pub(crate) fn of_kind_now<K: windlass::Object<DynamicType = ()>>(server: &ApiServer) -> Vec<K> {
        let kind = Kind::of::<K>();
        let world = server.world();
        let tables = world.resources();
        let mut tables =
            tables.filter(|(key, _)| *key.group == *kind.group() && *key.plural == *kind.plural());
        let Some((_, table)) = tables.next() else { return Vec::new() };
        table.items.values().filter_map(|entry| decode(&entry.object())).collect()
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        self.revision = change.revision;
        match &change.after {
            Some(object) => self.objects.insert(change.key.clone(), object.clone()),
            None => self.objects.remove(&change.key),
        };
    }

    /// Returns how many objects of a kind exist.
    pub fn count<K: windlass::Object<DynamicType = ()>>(&self) -> usize {
        self.of_kind::<K>().count()
    }

    /// Returns the objects of a kind, in the order of their names. What does not decode is left out.
    pub fn list<K: windlass::Object<DynamicType = ()>>(&self) -> Vec<K> {
        self.of_kind::<K>().filter_map(|(_, object)| decode(object)).collect()
    }

    /// Returns an object by name, in the namespace `default` or without a namespace.
    pub fn get<K: windlass::Object<DynamicType = ()>>(&self, name: &str) -> Option<K> {
        let kind = Kind::of::<K>();
        let namespace = if kind.namespaced() { "default" } else { "" };
        let mut found = self.of_kind::<K>();
        let (_, object) = found.find(|(key, _)| key.name == name && key.namespace == namespace)?;
        decode(object)
    }

    fn of_kind<K>(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)>
    where
        K: windlass::Object<DynamicType = ()>,
    {
        let kind = Kind::of::<K>();
        let resource = crate::site::resource(kind.group(), kind.plural());
        self.objects.iter().filter(move |(key, _)| key.resource == resource)
    }
}

fn decode<K: DeserializeOwned>(object: &Value) -> Option<K> {
    serde_json::from_value(object.clone()).ok()
}

/// All changes after a revision.
pub(crate) fn history(server: &ApiServer, since: u64) -> Vec<Change> {
    let changes = server.changes_since(since).unwrap_or_default();
    // What an object was before a change is what the change before it made of it.
    let mut newest: BTreeMap<ObjectKey, Arc<Value>> = BTreeMap::new();
    let mut history = Vec::with_capacity(changes.len());
    for (resource, event) in &changes {
        let key = ObjectKey::of(resource, &event.entry);
        let known = newest.remove(&key);
        let before = event.previous.as_ref();
        let before = before.map(|entry| known.unwrap_or_else(|| Arc::new(entry.object())));
        let after = (event.kind != EventKind::Deleted).then(|| Arc::new(event.entry.object()));
        if let Some(object) = &after {
            newest.insert(key.clone(), object.clone());
        }
        history.push(Change { revision: event.revision, key, before, after });
    }
    history
}
