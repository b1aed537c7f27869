//! The store: every object of every resource, at every revision that is still remembered.
//!
//! One [`World`] is the whole state at one revision: ordered trees of shared entries. A write makes
//! a new world that shares all it did not touch; a reader takes the newest one and keeps it as long
//! as it likes. So exact lists, paging, dry runs and forks are the same thing: holding a world.
//! What changed is appended to an [`EventLog`] per resource, which watchers read with a cursor.
//!
//! **Invariant:** revisions grow by one per write, over all resources.
//! **Invariant:** a revision and its event become visible together: a reader that sees one finds
//! the other.
//! **Invariant:** a reader never blocks a writer, and a watcher never blocks anybody.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use hashbrown::HashMap;
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use journal::Record;
use news::News;

mod event_log;
mod journal;
mod news;
mod seed;

pub use event_log::{Event, EventKind, EventLog, Gone, LogLimits};
pub use journal::{Journal, JournalError};
pub use news::NewsSubscription;
pub use seed::Seed;

/// The most bytes of a stored object, as etcd's limit of a request.
pub const OBJECT_BYTES_MAX: usize = 3 << 19;

/// Names a resource: its group and plural.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// API group; empty for core.
    pub group: Arc<str>,
    /// Plural name.
    pub plural: Arc<str>,
}

/// Names an object of a resource. Orders as the API lists: by the text `<namespace>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// One stored object.
#[derive(Debug)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// The revision of its last write.
    pub revision: u64,
    /// The object as JSON without `apiVersion` and `kind`.
    pub body: Bytes,
    /// Its labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// Values of its own field selectors (without metadata.name and metadata.namespace).
    pub fields: Vec<(Arc<str>, String)>,
    /// The object in protobuf, after the first request for it.
    protobuf: OnceLock<Bytes>,
    /// The object as the server itself reads it, once it did.
    known: OnceLock<Arc<Value>>,
}

/// The state at one revision.
#[derive(Clone)]
pub struct World {
    /// The revision.
    pub revision: u64,
    tables: OrdMap<ResourceKey, Table>,
}

/// All objects of one resource at one revision.
#[derive(Clone, Default)]
pub struct Table {
    /// The objects in order.
    pub items: OrdMap<Key, Arc<Entry>>,
    /// The revision of the last change to this resource.
    pub revision: u64,
}

/// The store of one server.
pub struct Store {
    world: ArcSwap<World>,
    writer: Mutex<Writer>,
    logs: RwLock<HashMap<ResourceKey, Arc<EventLog>>>,
    newest: Arc<News>,
    limits: LogLimits,
}

struct Writer {
    journal: Option<Journal>,
    /// Watches from at or below this revision are refused with 410.
    compacted: u64,
}

/// What a write does to one object.
pub enum Change {
    /// Stores the object; its resourceVersion is set by the store.
    Put {
        /// The object, without apiVersion and kind.
        object: Value,
        /// Values of its field selectors.
        fields: Vec<(Arc<str>, String)>,
    },
    /// Removes the object.
    Delete,
}

/// Why a write was not done.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is not in the state the writer saw.
    #[error("the object changed in between")]
    Conflict,
    /// The object is larger than [`OBJECT_BYTES_MAX`].
    #[error("an object of {} bytes is too large to be stored", .0.body.len())]
    TooLarge(Arc<Entry>),
    /// The journal could not take it; nothing was changed.
    #[error("the write could not be made durable")]
    Journal(#[from] JournalError),
}

// === impl Store ===

impl Default for Store {
    fn default() -> Self {
        Self::new(LogLimits::default())
    }
}

impl Store {
    /// Creates an empty store in memory.
    pub fn new(limits: LogLimits) -> Self {
        let world = World { revision: 0, tables: OrdMap::new() };
        Self::from_world(world, limits, None)
    }

    /// Creates a store on a journal: its contents are loaded, and every write is written to it
    /// first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn open(limits: LogLimits, journal: Journal) -> Result<Self, JournalError> {
        let mut world = World { revision: 0, tables: OrdMap::new() };
        let mut journal = journal;
        journal.replay(|record| world.apply_record(record))?;
        journal.weigh(&world);
        journal.compact_if_due(&world);
        let revision = world.revision;
        let store = Self::from_world(world, limits, Some(journal));
        store.writer.lock().compacted = revision;
        Ok(store)
    }

    fn from_world(world: World, limits: LogLimits, journal: Option<Journal>) -> Self {
        let compacted = world.revision;
        Self {
            world: ArcSwap::from_pointee(world),
            writer: Mutex::new(Writer { journal, compacted }),
            logs: RwLock::default(),
            newest: Arc::new(News::starting_at(compacted)),
            limits,
        }
    }

    /// Returns an independent copy of the newest state, in memory; it shares what neither side
    /// changes.
    pub fn fork(&self) -> Self {
        Self::starting_from(&self.world.load(), self.limits)
    }

    /// Creates a store in memory that starts with a state; its history starts there, too.
    pub fn starting_from(world: &World, limits: LogLimits) -> Self {
        Self::from_world(World::clone(world), limits, None)
    }

    /// Returns how much history is kept.
    pub fn limits(&self) -> LogLimits {
        self.limits
    }

    /// Returns the newest state.
    pub fn world(&self) -> Arc<World> {
        self.world.load_full()
    }

    /// Returns the newest revision.
    pub fn revision(&self) -> u64 {
        self.world.load().revision
    }

    /// Waits until a revision is reached.
    ///
    /// # Cancel safety
    /// Nothing is lost if it is dropped.
    pub async fn reached(&self, revision: u64) {
        let mut newest = self.newest.subscribe();
        while newest.newest() < revision {
            newest.changed().await;
        }
    }

    /// Watches from at or below this revision are refused.
    pub fn compacted(&self) -> u64 {
        self.writer.lock().compacted
    }

    /// Forgets the history: watches and exact lists older than the newest revision get 410.
    pub fn compact(&self) {
        let mut writer = self.writer.lock();
        writer.compacted = self.world.load().revision;
        for log in self.logs.read().values() {
            log.compact(writer.compacted);
        }
    }

    /// Forgets the history of one resource, as [`compact`](Self::compact) does of all.
    pub fn compact_resource(&self, resource: &ResourceKey) {
        let log = self.log(resource);
        let _writer = self.writer.lock();
        log.compact(self.world.load().revision);
    }

    /// Returns the state at a revision.
    ///
    /// # Errors
    /// If that revision is no longer remembered.
    pub fn world_at(&self, revision: u64) -> Result<World, Gone> {
        let newest = self.world();
        let mut past = World { revision: revision.min(newest.revision), tables: OrdMap::new() };
        for (resource, _) in newest.resources() {
            past.tables.insert(resource.clone(), self.at(resource, revision)?);
        }
        Ok(past)
    }

    /// Returns what changed after a revision, over all resources, in order.
    ///
    /// # Errors
    /// If some of it is no longer remembered.
    pub fn changes_since(&self, revision: u64) -> Result<Vec<(ResourceKey, Arc<Event>)>, Gone> {
        let mut changes = Vec::new();
        for (resource, table) in self.world().resources() {
            if table.revision > revision {
                let events = self.log(resource).since(revision)?;
                changes.extend(events.into_iter().map(|event| (resource.clone(), event)));
            }
        }
        changes.sort_by_key(|(_, event)| event.revision);
        Ok(changes)
    }

    /// Returns the event log of a resource.
    pub fn log(&self, resource: &ResourceKey) -> Arc<EventLog> {
        if let Some(log) = self.logs.read().get(resource) {
            return log.clone();
        }
        // What happened before the log was made is not in it.
        let floor = self.writer.lock().compacted.max(self.world.load().table(resource).revision);
        let mut logs = self.logs.write();
        logs.entry(resource.clone())
            .or_insert_with(|| Arc::new(EventLog::new(self.limits, floor)))
            .clone()
    }

    /// Drops the history of a resource that has no objects: its definition is gone. Watches and
    /// exact lists from before its last change get 410.
    pub fn forget(&self, resource: &ResourceKey) {
        let _writer = self.writer.lock();
        if self.world.load().table(resource).items.is_empty() {
            self.logs.write().remove(resource);
        }
    }

    /// Returns the objects of a resource as they were at a revision.
    ///
    /// # Errors
    /// If that revision is no longer remembered.
    pub fn at(&self, resource: &ResourceKey, revision: u64) -> Result<Table, Gone> {
        let log = self.log(resource);
        let world = self.world();
        let mut table = world.table(resource);
        if revision >= world.revision {
            return Ok(table);
        }
        for event in log.since(revision)?.iter().rev() {
            if event.revision > world.revision {
                continue;
            }
            match &event.previous {
                Some(entry) => table.items.insert(entry.key.clone(), entry.clone()),
                None => table.items.remove(&event.entry.key),
            };
        }
        table.revision = table.revision.min(revision);
        Ok(table)
    }

    /// Writes one object if its last write is still `expected` (`None`: it does not exist).
    ///
    /// Returns the stored entry; for a deletion, the last state with the revision of the deletion.
    ///
    /// # Errors
    /// If the object changed in between, or the journal failed. Nothing is changed then.
    pub fn write(
        &self,
        resource: &ResourceKey,
        key: &Key,
        expected: Option<u64>,
        change: Change,
    ) -> Result<Arc<Entry>, WriteError> {
        let log = self.log(resource);
        let mut writer = self.writer.lock();
        let mut world = World::clone(&self.world.load());
        let mut table = world.table(resource);
        let previous = table.items.get(key).cloned();
        if previous.as_ref().map(|e| e.revision) != expected {
            return Err(WriteError::Conflict);
        }
        let revision = world.revision + 1;
        let (entry, kind) = match change {
            Change::Put { object, fields } => {
                let entry = Arc::new(Entry::new(key.clone(), revision, object, fields));
                if entry.body.len() > OBJECT_BYTES_MAX {
                    return Err(WriteError::TooLarge(entry));
                }
                table.items.insert(key.clone(), entry.clone());
                let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                (entry, kind)
            }
            Change::Delete => {
                let Some(last) = &previous else { return Err(WriteError::Conflict) };
                table.items.remove(key);
                (Arc::new(last.at(revision)), EventKind::Deleted)
            }
        };
        if let Some(journal) = &mut writer.journal {
            let deleted = kind == EventKind::Deleted;
            journal.append(resource, &entry, deleted, previous.as_deref())?;
        }
        table.revision = revision;
        world.revision = revision;
        world.tables.insert(resource.clone(), table);
        if let Some(journal) = &mut writer.journal {
            journal.compact_if_due(&world);
        }
        let event = Event::new(kind, revision, entry.clone(), previous);
        log.push(event, || self.world.store(Arc::new(world)));
        self.newest.publish(revision);
        Ok(entry)
    }

    /// Adds objects that do not exist yet, all at once, before any history that could be watched.
    ///
    /// # Errors
    /// If the journal failed; the objects before that are there.
    pub fn seed<'a>(
        &self,
        seeds: impl IntoIterator<Item = &'a Seed>,
        time: &str,
        uid: impl Fn(&Seed) -> String,
    ) -> Result<(), WriteError> {
        let mut writer = self.writer.lock();
        let mut world = World::clone(&self.world.load());
        let mut tables: BTreeMap<&ResourceKey, Table> = BTreeMap::new();
        let mut outcome = Ok(());
        for seed in seeds {
            let resource = &seed.resource;
            let table = tables.entry(resource).or_insert_with(|| world.table(resource));
            if table.items.contains_key(&seed.key) {
                continue;
            }
            let revision = world.revision + 1;
            let entry = Arc::new(seed.entry(revision, time, &uid(seed)));
            if let Some(journal) = &mut writer.journal
                && let Err(error) = journal.append(resource, &entry, false, None)
            {
                outcome = Err(error.into());
                break;
            }
            table.items.insert(seed.key.clone(), entry);
            table.revision = revision;
            world.revision = revision;
        }
        world.tables.extend(tables.into_iter().map(|(resource, table)| (resource.clone(), table)));
        writer.compacted = world.revision;
        for log in self.logs.read().values() {
            log.compact(writer.compacted);
        }
        let revision = world.revision;
        self.world.store(Arc::new(world));
        self.newest.publish(revision);
        outcome
    }

    /// Makes what was acknowledged durable against a loss of power, too.
    ///
    /// # Errors
    /// If the journal cannot be synced.
    pub fn sync(&self) -> Result<(), JournalError> {
        match &self.writer.lock().journal {
            Some(journal) => journal.sync(),
            None => Ok(()),
        }
    }
}

// === impl World ===

impl World {
    /// Returns the objects of a resource; empty if there never were any.
    pub fn table(&self, resource: &ResourceKey) -> Table {
        self.tables.get(resource).cloned().unwrap_or_default()
    }

    /// Returns one object.
    pub fn get(&self, resource: &ResourceKey, key: &Key) -> Option<Arc<Entry>> {
        self.tables.get(resource)?.items.get(key).cloned()
    }

    /// Returns all resources that ever had objects, by group and plural.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceKey, &Table)> {
        self.tables.iter()
    }

    fn apply_record(&mut self, record: Record) {
        let table = self.tables.entry(record.resource.clone()).or_default();
        table.revision = table.revision.max(record.revision);
        self.revision = self.revision.max(record.revision);
        if record.deleted {
            table.items.remove(&record.key);
        } else {
            let entry = record.into_entry();
            table.items.insert(entry.key.clone(), Arc::new(entry));
        }
    }
}

// === impl Table ===

impl Table {
    /// Returns the objects of one namespace, or all, in order; those before the key `start` are
    /// left out.
    pub fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        start: Option<&Key>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + Send + 'a> {
        let Some(namespace) = namespace else {
            return match start {
                None => Box::new(self.items.values()),
                Some(start) => Box::new(self.items.range(start.clone()..).map(|(_, entry)| entry)),
            };
        };
        let first = Key::new(namespace, "");
        let first = start.filter(|start| **start > first).cloned().unwrap_or(first);
        let namespace: Arc<str> = namespace.into();
        let entries = self.items.range(first..).map(|(_, entry)| entry);
        Box::new(entries.take_while(move |entry| entry.key.namespace == namespace))
    }
}

// === impl Entry ===

impl Entry {
    fn new(key: Key, revision: u64, mut object: Value, fields: Vec<(Arc<str>, String)>) -> Self {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        let labels = labels_of(&object["metadata"]["labels"]);
        let body = crate::object::encode(&object).into();
        let (protobuf, known) = (OnceLock::new(), OnceLock::new());
        Self { key, revision, body, labels, fields, protobuf, known }
    }

    /// An entry as it was stored before.
    fn stored(key: Key, revision: u64, body: Bytes, fields: Vec<(Arc<str>, String)>) -> Self {
        let labels = labels_in(&body).unwrap_or_default();
        let (protobuf, known) = (OnceLock::new(), OnceLock::new());
        Self { key, revision, body, labels, fields, protobuf, known }
    }

    /// The same state under another revision.
    fn at(&self, revision: u64) -> Self {
        let Some(body) = self.body_at(revision) else {
            return Self::new(self.key.clone(), revision, self.object(), self.fields.clone());
        };
        Self {
            key: self.key.clone(),
            revision,
            body,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            protobuf: OnceLock::new(),
            known: OnceLock::new(),
        }
    }

    /// The body with another revision put into its place.
    fn body_at(&self, revision: u64) -> Option<Bytes> {
        let metadata = crate::skim::member(&self.body, "metadata")?;
        let place = crate::skim::member(&self.body[metadata.clone()], "resourceVersion")?;
        let (start, end) = (metadata.start + place.start, metadata.start + place.end);
        let version = format!("\"{revision}\"");
        Some([&self.body[..start], version.as_bytes(), &self.body[end..]].concat().into())
    }

    /// Returns the object in protobuf, encoded once for all lists and watches; `None` if it has no
    /// such form.
    pub fn protobuf(&self, message: &windlass_protobuf::Message) -> Option<Bytes> {
        if let Some(bytes) = self.protobuf.get() {
            return Some(bytes.clone());
        }
        let mut bytes = Vec::with_capacity(self.body.len());
        message.encode_json(&self.body, &mut bytes).ok()?;
        bytes.shrink_to_fit();
        Some(self.protobuf.get_or_init(|| bytes.into()).clone())
    }

    /// Returns the object as `read` makes it of this entry, kept for the next time.
    ///
    /// For the few objects that decide over others, such as namespaces: a value takes several
    /// times the room of a body.
    pub fn known(&self, read: impl FnOnce(&Self) -> Value) -> Arc<Value> {
        self.known.get_or_init(|| Arc::new(read(self))).clone()
    }

    /// The bytes of the object in the encodings that are kept.
    fn bytes(&self) -> usize {
        self.body.len() + self.protobuf.get().map_or(0, Bytes::len)
    }

    /// Returns the object, without apiVersion and kind.
    pub fn object(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

fn labels_of(labels: &Value) -> BTreeMap<String, String> {
    let labels = labels.as_object().into_iter().flatten();
    labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

/// The labels of an encoded object, read without the rest of it.
fn labels_in(body: &[u8]) -> Option<BTreeMap<String, String>> {
    let metadata = &body[crate::skim::member(body, "metadata")?];
    let labels = &metadata[crate::skim::member(metadata, "labels")?];
    Some(labels_of(&serde_json::from_slice(labels).ok()?))
}

// === impl ResourceKey ===

impl ResourceKey {
    /// Creates the key of a resource from its group and plural.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

// === impl Key ===

impl Key {
    /// Creates the key of an object from its namespace (empty for cluster-scoped objects) and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        // Namespaces are compared with the slash that ends them: "a-b" sorts before "a".
        let mine = self.namespace.bytes().chain([b'/']).chain(self.name.bytes());
        mine.cmp(other.namespace.bytes().chain([b'/']).chain(other.name.bytes()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;
