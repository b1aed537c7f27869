//! Server-side apply and the bookkeeping of every other write, from request to stored object.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::empty::empty_object;
use super::json::json_type;
use super::managed::{Entry, ManagedFields, ManagerId, Operation, is_reset};
use super::path::{PathSet, show_path};
use super::typed::{field_set, validate};
use super::updater::{Conflict, Updater};
use super::walk::{Comparison, compare};
use crate::resource::{Gvk, split_api_version};
use crate::shape::ShapeRef;
use crate::status::{Cause, Details, Result, Status, quote};

/// Converts an object to another API version and gives the shape there; `None` if the version is
/// not known (any more).
pub type Convert<'a> = &'a dyn Fn(&Value, &str) -> Option<(Value, ShapeRef)>;

/// The manager that owns what was there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The annotation `kubectl apply` keeps its last configuration in.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The most bytes all annotations of an object may have.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// An apply patch and what it meets.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The stored object in the version of the request; `None` if apply creates it.
    pub live: Option<&'a Value>,
    /// The applied configuration; [`check_apply_body`] has seen it.
    pub patch: &'a Value,
    /// The shape of the kind in the version of the request.
    pub shape: &'a ShapeRef,
    /// Group, version and kind of the request.
    pub gvk: &'a Gvk,
    /// The subresource; empty for the main resource.
    pub subresource: &'a str,
    /// The field manager.
    pub manager: &'a str,
    /// Whether to take fields from other managers.
    pub force: bool,
    /// The current time, RFC 3339 in UTC with seconds.
    pub now: &'a str,
    /// Fields that the strategy resets, which no manager can own through this request.
    pub reset: &'a PathSet,
    /// Conversion to the versions other entries are in.
    pub convert: Convert<'a>,
}

/// Any other write and what it meets.
#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    /// The stored object in the version of the request; `None` for a create.
    pub live: Option<&'a Value>,
    /// The shape of the kind in the version of the request.
    pub shape: &'a ShapeRef,
    /// Group, version and kind of the request.
    pub gvk: &'a Gvk,
    /// The subresource; empty for the main resource.
    pub subresource: &'a str,
    /// The field manager, from the option or the user agent.
    pub manager: &'a str,
    /// The current time, RFC 3339 in UTC with seconds.
    pub now: &'a str,
    /// Fields that the strategy resets, which no manager can own through this request.
    pub reset: &'a PathSet,
    /// Conversion to the versions other entries are in.
    pub convert: Convert<'a>,
}

/// Why an apply failed: conflicts may still be allowed, the rest is final.
enum Failure {
    Conflicts(Vec<Conflict>),
    Status(Status),
}

/// Checks the body of an apply patch by itself: it must be an object of the kind.
pub fn check_apply_body(patch: &Value, gvk: &Gvk) -> Result<()> {
    if !patch.is_object() && !patch.is_null() {
        let what = json_type(patch);
        return Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal {what} into Go value of type map[string]interface {{}}"
        )));
    }
    let text = |key: &str| patch.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, mut kind) = (text("apiVersion"), text("kind"));
    let (mut group, mut version) = split_api_version(api_version);
    if version.contains('/') {
        (group, version, kind) = ("", "", "");
    }
    if (group, version, kind) == (&*gvk.group, &*gvk.version, &*gvk.kind) {
        return Ok(());
    }
    Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")))
}

/// Applies a configuration and gives the merged object with its `managedFields`.
///
/// Defaulting, the strategy, admission and validation come after it.
pub fn apply(request: &ApplyRequest<'_>) -> Result<Value> {
    let forced = ApplyRequest { force: true, ..*request };
    let mut object = match run(request) {
        Ok(object) => object,
        Err(Failure::Status(status)) => return Err(status),
        Err(Failure::Conflicts(conflicts)) if request.manager == "kubectl" => {
            let allowed = allowed_conflicts(request);
            let left: Vec<Conflict> =
                conflicts.into_iter().filter(|c| !allowed.has_path(&c.path)).collect();
            if !left.is_empty() {
                return Err(conflict_status(&left));
            }
            run(&forced).map_err(|failure| match failure {
                Failure::Status(status) => status,
                Failure::Conflicts(conflicts) => conflict_status(&conflicts),
            })?
        }
        Err(Failure::Conflicts(conflicts)) => return Err(conflict_status(&conflicts)),
    };
    if request.manager == "kubectl" {
        refresh_last_applied(&mut object, request.patch);
    }
    Ok(object)
}

fn run(request: &ApplyRequest<'_>) -> Result<Value, Failure> {
    let none = Value::Object(Map::new());
    let live = request.live.unwrap_or(&none);
    let final_error = |status| Failure::Status(status);
    let mut managed = ManagedFields::decode(managed_of(live))
        .map_err(|e| Status::untyped(format!("failed to decode managed fields: {e}")))
        .map_err(final_error)?;
    let version = request.gvk.api_version();
    let updater = Updater {
        version: &version,
        shape: request.shape,
        reset: request.reset,
        convert: request.convert,
    };
    // The entries themselves are no part of what is merged.
    let live = &*without_managed(live);
    if managed.is_empty() && request.live.is_some() {
        let empty = empty_object(request.gvk);
        let changes = updater.changes(&empty, live);
        let mut own = updater.update(&empty, live, changes, &mut managed);
        own.subtract(strip_set());
        if !own.is_empty() {
            let sub = request.subresource;
            let id = ManagerId::new(BEFORE_FIRST_APPLY, Operation::Update, &version, sub);
            let entry = Entry::new(own, &version, Some(request.now.to_owned()));
            managed.entries.insert(id, entry);
        }
    }
    check_patch(request).map_err(final_error)?;
    let id = ManagerId::new(request.manager, Operation::Apply, "", request.subresource);
    let merged = updater
        .apply(live, request.patch, &mut managed, &id, request.force)
        .map_err(Failure::Conflicts)?;
    if let Some(entry) = managed.entries.get_mut(&id) {
        entry.subtract(strip_set());
        if merged.is_some() {
            entry.time = Some(request.now.to_owned());
        }
    }
    managed.drop_empty();
    let mut object = merged.unwrap_or_else(|| live.clone());
    put_managed(&mut object, managed.encode());
    Ok(object)
}

fn check_patch(request: &ApplyRequest<'_>) -> Result<()> {
    let meta = |key: &str| request.patch.pointer(&format!("/metadata/{key}"));
    if meta("managedFields").is_some_and(Value::is_array) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let text = |key: &str| meta(key).and_then(Value::as_str).unwrap_or_default();
    validate(request.patch, request.shape).map_err(|why| {
        let Gvk { group, version, kind } = request.gvk;
        let gvk = format!("{group}/{version}, Kind={kind}");
        let (namespace, name) = (text("namespace"), text("name"));
        Status::untyped(format!(
            "failed to create typed patch object ({namespace}/{name}; {gvk}): {why}"
        ))
    })
}

/// Records a create, update or patch in `managedFields` of the new object.
///
/// Entries the client sent replace the stored ones if they can be read; an empty list, or a list
/// of one empty entry, drops all of them. Writes to a subresource keep the stored ones.
pub fn track_update(request: &UpdateRequest<'_>, new: &mut Value) {
    let sent = take_managed(new);
    let stored = request.live.and_then(managed_of);
    let version = request.gvk.api_version();
    let updater = Updater {
        version: &version,
        shape: request.shape,
        reset: request.reset,
        convert: request.convert,
    };
    let live = match request.live {
        Some(live) => Cow::Borrowed(live),
        None => empty_object(request.gvk),
    };
    // Only the main resource takes entries from the client, and only if they are other ones.
    let sent = sent.filter(|sent| request.subresource.is_empty() && Some(sent) != stored);
    let changes = updater.changes(&live, new);
    if changes.unowned {
        return;
    }
    if sent.is_none() && nothing_to_own(&changes) {
        return put_managed(new, stored.cloned());
    }
    let mut managed = entries_to_keep(sent.as_ref(), stored);
    if managed.is_empty() && request.live.is_some() {
        return;
    }
    let mut own = updater.update(&live, new, changes, &mut managed);
    own.subtract(strip_set());
    if !own.is_empty() {
        let sub = request.subresource;
        let id = ManagerId::new(request.manager, Operation::Update, &version, sub);
        if let Some(before) = managed.entries.remove(&id) {
            own.unite(before.set);
        }
        managed.entries.insert(id, Entry::new(own, &version, Some(request.now.to_owned())));
    }
    managed.cap();
    put_managed(new, managed.encode());
}

/// Returns `true` if nothing changed that anybody can own.
fn nothing_to_own(changes: &Comparison) -> bool {
    let sets = [&changes.removed, &changes.modified, &changes.added];
    sets.into_iter().all(|set| set.is_within(strip_set()))
}

/// The entries a write starts from: what the client sent, or else what is stored.
fn entries_to_keep(sent: Option<&Value>, stored: Option<&Value>) -> ManagedFields {
    if is_reset(sent) {
        return ManagedFields::default();
    }
    match ManagedFields::decode(sent) {
        Ok(managed) if !managed.is_empty() => managed,
        _ => ManagedFields::decode(stored).unwrap_or_default(),
    }
}

/// Keeps the stored times if nothing else changed. Returns `true` if nothing did.
///
/// Without it every write of an equal object would make a new version.
pub fn keep_times(old: &Value, new: &mut Value) -> bool {
    if !equal_but_times(old, new) {
        return false;
    }
    put_managed(new, managed_of(old).cloned());
    true
}

fn equal_but_times(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    old.len() == new.len()
        && old.iter().zip(new).all(|((key, old), (other, new))| {
            key == other
                && match (key.as_str(), old, new) {
                    ("metadata", Value::Object(old), Value::Object(new)) => equal_meta(old, new),
                    _ => old == new,
                }
        })
}

fn equal_meta(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|((key, old), (other, new))| {
            key == other
                && match (key.as_str(), old, new) {
                    ("managedFields", Value::Array(old), Value::Array(new)) => {
                        let equal = |(a, b)| equal_entry(a, b);
                        old.len() == new.len() && old.iter().zip(new).all(equal)
                    }
                    _ => old == new,
                }
        })
}

fn equal_entry(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let timeless = |(key, _): &(&String, &Value)| *key != "time";
    old.iter().filter(timeless).eq(new.iter().filter(timeless))
}

/// Fields that every object has and no manager owns.
fn strip_set() -> &'static PathSet {
    static SET: std::sync::OnceLock<PathSet> = std::sync::OnceLock::new();
    SET.get_or_init(|| {
        PathSet::of(&[
            "apiVersion",
            "kind",
            "metadata",
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "metadata.selfLink",
            "metadata.uid",
            "metadata.clusterName",
            "metadata.generation",
            "metadata.managedFields",
            "metadata.resourceVersion",
        ])
    })
}

fn conflict_status(conflicts: &[Conflict]) -> Status {
    let causes: Vec<Cause> = conflicts
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {}", manager_text(conflict)),
            field: show_path(&conflict.path),
        })
        .collect();
    let what = match conflicts {
        [one] => format!("1 conflict: conflict with {}: {}", manager_text(one), causes[0].field),
        many => {
            let mut lines = Vec::with_capacity(many.len() + 1);
            for (i, conflict) in many.iter().enumerate() {
                if i == 0 || many[i - 1].manager != conflict.manager {
                    lines.push(format!("conflicts with {}:", manager_text(conflict)));
                }
                lines.push(format!("- {}", causes[i].field));
            }
            format!("{} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    Status::new(409, "Conflict", format!("Apply failed with {what}"))
        .with_details(Details { causes, ..Details::default() })
}

fn manager_text(conflict: &Conflict) -> String {
    let id = &conflict.manager;
    let mut out = quote(&id.manager);
    if !id.subresource.is_empty() {
        out.push_str(&format!(" with subresource {}", quote(&id.subresource)));
    }
    if id.operation == Operation::Update {
        out.push_str(&format!(" using {}", conflict.api_version));
    }
    out
}

/// What `kubectl` may take over because its last client-side apply wrote it and it is unchanged.
fn allowed_conflicts(request: &ApplyRequest<'_>) -> PathSet {
    let read = || {
        let live = request.live?;
        let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
        let last: Value = serde_json::from_str(text).ok()?;
        let same_version = last.get("apiVersion")?.as_str()? == request.gvk.api_version().as_str();
        (same_version && validate(&last, request.shape).is_ok()).then_some(())?;
        let mut set = field_set(&last, request.shape);
        let changes = compare(&last, live, request.shape);
        set.subtract(&changes.modified);
        set.subtract(&changes.added);
        set.subtract(&changes.removed);
        Some(set)
    };
    read().unwrap_or_default()
}

/// Keeps the annotation of client-side apply in step, if the object has it.
fn refresh_last_applied(object: &mut Value, patch: &Value) {
    let Some(Value::Object(annotations)) =
        object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    else {
        return;
    };
    let present = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if !annotations.get(LAST_APPLIED).is_some_and(present) {
        return;
    }
    let mut applied = patch.clone();
    if let Some(Value::Object(annotations)) =
        applied.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    {
        annotations.remove(LAST_APPLIED);
    }
    // Go's encoder escapes these three and ends with a line break.
    let text = applied.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    let text = format!("{}\n", text.replace('&', "\\u0026"));
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    let bytes: usize =
        annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

fn managed_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn without_managed(object: &Value) -> Cow<'_, Value> {
    if managed_of(object).is_none() {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    take_managed(&mut object);
    Cow::Owned(object)
}

fn take_managed(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn put_managed(object: &mut Value, entries: Option<Value>) {
    let Some(entries) = entries else {
        take_managed(object);
        return;
    };
    let Value::Object(map) = object else { return };
    let meta = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(meta) = meta {
        meta.insert("managedFields".to_owned(), entries);
    }
}
