//! The entries of `metadata.managedFields`: which manager owns which fields since when.
//!
//! **Invariant:** entries are keyed by manager, operation and subresource, and `Update` entries by
//! their API version too; no entry has an empty set.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::path::PathSet;

/// The most `Update` entries an object keeps before old ones are put together.
const UPDATE_ENTRIES_MAX: usize = 10;

/// The manager of the entries that were put together.
const ANCIENT: &str = "ancient-changes";

/// How an entry came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// What distinguishes one entry from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The manager's name.
    pub manager: String,
    /// How it wrote.
    pub operation: Operation,
    /// The API version for [`Operation::Update`], empty for [`Operation::Apply`].
    pub api_version: String,
    /// The subresource written to; empty for the main resource.
    pub subresource: String,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The fields.
    pub set: PathSet,
    /// The API version the set is in.
    pub api_version: String,
    /// When the fields were last written, if it is known.
    pub time: Option<String>,
    /// The stored form of the set, as long as the set is as stored.
    stored: Option<Value>,
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedFields {
    /// The entries by what distinguishes them.
    pub entries: BTreeMap<ManagerId, Entry>,
}

// === impl ManagerId ===

impl ManagerId {
    /// Returns the identity of a writer.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

// === impl Operation ===

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Creates a new entry.
    pub fn new(set: PathSet, api_version: &str, time: Option<String>) -> Self {
        Self { set, api_version: api_version.to_owned(), time, stored: None }
    }

    /// Takes another set.
    pub fn replace_set(&mut self, set: PathSet) {
        self.set = set;
        self.stored = None;
    }

    /// Removes paths from the set.
    pub fn subtract(&mut self, paths: &PathSet) {
        if self.set.subtract(paths) {
            self.stored = None;
        }
    }
}

// === impl ManagedFields ===

impl ManagedFields {
    /// Returns `true` if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads the entries of an object; one bad entry makes all of them bad.
    pub fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let mut out = Self::default();
        let Some(Value::Array(entries)) = entries else { return Ok(out) };
        for entry in entries {
            let (id, entry) = decode_entry(entry)?;
            out.entries.insert(id, entry);
        }
        Ok(out)
    }

    /// Returns the entries of an object in the order in which they are stored; `None` if it has no
    /// entries.
    pub fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        let mut entries: Vec<(ManagerId, Entry)> =
            std::mem::take(&mut self.entries).into_iter().collect();
        // Times are RFC 3339 in UTC with seconds, so their text sorts as they do.
        entries.sort_by(|(a, x), (b, y)| {
            let left = (a.operation, &x.time, &a.manager, &x.api_version, &a.subresource);
            left.cmp(&(b.operation, &y.time, &b.manager, &y.api_version, &b.subresource))
        });
        Some(entries.into_iter().map(|(id, entry)| encode_entry(id, entry)).collect())
    }

    /// Drops entries that own nothing.
    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|_, entry| !entry.set.is_empty());
    }

    /// Puts the oldest `Update` entries together when there are too many.
    pub(super) fn cap(&mut self) {
        let mut updates: Vec<(Option<String>, ManagerId)> = self
            .entries
            .iter()
            .filter(|(id, _)| id.operation == Operation::Update)
            .map(|(id, entry)| (entry.time.clone(), id.clone()))
            .collect();
        let mut count = updates.len();
        updates.sort();
        let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
        let mut joined: BTreeMap<ManagerId, Vec<PathSet>> = BTreeMap::new();
        for (time, id) in updates {
            if count <= UPDATE_ENTRIES_MAX {
                break;
            }
            let Some(version) = self.entries.get(&id).map(|e| e.api_version.clone()) else {
                continue;
            };
            let bucket = ManagerId::new(ANCIENT, Operation::Update, &version, "");
            let Some(oldest) = first.get(&version) else {
                first.insert(version, id);
                continue;
            };
            if !self.entries.contains_key(&bucket)
                && let Some(entry) = self.entries.remove(oldest)
            {
                self.entries.insert(bucket.clone(), entry);
            }
            if bucket != id
                && let Some(entry) = self.entries.remove(&id)
                && let Some(into) = self.entries.get_mut(&bucket)
            {
                into.time = time;
                joined.entry(bucket).or_default().push(entry.set);
            }
            count -= 1;
        }
        for (bucket, sets) in joined {
            if let Some(into) = self.entries.get_mut(&bucket) {
                into.stored = None;
                into.set.unite(PathSet::united(sets));
            }
        }
    }
}

fn decode_entry(entry: &Value) -> Result<(ManagerId, Entry), String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        other => return Err(format!("operation is not Apply or Update: {other}")),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err("missing fieldsType in managed fields entry".to_owned()),
        other => return Err(format!("unknown fieldsType: {other}")),
    }
    let (set, stored) = match entry.get("fieldsV1") {
        None | Some(Value::Null) => return Err("missing fieldsV1".to_owned()),
        Some(fields) => (PathSet::parse(fields)?, fields.clone()),
    };
    let id = ManagerId {
        manager: text("manager").to_owned(),
        operation,
        api_version: match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.to_owned(),
        },
        subresource: text("subresource").to_owned(),
    };
    let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
    Ok((id, Entry { set, api_version: api_version.to_owned(), time, stored: Some(stored) }))
}

fn encode_entry(id: ManagerId, entry: Entry) -> Value {
    let mut out = Map::new();
    let fields = entry.stored.unwrap_or_else(|| entry.set.to_fields());
    if !id.manager.is_empty() {
        out.insert("manager".into(), id.manager.into());
    }
    out.insert("operation".into(), id.operation.as_str().into());
    out.insert("apiVersion".into(), entry.api_version.into());
    if let Some(time) = entry.time {
        out.insert("time".into(), time.into());
    }
    out.insert("fieldsType".into(), "FieldsV1".into());
    out.insert("fieldsV1".into(), fields);
    if !id.subresource.is_empty() {
        out.insert("subresource".into(), id.subresource.into());
    }
    Value::Object(out)
}

/// Returns `true` if the entries a client sent ask for all entries to be dropped: `[]` or `[{}]`.
pub(super) fn is_reset(entries: Option<&Value>) -> bool {
    match entries {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [one] => *one == json!({}),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, time: &str, field: &str) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {field: {}},
        })
    }

    #[test]
    fn entries_are_stored_by_operation_time_and_manager() {
        let list = json!([
            entry("z", "Update", "2026-01-01T00:00:00Z", "f:a"),
            entry("b", "Apply", "2026-01-02T00:00:00Z", "f:b"),
            entry("c", "Apply", "2026-01-01T00:00:00Z", "f:c"),
        ]);
        let sorted = ManagedFields::decode(Some(&list)).unwrap().encode().unwrap();
        let names: Vec<_> =
            sorted.as_array().unwrap().iter().map(|e| e["manager"].clone()).collect();
        assert_eq!(names, ["c", "b", "z"]);
    }

    #[test]
    fn the_oldest_updates_become_ancient_changes() {
        let list: Value = (0..12)
            .map(|n| {
                let time = format!("2026-01-01T00:00:{n:02}Z");
                entry(&format!("m{n:02}"), "Update", &time, &format!("f:x{n}"))
            })
            .collect();
        let mut managed = ManagedFields::decode(Some(&list)).unwrap();
        managed.cap();
        assert_eq!(managed.entries.len(), 10);
        let ancient = ManagerId::new(ANCIENT, Operation::Update, "v1", "");
        let fields = managed.entries[&ancient].set.to_fields();
        assert_eq!(fields, json!({"f:x0": {}, "f:x1": {}, "f:x2": {}}));
        assert_eq!(managed.entries[&ancient].time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }

    #[test]
    fn one_bad_entry_makes_all_bad() {
        for (key, value) in [
            ("operation", json!("Sometimes")),
            ("fieldsType", json!("FieldsV9")),
            ("fieldsV1", json!({"z:bad": {}})),
            ("apiVersion", json!("")),
        ] {
            let mut bad = entry("m", "Apply", "", "f:a");
            bad[key] = value;
            assert!(ManagedFields::decode(Some(&json!([bad]))).is_err(), "{key}");
        }
    }

    #[test]
    fn only_an_empty_list_or_an_empty_entry_resets() {
        assert!(is_reset(Some(&json!([]))));
        assert!(is_reset(Some(&json!([{}]))));
        assert!(!is_reset(Some(&Value::Null)));
        assert!(!is_reset(None));
        assert!(!is_reset(Some(&json!([{}, {}]))));
    }
}
